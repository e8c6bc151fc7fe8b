// Elements, numbers as text, and small pieces that every view uses. Text is only ever set as text.

import { t, translated } from "./i18n.js";

/** An element: h("p", {class: "lead", onclick: f, "aria-label": "…", hidden: true}, child, "text", …). */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  setAll(element, attributes);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

/** The same for drawings. */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  setAll(element, attributes);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

function setAll(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) element.style.setProperty(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
}

/** 0.1234 as "12.3 %". Never 0 or 100 unless it is. */
export function percent(share) {
  if (!Number.isFinite(share)) return "–";
  if (share === 0 || share === 1) return `${share * 100} %`;
  if (share < 0.0001) return "< 0.01 %";
  if (share < 0.01) return `${(share * 100).toFixed(2)} %`;
  return share > 0.9995 ? "> 99.9 %" : `${(share * 100).toFixed(1)} %`;
}

/** A number with `digits` after the point, small ones as 1.2e-7, a true minus sign. */
export function number(value, digits = 3) {
  if (value === -Infinity) return "−∞";
  if (!Number.isFinite(value)) return "–";
  const tiny = value !== 0 && Math.abs(value) < 0.5 * 10 ** -digits;
  const words = tiny ? value.toExponential(1) : value.toFixed(digits);
  return words.replaceAll("-", "−");
}

/** 12,345 with thin groups; bytes as kB or MB. */
export function whole(value) {
  return Math.round(value).toLocaleString("en-US");
}

export function bytes(value) {
  if (value < 1000) return `${value} B`;
  return value < 1e6 ? `${(value / 1000).toFixed(1)} kB` : `${(value / 1e6).toFixed(2)} MB`;
}

/** A long label cut in its middle. */
export function shorten(label, most = 16) {
  const letters = [...label];
  if (letters.length <= most) return label;
  const head = Math.ceil((most - 1) / 2);
  return `${letters.slice(0, head).join("")}…${letters.slice(letters.length - (most - 1 - head)).join("")}`;
}

/** The language of a model's or reader's text where its characters tell: Chinese is spoken and drawn as Chinese. */
export function langOf(text) {
  return /\p{Script=Han}/u.test(text) && !/[\p{Script=Hiragana}\p{Script=Katakana}]/u.test(text) ? "zh-Hans" : null;
}

/** A token's label in the running text: isolated, so that right-to-left words stay in their place. */
export function word(label, attributes = {}) {
  return h("bdi", { class: "word", lang: langOf(label), ...attributes }, label);
}

/** "L2.H3": layers and heads count from 0. */
export function headName(layer, head) {
  return `L${layer}.H${head}`;
}

/** A card with a title, a sentence on what it shows, and its content. */
export function panel(title, lead, ...children) {
  return h("section", { class: "panel" }, h("h2", {}, title), lead ? h("p", { class: "lead" }, lead) : null,
    ...children);
}

/** What stands in a place until its answer is there: space is reserved, nothing jumps, and many of them say nothing. */
export function waiting(lines = 4) {
  return h("div", { class: "waiting", "--lines": lines }, h("span", {}, t("waiting")));
}

/** What the library says in the language of the page; English words that have no translation are marked as English. */
export function said(words) {
  const { text, foreign } = translated(words);
  return foreign ? h("span", { lang: "en" }, text) : text;
}

/** Words of an error, where the answer would have been. A record that is not there says what would show it. */
export function failure(error) {
  let words = error.missing ? t("needs.live") : error.words ? said(error.words) : error.message;
  if (error.stopped) words = t("job.stopped");
  if (!words) words = error.status === 0 ? t("error.unreachable") : t("error.unknown");
  return h("p", { class: error.missing || error.stopped ? "note" : "failure", role: "alert" }, words);
}

/** A button; `options`: attributes. */
export function button(words, onclick, attributes = {}) {
  return h("button", { type: "button", onclick, ...attributes }, words);
}

let choices = 0; // names of radio groups must differ

/** A row of mutually exclusive choices as radio buttons: values = [[value, words], …]. */
export function choice(legend, values, chosen, onchange) {
  const name = `choice-${(choices += 1)}`;
  const items = values.map(([value, words]) => {
    const input = h("input", { type: "radio", name, value, onchange: () => onchange(value) });
    input.checked = value === chosen;
    return h("label", {}, input, h("span", {}, words));
  });
  return h("fieldset", { class: "choice" }, h("legend", {}, legend), h("div", {}, ...items));
}

/** A tick box with its words. */
export function tick(words, checked, onchange) {
  const input = h("input", { type: "checkbox", onchange: () => onchange(input.checked) });
  input.checked = checked;
  return h("label", { class: "tick" }, input, h("span", {}, words));
}

/** A slider with its name and its value in words. */
export function slider(words, { min, max, step, value, show = String }, oninput) {
  const output = h("span", { class: "value" }, show(value)); // an <output> would take the label for itself
  const input = h("input", { type: "range", min, max, step, "aria-valuetext": show(value), oninput: () => {
    output.textContent = show(Number(input.value));
    input.setAttribute("aria-valuetext", output.textContent);
    oninput(Number(input.value));
  } });
  input.value = value;
  return h("label", { class: "slider" }, h("span", {}, words, " ", output), input);
}

