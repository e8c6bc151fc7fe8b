// The logit lens: what the model would say if it stopped after each layer; and direct logit attribution: which part
// of the model wrote the logit of one token.

import { announce } from "./a11y.js";
import { attributionNodes } from "./attribution.js";
import { bars } from "./bars.js";
import { chart } from "./chart.js";
import { VIRIDIS_TABLE, inkOn, viridis } from "./colours.js";
import { h, number, onDemand, panel, percent, shorten, show, table, whole, word } from "./dom.js";
import { legend } from "./legend.js";
import { chosen, siteOf, spelling } from "./sites.js";
import { t } from "./i18n.js";

const TOP = 5;
const WINDOW = 40; // columns that are drawn of a long text

const at3 = ({ data, shape }, row, column) => data.subarray((row * shape[1] + column) * shape[2], (row * shape[1] + column + 1) * shape[2]);
const at2 = ({ data, shape }, row, column) => data[row * shape[1] + column];

const rowName = (name) => (name === "embedding" ? t("lens.embedding") : name);

class Lens {
  constructor(app) {
    this.app = app;
    this.grid = h("div", { class: "reserve" });
    this.detail = h("div", { class: "reserve" });
    this.logit = h("div", { class: "reserve" });
    this.wish = { token: null, against: null };
    this.byKey = { head: null, kind: "self" };
    this.single = app.setting("dla.single", false);
  }

  /** The selection counts rows of the decoder; while an encoder is chosen the last position is shown. */
  position() {
    const { app } = this;
    const site = siteOf(app);
    const last = this.labels.length - 1;
    const { query } = app.state.get().selection;
    if (app.about.pair && site?.of === "encoder") return last;
    return query === null || query > last ? last : query;
  }

  row() {
    const row = this.app.setting("lens.row", null);
    const last = this.answer.rows.length - 1;
    return row === null || row > last ? last : row;
  }

  async load() {
    const { app } = this;
    await show(this.grid, app.ask("lens", { top: TOP }), (answer) => {
      this.answer = answer;
      this.labels = spelling(app, answer.side).labels;
      return this.table();
    }, 10);
    if (this.answer) this.refresh();
  }

  // -- the table -------------------------------------------------------------------------------------
  columns() {
    const count = this.labels.length;
    const place = this.position();
    const start = count <= WINDOW ? 0 : Math.max(0, Math.min(count - WINDOW, place - Math.floor(WINDOW / 2)));
    this.start = start;
    return Array.from({ length: Math.min(count, WINDOW) }, (_, at) => start + at);
  }

  cell(row, position) {
    const { answer } = this;
    const id = at3(answer.top_ids, row, position)[0];
    const p = at3(answer.top_p, row, position)[0];
    const final = answer.final.data[position];
    const label = answer.words[id];
    const words = t("lens.cell", { layer: rowName(answer.rows[row]), token: this.labels[position], guess: label, p: percent(p), rank: at2(answer.rank, row, position) });
    return h("td", { class: `lens-cell${id === final ? " same" : ""}`, "data-row": row, "data-column": position, role: "gridcell", tabindex: -1, "aria-label": words, title: words,
      "--colour": viridis(p), "--ink-on": inkOn(VIRIDIS_TABLE[Math.round(255 * p)]) }, h("bdi", {}, shorten(label, 9)));
  }

