// Gates of an LSTM or a GRU over the sentence: every unit at every token, one unit as lines with its equation in
// numbers, and how long each remembers. An Elman network has no gate: its memory is written anew at every token.

import { lineChart, pen } from "./lines.js";
import { stepper } from "./controls.js";
import { button, choice, failure, h, number, onDemand, panel, percent, show, table, word } from "./dom.js";
import { HeatMap } from "./heatmap.js";
import { meter, scrolling } from "./meters.js";
import { chosen, spelling } from "./sites.js";
import { t } from "./i18n.js";

const SOME = 40; // units of the picture, unless all are asked for
const LONGEST = 12; // units in the list of long memories
const SIGNED = ["candidate", "cell", "hidden"];
const NEVER = 1e8; // tokens: from here on a memory does not fade at all

const partName = (part) => t(`gates.part.${part}`);
const unitName = (unit) => t("gates.unit", { unit });

function lengthWords(tokens) {
  return tokens >= NEVER ? t("gates.never") : number(tokens, tokens < 100 ? 1 : 0);
}

/** Which units are drawn: those that remember longest, some from long to short, or all by their number. */
function choose(order, wish) {
  if (wish === "all") return Array.from(order).sort((a, b) => a - b);
  if (wish === "long" || order.length <= SOME) return Array.from(order.slice(0, SOME));
  return Array.from({ length: SOME }, (_, at) => order[Math.round(at * (order.length - 1) / (SOME - 1))]);
}

/** (T,H) as stored -> rows of units in their order. */
function byUnit(values, order, tokens, units) {
  const out = new Float32Array(order.length * tokens);
  order.forEach((unit, row) => {
    for (let at = 0; at < tokens; at++) out[row * tokens + at] = values[at * units + unit];
  });
  return out;
}

class Gates {
  constructor(app) {
    this.app = app;
    this.labels = spelling(app, "read").labels;
    this.map = new HeatMap({ name: "", onSelect: (row, query) => this.choose({ unit: this.order[row], query }) });
    this.unitPlace = h("div", { class: "reserve" });
    this.lengths = h("div", { class: "reserve" });
    this.facts = h("div");
    this.choices = h("div", { class: "controls" });
  }

  /** One unit and one token, both at once. */
  choose({ unit, query = chosen(this.app).query }) {
    const { selection, settings } = this.app.state.get();
    this.app.state.set({ selection: { ...selection, query }, settings: { ...settings, unit } });
  }

  layer() {
    return this.app.setting("gates.layer", 0);
  }

  part() {
    const wanted = this.app.setting("part", null);
    const parts = Object.keys(this.answer.parts);
    return parts.includes(wanted) ? wanted : parts.find((name) => name === "forget_gate" || name === "update_gate") ?? parts[0];
  }

  unit() {
    const wanted = this.app.setting("unit", null);
    return wanted !== null && wanted < this.answer.units ? wanted : this.answer.order.data[0];
  }

  async load() {
    this.shownLayer = this.layer();
    this.answer = await this.app.ask("gates", { layer: this.layer() });
  }

  element() {
    const { answer } = this;
    const parts = Object.keys(answer.parts).map((name) => [name, partName(name)]);
    this.choices.replaceChildren(...[
      answer.layers > 1 ? stepper(t("word.layer"), this.shownLayer, answer.layers, (to) => this.app.set("gates.layer", to)) : null,
      parts.length > 1 ? choice(t("gates.show"), parts, this.part(), (part) => this.app.set("part", part)) : null,
      choice(t("gates.order"), [["long", t("gates.by.memory")], ["spread", t("gates.by.spread")], ["all", t("gates.by.number", { count: answer.units })]], this.app.setting("gates.order", "long"), (order) => this.app.set("gates.order", order)),
    ].filter(Boolean));
    return [
      panel(t("gates.map", { cell: answer.title }), t(answer.gates.length ? "gates.map.lead" : "gates.map.none"), this.choices, this.map.element, this.facts),
      panel(t("gates.one"), t(answer.gates.length ? "gates.one.lead" : "gates.one.none"), this.unitPlace),
      panel(t("gates.long"), t(`gates.long.${answer.cell}`), this.lengths)];
  }

