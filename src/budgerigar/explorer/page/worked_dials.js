// The hand-set models with their numbers to drag: a slider and a field for each, recomputed at once.

import { announce } from "./a11y.js";
import { bars } from "./bars.js";
import { button, choice, h, number, onDemand, table, tick, word } from "./dom.js";
import { APPLE, APPLE_FEATURES, APPLE_SENTENCES, IT_FEATURES, IT_QUERY, IT_SCORES, IT_WIDTH, IT_WORDS, appleSteps, itKeys, itSteps } from "./worked.js";
import { t } from "./i18n.js";
import { stacking } from "./meters.js";

const LEAST_APART = 1e-6; // below it fruit and tech say the same

/** A number with a slider and a field, both the same; `.put(value)` sets it. */
function dial(words, { min, max, step, value }, oninput) {
  const named = typeof words === "string" ? words : words.textContent;
  const range = h("input", { type: "range", min, max, step, "aria-label": named });
  const field = h("input", { type: "number", min, max, step, "aria-label": t("worked.exactly", { name: named }) });
  const told = h("span", { class: "note", role: "status", hidden: true }, t("worked.range", { min: number(min, 0), max: number(max, 0) }));
  const element = h("div", { class: "worked-dial" }, h("span", { class: "dial-name" }, words), range, field, told);
  element.put = (given) => {
    range.value = given;
    field.value = given;
    told.hidden = true;
  };
  range.addEventListener("input", () => {
    field.value = range.value;
    told.hidden = true;
    oninput(Number(range.value));
  });
  field.addEventListener("input", () => {
    const outside = field.value.trim() === "" || !field.validity.valid && !field.validity.stepMismatch;
    told.hidden = !outside;
    if (outside) return;
    range.value = field.value;
    oninput(Number(field.value));
  });
  field.addEventListener("change", () => { // what cannot be is not left standing there: the nearest that can
    if (told.hidden) return;
    const typed = Number(field.value);
    const nearest = field.value.trim() === "" ? Number(range.value) : Math.min(max, Math.max(min, typed));
    range.value = nearest;
    field.value = nearest;
    oninput(nearest);
  });
  element.put(value);
  return element;
}

/** The query's and the keys' 8 numbers with their products. */
function itVectors(scores) {
  const figure = (value) => number(value, 2).replace(/\.?0+$/, "") || "0";
  const keys = itKeys(scores);
  const rows = [[t("worked.it.query"), ...IT_QUERY.map(figure), ""], ...IT_WORDS.map((name, at) => [t("worked.it.key", { word: t(`worked.it.${name}`) }), ...keys[at].map(figure), figure(scores[at])])];
  return h("div", { class: "scroll open", tabindex: 0, role: "region", "aria-label": t("worked.it.vectors") },
    stacking(table(t("worked.it.vectors.caption"), [t("steps.vector"), ...IT_FEATURES.map((name) => t(`worked.feature.${name}`)), "q · k"], rows)));
}

