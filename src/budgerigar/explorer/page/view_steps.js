// The four steps of attention for one token, with every number: its vector through W_Q, W_K and W_V, compared,
// scaled, masked, through the softmax, the weighted values, and back into the residual stream.

import { announce } from "./a11y.js";
import { headBar } from "./controls.js";
import { button, h, number, panel, show, tick, whole, word } from "./dom.js";
import { FormulaBox } from "./formula.js";
import { kindParams } from "./positions.js";
import { chosen, reasons, siteOf, siteParams, spelling } from "./sites.js";
import { mixed, projected, streamNumber, turnedNumber } from "./steps_formulas.js";
import { columnsOf, stagesOf, symbols } from "./steps_stages.js";
import { keysTable, shownKeys, vectorsTwin } from "./steps_table.js";
import { Vector, lengthOf, rowIn } from "./vector.js";
import { t } from "./i18n.js";

const strongest = ({ weights }) => weights.data.indexOf(Math.max(...weights.data));

class Steps {
  constructor(app) {
    this.app = app;
    this.bar = headBar(app);
    this.place = h("div", { class: "steps-place reserve" });
    this.box = new FormulaBox(t("steps.hint"));
    this.tell = (formula, aloud) => (formula ? this.box.show(formula, aloud) : null);
  }

  wanted() {
    const { layer, head, query } = chosen(this.app);
    const site = siteOf(this.app);
    return { layer, head, query: query ?? spelling(this.app, site.queries).labels.length - 1, ...siteParams(this.app), full: true };
  }

  async load() {
    const { app } = this;
    const params = this.wanted();
    this.key = JSON.stringify(params);
    this.bar.refresh();
    const turns = app.about.positions === "rotary" && params.kind === "self" ? app.ask("positions", kindParams(params.layer, params.of)).then((found) => found.turns, () => null) : null;
    await show(this.place, Promise.all([app.ask("steps", params), turns]), ([answer, found]) => this.build(answer, found), 16);
    this.reveal();
  }

  build(answer, turns) {
    const { app } = this;
    const site = siteOf(app);
    const labels = spelling(app, site.keys).labels;
    this.answer = answer;
    this.stages = stagesOf(answer);
    this.context = { answer, turns, labels, reasons: reasons(app), columns: columnsOf(answer), parts: new Map(), equation: this.stages[this.stages.length - 1].equation };
    this.keyShown = chosen(app).key ?? strongest(answer);
    this.box.clear();
    this.stepper = h("div", { class: "stepper-steps" });
    this.explained = h("div", { class: "explained" });
    this.tablePlace = h("div", { class: "table-place" });
    this.fillTable();
    const parts = [this.vectors(), h("div", { class: "stage" , "data-stage": "compare" }, h("h3", {}, t("steps.table")), this.tablePlace), this.output()];
    return [this.facts(), this.stepper, this.explained, ...parts, vectorsTwin(this.context)];
  }

  facts() {
    const { answer } = this;
    const lines = [answer.off ? t("head.off") : t("steps.same", { value: number(answer.difference, 2) })];
    if (answer.within) lines.push(t("steps.within", { within: answer.within.toPrecision(1).replace("e-", "e−") }));
    if (answer.kv_head !== answer.head) lines.push(t("head.shared", { head: answer.kv_head }));
    const title = h("p", { class: "asked" }, word(answer.label, { class: "word q" }), t("mark.gap"), t(answer.predicts ? "steps.predicts" : "steps.reads", { position: answer.query }));
    return h("div", {}, title, h("p", { class: "facts" }, ...lines.map((words) => h("span", {}, words))));
  }

  // -- vectors ---------------------------------------------------------------------------------------
  /** label: what it is called, where `name` (of its part) is no word for readers. */
  strip(name, values, formula, { label = name, ...options } = {}) {
    const onPoint = (at, aloud) => {
      const told = at === null ? null : formula(at);
      this.tell(told, aloud);
      if (told?.wants) this.exact(told.wants, () => strip.at === at && this.tell(formula(at), aloud));
    };
    const strip = new Vector({ name: label, values, onPoint, ...options });
    this.context.parts.set(options.part ?? name, strip);
    return strip.element;
  }

  line(symbol, words, strip, values, role = "") {
    return h("div", { class: "vector-line" }, h("span", { class: `symbol ${role}` }, symbol), strip,
      h("span", { class: "soft" }, words, values ? ` ${t("steps.length", { length: number(lengthOf(values), 2) })}` : ""));
  }

  matrix(name, role) {
    const matrix = this.answer[name];
    if (!matrix) return null;
    const [rows, columns] = matrix.shape;
    const title = h("p", { class: "soft" }, h("strong", { class: role }, name), ` ${whole(rows)} × ${whole(columns)}`);
    matrix.rows ??= new Map();
    if (!matrix.weights) return this.largeMatrix(name, role, title);
    const formula = (at) => ({ title: [name], equation: `${name}[${Math.floor(at / columns)}, ${at % columns}] = ${number(matrix.weights.data[at], 5)}`, note: t("steps.weight") });
    return h("div", {}, title, this.strip(name, matrix.weights.data, formula, { columns, matrix: true, role }));
  }

