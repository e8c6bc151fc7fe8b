// One layer at one position: the residual stream through attention and feed-forward, what each part adds to it, the
// feed-forward's strongest units, and the layer without its residual connection.

import { bars } from "./bars.js";
import { layerBar } from "./controls.js";
import { choice, h, number, panel, show, table, tick, whole, word } from "./dom.js";
import { FormulaBox, inside } from "./formula.js";
import { chosen, siteOf, spelling } from "./sites.js";
import { Vector, rowIn, topOf } from "./vector.js";
import { t } from "./i18n.js";

const UNITS = 12;
const WORDS = 5;

const PARTS = { "self-attention": "block.self", "cross-attention": "block.cross", "feed-forward": "block.forward" };

function partName(name) {
  return PARTS[name] ? t(PARTS[name]) : name;
}

/** "after self-attention's norm" as {kind: "norm", part: "self-attention"}. */
function parsed(name) {
  if (name === "input") return { kind: "input" };
  const found = /^(plus|after) (self-attention|cross-attention|feed-forward)('s norm)?$/.exec(name);
  return found ? { kind: found[3] ? "norm" : "sum", part: found[2] } : { kind: "both" };
}

function stageTitle(stage, layer) {
  const { kind, part } = parsed(stage.name);
  if (kind === "input") return t("block.input", { layer });
  if (kind === "norm") return t("block.normed");
  return kind === "both" ? t("block.after.both") : t("block.after", { part: partName(part) });
}

/** A bar around 0 for a number from -1 to 1. */
function signedMeter(value) {
  return h("span", { class: "signed-meter", "aria-hidden": "true" }, h("span", { class: value < 0 ? "below" : "above", "--share": Math.abs(value) }));
}

let landing = null; // the card that a page of the lesson opens this view for

/** Show this card when the view is drawn next: "residual", the layer without its residual connection. */
export function landOn(part) {
  landing = part;
}

/** Go to it: its control has the focus. */
function land(root, cards) {
  const card = root.isConnected ? cards[landing] : null;
  if (root.isConnected) landing = null;
  card?.scrollIntoView({ block: "start" });
  card?.querySelector("input")?.focus({ preventScroll: true });
}

class Block {
  constructor(app) {
    this.app = app;
    this.bar = layerBar(app);
    this.place = h("div", { class: "reserve" });
    this.units = h("div", { class: "reserve" });
    this.without = h("div");
    this.box = new FormulaBox(t("block.hint"));
    this.off = app.setting("block.without", false);
  }

  params(without = false) {
    const { layer, query } = chosen(this.app);
    const site = siteOf(this.app);
    const last = spelling(this.app, site.queries).labels.length - 1;
    return { layer, position: query ?? last, of: site.of, units: UNITS, words: WORDS, without };
  }

  async load() {
    const params = this.params();
    this.key = JSON.stringify(params);
    this.bar.refresh();
    const asked = this.app.ask("block", params);
    this.loadWithout();
    await Promise.all([show(this.place, asked, (answer) => this.flow(answer), 10), show(this.units, asked, (answer) => this.unitNodes(answer), 8)]);
  }

  // -- the stream ------------------------------------------------------------------------------------
  flow(answer) {
    const { stages, added } = answer;
    this.box.clear();
    const top = topOf(answer.vectors.data, answer.added_vectors.data);
    const most = Math.max(...stages.map(({ length }) => length), ...added.map(({ length }) => length));
    const one = this.app.setting("block.scale", "own") === "one";
    const strips = { stages: [], added: [] };
    const strip = (kind, at, name, values) => {
      const made = new Vector({ name, values, top: one ? top : null, role: kind === "added" ? "adds" : "", onPoint: (i, aloud) => (i === null ? null : this.box.show(this.formula(answer, strips, kind, at, i), aloud)) });
      strips[kind][at] = made;
      return h("div", { class: "flow-strip" }, made.element, one ? null : h("span", { class: "soft" }, t("block.darkest", { value: number(topOf(values), 2) })));
    };
    const lines = [];
    stages.forEach((stage, at) => {
      const { kind, part } = parsed(stage.name);
      const here = kind === "both" ? [...added.keys()] : kind === "sum" ? [added.findIndex(({ name }) => name === part)] : [];
      for (const each of here) lines.push(this.addedLine(answer, added[each], strip("added", each, partName(added[each].name), rowIn(answer.added_vectors, each)), most));
      lines.push(this.stageLine(answer, stage, strip("stages", at, stageTitle(stage, answer.layer), rowIn(answer.vectors, at)), most));
    });
    const where = h("p", { class: "asked" }, word(answer.label, { class: "word q" }), t("mark.gap"), t("block.asked", { position: answer.position, layer: answer.layer }));
    return [where, h("p", { class: "soft" }, t(`block.place.${answer.place}`), answer.parallel ? ` ${t("block.parallel")}` : "", answer.residual ? "" : ` ${t("block.none")}`),
      this.scaleNodes(top, one), h("ol", { class: "flow" }, ...lines), this.twin(answer)];
  }

  /** Colours of each strip by itself: one long vector among short ones would leave these blank. Or all alike. */
  scaleNodes(top, one) {
    const scale = choice(t("controls.scale"), [["own", t("block.scale.own")], ["one", t("block.scale.one")]], one ? "one" : "own", (value) => {
      this.app.set("block.scale", value);
      this.load();
    });
    return h("div", { class: "controls" }, scale, one ? h("span", { class: "soft" }, t("block.darkest", { value: number(top, 2) })) : null);
  }

  stageLine(answer, stage, strip, most) {
    const { kind } = parsed(stage.name);
    return h("li", { class: `flow-line stage-${kind}` }, h("span", { class: "flow-name" }, stageTitle(stage, answer.layer)), strip,
      h("span", { class: "flow-figures" }, h("span", { class: "track" }, h("span", { class: "fill", "--share": stage.length / most })), h("span", {}, t("block.length", { length: number(stage.length, 2) })),
        signedMeter(stage.cosine), h("span", {}, t("block.cosine", { value: number(stage.cosine, 3) }))));
  }

  addedLine(answer, added, strip, most) {
    const share = added.before ? added.length / added.before : 0;
    return h("li", { class: "flow-line flow-added" }, h("span", { class: "flow-name" }, answer.residual ? "+ " : "= ", partName(added.name)), strip,
      h("span", { class: "flow-figures" }, h("span", { class: "track" }, h("span", { class: "fill", "--share": added.length / most })), h("span", {}, t("block.share", { length: number(added.length, 2), share: number(share, 2) })),
        signedMeter(added.cosine), h("span", {}, t(added.along < 0 ? "block.against" : "block.along", { along: number(Math.abs(added.along), 2), cosine: number(added.cosine, 3) }))));
  }

  /** One number of a stage: what stood there plus what was added. */
  formula(answer, strips, kind, at, i) {
    if (kind === "added") {
      return { title: [partName(answer.added[at].name), t("formula.number", { at: i })], equation: `${number(rowIn(answer.added_vectors, at)[i])}`, note: t("block.adds"), sources: [] };
    }
    const stage = answer.stages[at];
    const title = [stageTitle(stage, answer.layer), t("formula.number", { at: i })];
    const value = rowIn(answer.vectors, at)[i];
    const { kind: what, part } = parsed(stage.name);
    if (what === "input") return { title, equation: `x[${i}] = ${number(value)}` };
    const before = rowIn(answer.vectors, at - 1)[i];
    if (what === "norm") return { title, equation: `norm: ${number(before)} → ${number(value)}`, note: t("block.norm.note"), sources: [[strips.stages[at - 1], "all"]] };
    const parts = what === "both" ? [...answer.added.keys()] : [answer.added.findIndex(({ name }) => name === part)];
    const terms = [...(answer.residual ? [inside(before)] : []), ...parts.map((each) => inside(rowIn(answer.added_vectors, each)[i]))];
    return { title, equation: answer.residual ? `x′[${i}] = x[${i}] + …` : `x′[${i}] = …`, numbers: `= ${terms.join(" + ")} = ${number(value)}`,
      sources: [...(answer.residual ? [[strips.stages[at - 1], "one", i]] : []), ...parts.map((each) => [strips.added[each], "one", i])] };
  }

  twin(answer) {
    const rows = answer.stages.map((stage) => [stageTitle(stage, answer.layer), number(stage.length, 3), number(stage.cosine, 4), "", ""]);
    const added = answer.added.map((each) => [`+ ${partName(each.name)}`, number(each.length, 3), number(each.cosine, 4), number(each.along, 3), number(each.before, 3)]);
    return h("details", { class: "twin" }, h("summary", {}, t("block.twin")), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("block.twin") },
      table(t("block.twin"), [t("block.part"), t("block.col.length"), t("block.col.cosine"), t("block.col.along"), t("block.col.before")], [...rows, ...added])));
  }

  // -- units -----------------------------------------------------------------------------------------
  unitNodes(answer) {
    const named = ({ ids, logit }) => h("span", { class: "pushes" }, ...Array.from(ids.data, (id, at) => h("span", { class: "pair" }, word(answer.words[id]), ` ${number(logit.data[at], 2)}`)));
    const most = Math.max(...answer.units.map(({ length }) => length), 1e-9);
    const reads = answer.units.some(({ up }) => up.ids.data.length);
    const columns = [t("block.unit"), t("block.value"), t("block.writes"), ...(reads ? [t("block.up"), t("block.down")] : [])];
    const rows = answer.units.map((unit) => [h("span", {}, `${unit.number}`), number(unit.value, 3),
      h("span", { class: "bar-cell" }, h("span", { class: "track" }, h("span", { class: "fill", "--share": unit.length / most })), number(unit.length, 2)), ...(reads ? [named(unit.up), named(unit.down)] : [])]);
    const silent = t(answer.silent ? "block.silent" : "block.loud", { silent: whole(answer.silent), units: whole(answer.n_units) });
    return [h("p", {}, silent), h("div", { class: "scroll open units", tabindex: 0, role: "region", "aria-label": t("block.units") }, table(t("block.strongest"), columns, rows, { numbersFrom: 1 })),
      reads ? h("p", { class: "soft" }, t("block.path")) : h("p", { class: "soft" }, t("block.nopath"))];
  }

  // -- without the residual --------------------------------------------------------------------------
  switchNodes() {
    const able = this.app.can("block", this.params(true));
    const box = tick(t("block.residual"), !this.off, (on) => {
      this.off = !on;
      this.app.set("block.without", this.off);
      this.loadWithout();
    });
    box.querySelector("input").disabled = !able;
    return [box, able ? null : h("p", { class: "note" }, t("needs.live")), this.without].filter(Boolean);
  }

  loadWithout() {
    if (!this.off) return void this.without.replaceChildren(h("p", { class: "soft" }, t("block.with")));
    return show(this.without, this.app.ask("block", this.params(true)), (answer) => this.withoutNodes(answer), 8);
  }

  withoutNodes(answer) {
    const { without, stages, words } = answer;
    const own = stages[stages.length - 1];
    const facts = [h("p", {}, t("block.changed", { before: number(own.length, 2), after: number(without.length, 2), cosine: number(without.cosine, 3) })),
      h("div", { class: "compared" }, new Vector({ name: t("block.without.vector"), values: without.vector.data }).element)];
    if (!without.own) return [...facts, h("p", { class: "soft" }, t("block.noprediction"))];
    const list = (next) => {
      const items = Array.from(next.ids.data.slice(0, 6), (id, at) => ({ label: words[id], share: next.p.data[at] }));
      const rest = 1 - items.reduce((sum, { share }) => sum + share, 0);
      return bars(items, { count: this.app.about.vocab_size - items.length, share: Math.max(0, rest) }, { name: t("block.prediction") });
    };
    return [...facts, h("p", {}, t("block.kl", { value: number(without.kl, 3) })), h("div", { class: "two" }, h("div", {}, h("h3", {}, t("block.withit")), list(without.own)), h("div", {}, h("h3", {}, t("block.withoutit")), list(without.then)))];
  }

  update(changed) {
    if (JSON.stringify(this.params()) !== this.key) this.load();
    else if (!changed.has("selection") && !changed.has("settings")) this.bar.refresh();
  }
}

export const blockView = {
  id: "block",
  titleKey: "view.block",
  leadKey: "view.block.lead",
  group: "detail",
  fits: (about) => about.views.includes("block"),
  async draw(root, app) {
    const view = new Block(app);
    const residual = panel(t("block.switch"), t("block.switch.lead"), ...view.switchNodes());
    root.append(panel(t("block.stream"), null, view.bar, view.place, view.box.element), panel(t("block.units"), t("block.units.lead"), view.units),
      residual);
    await view.load();
    land(root, { residual });
    return (changed) => view.update(changed);
  },
};
