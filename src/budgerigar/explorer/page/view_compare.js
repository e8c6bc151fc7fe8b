// Two sentences, or one sentence in two models: what each head does otherwise in the second, as a map of
// differences, and the link that is chosen in every head of both.

import { button, failure, h, headName, number, panel, show, word } from "./dom.js";
import { HeatMap } from "./heatmap.js";
import { TIRED, WIDE, equalWords, joined, linkTable } from "./pair.js";
import { axes, chosen, siteOf, siteParams } from "./sites.js";
import { t } from "./i18n.js";
import { canonical } from "./source.js";

const MOST = 24; // heads in the list

function nameOf([first, second]) {
  return first === second ? first : `${first}/${second}`;
}

/** The second question as it is asked for: complete, or null. */
function otherOf(app) {
  const asked = app.setting("other", null);
  const given = app.source.live || recordedOthers(app).some((each) => canonical(each) === canonical(asked)) ? asked : null;
  const pair = app.about.pair;
  if (given && (pair ? given.source !== undefined : given.text !== undefined) && app.models.some(({ id }) => id === given.model)) return given;
  if (app.question.text === TIRED) return { model: app.question.model, text: WIDE };
  return recordedOthers(app)[0] ?? null;
}

/** Of a file: the second questions that were recorded for this one and this kind of attention. */
function recordedOthers(app) {
  const { of, kind } = siteOf(app);
  const asked = app.source.asked(app.question, "compare") ?? [];
  return asked.filter((given) => given.of === of && given.kind === kind).map(({ other }) => other);
}

/** Of a file: choose among those. */
function recordedForm(app) {
  const kept = recordedOthers(app);
  const note = h("p", { class: "note" }, t("compare.others"), " ", t("needs.live"));
  if (!kept.length) return note;
  const now = JSON.stringify(otherOf(app));
  const select = h("select", { id: "other-kept", onchange: () => app.set("other", kept[select.value]) }, ...kept.map(({ model, text, source }, at) => h("option", { value: at }, `${model} · ${text ?? source}`)));
  select.value = kept.findIndex((each) => JSON.stringify(each) === now);
  return h("div", { class: "ask-other" }, h("div", { class: "field" }, h("label", { for: "other-kept" }, t("compare.kept")), select), note);
}

/** Two texts of words that the model knows, as the question and the second one; the button names where they differ. */
function exampleButton(app) {
  const { model } = app.question;
  const [first, second] = app.models.find(({ id }) => id === model)?.examples ?? [TIRED, WIDE];
  const [told, other] = [[first, second], [second, first]].map(([text, beside]) => differing(text, beside));
  return button(t("compare.example", { first: told, second: other }), () => app.state.set({ question: { model, text: first }, settings: { ...app.state.get().settings, other: { model, text: second } } }), { title: `“${first}”\n“${second}”` });
}

/** The words of a text that another one lacks; the text where there are none. */
function differing(text, beside) {
  const words = text.split(" ");
  const others = new Set(beside.split(" "));
  const apart = [...words.keys()].filter((at) => !others.has(words[at]));
  return apart.map((at) => words[at].replace(/[.。]$/u, "")).join(" ") || text;
}

function form(app) {
  const now = otherOf(app) ?? { ...app.question };
  const models = app.models.filter(({ views, kind }) => views?.includes("compare") && /encoder-decoder/.test(kind) === Boolean(app.about.pair));
  const select = h("select", { id: "other-model" }, ...models.map(({ id }) => h("option", { value: id }, id)));
  select.value = now.model;
  const field = (name, words, value) => h("div", { class: "field" }, h("label", { for: `other-${name}` }, words), Object.assign(h("textarea", { id: `other-${name}`, rows: 2, dir: "auto", spellcheck: "false",
    onkeydown: (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      ask();
    } }), { value: value ?? "" }));
  const fields = app.about.pair ? [field("source", t("compare.source"), now.source), field("target", t("ask.target"), typeof now.target === "string" ? now.target : "")] : [field("text", t("compare.text"), now.text ?? app.reading.text)];
  const value = (name) => body.querySelector(`#other-${name}`).value;
  const ask = () => app.set("other", app.about.pair ? { model: select.value, source: value("source"), target: value("target").trim() ? value("target") : null } : { model: select.value, text: value("text") });
  const example = app.about.pair ? null : exampleButton(app);
  const body = h("div", { class: "ask-other" }, h("div", { class: "field model" }, h("label", { for: "other-model" }, t("compare.model")), select), ...fields, button(t("compare.ask"), ask, { class: "primary" }), example);
  return body;
}