  asking(name, row) {
    const { layer, head } = chosen(this.app);
    return { layer, head, part: name, row, ...siteParams(this.app) };
  }

  /** A row of a large matrix, exactly; then() once it is here. */
  async exact({ name, row }, then) {
    const matrix = this.answer[name];
    if (!this.app.source.live || matrix.rows.has(row)) return;
    const found = await this.app.ask("matrix", this.asking(name, row)).catch(() => null);
    if (!found) return;
    matrix.rows.set(row, found.weights.data);
    then();
  }

  /** A matrix that is fetched when it is asked for: colours in 8 bits, the number at the cursor exact. */
  largeMatrix(name, role, title) {
    const matrix = this.answer[name];
    const [rows, columns] = matrix.shape;
    const place = h("div", {}, title);
    const draw = ({ weights }) => {
      const formula = (at) => {
        const [row, column] = [Math.floor(at / columns), at % columns];
        const own = matrix.rows.get(row);
        return { title: [name], equation: `${name}[${row}, ${column}] ${own ? "=" : "≈"} ${number(own ? own[column] : weights.data[at], own ? 5 : 3)}`, note: t("steps.weight"), wants: own ? null : { name, row } };
      };
      return [title, this.strip(name, weights.data, formula, { columns, matrix: true, role }), h("p", { class: "soft" }, t("steps.eight", { within: number(weights.within, 4) }))];
    };
    const fetch = button(t("steps.fetch", { count: whole(rows * columns) }), () => show(place, this.app.ask("matrix", this.asking(name, null)), draw, 3), { class: "plain" });
    fetch.disabled = !this.app.source.live;
    place.append(fetch);
    return place;
  }

  /** One of q, k, v: its matrix, the vector, and the vector after its position turned it. */
  card(letter, key) {
    const { answer, context } = this;
    const mine = letter === "q";
    const { own, other } = symbols(answer);
    const turned = { q: answer.q_unrotated, k: answer.k_unrotated }[letter];
    const of = (array) => (mine ? array.data : rowIn(array, key));
    const name = mine ? word(answer.label, { class: "word q" }) : word(context.labels[key], { class: `word ${letter}` });
    const formula = (at) => projected(context, letter, at, mine ? null : key);
    const lines = [];
    if (turned) {
      lines.push(this.line("u", t(answer.qk_norm ? "steps.unturned.normed" : "steps.unturned"), this.strip(`${letter} u`, of(turned), formula, { role: letter, part: mine ? "u" : `u ${key}` }), null, letter));
      lines.push(this.line(letter, t("steps.turned"), this.strip(letter, of(answer[letter]), (at) => turnedNumber(context, letter, at, mine ? null : key), { role: letter, part: mine ? "q" : `${letter} card` }), of(answer[letter]), letter));
    } else lines.push(this.line(letter, "", this.strip(letter, of(answer[letter]), formula, { role: letter, part: mine ? "q" : `${letter} card` }), of(answer[letter]), letter));
    const matrix = this.matrix(`W_${letter.toUpperCase()}`, letter);
    return h("div", { class: `card-${letter} qkv-card` }, h("h3", { class: letter }, t(`steps.card.${letter}`)), h("p", {}, name, mine ? "" : ` ${key}`, h("span", { class: "equation" }, matrix ? `  ${letter} = W_${letter.toUpperCase()} ${mine ? own : other}` : "")), matrix, ...lines);
  }

  vectors() {
    const { answer, context } = this;
    const stream = [this.line("x", t(answer.additive ? "steps.x.state" : "steps.x"), this.strip("x", answer.before.vector.data, (at) => streamNumber(context, "x", at)), answer.before.vector.data)];
    if (answer.normed) stream.push(this.line("x̂", t(answer.norm === "layer" ? "steps.normed.layer" : "steps.normed.rms"), this.strip("normed", answer.normed.data, (at) => streamNumber(context, "normed", at), { label: "x̂" }), answer.normed.data));
    this.cards = h("div", { class: "qkv" });
    this.fillCards();
    return h("div", { class: "stage", "data-stage": "vectors" }, h("h3", {}, t("steps.vectors.title")), ...stream, this.cards);
  }

  fillCards() {
    this.cards.replaceChildren(this.card("q"), this.card("k", this.keyShown), this.card("v", this.keyShown));
  }

  // -- the table -------------------------------------------------------------------------------------
  fillTable() {
    const { app } = this;
    const all = app.setting("steps.all", false);
    const keys = shownKeys(this.context, chosen(app).key, all);
    const made = keysTable(this.context, keys, { chosenKey: this.keyShown, tell: this.tell, choose: (key) => app.select({ key }) });
    const count = this.context.labels.length;
    const more = keys.length < count || all ? tick(t("steps.every", { count: whole(count) }), all, (on) => {
      app.set("steps.all", on);
      this.fillTable();
      this.reveal();
    }) : null;
    this.tablePlace.replaceChildren(...[more, made.element].filter(Boolean));
    this.restore = made.restore;
  }

