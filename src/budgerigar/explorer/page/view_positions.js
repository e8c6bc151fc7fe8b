// Positions: what this model adds or turns, its sentence slid to another place, its sentence shuffled.

import { headBar } from "./controls.js";
import { dials } from "./dials.js";
import { button, h, number, onDemand, panel, percent, show, slider, tick, whole, word } from "./dom.js";
import { biasTable, kindParams, positionTable } from "./positions.js";
import { chosen, reasons, siteOf, siteParams, spelling } from "./sites.js";
import { t } from "./i18n.js";

const STEPS = [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10000, 100000];
const MANY = 40; // rows of a table shown at first

class Positions {
  constructor(app) {
    this.app = app;
    this.bar = headBar(app);
    this.kind = h("div", { class: "reserve" });
    this.slid = h("div", { class: "reserve" });
    this.shuffled = h("div", { class: "reserve" });
    this.controls = h("div", { class: "controls" });
    this.by = app.setting("slide", null);
    this.seed = app.setting("shuffle", 0);
    this.blind = app.setting("blind", false);
  }

  params(part) {
    const { layer, head } = chosen(this.app);
    return { layer, head, ...siteParams(this.app), query: null, by: null, seed: 0, blind: false, rows: null, ...part };
  }

  load() {
    return Promise.all([this.loadKind(), this.loadSlide(), this.loadShuffle()]);
  }

  // -- what it adds or turns -------------------------------------------------------------------------
  loadKind() {
    const { of } = siteOf(this.app);
    const params = kindParams(chosen(this.app).layer, of);
    const key = JSON.stringify(params);
    if (key === this.kindShown) return null;
    this.kindShown = key;
    return show(this.kind, this.app.ask("positions", params), (answer) => this.kindNodes(answer), 12);
  }

  kindNodes(answer) {
    const { app } = this;
    const nodes = [h("p", { class: "asked" }, h("strong", {}, t(`positions.${answer.positions}`)), " ", t(`positions.knows.${answer.knows}`))];
    if (answer.table) nodes.push(positionTable(answer.table, t("positions.table")));
    if (answer.turns) {
      const { position, distance } = { position: 20, distance: 5, ...app.setting("dials", {}) };
      nodes.push(...dials(answer.turns, { position, distance, keep: (now) => app.set("dials", { ...now }) }));
    }
    if (answer.bias) nodes.push(biasTable(answer.bias));
    if (answer.sinusoids && !answer.sinusoids.used) nodes.push(onDemand(t("positions.compare"), () => positionTable(answer.sinusoids, t("positions.sinusoids"))));
    return nodes;
  }

  // -- slide -----------------------------------------------------------------------------------------
  loadSlide() {
    const { app } = this;
    const site = siteOf(app);
    this.bar.refresh();
    if (app.about.pair && site.of === "encoder") return void this.slid.replaceChildren(h("p", { class: "note" }, t("slide.decoder")));
    const { query } = chosen(app);
    const last = spelling(app, site.queries).labels.length - 1;
    const asked = this.params({ show: "slide", query: query ?? last, by: this.by });
    const params = app.can("positions", asked) ? asked : { ...asked, query: last }; // a file has it of the last query
    const key = JSON.stringify(params);
    if (key === this.slideShown) return null;
    this.slideShown = key;
    return show(this.slid, app.ask("positions", params), (answer) => this.slideNodes(answer), 10);
  }

