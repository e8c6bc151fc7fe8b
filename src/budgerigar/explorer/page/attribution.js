// Direct logit attribution (Elhage et al. 2021): the logit of one token as a sum of what every part of the model wrote
// into the stream. Each bar begins where the one before it ended, so the last one ends at the logit.

import { h, headName, number, percent, tick, whole, word } from "./dom.js";
import { t } from "./i18n.js";

const MOST = 40; // parts with a bar of their own; the smallest others are one bar

const NAMES = { embedding: "dla.embedding", biases: "dla.biases", token: "dla.token", position: "dla.position", type: "dla.type", attention: "dla.attention",
  "cross-attention": "dla.cross", "feed-forward": "dla.forward", "norm bias": "dla.normbias", "head bias": "dla.headbias", "transform bias": "dla.transformbias", "attention bias": "dla.attentionbias" };

/** "L2 feed-forward" in the page's language. */
function partName(name) {
  const [, layer, rest] = /^(L\d+(?:\.H\d+)?)?\s*(.*)$/.exec(name);
  return [layer, NAMES[rest] ? t(NAMES[rest]) : rest].filter(Boolean).join(" ");
}

/** Of very many parts the smallest as one; the others stay in their order. */
function few(items) {
  if (items.length <= MOST) return items;
  const shown = new Set([...items].sort((a, b) => Math.abs(b.logit) - Math.abs(a.logit)).slice(0, MOST));
  const rest = items.filter((item) => !shown.has(item));
  return [...items.filter((item) => shown.has(item)), { name: t("dla.rest", { count: whole(rest.length) }), logit: rest.reduce((sum, { logit }) => sum + logit, 0) }];
}

/** The bars: groups of a layer or single parts. */
function itemsOf(answer, single) {
  const all = single ? answer.parts.name.map((name, at) => ({ name, logit: answer.parts.logit.data[at] })) : answer.groups;
  return few(all.map(({ name, logit }) => ({ name: partName(name), logit })));
}

/** Bars of {name, logit}, each beginning where the one before ended; totals: [[words, value, kind]] below them. */
function waterfall(items, totals, { title, caption, part }) {
  let sum = 0;
  const spans = items.map(({ name, logit }) => ({ name, logit, from: sum, to: (sum += logit) }));
  const low = Math.min(0, ...spans.map(({ to }) => to));
  const high = Math.max(0, ...spans.map(({ to }) => to));
  const place = (value) => (value - low) / (high - low || 1);
  const bar = (from, to, kind) => h("td", { class: "fall", "aria-hidden": "true" }, h("span", { class: "zero", "--share": place(0) }), h("span", { class: `span ${kind}`, "--from": place(Math.min(from, to)), "--size": Math.abs(place(to) - place(from)) }));
  const signed = (value) => `${value < 0 ? "" : "+"}${number(value, 3)}`;
  const rows = spans.map(({ name, logit, from, to }) => h("tr", {}, h("th", { scope: "row" }, name), bar(from, to, logit < 0 ? "minus" : "plus"), h("td", { class: "number strong" }, signed(logit)), h("td", { class: "number soft" }, number(to, 3))));
  const last = ([name, value]) => h("tr", { class: "sum" }, h("th", { scope: "row" }, name), bar(0, value, "whole"), h("td", { class: "number strong" }, number(value, 4)), h("td", {}));
  return h("div", { class: "scroll open", tabindex: 0, role: "region", "aria-label": title }, h("table", { class: "falls" }, h("caption", {}, caption),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, part), h("td", {}), h("th", { scope: "col", class: "number" }, t("dla.writes")), h("th", { scope: "col", class: "number" }, t("dla.sofar")))),
    h("tbody", {}, ...rows), h("tfoot", {}, ...totals.map(last))));
}

/** The heads, the one that writes most first: [{at, head, kind, logit}]. */
function headsOf({ parts }) {
  const heads = [...parts.kind.keys()].filter((at) => parts.kind[at] === "head");
  return heads.map((at) => ({ at, head: headName(parts.layer.data[at], parts.head.data[at]), kind: parts.attention[at], logit: parts.logit.data[at] })).sort((a, b) => Math.abs(b.logit) - Math.abs(a.logit));
}