function itDials() {
  const now = { scores: [...IT_SCORES], divided: true };
  const place = h("div", { class: "worked-result" });
  const vectors = onDemand(t("worked.it.vectors"), () => itVectors(now.scores));
  const draw = (told = true) => {
    const { scaled, weights } = itSteps(now.scores, now.divided);
    const rows = IT_WORDS.map((name, at) => [word(t(`worked.it.${name}`)), number(now.scores[at], 2), number(scaled[at], 3), number(Math.exp(scaled[at]), 2), number(weights[at], 3)]);
    place.replaceChildren(
      h("div", { class: "scroll open", tabindex: 0, role: "region", "aria-label": t("worked.it.table") },
        table(t("worked.it.table"), [t("word.token"), "q · k", now.divided ? `÷ √${IT_WIDTH}` : t("worked.undivided"), "exp", "softmax"], rows)),
      bars(IT_WORDS.map((name, at) => ({ label: t(`worked.it.${name}`), share: weights[at] })), null, { name: t("worked.it.weights") }));
    vectors.refresh();
    if (told) announce(IT_WORDS.map((name, at) => `${t(`worked.it.${name}`)} ${number(weights[at], 2)}`).join(t("mark.comma")));
  };
  const dials = IT_WORDS.map((name, at) => dial(word(t(`worked.it.${name}`)), { min: -20, max: 20, step: 0.01, value: now.scores[at] }, (value) => {
    now.scores[at] = value;
    draw();
  }));
  const divide = tick(t("worked.divide", { width: IT_WIDTH }), true, (on) => {
    now.divided = on;
    draw();
  });
  const reset = button(t("worked.reset"), () => {
    Object.assign(now, { scores: [...IT_SCORES], divided: true });
    dials.forEach((each, at) => each.put(IT_SCORES[at]));
    divide.querySelector("input").checked = true;
    draw();
  });
  draw(false);
  return [h("p", { class: "soft" }, t("worked.it.lead")), h("div", { class: "worked-dials" }, ...dials), h("div", { class: "controls" }, divide, reset), place, vectors];
}

const SETTINGS = [["threshold", "worked.threshold", 0, 2], ["toFruit", "worked.fruit", -2, 2], ["toTech", "worked.tech", -2, 2]];

function verdict(after) {
  const [fruit, tech] = after.slice(2);
  if (Math.abs(fruit - tech) < LEAST_APART) return t("worked.undecided");
  return t(fruit > tech ? "worked.isfruit" : "worked.istech");
}

function appleDials() {
  const now = { sentence: APPLE_SENTENCES[0], ...APPLE };
  const place = h("div", { class: "worked-result" });
  const draw = (told = true) => {
    const { before, gathered, unit, after } = appleSteps(now.sentence, now);
    const line = (name, values) => [name, ...values.map((value) => number(value, 2))];
    place.replaceChildren(
      h("div", { class: "scroll open", tabindex: 0, role: "region", "aria-label": t("worked.apple.table") },
        table(t("worked.apple.table"), [t("worked.apple"), ...APPLE_FEATURES.map((name) => t(`worked.apple.${name}`))],
          [line(t("worked.before"), before), line(t("worked.gathered"), gathered), line(t("worked.after"), after)])),
      h("p", { class: "equation" }, `ReLU(${number(gathered[0], 2)} + ${number(gathered[1], 2)} − ${number(now.threshold, 2)}) = ${number(unit, 2)}`),
      h("p", { class: "strong" }, verdict(after)));
    if (told) announce(`${after.map((value, at) => `${t(`worked.apple.${APPLE_FEATURES[at]}`)} ${number(value, 2)}`).join(t("mark.comma"))}. ${verdict(after)}`);
  };
  const dials = SETTINGS.map(([name, key, min, max]) => dial(t(key), { min, max, step: 0.01, value: now[name] }, (value) => {
    now[name] = value;
    draw();
  }));
  const sentences = choice(t("worked.sentence"), APPLE_SENTENCES.map((each) => [each, each]), now.sentence, (sentence) => {
    now.sentence = sentence;
    draw();
  });
  const reset = button(t("worked.reset"), () => {
    Object.assign(now, APPLE);
    dials.forEach((each, at) => each.put(APPLE[SETTINGS[at][0]]));
    draw();
  });
  draw(false);
  return [h("p", { class: "soft" }, t("worked.apple.lead")), sentences, h("div", { class: "worked-dials" }, ...dials), h("div", { class: "controls" }, reset), place];
}

/** A hand-set model by name: "it" or "apple". */
export function workedModel(name) {
  const words = { it: "worked.it.title", apple: "worked.apple.title" };
  return h("section", { class: `worked worked-${name}`, "aria-label": t(words[name]) }, h("h3", {}, t(words[name])), ...(name === "it" ? itDials() : appleDials()));
}
