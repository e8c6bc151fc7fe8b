// A translation: which source word each of its tokens looks at, the other attentions beside it, and what the source
// is worth: the same model with the source switched off.

import { headBar, mapControls, mapOptions } from "./controls.js";
import { button, choice, failure, h, headName, number, onDemand, panel, show, table, word } from "./dom.js";
import { HeatMap } from "./heatmap.js";
import { meter, scrolling } from "./meters.js";
import { agreement, axes, chosen, matrixOf, readFrom, reasons, siteOf, siteParams, siteTitle, spelling } from "./sites.js";
import { t } from "./i18n.js";
import { weave } from "./weave.js";

const REPORTED = { top: 10 };

const KINDS = { "encoder self": "translation.encoder", "decoder self": "translation.decoder", "decoder cross": "translation.cross" };

/** The same pair as token ids, so that both readings have exactly these tokens. */
function fixed(app, more) {
  const { reading, about } = app;
  const { ids, added } = reading.spellings.predicted;
  const target = Array.from(ids.data).filter((_, at) => !(added ?? []).includes(at));
  return { ...plain(app.question), target, ...(about.blank ? { blank: true } : {}), ...more };
}

function plain(question) {
  return Object.fromEntries(Object.entries(question).filter(([name]) => !["blank", "prefix"].includes(name)));
}

class Translation {
  constructor(app) {
    this.app = app;
    this.map = new HeatMap({ name: "", onSelect: (query, key) => app.select({ query, key }) });
    this.how = h("div", { class: "controls" });
    this.weavePlace = h("div");
    this.coverage = h("div");
    this.facts = h("div");
  }

  site() {
    return siteOf(this.app);
  }

  cross() {
    return this.site().kind === "cross";
  }

  /** What is read of the cross-attention: the mean of the layer but last, of all, or one head. */
  read() {
    return this.app.setting("align", "best");
  }

  element() {
    const { app } = this;
    const site = this.site();
    this.bar = headBar(app);
    return panel(this.cross() ? t("translation.alignment") : siteTitle(site), t(KINDS[`${site.of} ${site.kind}`]), this.how, mapControls(app),
      h("div", { class: this.cross() ? "split" : null }, h("div", { class: "map" }, this.map.element, this.facts), this.cross() ? h("div", { class: "beside" }, this.weavePlace) : null));
  }

  controls() {
    const one = this.read() === "head";
    const only = this.site().layers * this.site().heads === 1;
    this.how.replaceChildren(...[
      this.cross() && !only ? choice(t("translation.read"), [["best", t("translation.best")], ["all", t("translation.all")], ["head", t("translation.head")]], this.read(), (value) => this.app.set("align", value)) : null,
      only || (this.cross() && !one) ? null : this.bar].filter(Boolean));
    this.bar.refresh();
  }

  async load() {
    const { app } = this;
    const { layer, head } = chosen(app);
    const read = this.cross() ? this.read() : "head";
    this.shown = `${read} ${layer} ${head}`;
    const wanted = this.shown;
    this.controls();
    if (this.cross()) {
      const name = { best: null, all: "all", head: headName(layer, head) }[read];
      const answer = await app.ask("alignment", { head: name });
      if (this.shown !== wanted) return;
      this.alignment = answer;
      this.matrix = this.alignedMatrix(answer);
      this.drawCoverage();
    } else {
      const answer = await app.ask("head", { layer, head, ...siteParams(app), mask: true });
      if (this.shown !== wanted) return;
      this.matrix = matrixOf(app, answer);
      this.facts.replaceChildren(h("p", { class: "facts" }, h("span", {}, agreement(answer))));
    }
    this.map.name = this.cross() ? readFrom(this.alignment.head) : headName(layer, head);
    this.map.show(this.matrix, mapOptions(app));
    this.follow();
  }

  alignedMatrix(answer) {
    const words = axes(this.site());
    const labels = [spelling(this.app, "predicted").labels, spelling(this.app, "source").labels];
    this.facts.replaceChildren(h("p", { class: "facts" }, h("span", {}, t("translation.shown", { head: readFrom(answer.head) })), answer.blank ? h("span", {}, t("mask.source")) : null));
    const why = reasons(this.app);
    const codes = answer.blank ? new Uint8Array(answer.tokens.data.length).fill(Math.max(1, why.indexOf(t("mask.source")))) : null;
    return { queries: labels[0], keys: labels[1], values: answer.tokens.data, codes, reasons: why, within: 0, queryAxis: words.rows, keyAxis: words.columns, signed: false, same: false };
  }

  follow() {
    const { query, key } = chosen(this.app);
    const { keys, values, queries } = this.matrix;
    const row = query ?? (this.cross() ? 0 : queries.length - 1);
    const wide = keys.length;
    const best = Array.from(values.subarray(row * wide, (row + 1) * wide)).reduce((best, value, at, all) => (value > all[best] ? at : best), 0);
    this.map.setCursor(row, key ?? best);
    if (!this.cross()) return;
    this.drawWeave(query ?? (key === null ? row : null), key);
  }