class Compare {
  constructor(app, other) {
    Object.assign(this, { app, other });
    this.map = new HeatMap({ name: "", onSelect: (row, column) => this.pick(row, column) });
    this.heads = h("div");
    this.note = h("div");
    this.link = h("div");
    this.maps = {};
  }

  async load() {
    this.answer = await this.app.ask("compare", { other: this.other, ...siteParams(this.app), head: null, units: null });
    Object.assign(this.maps, this.answer.maps);
    this.ranked = [...this.answer.heads].sort((a, b) => b.moved - a.moved);
  }

  head() {
    const { layer, head } = chosen(this.app);
    return headName(layer, head);
  }

  /** The head of the selection; until one is chosen here, the one that moved most. */
  shown() {
    return this.app.setting("compare.chosen", false) ? this.answer.heads.find(({ name }) => name === this.head()) ?? this.ranked[0] : this.ranked[0];
  }

  choose({ layer, head }) {
    const { selection, settings } = this.app.state.get();
    this.app.state.set({ selection: { ...selection, layer, head }, settings: { ...settings, "compare.chosen": true } });
  }

  drawHeads() {
    const now = this.shown().name;
    const top = this.ranked[0].moved;
    const had = this.heads.contains(document.activeElement) && document.activeElement.dataset.name;
    this.heads.replaceChildren(h("div", { class: "moved", role: "group", "aria-label": t("compare.heads") }, ...this.ranked.slice(0, MOST).map((each) =>
      button(h("span", {}, each.name), () => this.choose(each), { "data-name": each.name, "aria-pressed": String(each.name === now), "aria-label": `${each.name}${t("mark.comma")}${t("compare.moved", { value: number(each.moved, 3) })}`, title: t("compare.moved", { value: number(each.moved, 3) }) }))));
    this.heads.querySelectorAll("button").forEach((each, at) => each.append(h("span", { class: "track", "aria-hidden": "true" }, h("span", { class: "fill", "--share": top ? this.ranked[at].moved / top : 0 })), h("span", { class: "soft" }, number(this.ranked[at].moved, 3))));
    if (had) this.heads.querySelector(`[data-name="${had}"]`)?.focus();
  }

  async drawMap() {
    const { answer, app } = this;
    const head = this.shown();
    const name = head.name;
    this.drawn = name;
    if (!this.maps[name]) Object.assign(this.maps, (await app.ask("compare", { other: this.other, ...siteParams(app), head: name, units: null })).maps);
    if (this.drawn !== name) return;
    this.map.name = t("compare.map", { head: name });
    const words = axes(siteOf(app));
    this.queries ??= answer.rows.map(nameOf);
    this.keys ??= answer.columns.map(nameOf);
    this.map.show({ queries: this.queries, keys: this.keys, values: this.maps[name].data, codes: answer.hidden.data.some(Boolean) ? answer.hidden.data : null, reasons: ["", t("compare.hidden"), t("compare.hidden.once")],
      queryAxis: words.rows, keyAxis: words.columns, signed: true, within: 0 }, { range: "own" });
    this.cursor(head);
    this.explain();
  }

  /** Tokens of both in the same place: [in the first, in the second]. */
  places(list, at) {
    return [list.data[2 * at], list.data[2 * at + 1]];
  }

  pick(row, column) {
    if (this.answer.units === "words") return this.map.setCursor(row, column);
    return this.app.select({ query: this.places(this.answer.row_places, row)[0], key: this.places(this.answer.column_places, column)[0] });
  }

  at() {
    const { query, key } = chosen(this.app);
    const find = (list, count, place) => (place === null ? -1 : Array.from({ length: count }, (_, at) => at).findIndex((at) => list.data[2 * at] === place));
    const [row, column] = [find(this.answer.row_places, this.answer.rows.length, query), find(this.answer.column_places, this.answer.columns.length, key)];
    return row < 0 || column < 0 || this.answer.units === "words" ? null : [row, column];
  }

  cursor(head = this.shown()) {
    const [row, column] = this.at() ?? head.largest;
    this.map.setCursor(row, column);
    this.drawLink(row, column);
  }

