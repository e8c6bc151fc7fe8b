// Through training: one head at each checkpoint, what each head does step by step, and when it began to.

import { lineChart, pen } from "./lines.js";
import { headBar, mapControls, mapOptions } from "./controls.js";
import { announce } from "./a11y.js";
import { button, choice, failure, h, headName, number, onDemand, panel, said, show, slider, table } from "./dom.js";
import { HeatMap } from "./heatmap.js";
import { scrolling } from "./meters.js";
import { abilityName, roleName } from "./role_names.js";
import { chosen, matrixOf, siteOf, siteParams } from "./sites.js";
import { t } from "./i18n.js";

const MOST = 12; // checkpoints at which roles are measured
const NAMED = 5; // heads with a line of their own

const stepOf = (name) => Number(/\d+/.exec(name)?.[0] ?? 0);

function checkpointsOf(app) {
  return app.models.find(({ id }) => id === app.question.model)?.checkpoints ?? [];
}

class Moments {
  constructor(app, names) {
    Object.assign(this, { app, names });
    this.map = new HeatMap({ name: "", onSelect: (query, key) => app.select({ query, key }) });
    this.bar = headBar(app);
    this.facts = h("div");
    this.at = Math.max(0, Math.min(names.length - 1, app.setting("moment", names.length - 1)));
    this.onmove = () => {};
  }

  element() {
    const show = (at) => t("born.step", { step: stepOf(this.names[at]) });
    const slide = slider(t("born.moment"), { min: 0, max: this.names.length - 1, step: 1, value: this.at, show }, (at) => this.app.set("moment", at));
    const go = (by) => {
      const to = Math.max(0, Math.min(this.names.length - 1, this.at + by));
      const input = slide.querySelector("input");
      input.value = to;
      input.dispatchEvent(new Event("input"));
      announce(show(to));
    };
    return panel(t("born.head"), t("born.head.lead"), h("div", { class: "headline" }, this.bar), h("div", { class: "moment" }, button("‹", () => go(-1), { "aria-label": t("born.earlier") }), slide, button("›", () => go(1), { "aria-label": t("born.later") })),
      mapControls(this.app), this.map.element, this.facts);
  }

  async load() {
    const { app } = this;
    const { layer, head } = chosen(app);
    const name = this.names[this.at];
    this.shown = `${layer} ${head} ${this.at}`;
    const wanted = this.shown;
    this.bar.refresh();
    this.map.element.classList.add("stale");
    try {
      const answer = await app.ask("head", { layer, head, ...siteParams(app), mask: true }, { ...app.question, checkpoint: name });
      if (this.shown !== wanted) return;
      this.map.name = `${headName(layer, head)}${t("mark.comma")}${t("born.step", { step: stepOf(name) })}`;
      this.matrix = matrixOf(app, answer);
      this.map.show(this.matrix, mapOptions(app));
      this.map.element.hidden = false;
      this.cursor();
      this.facts.replaceChildren(h("p", { class: "facts" }, answer.mean_entropy === null ? null : h("span", {}, t("head.entropy", { value: number(answer.mean_entropy, 3) })), h("span", {}, t("head.difference", { value: number(answer.difference, 2) }))));
    } catch (error) {
      if (this.shown !== wanted) return;
      this.matrix = null; // the map before is of another checkpoint
      this.map.element.hidden = true;
      this.facts.replaceChildren(failure(error));
    } finally {
      if (this.shown === wanted) this.map.element.classList.remove("stale");
    }
  }

  cursor() {
    const { query, key } = chosen(this.app);
    const row = query ?? this.matrix.queries.length - 1;
    this.map.setCursor(row, key ?? 0);
  }

  update(changed) {
    if (changed.has("settings")) this.at = Math.max(0, Math.min(this.names.length - 1, this.app.setting("moment", this.at)));
    const { layer, head } = chosen(this.app);
    if (this.shown !== `${layer} ${head} ${this.at}`) {
      this.onmove(this.at);
      return void this.load();
    }
    if (!this.matrix) return;
    if (["scale", "range", "hideSink", "transpose"].some((name) => changed.has(name))) this.map.show(this.matrix, mapOptions(this.app));
    if (changed.has("selection")) this.cursor();
  }
}

/** Scores of one role over the checkpoints: the heads that matter most by name, the others in grey. */
function roleChart(site, role, steps) {
  const count = site.heads.length;
  const scores = site.heads.map((_, head) => steps.map((__, at) => role.scores.data[at * count + head] ?? NaN).map((value) => (value < 0 ? NaN : value)));
  const reach = scores.map((values) => Math.max(...values.filter(Number.isFinite), 0));
  const named = reach.map((value, head) => [value, head]).sort((a, b) => b[0] - a[0]).slice(0, NAMED).map(([, head]) => head);
  const series = [...scores.map((values, head) => ({ name: site.heads[head], values, quiet: true })).filter((_, head) => !named.includes(head)),
    ...named.map((head, at) => ({ name: site.heads[head], values: scores[head], ...pen(at) })), { name: t("born.needed"), values: steps.map(() => role.share), colour: "var(--soft)", dash: "1 5" }];
  return lineChart({ name: t("born.chart", { role: roleName(role.role, role.name) }), x: steps, xTitle: t("born.steps"), yTitle: t("roles.score"), low: 0, top: 1, high: 280, series, hint: t("reach.hint") });
}

