// The keys of the four steps as a table: a row per key, a column per step; every number is a cell that says how it
// came about. One tab stop; arrows move among cells, with Shift inside a strip; Enter chooses the key.

import { h, number, onDemand, shorten, table, whole, word } from "./dom.js";
import { cellFormula, mixed, projected, turnedNumber, weightedNumber } from "./steps_formulas.js";
import { Vector, rowIn, topOf } from "./vector.js";
import { t } from "./i18n.js";

const FEW = 16; // keys shown at first of a long text
const MOST = 32; // … and a text that is shown whole

/** Which keys are shown: all of a short text, else the strongest, the chosen one, and a masked one. */
export function shownKeys({ answer }, chosenKey, all) {
  const keys = [...answer.weights.data.keys()];
  if (all || keys.length <= MOST) return keys;
  const visible = keys.filter((key) => !answer.codes.data[key]).sort((a, b) => answer.weights.data[b] - answer.weights.data[a]);
  const found = new Set(visible.slice(0, FEW));
  const masked = keys.find((key) => answer.codes.data[key]);
  if (masked !== undefined) found.add(masked);
  if (chosenKey !== null) found.add(chosenKey);
  return [...found].sort((a, b) => a - b);
}

/** Moves the one tab stop among the cells of a table. */
function arrows(body, choose) {
  const cells = () => [...body.querySelectorAll("[data-row]")].filter((cell) => !cell.classList.contains("later"));
  const stop = (cell) => {
    body.querySelector("[tabindex='0']")?.setAttribute("tabindex", -1);
    cell?.setAttribute("tabindex", 0);
  };
  body.addEventListener("focusin", (event) => stop(event.target.closest("[data-row]")));
  body.addEventListener("keydown", (event) => {
    const cell = event.target.closest("[data-row]");
    if (!cell || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      return void choose(Number(cell.dataset.key));
    }
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step) return;
    event.preventDefault();
    const row = Number(cell.dataset.row) + step[0];
    const line = cells().filter((each) => Number(each.dataset.row) === (step[0] ? row : Number(cell.dataset.row)));
    const to = step[0] ? line.find((each) => each.dataset.column === cell.dataset.column) : line[line.indexOf(cell) + step[1]];
    to?.focus();
  });
  return () => stop(cells().find((cell) => cell.dataset.column === "weight") ?? cells()[0]);
}

class Keys {
  constructor(context, { chosenKey, choose, tell }) {
    Object.assign(this, { context, chosenKey, choose, tell });
    const { answer } = context;
    this.tops = { k: topOf(answer.k.data), v: topOf(answer.v.data), weighted: topOf(answer.weighted.data) };
  }

  /** A cell with a small strip. */
  vector(kind, key, row, stage) {
    const { answer, parts, labels } = this.context;
    const source = { k: answer.k, v: answer.v, weighted: answer.weighted }[kind];
    const role = kind === "k" ? "k" : "v";
    const formula = (at) => {
      if (kind === "weighted") return weightedNumber(this.context, key, at);
      if (kind === "k" && answer.k_unrotated) return turnedNumber(this.context, "k", at, key);
      return projected(this.context, kind, at, key);
    };
    const strip = new Vector({ name: `${kind} ${key}`, values: rowIn(source, key), role, top: this.tops[kind], quiet: true, columns: source.shape[1],
      onPoint: (at, aloud) => this.tell(at === null ? null : formula(at), aloud) });
    parts.set(`${kind} ${key}`, strip);
    const heading = { k: "k", v: "v", weighted: "w v" }[kind];
    const first = Array.from(rowIn(source, key).slice(0, 4), (value) => number(value, 2)).join(", ");
    return h("td", { class: "cell strip-cell", "data-stage": stage, "data-row": row, "data-key": key, "data-column": kind, tabindex: -1, role: "gridcell",
      "aria-label": `${heading} ${labels[key]}${t("mark.colon")}${first}, …`, onfocus: () => this.tell(formula(strip.at ?? 0), false), onblur: () => strip.point(null),
      onkeydown: (event) => event.shiftKey && strip.key(event) }, strip.element);
  }

  figure(column, key, row) {
    const { answer, parts, reasons } = this.context;
    const code = answer.codes.data[key];
    const hidden = code && (column.id === "masked" || column.id === "weight");
    const value = column.values[key];
    const words = hidden ? (column.id === "masked" ? "−∞" : "0") : number(value, 3);
    const weight = column.id === "weight";
    const tell = (aloud) => this.tell(cellFormula(this.context, column.id, key), aloud);
    const cell = h("td", { class: `cell number${hidden ? " hidden-key" : ""}${weight ? " weight" : ""}`, "--share": weight ? value : null, "data-stage": column.stage, "data-row": row, "data-key": key,
      "data-column": column.id, tabindex: -1, role: "gridcell", title: hidden ? reasons[code] : null, onfocus: () => tell(true), onpointerenter: () => tell(false) }, words);
    parts.set(`${column.id} ${key}`, cell);
    return cell;
  }