  // -- back into the stream --------------------------------------------------------------------------
  output() {
    const { answer, context } = this;
    const line = (stage, symbol, words, part, name, formula, options = {}) => {
      const element = this.line(symbol, words, this.strip(name, part.data, formula, { label: symbol, ...options }), part.data, options.role ?? "");
      element.dataset.stage = stage;
      return element;
    };
    const lines = [line("values", "z", t("steps.z"), answer.head_output, "z", (at) => mixed(context, at), { role: "v" })];
    const stream = (stage, symbol, words, part, name) => line(stage, symbol, words, part, name, (at) => streamNumber(context, name, at));
    if (answer.contribution) {
      const matrix = this.matrix("W_O", "");
      matrix.dataset.stage = "output";
      lines.push(matrix, stream("output", "o", t("steps.o"), answer.contribution, "contribution"));
      lines.push(stream("output", "a", t("steps.a", { heads: answer.sizes.n_heads }), answer.all_heads, "all"));
    }
    if (answer.after) {
      if (answer.residual) lines.push(h("p", { class: "plus", "data-stage": "stream" }, t("steps.plus")));
      lines.push(stream("stream", "x′", t(answer.norm_place === "post" ? "steps.after.post" : "steps.after"), answer.after.vector, "after"));
    }
    return h("div", { class: "stage", "data-stage": "values" }, h("h3", {}, t("steps.back")), ...lines);
  }

  // -- step by step ----------------------------------------------------------------------------------
  step() {
    const at = this.stages.findIndex(({ id }) => id === this.app.setting("step", null));
    return at < 0 ? null : at;
  }

  go(at) {
    this.app.set("step", at === null ? null : this.stages[at].id);
    const stage = at === null ? null : this.stages[at];
    announce(stage ? `${stage.title}. ${stage.words} ${stage.equation}` : t("steps.whole"));
  }

  /** What is shown at this step; later ones keep their place in the table and are not there elsewhere. */
  reveal() {
    if (!this.stages) return;
    const at = this.step();
    const last = this.stages.length - 1;
    const order = Object.fromEntries(this.stages.map(({ id }, place) => [id, place]));
    for (const each of this.place.querySelectorAll("[data-stage]")) {
      const place = order[each.dataset.stage] ?? 0;
      const later = at !== null && place > at;
      each.classList.toggle("later", later);
      each.classList.toggle("now", at !== null && place === at);
      if (!["TD", "TH"].includes(each.tagName)) each.hidden = later;
    }
    this.restore();
    const move = (words, to, key) => button(words, () => this.go(to), { "data-press": key, disabled: to === undefined, title: t("steps.press", { key }) });
    const focused = document.activeElement?.dataset?.step ?? document.activeElement?.dataset?.press;
    this.stepper.replaceChildren(move(t("steps.previous"), at === null ? last : at > 0 ? at - 1 : undefined, "p"),
      h("ol", {}, ...this.stages.map((stage, place) => h("li", {}, button(stage.short, () => this.go(place), { "data-step": stage.id, "aria-current": place === at ? "step" : null, "aria-label": stage.title })))),
      move(t("steps.next"), at === null ? 0 : at < last ? at + 1 : undefined, "n"), button(t("steps.all"), () => this.go(null), { "data-step": "all", "aria-pressed": String(at === null) }));
    if (focused) (this.stepper.querySelector(`[data-step="${focused}"], [data-press="${focused}"]:not(:disabled)`) ?? this.stepper.querySelector("[aria-current=step], [data-step=all]")).focus();
    const stage = at === null ? null : this.stages[at];
    this.explained.replaceChildren(...(stage ? [h("h3", {}, stage.title), h("p", {}, stage.words), h("p", { class: "equation" }, stage.equation)] : [h("p", {}, t("steps.whole"))]));
  }

  update(changed) {
    if (JSON.stringify(this.wanted()) !== this.key) return void this.load();
    if (!this.stages) return;
    if (changed.has("selection")) {
      const key = chosen(this.app).key ?? strongest(this.answer);
      if (key === this.keyShown) return;
      this.keyShown = key;
      this.fillCards();
      for (const line of this.tablePlace.querySelectorAll("tr[data-at]")) line.classList.toggle("chosen", Number(line.dataset.at) === key);
    }
    if (changed.has("settings")) this.reveal();
  }
}

export const stepsView = {
  id: "steps",
  titleKey: "view.steps",
  leadKey: "view.steps.lead",
  group: "detail",
  fits: (about) => about.views.includes("steps"),
  async draw(root, app) {
    const view = new Steps(app);
    root.append(panel(t("steps.panel"), null, view.bar, view.place, view.box.element));
    await view.load();
    return (changed) => view.update(changed);
  },
};