function births(answer) {
  if (!answer.births.length) return h("p", { class: "note" }, t("born.none"));
  const words = (birth) => [birth.head, roleName(birth.role), birth.before === null ? t("born.first") : t("born.between", { before: stepOf(birth.before), at: stepOf(birth.at) }),
    birth.score_before === null ? "–" : number(birth.score_before, 3), number(birth.score_at, 3)];
  return scrolling(t("born.births"), table(t("born.births"), [t("word.head"), t("roles.role"), t("born.when"), t("born.score.before"), t("born.score.at")], answer.births.map(words), { numbersFrom: 3, hidden: true }), true);
}

function abilityCharts(answer, steps) {
  return answer.curves.filter(({ unit }) => unit === "share").map((curve) => ({ ...curve, name: abilityName(curve) })).map(({ name, values, on }) => h("div", {}, h("h3", {}, name), h("p", { class: "soft" }, said(on)),
    lineChart({ name, x: steps, xTitle: t("born.steps"), yTitle: t("born.right"), low: 0, top: 1, high: 190, series: [{ name, values: steps.map((_, at) => values.data[at] ?? NaN), ...pen(0) }] }).element,
    onDemand(t("map.twin"), () => scrolling(name, table(name, [t("born.steps"), t("born.right")], steps.slice(0, values.data.length).map((step, at) => [String(step), number(values.data[at], 3)]))))));
}

function scoresTwin(site, role, steps) {
  const count = site.heads.length;
  return onDemand(t("map.twin"), () => scrolling(roleName(role.role, role.name), table(roleName(role.role, role.name), [t("born.steps"), ...site.heads],
    steps.slice(0, role.scores.shape[0]).map((step, at) => [String(step), ...site.heads.map((_, head) => (role.scores.data[at * count + head] < 0 ? "–" : number(role.scores.data[at * count + head], 3)))]))));
}

/** The answer of `born`, or what is known of it so far: choose a role, see its lines; births; abilities. */
function grown(app, answer, moments) {
  const site = answer.sites.find(({ of, kind }) => of === siteOf(app).of && kind === siteOf(app).kind) ?? answer.sites[0];
  const steps = answer.asked.map(stepOf);
  const whole = answer.checkpoints.length === steps.length;
  const place = h("div");
  const best = [...site.roles].sort((a, b) => Math.max(...b.found.data) - Math.max(...a.found.data) || Math.max(...b.scores.data) - Math.max(...a.scores.data))[0];
  const draw = () => {
    const role = site.roles.find((each) => each.role === app.setting("born.role", best?.role)) ?? best;
    if (!role) return place.replaceChildren(h("p", { class: "note" }, t("born.none")));
    const chart = roleChart(site, role, steps);
    const near = (at) => steps.reduce((found, step, i) => (Math.abs(step - stepOf(moments.names[at])) < Math.abs(steps[found] - stepOf(moments.names[at])) ? i : found), 0);
    const moment = (step) => moments.names.reduce((found, name, i) => (Math.abs(stepOf(name) - step) < Math.abs(stepOf(moments.names[found]) - step) ? i : found), 0);
    chart.onpick = (at) => app.set("moment", moment(steps[at]));
    chart.mark(near(moments.at));
    moments.onmove = (at) => chart.mark(near(at));
    return place.replaceChildren(chart.element, scoresTwin(site, role, steps));
  };
  const pick = choice(t("roles.role"), site.roles.map((role) => [role.role, roleName(role.role, role.name)]), app.setting("born.role", best?.role), (role) => { app.set("born.role", role); draw(); });
  draw();
  const sofar = whole ? null : h("p", { class: "note" }, t("born.sofar", { count: answer.checkpoints.length, all: steps.length }));
  const skipped = (answer.skipped ?? []).map(([name, why]) => h("p", { class: "note" }, t("born.skipped", { step: stepOf(name), why: said(why) })));
  return [sofar, ...skipped, pick, place, ...(whole ? [h("h3", {}, t("born.births")), births(answer)] : []), h("div", { class: "two" }, ...abilityCharts(answer, steps))];
}

export const bornView = {
  id: "born",
  titleKey: "view.born",
  leadKey: "view.born.lead",
  group: "change",
  fits: (about) => about.views.includes("born"),
  async draw(root, app) {
    const names = checkpointsOf(app);
    if (names.length < 2) {
      root.append(panel(t("born.head"), null, h("p", { class: "note" }, t("born.few"))));
      return () => {};
    }
    const moments = new Moments(app, names);
    const place = h("div", { class: "stacked", tabindex: -1 });
    const run = () => {
      if (document.activeElement === start) place.focus({ preventScroll: true });
      start.hidden = true;
      show(place, app.ask("born", { most: MOST }), (answer) => grown(app, answer, moments), 14);
    };
    const start = button(t("born.measure", { count: Math.min(MOST, names.length) }), run, { class: "primary" });
    start.disabled = !app.can("born", { most: MOST });
    root.append(moments.element(), panel(t("born.roles"), t("born.roles.lead"), start, start.disabled ? h("span", { class: "soft" }, t("needs.live")) : null, place));
    if (!app.source.live && !start.disabled) run(); // it lies there
    await moments.load();
    return (changed) => moments.update(changed);
  },
};
