// Sentence and prediction: the surprise strip, the ten likeliest before a token, the next token, writing on.

import { announce } from "./a11y.js";
import { bars } from "./bars.js";
import { h, number, onDemand, panel, percent, table, whole, word } from "./dom.js";
import { encoderPanels } from "./filling.js";
import { nextPanel } from "./next_token.js";
import { chosen } from "./sites.js";
import { tokenStrip } from "./tokens.js";
import { t } from "./i18n.js";
import { viridis } from "./colours.js";
import { writingPanel } from "./writing.js";

const LEGEND = [0, 0.25, 0.5, 0.75, 1];
const FEW = 8; // words that are named

function natsOf(surprise) {
  const nats = Array.from(surprise.nats.data);
  return nats.map((each, at) => (at < surprise.first ? NaN : each));
}

function legend(top) {
  const marks = LEGEND.map((share) => h("span", { class: "step", "--share": share, "--colour": viridis(share) }, number(share * top, 1)));
  return h("p", { class: "nats" }, t("surprise.legend"), " ", h("span", { class: "steps" }, ...marks), " ", t("surprise.unit"));
}

/** What was expected where token `at` stands. */
function expected(app, surprise, spelling, at) {
  const label = spelling.labels[at];
  if (at < surprise.first) return h("p", { class: "note" }, t("surprise.nothing"));
  const k = surprise.top_ids.shape[1];
  const ids = Array.from(surprise.top_ids.data.subarray(at * k, (at + 1) * k));
  const shares = Array.from(surprise.top_p.data.subarray(at * k, (at + 1) * k));
  const real = spelling.ids.data[at];
  const items = ids.map((id, i) => ({ label: app.reading.words[id], share: shares[i], chosen: id === real, note: id === real ? t("surprise.came") : null }));
  if (!ids.includes(real)) items.push({ label, share: surprise.p.data[at], chosen: true, note: t("surprise.rank", { rank: surprise.rank.data[at] }) });
  const sum = items.reduce((total, { share }) => total + share, 0);
  return h("div", {},
    h("p", {}, word(label), t("mark.gap"), t("surprise.said", { position: at, nats: number(surprise.nats.data[at], 3), p: percent(surprise.p.data[at]) })),
    bars(items, { count: app.about.vocab_size - items.length, share: Math.max(0, 1 - sum) }, { name: t("surprise.expected"), of: Math.max(...items.map(({ share }) => share)) }));
}

const plenty = (value) => (value < 1000 ? number(value, 2) : whole(value));

/** The sum in words; more than guessing evenly over the vocabulary would cost is said to be so. */
function totals(surprise, count, vocabulary) {
  if (!count) return h("p", { class: "totals" }, t("surprise.empty"));
  const perplexity = Math.exp(surprise.mean);
  const words = t(perplexity > vocabulary ? "surprise.worse" : "surprise.totals", { total: number(surprise.total, 2), count, mean: number(surprise.mean, 3), perplexity: plenty(perplexity), vocabulary: whole(vocabulary), even: number(Math.log(vocabulary), 3) });
  return h("p", { class: "totals" }, words);
}

function twin(surprise, spelling) {
  return onDemand(t("surprise.twin"), () => h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("surprise.twin") },
    table(t("surprise.twin"), [t("word.position"), t("word.token"), t("word.nats"), t("surprise.p"), t("word.rank")],
      spelling.labels.map((label, at) => (at < surprise.first ? [String(at), word(label), "–", "–", "–"]
        : [String(at), word(label), number(surprise.nats.data[at], 3), percent(surprise.p.data[at]), String(surprise.rank.data[at])])), { numbersFrom: 2 })));
}

/** The words of a text that are several tokens each, in order, each once; a Chinese character is a word. */
function spelledWords({ pieces, groups }) {
  const text = pieces.join("");
  const starts = new Set();
  let at = 0;
  pieces.forEach((piece, place) => {
    const inside = groups.some(({ start, length }) => place > start && place < start + length); // a later byte of a character
    if (!inside) starts.add(at);
    at += piece.length;
  });
  const bytes = new Set(groups.filter(({ length }) => length > 1).map((group) => group.text));
  const found = [...text.matchAll(/\p{Script=Han}|(?:(?!\p{Script=Han})[\p{L}\p{N}])+/gu)];
  const spelled = found.filter(({ 0: word, index }) => bytes.has(word) || [...word].some((_, i) => i > 0 && starts.has(index + i)));
  return [...new Set(spelled.map(({ 0: word }) => word))];
}

/** Of a model of whole words: which words of the text it had to spell, and why; null where there are none. */
function spelledNote(app, spelling) {
  const { kind, words: known } = app.about.tokenizer;
  const found = kind === "word" && known ? spelledWords(spelling) : [];
  if (!found.length) return null;
  const named = found.slice(0, FEW).join(t("list.comma")) + (found.length > FEW ? " …" : "");
  return h("p", { class: "note" }, t("surprise.spelled", { count: whole(known), words: named }));
}

/** The strip; where nothing is predicted (an encoder) it says why. */
function surprisePanel(app) {
  const { reading } = app;
  const { surprise } = reading;
  const side = surprise?.side ?? "read";
  const spelling = reading.spellings[side];
  const detail = h("div", { class: "expected" });
  const tokens = { ...spelling, nats: surprise ? natsOf(surprise) : undefined, top: surprise?.full_scale ?? 1 };
  const strip = tokenStrip(tokens, t("strip.queries"), (at) => app.select({ query: chosen(app).query === at ? null : at }));
  const refresh = () => {
    const { query } = chosen(app);
    strip.choose({ query });
    if (!surprise) return;
    if (query === null || query >= spelling.labels.length) detail.replaceChildren(h("p", { class: "note" }, t("surprise.click")));
    else detail.replaceChildren(expected(app, surprise, spelling, query));
    if (detail.isConnected) announce(detail.querySelector("p").textContent);
  };
  refresh();
  const source = reading.spellings.source ? h("div", { class: "strip-line" }, h("span", { class: "strip-name" }, t("side.source")), tokenStrip(reading.spellings.source, t("strip.source"), () => {})) : null;
  const lead = surprise ? t("surprise.lead") : reading.why_no_surprise;
  const children = surprise ? [legend(surprise.full_scale), totals(surprise, spelling.labels.length - surprise.first, app.about.vocab_size), detail, twin(surprise, spelling)] : [];
  return { element: panel(t("surprise.title"), lead, source, strip, spelledNote(app, spelling), ...children), refresh };
}

export const sentenceView = {
  id: "sentence",
  titleKey: "view.sentence",
  leadKey: "view.sentence.lead",
  group: "overview",
  ownSentence: true,
  fits: () => true,
  async draw(root, app) {
    const strip = surprisePanel(app);
    root.append(strip.element, ...encoderPanels(app));
    if (app.reading.next) root.append(nextPanel(app));
    const writing = app.about.views.includes("generate") ? writingPanel(app) : null;
    if (writing) root.append(writing.element);
    return (changed) => {
      if (changed.has("selection")) strip.refresh();
      if (changed.has("settings")) writing?.refresh();
    };
  },
};