  /** The link under the cursor in every head of both. */
  drawLink(row, column) {
    const { answer, app, other } = this;
    if (answer.units === "words") return this.link.replaceChildren(h("p", { class: "note" }, t("compare.words")));
    const key = `${row} ${column}`;
    if (this.linked === key) return undefined;
    this.linked = key;
    const [queries, keys] = [this.places(answer.row_places, row), this.places(answer.column_places, column)];
    const ask = (at, question) => app.ask("links", { query: queries[at], key: keys[at], ...siteParams(app), untrained: false }, question);
    return show(this.link, Promise.all([ask(0, app.question), ask(1, other)]), ([first, second]) => [
      h("p", {}, word(nameOf(answer.rows[row]), { class: "word q" }), " → ", word(nameOf(answer.columns[column]), { class: "word k" })),
      linkTable(app, joined(first, second), [t("compare.first"), t("compare.second")], t("compare.link"))], 8);
  }

  /** How many rows stand before the first difference: a word that is another one, or one without a counterpart. -1: all. */
  alike() {
    const { rows, row_places: places, lone_rows: lone } = this.answer;
    const found = rows.findIndex(([first, second], at) => first !== second || places.data[2 * at] !== at || places.data[2 * at + 1] !== at);
    return found < 0 && lone.flat().length ? rows.length : found;
  }

  /** The words that stand in no map, for the other text has nothing in their place. */
  loneNodes() {
    const { lone_rows: rows, lone_columns: columns } = this.answer;
    const named = (lists) => lists.map((names, at) => (names.length ? h("span", {}, t(at ? "compare.lone.second" : "compare.lone.first"), " ", ...names.slice(0, MOST).flatMap((name) => [word(name), " "]), names.length > MOST ? "… " : "") : null)).filter(Boolean);
    const lists = JSON.stringify(rows) === JSON.stringify(columns) || !rows.flat().length ? [columns] : [rows, columns];
    return lists.filter((each) => each.flat().length).map((each) => h("p", { class: "note lone" }, t("compare.lone"), " ", ...named(each)));
  }

  /** On a decoder: rows before the first difference are equal, and why. */
  explain() {
    const { answer } = this;
    const differs = this.alike();
    const site = siteOf(this.app);
    if (this.other.model !== this.app.question.model || differs < 1) return this.note.replaceChildren();
    const wide = answer.columns.length;
    const values = this.maps[this.drawn].data.subarray(0, differs * wide);
    const most = values.reduce((best, value) => Math.max(best, Math.abs(value)), 0);
    if (site.causal) return this.note.replaceChildren(equalWords([{ difference: most }]));
    if (site.of !== "encoder") return this.note.replaceChildren(); // what is predicted after another source differs everywhere
    return this.note.replaceChildren(h("p", { class: "note" }, t("compare.both", { most: number(most, 3), token: answer.rows[differs - 1][0] })));
  }

  update(changed) {
    if (!changed.has("selection") && !changed.has("settings")) return;
    if (this.shown().name !== this.drawn) {
      this.drawHeads();
      this.drawMap().catch((error) => this.note.replaceChildren(failure(error)));
    } else if (changed.has("selection")) this.cursor();
  }
}

export const compareView = {
  id: "compare",
  titleKey: "view.compare",
  leadKey: "view.compare.lead",
  group: "change",
  fits: (about) => about.views.includes("compare"),
  async draw(root, app) {
    const place = h("div", { class: "reserve stacked" });
    root.append(panel(t("compare.title"), t("compare.lead"), app.source.live ? form(app) : recordedForm(app)), panel(t("compare.result"), t("compare.result.lead"), place));
    let view = null;
    let asked = "";
    const draw = async () => {
      const other = otherOf(app);
      asked = JSON.stringify(other);
      view = null;
      if (!other) return place.replaceChildren(h("p", { class: "note" }, t("compare.none")));
      const fresh = new Compare(app, other);
      await show(place, fresh.load(), () => {
        view = fresh;
        const alone = fresh.answer.alone.length ? h("p", { class: "soft" }, t("compare.alone", { heads: fresh.answer.alone.slice(0, 12).join(t("list.comma")) })) : null;
        return [h("h3", {}, t("compare.heads")), fresh.heads, alone, ...fresh.loneNodes(), fresh.map.element, fresh.note, h("h3", {}, t("compare.every")), fresh.link];
      }, 10);
      if (view) {
        view.drawHeads();
        await view.drawMap();
      }
      return undefined;
    };
    await draw();
    return (changed) => (JSON.stringify(otherOf(app)) !== asked ? draw() : view?.update(changed));
  },
};
