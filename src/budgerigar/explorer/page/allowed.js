// What an address may hold: anybody can write one, so each part is looked at before the page believes it.

const whole = (value) => Number.isInteger(value) && value >= 0 && value < 1e7;
const flag = (value) => typeof value === "boolean";
const text = (value) => typeof value === "string";
const within = (low, high) => (value) => Number.isFinite(value) && value >= low && value <= high;
const oneOf = (...words) => (value) => words.includes(value);
const listOf = (check) => (value) => Array.isArray(value) && value.every(check);
const nothingOr = (check) => (value) => value === null || check(value);
const withParts = (checks) => (value) => value !== null && typeof value === "object" && !Array.isArray(value) &&
  Object.entries(value).every(([name, part]) => Object.hasOwn(checks, name) && checks[name](part));

const QUESTION = {
  model: text, text, ids: listOf(whole), source: text, target: nothingOr((value) => text(value) || listOf(whole)(value)),
  prefix: flag, checkpoint: text, off: listOf(text), how: text, of: text, kind: text, reference: text, blank: flag, mask: listOf(whole),
};

const WORDS = {
  picks: oneOf("query", "key"), theme: oneOf("auto", "light", "dark"), language: oneOf("auto", "en", "zh"),
  scale: oneOf("linear", "root", "log"), range: oneOf("one", "own"), view: text,
};

const SETTINGS = {
  sampling: withParts({ temperature: within(0, 2), topK: whole, topP: within(0.05, 1) }),
  sort: oneOf("layer", "entropy", "first", "confidence", "link", "role"),
  arcs: within(0, 1),
  align: oneOf("best", "all", "head"),
  step: nothingOr(text), "steps.all": flag,
  "links.all": flag, "links.picks": oneOf("query", "key"), untrained: flag,
  "block.without": flag, "block.scale": oneOf("own", "one"),
  "dla.single": flag, "lens.row": nothingOr(whole),
  slide: nothingOr(whole), "slide.all": flag, shuffle: whole, blind: flag,
  dials: withParts({ position: within(-1e6, 1e6), distance: within(-1e6, 1e6) }),
  part: nothingOr(text), unit: nothingOr(whole), "gates.layer": whole, "gates.order": oneOf("long", "spread", "all"),
  "reach.with": listOf(text), "reach.scale": oneOf("linear", "log"),
  "off.how": oneOf("zero", "mean", "resample"),
  "born.role": text, moment: whole,
  other: nothingOr((value) => withParts(QUESTION)(value) && text(value.model)), "compare.chosen": flag,
  tour: text, page: whole,
};

const allows = (checks, name, value) => Object.hasOwn(checks, name) && checks[name](value);

/** May a part of the question be this? The server looks at what it says. */
export const questionAllows = (name, value) => allows(QUESTION, name, value);

/** May a setting of a view be this? One that is not listed may not stand in an address. */
export const settingAllows = (name, value) => allows(SETTINGS, name, value);

/** May a word of the state be this? */
export const wordAllows = (name, value) => allows(WORDS, name, value);