  table() {
    const { answer, labels } = this;
    const columns = this.columns();
    const next = answer.predicts === "next";
    const heading = (position) => h("th", { scope: "col", role: "columnheader", "data-column": position }, h("bdi", {}, shorten(labels[position], 9)));
    const body = h("tbody", { role: "rowgroup" }, ...answer.rows.map((name, row) => h("tr", { role: "row" }, h("th", { scope: "row", role: "rowheader" }, rowName(name)), ...columns.map((position) => this.cell(row, position)))));
    const came = next ? h("tfoot", { role: "rowgroup" }, h("tr", { role: "row" }, h("th", { scope: "row", role: "rowheader" }, t("lens.came")), ...columns.map((position) => h("td", { role: "gridcell" }, h("bdi", {}, shorten(labels[position + 1] ?? "?", 9)))))) : null;
    const made = h("table", { class: "lens", role: "grid", "aria-label": t("view.lens") }, h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, h("th", { scope: "col", role: "columnheader" }, t(next ? "lens.reads" : "lens.stands")), ...columns.map(heading))), body, came);
    body.addEventListener("click", (event) => this.choose(event.target.closest("td")));
    body.addEventListener("keydown", (event) => this.key(event));
    this.scroll = h("div", { class: "scroll open" }, made);
    const colours = legend({ colours: VIRIDIS_TABLE, top: 1, scale: "linear", shown: { codes: null, signed: false, reasons: [] }, within: 0, renormalised: false });
    const part = columns.length < labels.length ? h("p", { class: "soft" }, t("lens.part", { from: columns[0], to: columns[columns.length - 1], count: whole(labels.length) })) : null;
    const facts = h("p", { class: "facts" }, h("span", {}, t("lens.check", { difference: number(answer.difference, 2) })), h("span", {}, t(answer.final_norm ? "lens.normed" : "lens.unnormed")));
    return [facts, this.scroll, part, h("div", { class: "lens-legend" }, h("span", { class: "soft" }, t("lens.legend")), colours)];
  }

  choose(cell) {
    if (!cell) return;
    const { row, column } = cell.dataset;
    this.app.set("lens.row", Number(row));
    const site = siteOf(this.app);
    const decoder = this.app.about.pair && site?.of === "encoder" ? { of: "decoder", kind: "cross" } : {};
    this.app.select({ ...decoder, query: Number(column) });
  }

  key(event) {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    const cell = event.target.closest("td");
    if (!cell || event.altKey || event.ctrlKey || event.metaKey) return;
    if (!step && event.key !== "Enter") return;
    event.preventDefault();
    if (!step) return this.choose(cell);
    const to = this.find(Number(cell.dataset.row) + step[0], Number(cell.dataset.column) + step[1]);
    if (!to) return;
    this.choose(to);
    const now = this.find(to.dataset.row, to.dataset.column);
    now?.focus();
    announce(now?.getAttribute("aria-label") ?? "");
  }

  find(row, column) {
    return this.scroll.querySelector(`td[data-row="${row}"][data-column="${column}"]`);
  }

  // -- what belongs to the chosen cell -----------------------------------------------------------------
  refresh() {
    const position = this.position();
    const shown = this.columns(); // sets this.start as it would be now
    if (!this.find(0, position) || (this.drawnFrom !== undefined && this.drawnFrom !== this.start && !this.find(0, position))) {
      this.grid.replaceChildren(...this.table().filter(Boolean));
    }
    this.drawnFrom = shown[0];
    const row = this.row();
    for (const cell of this.scroll.querySelectorAll(".chosen")) cell.classList.remove("chosen");
    for (const cell of this.scroll.querySelectorAll("[tabindex='0']")) cell.tabIndex = -1;
    const cell = this.find(row, position);
    cell?.classList.add("chosen");
    if (cell) cell.tabIndex = 0;
    this.scroll.querySelector(`th[data-column="${position}"]`)?.classList.add("chosen");
    this.scroll.scrollLeft = Math.max(0, (cell?.offsetLeft ?? 0) - this.scroll.clientWidth / 2);
    this.detail.replaceChildren(...this.detailNodes(row, position));
    this.loadLogit(position);
  }

  detailNodes(row, position) {
    const { answer } = this;
    const final = answer.final.data[position];
    const ids = at3(answer.top_ids, row, position);
    const items = Array.from(ids, (id, at) => ({ label: answer.words[id], share: at3(answer.top_p, row, position)[at], chosen: id === final, note: id === final ? t("lens.final") : null }));
    const rest = 1 - items.reduce((sum, { share }) => sum + share, 0);
    const settled = answer.settled.data[position];
    const names = answer.rows.map(rowName);
    const column = (array) => names.map((_, layer) => at2(array, layer, position));
    const pick = (at) => this.app.set("lens.row", at);
    const facts = table(t("lens.twin"), [t("word.layer"), t("lens.guess"), "p", t("lens.finalp"), t("word.rank"), "KL"],
      names.map((name, layer) => [name, word(answer.words[at3(answer.top_ids, layer, position)[0]]), percent(at3(answer.top_p, layer, position)[0]), percent(at2(answer.final_p, layer, position)), String(at2(answer.rank, layer, position)), number(at2(answer.kl, layer, position), 3)]), { numbersFrom: 2 });
    return [h("p", { class: "asked" }, t(answer.predicts === "next" ? "lens.asked.next" : "lens.asked.this", { layer: names[row], position }), " ", word(this.labels[position], { class: "word q" })),
      bars(items, { count: this.app.about.vocab_size - items.length, share: Math.max(0, rest) }, { name: t("lens.guess") }),
      h("p", {}, word(answer.words[final], { class: "word v" }), " ", t("lens.settled", { layer: names[settled] })),
      h("div", { class: "two" }, chart(t("lens.rank"), names, column(answer.rank), { show: String, log: true, marked: row, pick }),
        chart(t("lens.kl"), names, column(answer.kl), { show: (value) => number(value, 2), marked: row, pick })),
      onDemand(t("lens.twin"), () => h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("lens.twin") }, facts))];
  }

  loadLogit(position) {
    const { app } = this;
    if (position !== this.logitAt) this.wish = { token: null, against: null };
    this.logitAt = position;
    const params = { position, ...this.wish, ...this.byKey };
    const keyed = (head) => ({ head: head?.head ?? null, kind: head?.kind ?? "self" });
    const options = { wish: this.wish, single: this.single, labels: (name) => spelling(app, name).labels,
      canHead: (head) => app.can("attribution", { ...params, ...keyed(head) }),
      chooseHead: (head) => {
        this.byKey = keyed(head);
        this.loadLogit(position);
      },
      can: (wish) => app.can("attribution", { ...params, ...wish }),
      choose: (wish) => {
        this.wish = wish.token === wish.against ? { ...wish, against: null } : wish;
        this.loadLogit(position);
      },
      setSingle: (on) => {
        this.single = on;
        app.set("dla.single", on);
        this.loadLogit(position);
      } };
    if (JSON.stringify([params, this.single]) === this.logitShown) return;
    this.logitShown = JSON.stringify([params, this.single]);
    const focused = this.logit.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") ?? "tick" : null;
    show(this.logit, app.ask("attribution", params), (answer) => attributionNodes(answer, options), 12).then(() => {
      if (focused) (this.logit.querySelector(`[aria-label="${CSS.escape(focused)}"]`) ?? this.logit.querySelector("input"))?.focus();
    });
  }
}

export const lensView = {
  id: "lens",
  titleKey: "view.lens",
  leadKey: "view.lens.lead",
  group: "detail",
  fits: (about) => about.views.includes("lens") && about.views.includes("attribution"),
  async draw(root, app) {
    const view = new Lens(app);
    root.append(panel(t("lens.title"), t("lens.lead"), view.grid), panel(t("lens.one"), null, view.detail), panel(t("dla.title"), t("dla.lead"), view.logit));
    await view.load();
    return (changed) => {
      if (view.answer && (changed.has("selection") || changed.has("settings"))) view.refresh();
    };
  },
};