  drawMap() {
    const { answer, labels } = this;
    const part = this.part();
    this.order = choose(answer.order.data, this.app.setting("gates.order", "long"));
    const names = this.order.map(unitName);
    const kept = this.map.matrix?.queries ?? [];
    const values = byUnit(answer.parts[part].data, this.order, labels.length, answer.units);
    this.map.name = t("gates.map.name", { part: partName(part) });
    this.map.show({ queries: names.every((name, at) => name === kept[at]) ? kept : names, keys: labels, values, codes: null, within: 0, reasons: [],
      queryAxis: t("gates.axis.unit"), keyAxis: t("gates.axis.token"), signed: SIGNED.includes(part), sumless: true, rowTitle: t("gates.row") }, { range: "one" });
    const shares = answer.kept_share.filter((share) => share !== null);
    const mean = shares.reduce((sum, share) => sum + share, 0) / (shares.length || 1);
    this.facts.replaceChildren(h("p", { class: "facts" }, h("span", {}, t("head.difference", { value: number(answer.difference, 2) })),
      answer.gates.length && shares.length ? h("span", {}, t("gates.kept", { share: percent(mean) })) : null));
    this.cursor();
  }

  cursor() {
    const { query } = chosen(this.app);
    const row = this.order.indexOf(this.unit());
    this.map.setCursor(row < 0 ? null : row, query ?? this.labels.length - 1);
  }

  drawUnit() {
    const unit = this.unit();
    const layer = this.layer();
    this.shownUnit = unit;
    show(this.unitPlace, this.app.ask("unit", { layer, unit }), (found) => this.unitNodes(found), 12);
  }

  unitNodes(found) {
    const pick = stepper(t("gates.row"), found.unit, this.answer.units, (unit) => this.choose({ unit }));
    const picked = (at) => this.app.select({ query: at });
    const line = (name, at) => ({ name: partName(name), values: found.parts[name].data, ...pen(at) });
    const x = this.labels.map((_, at) => at);
    const common = { x, labels: this.labels, xTitle: t("word.token"), high: 230, hint: t("gates.hint"), onpick: picked };
    const memories = Object.keys(found.parts).filter((name) => SIGNED.includes(name) && name !== "candidate");
    const { gates } = this.answer;
    this.charts = [gates.length ? lineChart({ ...common, name: t("gates.chart.gates", { unit: found.unit }), series: gates.map(line), low: 0, top: 1 }) : null,
      lineChart({ ...common, name: t("gates.chart.memory", { unit: found.unit }), series: memories.map((name, at) => line(name, at + 3)) })].filter(Boolean);
    this.sum = h("div", { class: "explained" });
    this.found = found;
    this.follow();
    const length = this.answer.memory_lengths.data[found.unit];
    return [h("div", { class: "headline" }, pick, h("p", {}, t("gates.remembers"), " ", h("strong", {}, lengthWords(length)), " ", t("gates.remembers.unit"))),
      ...this.charts.map((chart) => chart.element), this.sum, this.unitTwin(found)];
  }

  unitTwin(found) {
    const parts = Object.keys(found.parts);
    return onDemand(t("map.twin"), () => scrolling(t("gates.one"), table(t("gates.unit", { unit: found.unit }), [t("word.token"), t("gates.before"), ...parts.map(partName)],
      this.labels.map((label, at) => [h("span", {}, `${at} `, word(label)), number(found.before.data[at], 4), ...parts.map((name) => number(found.parts[name].data[at], 4))]))));
  }

