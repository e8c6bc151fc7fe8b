// One head: its heat map, the row of the chosen token in full precision, and arcs for the strongest weights.

import { arcs } from "./arcs.js";
import { bars } from "./bars.js";
import { headBar, mapControls, mapOptions } from "./controls.js";
import { failure, h, headName, number, onDemand, panel, show, slider, table, word } from "./dom.js";
import { HeatMap } from "./heatmap.js";
import { pinBar, pinnedRows } from "./pinned.js";
import { agreement, chosen, matrixOf, reasons, siteOf, siteParams, siteTitle, spelling } from "./sites.js";
import { t } from "./i18n.js";

const IN_ROW = 10;
const PAUSE = 90; // ms that the cursor rests before the exact row is fetched

/** The exact row: strongest keys as bars, the rest as a sum, what is masked and why. */
function rowNodes(app, answer) {
  const labels = spelling(app, siteOf(app).keys).labels;
  const weights = answer.weights.data;
  const codes = answer.codes.data;
  const visible = Array.from(answer.order.data).filter((key) => !codes[key]);
  const items = visible.slice(0, IN_ROW).map((key) => ({ label: labels[key], share: weights[key], note: `${key}`, onclick: () => app.select({ query: answer.query, key }) }));
  const shown = items.reduce((sum, { share }) => sum + share, 0);
  const rest = visible.length > items.length ? { count: visible.length - items.length, share: Math.max(0, answer.sum - shown) } : null;
  const masked = new Map();
  for (const code of codes) if (code) masked.set(code, (masked.get(code) ?? 0) + 1);
  const why = [...masked].map(([code, count]) => t("head.masked", { count, why: reasons(app)[code] })).join("; ");
  return [h("p", {}, word(answer.label, { class: "word q" }), t("mark.gap"), t("head.row", { position: answer.query, sum: number(answer.sum, 6) })),
    bars(items, rest, { name: t("head.strongest"), action: (label) => t("head.pick", { label }) }),
    why ? h("p", { class: "soft" }, why) : null,
    onDemand(t("head.rowtwin"), () => h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("head.rowtwin") },
      table(t("head.rowtwin"), [t("word.position"), t("word.token"), t("word.weight")],
        labels.map((label, key) => [String(key), word(label), codes[key] ? reasons(app)[codes[key]] : number(weights[key], 6)]), { numbersFrom: 2 })))];
}

function facts(app, answer) {
  const parts = [agreement(answer)];
  if (answer.mean_entropy !== null) parts.unshift(t("head.entropy", { value: number(answer.mean_entropy, 3) }));
  if (answer.kv_head !== answer.head) parts.push(t("head.shared", { head: answer.kv_head }));
  if (answer.sink !== null) parts.push(t("head.sink", { value: number(answer.sink, 2) }));
  return h("p", { class: "facts" }, ...parts.map((words) => h("span", {}, words)));
}

class Head {
  constructor(app) {
    this.app = app;
    this.map = new HeatMap({ name: "", onSelect: (query, key) => app.select({ query, key }), onHover: (query) => this.peek(query) });
    this.row = h("div", { class: "reserve", "aria-live": "off" });
    this.facts = h("div");
    this.arcs = h("div");
    this.bar = headBar(app);
    this.pins = pinBar(app);
    this.pinned = h("div");
    this.least = app.setting("arcs", 0.1);
  }

  element() {
    const site = siteOf(this.app);
    return [panel(siteTitle(site), null, h("div", { class: "headline" }, this.bar, this.pins), mapControls(this.app),
      h("div", { class: "split" }, h("div", { class: "map" }, this.map.element, this.facts), h("div", { class: "beside" }, h("h3", {}, t("head.rowtitle")), this.row, this.pinned))),
    panel(t("arcs.title"), t("arcs.lead"),
      slider(t("arcs.least"), { min: 0.01, max: 0.9, step: 0.01, value: this.least, show: (value) => number(value, 2) }, (least) => {
        this.least = least;
        this.app.set("arcs", least);
      }), this.arcs)];
  }