  /** Word by word: tokens of a word, and bytes of a character, are one. */
  drawWeave(query, key) {
    const { source_words: sources, target_words: targets, weights, target_of: targetOf, source_of: sourceOf } = this.alignment;
    const word = (list, at) => (at === null || list.data[at] < 0 ? null : list.data[at]);
    const first = (list, at) => (at === null ? null : list.data.indexOf(at));
    this.weavePlace.replaceChildren(weave({ sources, targets, weight: (target, source) => weights.data[target * weights.shape[1] + source], chosen: { target: word(targetOf, query), source: word(sourceOf, key) },
      pick: ({ target = null, source = null }) => this.app.select({ query: first(targetOf, target), key: first(sourceOf, source) }), names: { sources: t("side.source"), targets: t("side.predicted") } }), this.wordTwin());
  }

  wordTwin() {
    const { alignment } = this;
    const columns = alignment.weights.shape[1];
    return onDemand(t("translation.words"), () => scrolling(t("translation.words"), table(t("translation.words"), [t("side.predicted"), t("side.source"), t("links.weight")],
      alignment.target_words.map((label, at) => {
        const best = alignment.best[at];
        return [word(label), best === null ? t("translation.none") : word(alignment.source_words[best]), number(alignment.weights.data[at * columns + (best ?? columns - 1)], 3)];
      }), { numbersFrom: 2 })));
  }

  drawCoverage() {
    const { alignment } = this;
    const values = Array.from(alignment.word_coverage.data);
    const top = Math.max(1, ...values);
    this.coverage.replaceChildren(h("ol", { class: "covered", "aria-label": t("translation.coverage.caption") },
      ...alignment.source_words.map((label, at) => h("li", {}, word(label, { class: "word k" }), meter(values[at], top)))));
  }

  update(changed) {
    const { layer, head } = chosen(this.app);
    const read = this.cross() ? this.read() : "head";
    if (this.shown !== `${read} ${layer} ${head}` && (read === "head" || !this.shown.startsWith(`${read} `))) return void this.load().catch((error) => this.facts.replaceChildren(failure(error)));
    if (!this.matrix) return;
    if (["scale", "range", "hideSink", "transpose"].some((name) => changed.has(name))) this.map.show(this.matrix, mapOptions(this.app));
    if (changed.has("selection") || changed.has("transpose")) this.follow();
  }
}

/** What the model writes with and without its source, and how surprised it is by each token of this translation. */
function worthPanel(app) {
  const own = h("div");
  const place = h("div", { class: "reserve" });
  const source = { ...plain(app.question), target: null };
  const blind = { ...source, blank: true };
  const blank = Boolean(app.question.blank);
  const pair = (words, text) => h("div", {}, h("dt", {}, words), h("dd", {}, h("bdi", {}, text || "∅")));
  show(own, Promise.all([app.ask("read", REPORTED, source), app.ask("read", REPORTED, blind)]), ([seen, unseen]) =>
    h("dl", { class: "sentences" }, pair(t("translation.with"), seen.text), pair(t("translation.without"), unseen.text)), 2);
  show(place, Promise.all([app.ask("read", REPORTED, fixed(app, { blank: undefined })), app.ask("read", REPORTED, fixed(app, { blank: true }))]), (both) => worth(app, both), 8);
  const turn = button(t(blank ? "translation.on" : "translation.off"), () => app.look(blank ? plain(app.question) : { ...app.question, blank: true }), { "aria-pressed": String(blank) });
  turn.disabled = !app.can("read", REPORTED, blind);
  return panel(t("translation.worth"), t("translation.worth.lead"), h("div", { class: "controls" }, turn, turn.disabled ? h("span", { class: "soft" }, t("needs.live")) : null), own, place);
}

function worth(app, both) {
  const [seen, unseen] = both.map(({ surprise }) => surprise);
  const { labels } = both[0].spellings.predicted;
  const gain = labels.map((_, at) => unseen.nats.data[at] - seen.nats.data[at]);
  const top = Math.max(...gain.map(Math.abs), 1e-9);
  const { query } = chosen(app);
  const rows = labels.map((label, at) => h("tr", { class: at === query ? "chosen" : null }, h("th", { scope: "row" }, `${at} `, word(label, { class: "word q" })),
    h("td", { class: "number" }, number(seen.nats.data[at], 3)), h("td", { class: "number" }, number(unseen.nats.data[at], 3)), h("td", { class: "number" }, meter(gain[at], top, { signed: true }))));
  const heads = [t("side.predicted"), t("translation.nats.with"), t("translation.nats.without"), t("translation.gain")];
  return [h("p", {}, t("translation.means", { seen: number(seen.mean, 3), unseen: number(unseen.mean, 3) })),
    scrolling(t("translation.gain"), h("table", { class: "worth" }, h("caption", {}, t("translation.nats")), h("thead", {}, h("tr", {}, ...heads.map((words, at) => h("th", { scope: "col", class: at ? "number" : null }, words)))), h("tbody", {}, ...rows)), true)];
}

export const translationView = {
  id: "translation",
  titleKey: "view.translation",
  leadKey: "view.translation.lead",
  group: "kind",
  fits: (about) => about.views.includes("alignment"),
  async draw(root, app) {
    const view = new Translation(app);
    root.append(view.element());
    if (view.cross()) root.append(panel(t("translation.coverage"), t("translation.coverage.lead"), view.coverage));
    root.append(worthPanel(app));
    await view.load();
    return (changed) => view.update(changed);
  },
};