/** One head's part by the tokens that it was read from; they sum to the part. */
function byKey(answer, { chooseHead, canHead, labels }) {
  const heads = headsOf(answer);
  if (!heads.length) return [];
  const { keys } = answer;
  const now = keys ? heads.findIndex(({ head, kind }) => head === keys.head && kind === keys.kind) : -1;
  const named = ({ head, kind, logit }, at) => [at, `${head}${kind === "cross" ? ` ${t("dla.cross")}` : ""}  ${logit < 0 ? "" : "+"}${number(logit, 3)}`];
  const pick = picker(t("dla.head"), [[null, t("dla.nohead")], ...heads.map(named)], now < 0 ? null : now, (at) => chooseHead(at === null ? null : heads[at]), (at) => canHead(at === null ? null : heads[at]));
  const head = h("div", {}, h("h3", {}, t("dla.bykey")), h("p", { class: "soft" }, t("dla.bykey.lead")), h("div", { class: "controls" }, pick));
  if (!keys) return [head];
  const words = labels(keys.spelling);
  const items = Array.from(keys.logit.data, (logit, at) => ({ name: h("span", {}, word(words[at], { class: "word k" }), ` ${at}`), logit })).filter(({ logit }) => logit !== 0);
  const total = items.reduce((sum, { logit }) => sum + logit, 0);
  const title = t("dla.bykey.of", { head: keys.head });
  return [head, waterfall(few(items), [[t("dla.keys"), total], [t("dla.headpart", { head: keys.head }), heads[now]?.logit ?? total]], { title, caption: title, part: t("dla.key") })];
}

function picker(words, choices, value, choose, can) {
  const select = h("select", { "aria-label": words, onchange: () => choose(select.value === "" ? null : Number(select.value)) },
    ...choices.map(([id, label]) => h("option", { value: id ?? "", disabled: id !== value && !can(id) }, label)));
  select.value = value ?? "";
  return h("label", { class: "picker" }, h("span", { class: "soft", "aria-hidden": "true" }, words), select);
}

/**
 * The panel's content. choose({token, against}) asks anew where can(it); single, setSingle: bars of heads alone;
 * chooseHead({head, kind} or null), canHead: one head by its keys; labels(spelling): the tokens' names.
 */
export function attributionNodes(answer, { wish, choose, can, single, setSingle, ...keyed }) {
  const ids = Array.from(answer.likeliest.ids.data);
  const name = (id, at) => [id, `${answer.words[id]}  ${percent(answer.likeliest.p.data[at])}`];
  const tokens = ids.map(name);
  if (!ids.includes(answer.token)) tokens.push([answer.token, answer.words[answer.token]]);
  const controls = h("div", { class: "controls" }, picker(t("dla.of"), tokens, answer.token, (token) => choose({ ...wish, token }), (token) => can({ ...wish, token })),
    picker(t("dla.against"), [[null, t("dla.nothing")], ...ids.map(name).filter(([id]) => id !== answer.token)], answer.against, (against) => choose({ ...wish, against }), (against) => can({ ...wish, against })),
    tick(t("dla.single"), single, setSingle));
  const asked = h("p", { class: "asked" }, t(answer.predicts === "next" ? "dla.after" : "dla.at"), " ", word(answer.label, { class: "word q" }), `${t("mark.aside", { words: answer.position })}${t("mark.colon")}`, word(answer.words[answer.token], { class: "word v" }),
    answer.against === null ? "" : h("span", {}, " − ", word(answer.words[answer.against], { class: "word k" })), ` = ${number(answer.logit, 4)}`);
  const check = h("p", { class: "facts" }, h("span", { class: "check" }, t("dla.check", { total: number(answer.total, 5), logit: number(answer.logit, 5), difference: number(answer.difference, 2) })),
    answer.frozen.length ? h("span", {}, t("dla.frozen", { what: answer.frozen.map((each) => t(each === "final norm" ? "dla.finalnorm" : "dla.embeddingnorm")).join(t("list.comma")) })) : null,
    answer.cap === null ? null : h("span", {}, t("dla.cap", { factor: number(answer.cap, 4) })));
  const fixed = ids.every((token) => token === answer.token || !can({ ...wish, token })) ? h("p", { class: "note" }, t("dla.others"), " ", t("needs.live")) : "";
  const totals = [[t("dla.total"), answer.total], [t(answer.against === null ? "dla.logit" : "dla.logits"), answer.logit]];
  return [controls, fixed, asked, check, waterfall(itemsOf(answer, single), totals, { title: t("dla.title"), caption: t("dla.caption"), part: t("dla.part") }), ...byKey(answer, keyed)];
}
