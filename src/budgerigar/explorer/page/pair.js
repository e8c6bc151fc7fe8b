// One link between two words in two questions: what every head gives it in the first and in the second. And the
// pair of sentences in which one word far away decides what "it" is (Vaswani et al. 2017's blog; Levesque 2012).

import { button, h, headName, number, panel, show, word } from "./dom.js";
import { meter, scrolling } from "./meters.js";
import { siteOf } from "./sites.js";
import { t } from "./i18n.js";

const SHOWN = 10;

export const TIRED = "The animal didn't cross the street because it was too tired.";
export const WIDE = "The animal didn't cross the street because it was too wide.";

/** The views `links` of both, joined by head and sorted by what differs most. */
export function joined(first, second) {
  const others = new Map(second.links.map((link) => [link.name, link]));
  return first.links.filter(({ name }) => others.has(name))
    .map((link) => ({ ...link, other: others.get(link.name).weight, difference: others.get(link.name).weight - link.weight }))
    .sort((a, b) => Math.abs(b.difference) - Math.abs(a.difference));
}

/** Every head's weight in both; `names`: of the first and of the second, in words. */
export function linkTable(app, rows, names, caption) {
  const top = Math.max(1e-9, ...rows.map(({ difference }) => Math.abs(difference)));
  const open = ({ layer, head }) => {
    app.select({ layer, head });
    app.go("head");
  };
  const line = (link) => h("tr", {}, h("th", { scope: "row" }, button(headName(link.layer, link.head), () => open(link), { class: "link" })),
    h("td", { class: "number" }, number(link.weight, 3)), h("td", { class: "number" }, number(link.other, 3)), h("td", { class: "number" }, meter(link.difference, top, { signed: true })));
  const heads = [t("word.head"), ...names, t("pair.difference")];
  return scrolling(caption, h("table", { class: "moves" }, h("caption", {}, caption),
    h("thead", {}, h("tr", {}, ...heads.map((words, at) => h("th", { scope: "col", class: at ? "number" : null }, at === 1 || at === 2 ? h("bdi", {}, words) : words)))), h("tbody", {}, ...rows.slice(0, SHOWN).map(line))), true);
}

/** Why the rows are equal on a decoder, with the largest difference that there is. */
export function equalWords(rows) {
  const most = Math.max(...rows.map(({ difference }) => Math.abs(difference)));
  return h("p", { class: "note" }, t("pair.decoder", { most: number(most, 3) }));
}

/** The pair as a panel, on whichever model is looked at. */
export function pairPanel(app) {
  const site = siteOf(app);
  const { of, kind } = site;
  const model = { model: app.question.model, ...(app.question.checkpoint ? { checkpoint: app.question.checkpoint } : {}) };
  const place = h("div", { class: "reserve" });
  const questions = [TIRED, WIDE].map((text) => ({ ...model, text }));
  const asked = Promise.all(questions.map((question) => app.ask("links", { query: "it", key: "animal", of, kind, untrained: false }, question)));
  const found = {};
  show(place, asked, ([first, second]) => {
    const rows = joined(first, second);
    Object.assign(found, { layer: rows[0].layer, head: rows[0].head, query: first.query_positions[0], key: first.key_positions[0] });
    return [linkTable(app, rows, [t("pair.tired"), t("pair.wide")], t("pair.caption")), site.causal ? equalWords(rows) : null];
  }, 10);
  const compare = () => app.state.set({ view: "compare", question: questions[0], settings: { ...app.state.get().settings, other: questions[1], "compare.chosen": true },
    selection: { ...app.state.get().selection, ...found } });
  const ends = [[TIRED, "tired"], [WIDE, "wide"]].map(([text, end]) => {
    const at = text.lastIndexOf(end);
    return h("li", {}, text.slice(0, at), word(end, { class: "word v" }), text.slice(at + end.length));
  });
  return panel(t("pair.title"), t("pair.lead"), h("ul", {}, ...ends), place, button(t("pair.open"), compare));
}