  /** The marks of the lines and the equation, at the chosen token. */
  follow() {
    const { found } = this;
    if (!found) return;
    const at = chosen(this.app).query ?? this.labels.length - 1;
    for (const chart of this.charts) chart.mark(at);
    const value = (name) => found.parts[name]?.data[at];
    const figure = (each) => number(each, 3);
    const before = found.before.data[at];
    const lines = { lstm: () => [
      `${partName("cell")} = ${partName("forget_gate")} × ${t("gates.before")} + ${partName("input_gate")} × ${partName("candidate")}`,
      `${figure(value("forget_gate"))} × ${figure(before)} + ${figure(value("input_gate"))} × ${figure(value("candidate"))} = ${figure(value("cell"))}`,
      `${partName("hidden")} = ${partName("output_gate")} × tanh(${partName("cell")}) = ${figure(value("output_gate"))} × tanh(${figure(value("cell"))}) = ${figure(value("hidden"))}`],
    gru: () => [
      `${partName("hidden")} = ${partName("update_gate")} × ${t("gates.before")} + (1 − ${partName("update_gate")}) × ${partName("candidate")}`,
      `${figure(value("update_gate"))} × ${figure(before)} + (1 − ${figure(value("update_gate"))}) × ${figure(value("candidate"))} = ${figure(value("hidden"))}`],
    elman: () => ["h = tanh(W x + U h′ + b)", `h′ = ${figure(before)} → h = ${figure(value("hidden"))}`] }[found.cell]();
    this.sum.replaceChildren(h("h3", {}, t("gates.at"), " ", word(this.labels[at]), ` ${at}`), ...lines.map((words) => h("p", { class: "equation" }, words)));
  }

  drawLengths() {
    const { answer } = this;
    const order = Array.from(answer.order.data);
    const lengths = order.map((unit) => Math.min(answer.memory_lengths.data[unit], NEVER));
    const middle = lengths[Math.floor(lengths.length / 2)];
    const chart = lineChart({ name: t("gates.long"), x: lengths.map((_, at) => at + 1), xTitle: t("gates.rank"), yTitle: t("gates.tokens"), logY: true, digits: 1, high: 220,
      series: [{ name: t("gates.tokens"), values: lengths, ...pen(0) }], hint: t("gates.middle", { value: lengthWords(middle), count: answer.units }), onpick: (at) => this.choose({ unit: order[at] }) });
    const rows = order.slice(0, LONGEST).map((unit) => [button(unitName(unit), () => this.choose({ unit }), { class: "link" }), meter(Math.min(lengths[0], answer.memory_lengths.data[unit]), lengths[0], { digits: 1 })]);
    const all = onDemand(t("gates.every"), () => scrolling(t("gates.every"), table(t("gates.every"), [t("gates.row"), t("gates.tokens")], order.map((unit) => [unitName(unit), lengthWords(answer.memory_lengths.data[unit])]))));
    return this.lengths.replaceChildren(h("div", { class: "two" }, chart.element, scrolling(t("gates.longest"), table(t("gates.longest"), [t("gates.row"), t("gates.tokens")], rows), true)), all);
  }

  async update(changed) {
    if (changed.has("settings") && this.layer() !== this.shownLayer) {
      await this.load();
      this.drawLengths();
      this.shownUnit = null;
    }
    if (changed.has("settings")) this.drawMap();
    if (changed.has("selection")) this.cursor();
    if (this.unit() !== this.shownUnit) this.drawUnit();
    else if (changed.has("selection")) this.follow();
  }
}

export const gatesView = {
  id: "gates",
  titleKey: "view.gates",
  leadKey: "view.gates.lead",
  group: "kind",
  fits: (about) => about.views.includes("gates"),
  async draw(root, app) {
    const view = new Gates(app);
    await view.load();
    root.append(...view.element());
    view.drawMap();
    view.drawUnit();
    view.drawLengths();
    return (changed) => view.update(changed).catch((error) => view.facts.replaceChildren(failure(error)));
  },
};