/** A table: columns = [words], rows = [[cell, …], …]; numbers right-aligned from column `from`. */
export function table(caption, columns, rows, { numbersFrom = 1, hidden = false } = {}) {
  const cell = (tag, content, at, scope) =>
    h(tag, { class: at >= numbersFrom ? "number" : null, scope }, content);
  return h("table", {},
    h("caption", { class: hidden ? "sr-only" : null }, caption),
    h("thead", {}, h("tr", {}, ...columns.map((words, at) => cell("th", words, at, "col")))),
    h("tbody", {}, ...rows.map((cells) =>
      h("tr", {}, ...cells.map((content, at) => cell(at === 0 ? "th" : "td", content, at, at === 0 ? "row" : null))))));
}

/** Something long that opens on demand and is only built then. */
export function onDemand(words, build) {
  const details = h("details", { class: "twin" }, h("summary", {}, words));
  const open = () => {
    if (!details.open) return;
    while (details.childNodes.length > 1) details.lastChild.remove();
    details.append(build());
  };
  details.addEventListener("toggle", open);
  details.refresh = open;
  return details;
}

const WORKS = { "measuring checkpoints": "job.checkpoints", "measuring head roles": "job.roles", "comparing heads": "job.heads",
  "measuring what it can do": "job.abilities", "hiding tokens": "job.hiding", writing: "job.writing" };
const PATIENCE = 700; // ms until a long answer tells how far it is
const SECOND = 1000;

/** What a long answer does, in words: of the page's language where it has them. */
function workWords(description) {
  const [, behind] = /^waiting behind (.+)$/.exec(description) ?? [];
  if (behind) return t("job.behind", { what: behind });
  return WORKS[description] ? t(WORKS[description]) : h("span", { lang: "en" }, `${description}:`);
}

/** Shows in `place` how far a long answer is, with a button that stops it. Returns what ends that. */
function watch(place, job) {
  const words = h("span", {});
  const passed = h("span", { class: "soft" });
  const bar = h("progress", { max: 1, "aria-label": t("job.progress") });
  const box = h("div", { class: "job" }, h("span", { role: "status" }, t("job.runs")), bar, words, passed, button(t("job.stop"), () => job.stop(), { class: "plain" }));
  let first = null;
  const tell = ({ report }) => {
    if (!report) return;
    const { description, done, total } = report;
    if (first?.description !== description) first = { description, done, at: performance.now() };
    const seconds = (performance.now() - first.at) / SECOND;
    const left = total && done > first.done && seconds > 1 ? ((total - done) * seconds) / (done - first.done) : null;
    if (total) bar.value = Math.min(1, done / total);
    else bar.removeAttribute("value");
    words.replaceChildren(workWords(description), total ? ` ${Math.floor((100 * done) / total)} %` : done ? ` ${Math.floor(done)}` : "", left === null ? "" : `${t("mark.comma")}${t("job.left", { seconds: Math.ceil(left) })}`);
  };
  const tick = () => (passed.textContent = t("job.passed", { seconds: Math.floor((performance.now() - job.began) / SECOND) }));
  const clock = setInterval(tick, SECOND);
  tick();
  const appear = setTimeout(() => {
    place.querySelector(".waiting")?.remove();
    place.prepend(box);
    tell(job);
  }, PATIENCE);
  const unhear = job.hear(tell);
  return {
    box,
    end: () => {
      clearTimeout(appear);
      clearInterval(clock);
      unhear();
    },
  };
}

/** New content; a control that had the focus has it again if there is one of that name, else the whole has it. */
function refill(place, nodes) {
  const focused = place.contains(document.activeElement) ? document.activeElement : null;
  const name = focused?.getAttribute("aria-label") ?? null;
  place.replaceChildren(...nodes);
  if (!focused || place.contains(focused)) return;
  const again = name === null ? null : place.querySelector(`[aria-label="${CSS.escape(name)}"]`);
  if (!again) place.tabIndex = -1; // what was pressed is gone: on to what came of it
  (again ?? place).focus({ preventScroll: true });
}

/**
 * Wait for `promise` in `place`, busy until then, and show what build(value) returns or the error's words. A long one
 * tells how far it is and can be stopped; what is known so far is built as it comes.
 */
export async function show(place, promise, build, lines = 4) {
  const turn = (place.turn = (place.turn ?? 0) + 1);
  const current = () => place.turn === turn;
  const nodes = (value) => [build(value)].flat().filter(Boolean);
  place.setAttribute("aria-busy", "true");
  const slow = setTimeout(() => current() && !place.firstChild && place.append(waiting(lines)), 60);
  const { job } = promise;
  const watched = job ? watch(place, job) : null;
  let drawn = null;
  const unhear = job?.hear(() => {
    if (!current() || job.part === drawn) return;
    drawn = job.part;
    refill(place, [watched.box, ...nodes(drawn)]);
  });
  try {
    const built = nodes(await promise);
    if (current()) refill(place, built);
  } catch (error) {
    const again = error.stopped ? button(t("job.again"), () => show(place, job.again(), build, lines)) : null;
    if (current()) refill(place, [failure(error), again, ...(error.stopped && drawn ? nodes(drawn) : [])].filter(Boolean));
    if (error.status === undefined && !error.missing) console.error(error);
  } finally {
    clearTimeout(slow);
    watched?.end();
    unhear?.();
    if (current()) place.removeAttribute("aria-busy");
  }
}
