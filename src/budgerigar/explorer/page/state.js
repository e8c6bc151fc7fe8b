// One store for everything that is looked at, mirrored in the address so that an address restores it.
//
//   view        which view is shown
//   question    {model, text} or {model, source, target}, …: what is looked at
//   selection   {of, kind, layer, head, query, key}: one for the whole page; null: not chosen yet
//   picks       "query" or "key": what clicking a token chooses
//   theme       "auto", "light" or "dark";  language: "auto", "en" or "zh"
//   scale       "linear", "root" or "log";  range: "one" (0 to 1) or "own" (0 to the largest)
//   hideSink, transpose     how matrices are drawn
//   pinned      ["L2.H3", …]: at most six heads, each with a colour of its own
//   settings    what a view keeps for itself: {sort: "entropy"}; allowed.js lists what may come from an address

import { questionAllows, settingAllows, wordAllows } from "./allowed.js";

export const START = Object.freeze({
  view: "sentence",
  question: null,
  selection: Object.freeze({ of: null, kind: null, layer: 0, head: 0, query: null, key: null }),
  picks: "query",
  theme: "auto",
  language: "auto",
  scale: "linear",
  range: "one",
  hideSink: false,
  transpose: false,
  pinned: Object.freeze([]),
  settings: Object.freeze({}),
});

const same = (a, b) => a === b || JSON.stringify(a) === JSON.stringify(b);

/** A store: get(), set(partial), subscribe(function(changed names, state)) -> unsubscribe. */
export function createStore(initial = {}) {
  let state = { ...START, ...initial };
  const listeners = new Set();
  return {
    get: () => state,
    set(partial) {
      const changed = new Set(Object.keys(partial).filter((name) => !same(partial[name], state[name])));
      if (!changed.size) return changed;
      state = { ...state, ...partial };
      for (const listener of [...listeners]) listener(changed, state);
      return changed;
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

const WORDS = ["view", "picks", "theme", "language", "scale", "range"];
const TICKS = ["hideSink", "transpose"];

/** The state as the part of an address after #; what stands as at the start is left out. */
export function toHash(state) {
  const out = new URLSearchParams();
  for (const name of WORDS) if (state[name] !== START[name]) out.set(name, state[name]);
  if (state.view === START.view) out.set("view", state.view);
  for (const name of TICKS) if (state[name]) out.set(name, "1");
  for (const [name, value] of Object.entries(state.selection)) {
    if (value !== null && value !== START.selection[name]) out.set(`s.${name}`, value);
  }
  if (state.pinned.length) out.set("pinned", state.pinned.join(","));
  for (const [name, value] of Object.entries(state.settings)) out.set(`v.${name}`, JSON.stringify(value));
  for (const [name, value] of Object.entries(state.question ?? {})) {
    if (value === undefined || (value === null && name !== "target")) continue;
    out.set(`q.${name}`, typeof value === "string" ? value : JSON.stringify(value));
  }
  return `#${out.toString()}`;
}

const PLAIN = new Set(["model", "text", "source", "checkpoint", "how", "of", "kind", "reference"]);

function read(json) {
  try {
    return JSON.parse(json);
  } catch {
    return null;
  }
}

const position = (value) => (/^\d{1,7}$/.test(value) ? Number(value) : null);

const SITES = { of: ["encoder", "decoder"], kind: ["self", "cross"] };
const PINNED = /^L\d{1,4}\.H\d{1,4}$/;

/** A part of the question as `toHash` wrote it; undefined: nonsense. */
function questionPart(name, value) {
  const part = PLAIN.has(name) || (name === "target" && value !== "null") ? value : read(value);
  return questionAllows(name, part) ? part : undefined;
}

function readSelection(selection, name, value) {
  if (name === "of" || name === "kind") {
    if (SITES[name].includes(value)) selection[name] = value;
  } else if (Object.hasOwn(selection, name)) selection[name] = position(value) ?? START.selection[name];
}

/** The state that an address holds, over the starting values. Nonsense in it is passed over. */
export function fromHash(hash) {
  const state = { ...START, selection: { ...START.selection }, settings: {} };
  const question = {};
  for (const [name, value] of new URLSearchParams(hash.replace(/^#/, ""))) {
    const [first, rest] = [name.slice(0, 2), name.slice(2)];
    if (wordAllows(name, value)) state[name] = value;
    else if (TICKS.includes(name)) state[name] = value === "1";
    else if (name === "pinned") state.pinned = [...new Set(value.split(",").filter((each) => PINNED.test(each)))].slice(0, 6);
    else if (first === "s.") readSelection(state.selection, rest, value);
    else if (first === "v.") {
      const setting = read(value);
      if (settingAllows(rest, setting)) state.settings[rest] = setting;
    } else if (first === "q.") {
      const part = questionPart(rest, value);
      if (part !== undefined) question[rest] = part;
    }
  }
  state.question = Object.keys(question).length ? question : null;
  return state;
}
