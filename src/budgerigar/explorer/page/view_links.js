// Links: click two words; every head ranked by the weight between them, beside what distance and an untrained
// copy of the model give.

import { button, h, number, panel, show, tick, word } from "./dom.js";
import { chosen, siteOf, siteParams, spelling } from "./sites.js";
import { t } from "./i18n.js";

const FEW = 16;
const MOST_LAYERS = 12; // of a model that is asked for a pair to begin with

function mark(name, value) {
  return value === null ? null : h("span", { class: `mark ${name}`, "--share": Math.min(1, value) });
}

function figure(value) {
  return value === null ? "–" : number(value, 3);
}

function line(app, link) {
  const open = () => {
    app.select({ layer: link.layer, head: link.head });
    app.go("head");
  };
  const track = h("span", { class: "track", "aria-hidden": "true" }, h("span", { class: "fill", "--share": Math.min(1, link.weight) }),
    mark("distance", link.distance), mark("untrained", link.untrained), mark("uniform", link.uniform));
  return h("tr", {}, h("th", { scope: "row" }, button(link.name, open, { class: "link" })), h("td", { class: "wide" }, track),
    h("td", { class: "number strong" }, number(link.weight, 3)), h("td", { class: "number" }, figure(link.distance)), h("td", { class: "number" }, figure(link.untrained)),
    h("td", { class: "number" }, number(link.uniform, 3)), h("td", { class: "number" }, String(link.rank)));
}

/** A word and where it stands. */
function named(app, side, places) {
  const where = places.length > 1 ? t("links.positions", { from: places[0], to: places.at(-1) }) : t("links.position", { position: places[0] });
  return t("links.named", { word: places.map((at) => spelling(app, side).labels[at]).join(""), where });
}

function ranking(app, answer, all) {
  const shown = all ? answer.links : answer.links.slice(0, FEW);
  const heading = (words, mark) => h("th", { scope: "col", class: "number" }, mark ? h("span", { class: `key-mark ${mark}`, "aria-hidden": "true" }) : null, words);
  const body = h("table", { class: "ranking" },
    h("caption", {}, t("links.caption", { query: named(app, answer.queries, answer.query_positions), key: named(app, answer.keys, answer.key_positions) })),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, t("word.head")), h("td", {}), heading(t("links.weight"), "weight"), heading(t("links.distance"), "distance"),
      heading(t("links.untrained"), "untrained"), heading(t("links.uniform"), "uniform"), heading(t("word.rank")))),
    h("tbody", {}, ...shown.map((link) => line(app, link))));
  return h("div", { class: "scroll open", tabindex: 0, role: "region", "aria-label": t("links.title") }, body);
}

/** A decoder's token does not see what comes later: the other way round it does. */
function laterNodes(app, query, key) {
  const name = (at) => named(app, siteOf(app).queries, [at]);
  return [h("p", { class: "note" }, t("links.later", { query: name(query), key: name(key) })),
    button(t("links.turn"), () => app.select({ query: key, key: query }))];
}

function answerNodes(app, answer, place) {
  const all = app.setting("links.all", false);
  const more = answer.links.length - FEW;
  return [ranking(app, answer, all),
    more > 0 ? button(all ? t("links.fewer") : t("links.more", { count: more }), () => {
      app.set("links.all", !all);
      place.replaceChildren(...answerNodes(app, answer, place));
    }, { class: "plain" }) : null,
    h("p", { class: "soft" }, t("links.explained"))].filter(Boolean);
}

/** Two words that a head connects strongly and that do not stand side by side; null where no head was measured. */
async function tellingPair(app) {
  const site = siteOf(app);
  const asked = Array.from({ length: site.layers }, (_, layer) => ({ layer, ...siteParams(app) }));
  if (site.layers > MOST_LAYERS || !asked.every((params) => app.can("grid", params))) return null;
  const grids = await Promise.all(asked.map((params) => app.ask("grid", params)));
  const found = grids.flatMap(({ layers: [{ link }] }) => Array.from(link.weight.data, (weight, head) => ({ weight, query: link.query.data[head], key: link.key.data[head] })))
    .filter(({ weight, query, key }) => weight > 0 && (site.kind === "cross" || query !== key)).sort((a, b) => b.weight - a.weight);
  return found.find(({ query, key }) => site.kind === "cross" || Math.abs(query - key) > 1) ?? found[0] ?? null;
}

/** Where nothing is chosen yet. What the reader chooses meanwhile stays. */
async function chooseFirst(app) {
  const nothing = () => app.state.get().selection.query === null && app.state.get().selection.key === null;
  if (!nothing()) return;
  try {
    const pair = await tellingPair(app);
    if (pair && nothing() && app.state.get().view === "links") app.select({ query: pair.query, key: pair.key });
  } catch {
    // then the reader chooses
  }
}

export const linksView = {
  id: "links",
  titleKey: "view.links",
  leadKey: "view.links.lead",
  group: "overview",
  fits: (about) => about.views.includes("links"),
  async draw(root, app) {
    const asked = h("p", { class: "pair-asked" });
    const place = h("div", { class: "reserve" });
    root.append(panel(t("links.title"), null, asked, tick(t("links.compare"), app.setting("untrained", true), (on) => app.set("untrained", on)), place));
    const refresh = async () => {
      const site = siteOf(app);
      const { query, key } = chosen(app);
      const name = (role, side, at) => (at === null ? h("em", { class: role }, t(role === "q" ? "links.choose.query" : "links.choose.key")) : word(`${spelling(app, side).labels[at]}`, { class: `word ${role}` }));
      asked.replaceChildren(t("links.how"), t("mark.gap"), name("q", site.queries, query), t("mark.gap"), t("links.looks"), t("mark.gap"), name("k", site.keys, key), t("mark.question"));
      if (query === null || key === null) return place.replaceChildren(h("p", { class: "note" }, t("links.choose")));
      if (site.kind === "self" && site.causal && key > query) return place.replaceChildren(...laterNodes(app, query, key));
      const params = { query, key, ...siteParams(app), untrained: app.setting("untrained", true) };
      return show(place, app.ask("links", params), (answer) => answerNodes(app, answer, place), 8);
    };
    await refresh();
    chooseFirst(app);
    let last = "";
    return (changed) => {
      if (!changed.has("selection") && !changed.has("settings")) return;
      const { query, key } = chosen(app);
      const now = `${query} ${key} ${app.setting("untrained", true)}`;
      if (now !== last) refresh();
      last = now;
    };
  },
};
