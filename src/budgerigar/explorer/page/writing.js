// Writing on, token by token: what was chosen and how likely it was, the end's probability, and what the model
// carries from one token to the next: a Transformer's cache grows, an LSTM's state does not.

import { announce, calm } from "./a11y.js";
import { cssColour } from "./colours.js";
import { button, bytes, h, number, panel, percent, show, slider, table, word } from "./dom.js";
import { t } from "./i18n.js";

const COUNT = 20;
const PACE = 450; // ms between tokens while it plays

/** Tokens in the cache when new token `step` was chosen, which is not in it yet; 0: before the first. */
export function cached(answer, step) {
  return step ? answer.tokens[step - 1].read : answer.start_tokens;
}

/** The cache at a step: a row per layer, keys above values, a column per token. */
function drawCache(canvas, answer, step) {
  const { layers } = answer.carries;
  const before = answer.start_tokens;
  const most = Math.max(before, ...answer.tokens.map(({ read }) => read));
  const filled = cached(answer, step);
  const ratio = window.devicePixelRatio || 1;
  const wide = Math.max(160, canvas.parentElement.clientWidth);
  const column = Math.min(14, wide / most);
  const rows = Math.min(layers, 12);
  const tall = rows * 18;
  canvas.width = wide * ratio;
  canvas.height = tall * ratio;
  canvas.style.height = `${tall}px`;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const gap = column > 4 ? 1 : 0;
  for (let row = 0; row < rows; row++) {
    for (let at = 0; at < most; at++) {
      const fresh = at >= before && at === filled - 1;
      context.globalAlpha = at >= filled ? 0.12 : fresh ? 1 : at < before ? 0.45 : 0.75;
      context.fillStyle = cssColour("--key");
      context.fillRect(at * column, row * 18, column - gap, 7);
      context.fillStyle = cssColour("--value");
      context.fillRect(at * column, row * 18 + 8, column - gap, 7);
    }
  }
}

function carried(answer, step) {
  const { carries } = answer;
  const now = step ? answer.tokens[step - 1].bytes : answer.start_bytes;
  const canvas = h("canvas", { class: "cache", "aria-hidden": "true" });
  const grows = carries.kind === "cache";
  const words = [h("strong", {}, bytes(now)), " ", t(`carries.${carries.kind}`)];
  if (grows && carries.per_token) words.push(" ", t("carries.formula", { layers: carries.layers, heads: carries.kv_heads, width: carries.d_head, bytes: bytes(carries.per_token) }));
  if (carries.source_bytes) words.push(" ", t("carries.source", { bytes: bytes(carries.source_bytes) }));
  const drawing = grows ? h("div", { class: "cache-box" }, canvas) : null;
  if (grows) requestAnimationFrame(() => canvas.isConnected && drawCache(canvas, answer, step));
  return h("div", { class: "carried" }, h("p", {}, ...words),
    drawing, grows ? h("p", { class: "soft" }, h("span", { class: "k" }, t("carries.keys")), " · ", h("span", { class: "v" }, t("carries.values")), " · ", t("carries.rows")) : null);
}

function written(answer, step) {
  const pieces = answer.tokens.slice(0, step).map(({ piece, label }, at) => h("span", { class: at === step - 1 ? "piece now" : "piece" }, piece || label));
  return h("p", { class: "written", dir: "auto" }, h("bdi", { class: "given" }, answer.given), ...pieces);
}

function rows(answer, step) {
  return table(t("writing.table"), [t("word.token"), "p", t("writing.chance"), t("writing.end"), t("writing.bytes")],
    answer.tokens.slice(0, step).map(({ label, p, chance, p_end: end, bytes: carriedBytes }) =>
      [word(label), percent(p), percent(chance), end === null ? "–" : percent(end), bytes(carriedBytes)]), { numbersFrom: 1, hidden: true });
}