  /** Fetch and draw the head that is chosen now; the newest wish wins. */
  async load() {
    const { app } = this;
    const { layer, head } = chosen(app);
    const key = `${layer} ${head}`;
    this.wanted = key;
    this.bar.refresh();
    this.pins.refresh();
    this.map.element.classList.add("stale");
    try {
      const answer = await app.ask("head", { layer, head, ...siteParams(app), mask: true });
      if (this.wanted !== key) return;
      this.shown = key;
      this.matrix = matrixOf(app, answer);
      this.map.name = headName(layer, head);
      this.map.show(this.matrix, mapOptions(app));
      this.facts.replaceChildren(facts(app, answer));
      this.cursor();
    } catch (error) {
      this.facts.replaceChildren(failure(error));
      if (error.status === undefined && !error.missing) console.error(error);
    } finally {
      if (this.wanted === key) this.map.element.classList.remove("stale");
    }
  }

  /** The cursor follows the selection; without one it rests on the last token and its strongest key. */
  cursor() {
    const { query, key } = chosen(this.app);
    const row = query ?? this.matrix.queries.length - 1;
    this.map.setCursor(row, key ?? this.strongest(row));
    this.peek(null);
    this.drawArcs();
  }

  strongest(query) {
    const wide = this.matrix.keys.length;
    const row = this.matrix.values.subarray(query * wide, (query + 1) * wide);
    return row.indexOf(Math.max(...row));
  }

  /** The exact row under the cursor, else of the selection. */
  peek(query) {
    const wanted = query ?? chosen(this.app).query ?? this.matrix.queries.length - 1;
    clearTimeout(this.timer);
    const key = `${this.shown} ${wanted}`;
    if (key === this.rowShown) return;
    this.timer = setTimeout(() => {
      this.rowShown = key;
      const [layer, head] = this.shown.split(" ").map(Number);
      show(this.row, this.app.ask("row", { layer, head, query: wanted, ...siteParams(this.app) }), (answer) => rowNodes(this.app, answer), 6);
      this.comparePins(wanted);
    }, this.rowShown ? PAUSE : 0);
  }

  /** The same row in the pinned heads. */
  comparePins(query) {
    this.query = query;
    this.pinned.replaceChildren(...[pinnedRows(this.app, query)].filter(Boolean));
  }

  /** Soon, for a key that repeats must not wait for them. */
  drawArcs() {
    clearTimeout(this.later);
    this.later = setTimeout(() => this.drawArcsNow(), this.arcs.firstChild ? PAUSE : 0);
  }

  drawArcsNow() {
    const { query } = chosen(this.app);
    this.arcs.replaceChildren(arcs(this.matrix, { chosen: query ?? this.matrix.queries.length - 1, least: this.least, name: t("arcs.title"), pick: (at) => this.app.select({ query: at }) }));
  }

  update(changed) {
    const { layer, head } = chosen(this.app);
    if (`${layer} ${head}` !== this.wanted) return void this.load();
    if (!this.matrix) return;
    if (["scale", "range", "hideSink", "transpose"].some((name) => changed.has(name))) this.map.show(this.matrix, mapOptions(this.app));
    if (changed.has("selection") || changed.has("transpose")) this.cursor();
    if (changed.has("settings")) this.drawArcs();
    if (changed.has("pinned")) {
      this.pins.refresh();
      this.comparePins(this.query);
    }
  }
}

export const headView = {
  id: "head",
  titleKey: "view.head",
  leadKey: "view.head.lead",
  group: "detail",
  fits: (about) => about.views.includes("head"),
  async draw(root, app) {
    const view = new Head(app);
    root.append(...view.element());
    await view.load();
    return (changed) => view.update(changed);
  },
};