  row(key, row) {
    const { columns, labels, answer } = this.context;
    const line = h("tr", { role: "row", class: key === this.chosenKey ? "chosen" : null, "data-at": key, onclick: () => this.choose(key) },
      h("th", { scope: "row", role: "rowheader" }, word(shorten(labels[key], 14), { class: "word k", title: labels[key] }), h("span", { class: "soft" }, ` ${key}`)),
      this.vector("k", key, row, "vectors"), ...columns.map((column) => this.figure(column, key, row)),
      this.vector("v", key, row, "vectors"), this.vector("weighted", key, row, "values"));
    if (answer.codes.data[key]) line.classList.add("masked-row");
    return line;
  }

  head() {
    const { columns } = this.context;
    const heading = (stage, words, role = "") => h("th", { scope: "col", role: "columnheader", class: role || "number", "data-stage": stage }, words);
    return h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, h("th", { scope: "col", role: "columnheader" }, t("steps.key")), heading("vectors", "k", "k"),
      ...columns.map(({ stage, heading: words }) => heading(stage, words)), heading("vectors", "v", "v"), heading("values", "w v", "v")));
  }

  /** What is not shown, the sink, and the sums. */
  foot(keys, output) {
    const { answer, columns } = this.context;
    const shown = new Set(keys);
    const rest = [...answer.weights.data.keys()].filter((key) => !shown.has(key));
    const line = (name, score, weight, kind = "") => h("tr", { role: "row", class: kind }, h("th", { scope: "row", role: "rowheader" }, name), h("td", { role: "gridcell", "data-stage": "vectors" }),
      ...columns.map(({ id, stage }) => h("td", { class: "number", role: "gridcell", "data-stage": stage }, id === "weight" ? weight : id === "masked" ? score : "")),
      h("td", { role: "gridcell", "data-stage": "vectors" }), h("td", { role: "gridcell", "data-stage": "values" }, kind === "sum" ? output : ""));
    const total = answer.weights.data.reduce((all, value) => all + value, 0);
    const lines = [];
    if (rest.length) lines.push(line(t("steps.others", { count: whole(rest.length) }), "", number(rest.reduce((all, key) => all + answer.weights.data[key], 0), 3), "rest"));
    if (answer.sink) lines.push(line(t("steps.sink"), number(answer.sink.logit, 3), number(sinkWeight(answer), 3), "rest"));
    lines.push(line(t("steps.sum"), "", number(total + (answer.sink ? sinkWeight(answer) : 0), 6), "sum"));
    return h("tfoot", { role: "rowgroup" }, ...lines);
  }
}

/** A learned sink's share: a number, or an array of one. */
function sinkWeight({ sink }) {
  return sink.weight.data ? sink.weight.data[0] : sink.weight;
}

/**
 * {element, keys}: the table for some keys. options: chosenKey, choose(key), tell(formula, aloud).
 */
export function keysTable(context, keys, options) {
  const made = new Keys(context, options);
  const { answer, parts } = context;
  const output = new Vector({ name: "z", values: answer.head_output.data, role: "v", columns: answer.head_output.shape[0], top: made.tops.weighted, quiet: true,
    onPoint: (at, aloud) => options.tell(at === null ? null : mixed(context, at), aloud) });
  parts.set("z sum", output);
  const body = h("tbody", { role: "rowgroup" }, ...keys.map((key, row) => made.row(key, row)));
  const restore = arrows(body, options.choose);
  restore();
  const grid = h("table", { class: "keys", role: "grid", "aria-label": t("steps.table") }, made.head(), body, made.foot(keys, output.element));
  return { element: h("div", { class: "scroll open" }, grid), restore };
}

/** All vectors as numbers, for those who want them. */
export function vectorsTwin(context) {
  const { answer, labels } = context;
  const numbers = (data) => Array.from(data, (value) => number(value, 4)).join("  ");
  const named = [["x", answer.before.vector], ["x̂", answer.normed], [answer.q_unrotated ? "u" : null, answer.q_unrotated], ["q", answer.q], ["z", answer.head_output], ["o", answer.contribution],
    ["a", answer.all_heads], ["x′", answer.after?.vector]];
  return onDemand(t("steps.twin"), () => h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("steps.twin") },
    table(t("steps.twin"), [t("steps.vector"), t("steps.numbers")], [...named.filter(([name, part]) => name && part).map(([name, part]) => [name, numbers(part.data)]),
      ...labels.flatMap((label, key) => [[h("span", {}, "k ", word(label), ` ${key}`), numbers(rowIn(answer.k, key))], [h("span", {}, "v ", word(label), ` ${key}`), numbers(rowIn(answer.v, key))]])],
    { numbersFrom: 9 })));
}