/** Steps through an answer: a slider, back, on, play. */
function player(answer) {
  const place = h("div");
  let step = 0;
  let timer = null;
  const to = (wanted) => {
    step = Math.max(0, Math.min(answer.tokens.length, wanted));
    scrub.value = step;
    scrub.setAttribute("aria-valuetext", t("writing.step", { step, count: answer.tokens.length }));
    const scroll = h("div", { class: "scroll steps", tabindex: 0, role: "region", "aria-label": t("writing.table") }, rows(answer, step));
    place.replaceChildren(written(answer, step), carried(answer, step), ...(step ? [h("p", { class: "soft" }, t("writing.columns")), scroll] : []));
    scroll.scrollTop = scroll.scrollHeight;
    if (step === answer.tokens.length) stop();
  };
  const stop = () => {
    clearInterval(timer);
    timer = null;
    play.textContent = t("writing.play");
  };
  const scrub = h("input", { type: "range", min: 0, max: answer.tokens.length, step: 1, "aria-label": t("writing.scrub"), oninput: () => to(Number(scrub.value)) });
  const play = button(t("writing.play"), () => {
    if (timer) return stop();
    if (step === answer.tokens.length) to(0);
    if (calm()) return to(answer.tokens.length);
    play.textContent = t("writing.pause");
    timer = setInterval(() => (play.isConnected ? to(step + 1) : stop()), PACE);
    return to(step + 1);
  });
  const element = h("div", { class: "player" }, h("div", { class: "row" },
    button("‹", () => to(step - 1), { "aria-label": t("writing.back") }), play, button("›", () => to(step + 1), { "aria-label": t("writing.on") }), scrub), place);
  to(answer.tokens.length);
  announce(t("writing.done", { count: answer.tokens.length }));
  return [element, h("p", { class: "soft" }, t(answer.finish === "end" ? "writing.ended" : "writing.stopped", { count: answer.tokens.length }))];
}

/** Of a file: the settings that were recorded, to choose from; null where none were. */
function recordedSettings(app, options) {
  const kept = app.source.asked(app.question, "generate").map((given) => ({ ...options, ...given }));
  if (!kept.length) return null;
  const words = ({ temperature, seed }) => t(temperature ? "writing.setting" : "writing.greedy", { temperature: number(temperature, 2), seed });
  const choose = (at) => Object.assign(options, kept[at]);
  const select = h("select", { id: "writing-kept", onchange: () => choose(Number(select.value)) }, ...kept.map((each, at) => h("option", { value: at }, words(each))));
  choose(0);
  return h("div", { class: "field" }, h("label", { for: "writing-kept" }, t("writing.kept")), select);
}

/** What is chosen under "What comes next?" holds here too, and is said; its temperature is where this one begins. */
function takeOver(app, options, note) {
  const { topK = 0, topP = 1, temperature } = app.setting("sampling", {});
  Object.assign(options, { top_k: topK || null, top_p: topP < 1 ? topP : null });
  if (temperature !== undefined) options.temperature = temperature;
  const filters = [options.top_k ? `top-k ${options.top_k}` : null, options.top_p ? `top-p ${number(options.top_p, 2)}` : null].filter(Boolean);
  note.textContent = filters.length ? t("writing.filters", { filters: filters.join(", ") }) : "";
  note.hidden = !filters.length;
}

function freeSettings(options) {
  const seed = h("input", { type: "number", min: 0, max: 99999, value: options.seed, id: "seed", oninput: () => (options.seed = Math.max(0, Math.round(Number(seed.value) || 0))) });
  return [slider(t("writing.count"), { min: 1, max: 60, step: 1, value: options.count }, (count) => (options.count = count)),
    slider(t("next.temperature"), { min: 0, max: 2, step: 0.05, value: options.temperature, show: (value) => number(value, 2) }, (temperature) => (options.temperature = temperature)),
    h("label", { class: "slider", for: "seed" }, h("span", {}, t("writing.seed")), seed)];
}

/** The panel with its own settings and the button that asks. */
export function writingPanel(app) {
  const options = { count: COUNT, temperature: 0.8, top_k: null, top_p: null, seed: 0 };
  const place = h("div", { class: "writing", "aria-live": "off" });
  const given = app.reading.spellings.predicted && !app.reading.prefix ? "" : app.reading.text;
  const go = () => show(place, app.ask("generate", { ...options }).then((answer) => ({ ...answer, given })), player, 6);
  const kept = app.source.live ? null : recordedSettings(app, options);
  const filters = h("p", { class: "soft" });
  const start = button(t("writing.go"), go, { class: "primary", disabled: !app.can("generate", options) });
  const controls = h("div", { class: "sliders" });
  const refresh = () => {
    if (!kept) takeOver(app, options, filters);
    controls.replaceChildren(...(kept ? [kept] : freeSettings(options)), start);
  };
  filters.hidden = true;
  refresh();
  const note = app.source.live ? null : h("p", { class: "note" }, kept ? `${t("writing.others")} ` : "", t("needs.live"));
  return { element: panel(t("writing.title"), t("writing.lead"), controls, filters, note, place), refresh };
}
