// A `budgie why` on a page: its command, and where a server is there a button that runs it and shows what came out.

import { announce } from "./a11y.js";
import { button, h, number, onDemand, said, show, table } from "./dom.js";
import { t, translated } from "./i18n.js";
import { lineChart, pen } from "./lines.js";
import { scrolling } from "./meters.js";

/** A command line to copy. */
export function command(line) {
  const done = h("span", { class: "soft", role: "status" });
  const copy = button(t("lesson.copy"), async () => {
    try {
      await navigator.clipboard.writeText(line);
      done.textContent = t("lesson.copied");
    } catch {
      done.textContent = t("lesson.copy.not");
    }
  }, { class: "plain", "aria-label": `${t("lesson.copy")}${t("mark.colon")}${line}` });
  return h("p", { class: "command" }, h("code", {}, line), copy, done);
}

const words = (given) => translated(given).text;

function bars({ rows, top }) {
  return h("ul", { class: "why-rows" }, ...rows.map(([name, value, figure]) => h("li", {}, h("span", {}, said(name)),
    h("span", { class: "track", "aria-hidden": "true" }, h("span", { class: "fill", "--share": Math.min(1, Math.max(0, value / top)) })), h("span", { class: "figure" }, figure))));
}

function lines({ title, x, x_label, y_label, series, line, ...rest }) {
  const drawn = [...series.map(([name, values]) => [name, values.data]), ...(line ? [[line[0], x.map(() => line[1])]] : [])].map(([name, values], at) => ({ name: words(name), values, ...pen(at) }));
  const { element } = lineChart({ name: words(title), x, labels: null, xTitle: words(x_label), yTitle: words(y_label), series: drawn, logX: rest.log_x, logY: rest.log_y, low: rest.bottom ?? undefined, top: rest.top ?? undefined, hint: t("reach.hint") });
  const twin = onDemand(t("surprise.twin"), () => scrolling(words(title), table(words(title), [words(x_label), ...drawn.map(({ name }) => name)], x.map((at, place) => [String(at), ...drawn.map(({ values }) => number(values[place], 3))]))));
  return h("div", {}, element, twin);
}

function grid({ title, rows, columns, values, column_axis }) {
  return h("div", {}, column_axis ? h("p", { class: "soft" }, said(column_axis)) : null,
    scrolling(words(title), table(words(title), ["", ...columns.map(words)], rows.map((name, at) => [said(name), ...values[at].map((value) => number(value, 2))]), { hidden: true }), true));
}

const PICTURES = { bars, lines, grid };

function picture(panel) {
  return h("div", {}, h("h4", {}, said(panel.title), ...(panel.unit ? [" (", said(panel.unit), ")"] : [])), PICTURES[panel.kind](panel));
}

function result(answer) {
  const side = (given) => h("div", {}, h("dt", {}, said(given.what)), h("dd", { class: "big" }, said(given.words)));
  const samples = answer.samples.flatMap(([from, text]) => [h("dt", {}, said(from)), h("dd", { dir: "auto" }, text)]);
  return h("div", { class: "why-result" }, h("p", { class: "strong" }, said(answer.problem)),
    h("dl", { class: "figures" }, side(answer.without), side(answer.with)), ...answer.panels.map(picture), samples.length ? h("dl", { class: "why-samples" }, ...samples) : "", h("p", {}, said(answer.shows)),
    h("p", { class: `verdict ${answer.held ? "yes" : "no"}` }, said(answer.verdict)), h("p", {}, t("why.next"), " ", said(answer.next_problem)),
    onDemand(t("why.screen"), () => h("pre", { class: "scroll", tabindex: 0, lang: "en" }, answer.text)), h("p", { class: "soft" }, t("why.took", { seconds: Math.round(answer.seconds), seed: answer.seed })));
}

const begun = new Map(); // part -> {answer: promise of its result, done}: whoever turns the page and comes back finds it
const watching = new Set(); // lists of what else is on its way

function tellAll() {
  for (const list of [...watching]) {
    if (list.element.isConnected) list.draw();
    else watching.delete(list);
  }
}

/** Ask for an experiment, or be handed the one that is on its way or done. */
function begin(app, part) {
  const known = begun.get(part);
  if (known) return known;
  const answer = app.ask("why", { part, seed: 1 }, {}); // of no model in particular
  const run = { answer, done: false };
  begun.set(part, run);
  if (answer.job) answer.job.again = () => begin(app, part).answer;
  answer.then(() => (run.done = true), () => begun.delete(part)).finally(tellAll);
  tellAll();
  return run;
}

/** The other experiments that run or wait, each with a button that stops it. */
function others(part) {
  const element = h("div", { class: "why-others" });
  const draw = () => {
    const waiting = [...begun].filter(([name, { done }]) => name !== part && !done);
    element.replaceChildren(...(waiting.length ? [h("p", { class: "soft" }, t("why.others"))] : []), ...(waiting.length ? [h("ul", {}, ...waiting.map(([name, { answer }]) =>
      h("li", {}, h("code", {}, `budgie why ${name}`), " ", button(t("job.stop"), () => answer.job?.stop(), { class: "plain", "aria-label": `${t("job.stop")}: budgie why ${name}` }))))] : []));
  };
  watching.add({ element, draw });
  draw();
  return element;
}

/** The experiment on a part. */
export function whyBlock(app, part) {
  const place = h("div", { tabindex: -1 });
  const line = `budgie why ${part}`;
  const box = h("section", { class: "why-box", "aria-label": line }, h("h3", {}, t("why.title")), app.source.live ? h("p", { class: "soft" }, t("why.lead")) : "", command(line));
  if (!app.source.live) {
    box.append(h("p", { class: "note" }, t("why.static")));
    return box;
  }
  const follow = () => {
    const { answer } = begin(app, part);
    run.disabled = true;
    answer.then(() => {
      run.textContent = t("why.ran");
      const verdict = place.isConnected && place.querySelector(".verdict");
      if (verdict) announce(verdict.textContent);
    }, () => (run.disabled = false));
    show(place, answer, result);
  };
  const run = button(t("why.run"), () => {
    if (document.activeElement === run) place.focus({ preventScroll: true }); // a button that is switched off loses it
    follow();
  }, { class: "primary" });
  box.append(run, place, others(part));
  if (begun.has(part)) follow();
  return box;
}
