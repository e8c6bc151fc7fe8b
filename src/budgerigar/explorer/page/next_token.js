// The next token: the true softmax, and what temperature, top-k and top-p make of it, from the full logits.

import { bars } from "./bars.js";
import { button, h, number, panel, percent, slider, whole } from "./dom.js";
import { filtered, softmax } from "./sampling.js";
import { t } from "./i18n.js";

const SHOWN = 10;

/** Slider positions of top-k: 0 is all of the vocabulary. */
function sizes(vocabulary) {
  return [0, 1, 2, 3, 4, 5, 8, 10, 15, 20, 30, 40, 50, 100, 200].filter((k) => k < vocabulary);
}

/** What a label writes: its blanks again; null for parts of characters and names of special tokens. */
function written(app, label) {
  if (/ \d+\/\d+$|^0x|^<.*>$|^\[.*\]$|^∅$/.test(label)) return null;
  const text = label.replaceAll("␣", " ").replaceAll("↵", "\n").replaceAll("⇥", "\t");
  // a tokenizer of words takes the blank before a word as a matter of course, and labels leave it out
  const blank = app.about.tokenizer.kind === "word" && app.question.target && /^[\p{L}\p{N}]/u.test(text);
  return blank ? ` ${text}` : text;
}

/** A translation that is only begun goes on by text. */
function continued(app, id) {
  const piece = app.reading.prefix ? written(app, app.reading.words[id]) : null;
  return piece === null ? null : { ...app.question, target: app.question.target + piece };
}

/** Append a token: of a text exactly that one, by its id, after the ids that were read. Null: it cannot be done. */
export function appended(app, id) {
  const { reading, question } = app;
  if (!app.source.live || id === reading.next.end?.id) return null;
  if (app.about.pair) return continued(app, id);
  const ids = Array.from(reading.spellings.read.ids.data);
  const { text, ...rest } = question;
  return { ...rest, ids: [...ids, id] };
}

let returning = null; // where the panel stood on the screen when a token was appended by it

/** Append a token; the panel drawn for the longer text takes the focus and the place of this one. */
function append(app, id, place) {
  returning = place.closest(".panel").getBoundingClientRect().top;
  app.look(appended(app, id));
}

/** The list of words with the true p and, where a filter is on, the chance of being drawn. */
function list(app, options, place) {
  const { next, words } = app.reading;
  const truth = softmax(next.logits.data);
  const plain = options.temperature === 1 && !options.topK && options.topP === 1;
  const chances = plain ? truth : filtered(next.logits.data, { ...options, never: next.never.data });
  const named = Array.from(next.ids.data).slice(0, SHOWN);
  const items = named.map((id) => ({
    label: words[id], share: chances[id], faint: chances[id] === 0,
    note: plain ? null : t("next.truly", { p: percent(truth[id]) }),
    onclick: appended(app, id) ? () => append(app, id, place) : null,
  }));
  const shown = named.reduce((sum, id) => sum + chances[id], 0);
  const rest = { count: chances.length - named.length, share: Math.max(0, 1 - shown) };
  const kept = chances.reduce((count, share) => count + (share > 0), 0);
  const most = Math.max(...items.map(({ share }) => share), rest.share);
  place.replaceChildren(
    h("p", { class: "soft" }, plain ? t("next.plain") : t("next.kept", { kept: whole(kept), all: whole(chances.length) })),
    bars(items, rest, { name: t("next.title"), of: most, action: (label) => t("next.append", { label }) }));
}

function returned(element) {
  if (returning === null || !element.isConnected) return;
  scrollBy({ top: element.getBoundingClientRect().top - returning, behavior: "instant" });
  element.querySelector(".bar button")?.focus({ preventScroll: true });
  returning = null;
}

/** The panel; the sliders change what is shown at once and stand in the address. */
export function nextPanel(app) {
  const { next } = app.reading;
  const place = h("div");
  const options = { temperature: 1, topK: 0, topP: 1, ...app.setting("sampling", {}) };
  const steps = sizes(next.logits.data.length);
  const set = (part) => {
    Object.assign(options, part);
    app.set("sampling", { ...options });
    list(app, options, place);
  };
  const at = Math.max(0, steps.indexOf(options.topK));
  const sliders = h("div", { class: "sliders" },
    slider(t("next.temperature"), { min: 0, max: 2, step: 0.05, value: options.temperature, show: (value) => number(value, 2) }, (temperature) => set({ temperature })),
    slider("top-k", { min: 0, max: steps.length - 1, step: 1, value: at, show: (place) => (steps[place] ? String(steps[place]) : t("next.all")) }, (place) => set({ topK: steps[place] })),
    slider("top-p", { min: 0.05, max: 1, step: 0.05, value: options.topP, show: (value) => number(value, 2) }, (topP) => set({ topP })),
    button(t("next.reset"), () => {
      app.set("sampling", {});
      fresh();
    }, { class: "plain" }));
  list(app, options, place);
  const end = next.end ? h("p", { class: "totals" }, t("next.end", { p: percent(next.end.p) })) : null;
  const over = app.about.pair && app.source.live && !app.reading.prefix
    ? button(t("next.over"), () => app.look({ ...app.question, target: "", prefix: true })) : null;
  const panelElement = panel(t("next.title"), t("next.lead"), sliders, place, end, over,
    app.source.live ? null : h("p", { class: "note" }, t("next.fixed"), " ", t("needs.live")));
  const fresh = () => {
    const again = nextPanel(app);
    panelElement.replaceWith(again);
    again.querySelector(".sliders button").focus({ preventScroll: true });
  };
  panelElement.classList.add("next");
  if (returning !== null) requestAnimationFrame(() => returned(panelElement));
  return panelElement;
}