  slideNodes(answer) {
    const site = siteOf(this.app);
    this.fillControls(answer);
    const keys = spelling(this.app, site.keys).labels;
    const rows = Array.from(answer.before.data.keys());
    const all = this.app.setting("slide.all", false);
    const visible = rows.filter((key) => !answer.codes.data[key]).sort((a, b) => answer.weights_before.data[b] - answer.weights_before.data[a]);
    const shown = all ? rows : visible.slice(0, MANY);
    const bar = (kind, value) => h("span", { class: `pair-bar ${kind}`, "--share": value });
    const line = (key) => {
      const code = answer.codes.data[key];
      const change = answer.after.data[key] - answer.before.data[key];
      const cells = code ? [h("td", { class: "soft", colspan: 4 }, reasons(this.app)[code])] : [h("td", { class: "number" }, number(answer.before.data[key], 4)), h("td", { class: "number" }, number(answer.after.data[key], 4)),
        h("td", { class: "number strong" }, change === 0 ? "0" : number(change, 4)), h("td", { class: "pair-bars" }, h("span", { "aria-hidden": "true" }, bar("before", answer.weights_before.data[key]), bar("after", answer.weights_after.data[key])),
          h("span", { class: "soft" }, `${percent(answer.weights_before.data[key])} → ${percent(answer.weights_after.data[key])}`))];
      return h("tr", {}, h("th", { scope: "row" }, word(keys[key], { class: "word k" }), h("span", { class: "soft" }, ` ${key}`)), ...cells);
    };
    const heading = (words, number = true) => h("th", { scope: "col", class: number ? "number" : null }, words);
    const label = spelling(this.app, site.queries).labels[answer.query];
    const verdict = h("p", { class: answer.same ? "outcome holds" : "outcome" }, t(answer.same ? "slide.same" : "slide.moved", { by: whole(answer.by), largest: number(answer.largest, 3), relative: number(answer.relative, 2) }),
      answer.logits === null ? "" : ` ${t("slide.logits", { logits: number(answer.logits, 2) })}`, answer.sinks ? ` ${t("slide.sinks", { sinks: answer.sinks })}` : "");
    const more = rows.length > shown.length || all ? tick(t("steps.every", { count: whole(rows.length) }), all, (on) => {
      this.app.set("slide.all", on);
      this.slid.replaceChildren(...this.slideNodes(answer).filter(Boolean));
    }) : null;
    return [verdict, h("p", {}, t("slide.row"), " ", word(label, { class: "word q" }), ` ${answer.query} → ${whole(answer.query + answer.start + answer.by)}`), more,
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("slide.title") }, h("table", { class: "slide" }, h("caption", {}, t("slide.caption", { head: answer.name }), all ? "" : t("slide.order")),
        h("thead", {}, h("tr", {}, heading(t("steps.key"), false), heading(t("slide.before")), heading(t("slide.after")), heading(t("slide.change")), heading(t("slide.weights"), false))), h("tbody", {}, ...shown.map(line))))];
  }

  fillControls({ by, most }) {
    if (this.controls.firstChild) return;
    const asked = JSON.parse(this.slideShown);
    const steps = STEPS.filter((step) => step <= most && this.app.can("positions", { ...asked, by: step }));
    if (most < STEPS[STEPS.length - 1] && !steps.includes(most) && this.app.can("positions", { ...asked, by: most })) steps.push(most);
    if (!steps.length) return void this.controls.replaceChildren(h("p", { class: "note" }, `${t("slide.by")} ${whole(by)}. ${t("slide.others")} ${t("needs.live")}`));
    const at = steps.indexOf(by) >= 0 ? steps.indexOf(by) : steps.length - 1;
    this.controls.replaceChildren(slider(t("slide.by"), { min: 0, max: steps.length - 1, step: 1, value: at, show: (place) => whole(steps[place]) }, (place) => {
      this.by = steps[place];
      this.app.set("slide", this.by);
      this.loadSlide();
    }), h("span", { class: "soft" }, t(most >= 1e6 ? "slide.anywhere" : "slide.most", { most: whole(most) })));
  }

  // -- shuffle ---------------------------------------------------------------------------------------
  loadShuffle() {
    const params = { ...this.params({ show: "shuffle", seed: this.seed, blind: this.blind }), layer: 0, head: 0, of: null, kind: null };
    const key = JSON.stringify(params);
    if (key === this.shuffleShown) return null;
    this.shuffleShown = key;
    const focused = this.shuffled.contains(document.activeElement) ? document.activeElement.tagName : null;
    return show(this.shuffled, this.app.ask("positions", params), (answer) => this.shuffleNodes(answer), 10).then(() => focused && this.shuffled.querySelector(focused.toLowerCase())?.focus());
  }

  shuffleNodes(answer) {
    const asked = JSON.parse(this.shuffleShown);
    const can = (part) => this.app.can("positions", { ...asked, ...part });
    const again = button(t("shuffle.again"), () => {
      this.seed += 1;
      this.app.set("shuffle", this.seed);
      this.loadShuffle();
    }, { disabled: !can({ seed: this.seed + 1 }) });
    const blind = answer.can_be_blind && can({ blind: !this.blind }) ? tick(t("shuffle.blind"), this.blind, (on) => {
      this.blind = on;
      this.app.set("blind", on);
      this.loadShuffle();
    }) : null;
    const why = answer.same ? "shuffle.same" : answer.causal ? (answer.positions ? "shuffle.causal" : "shuffle.maskonly") : "shuffle.moved";
    const most = Math.max(answer.largest, 1e-9);
    const rows = Array.from(answer.order.data, (from, place) => h("tr", {}, h("th", { scope: "row" }, String(place)), h("td", {}, word(answer.labels[place])), h("td", { class: "number" }, String(from)),
      h("td", { class: "wide" }, h("span", { class: "track", "aria-hidden": "true" }, h("span", { class: "fill", "--share": answer.same ? 0 : answer.apart.data[place] / most }))), h("td", { class: "number strong" }, number(answer.apart.data[place], 3))));
    return [h("div", { class: "controls" }, again, blind, again.disabled ? h("span", { class: "note" }, t("needs.live")) : null), h("p", { class: "reordered" }, ...answer.labels.map((label) => word(label))),
      h("p", { class: answer.same ? "outcome holds" : "outcome" }, t(why, { largest: number(answer.largest, 2) })),
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("shuffle.title") }, h("table", { class: "shuffle ranking" }, h("caption", {}, t(answer.of === "encoder" ? "shuffle.caption.encoder" : "shuffle.caption")),
        h("thead", {}, h("tr", {}, ...[["shuffle.place", false], ["word.token", false], ["shuffle.from", true]].map(([words, right]) => h("th", { scope: "col", class: right ? "number" : null }, t(words))), h("td", {}), h("th", { scope: "col", class: "number" }, t("shuffle.apart")))), h("tbody", {}, ...rows)))];
  }

  update(changed) {
    if (!changed.has("selection")) return;
    this.loadKind();
    this.loadSlide();
  }
}

export const positionsView = {
  id: "positions",
  titleKey: "view.positions",
  leadKey: "view.positions.lead",
  group: "detail",
  fits: (about) => about.views.includes("positions"),
  async draw(root, app) {
    const view = new Positions(app);
    root.append(panel(t("positions.title"), null, view.kind), panel(t("slide.title"), t("slide.lead"), view.bar, view.controls, view.slid), panel(t("shuffle.title"), t("shuffle.lead"), view.shuffled));
    await view.load();
    return (changed) => view.update(changed);
  },
};
