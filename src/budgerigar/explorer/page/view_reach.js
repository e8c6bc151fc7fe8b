// How far back the gradient of a prediction reaches, by distance; other models on the same text beside it.

import { lineChart, pen } from "./lines.js";
import { h, number, onDemand, panel, percent, show, table, tick, whole } from "./dom.js";
import { scrolling } from "./meters.js";
import { t } from "./i18n.js";

const PARAMS = { distance: null, positions: 32 };
const MOST = 5; // models beside the first
const LEAST = 1e-7; // where the picture ends

const finite = (array) => Array.from(array.data, (value) => (Number.isFinite(value) ? value : NaN));

function sightOf(answer) {
  if (answer.sees === null) return t("reach.sees.all");
  return t("reach.sees.some", { count: whole(answer.sees) });
}

/** What a token of a model is, and how many characters of this text one has on average: {kind, characters} (null: unknown). */
async function unitOf(app, question) {
  const card = { model: question.model };
  const { kind } = app.can("about", {}, card) || app.can("about", {}, question) ? (await app.ask("about", {}, app.can("about", {}, card) ? card : question)).tokenizer : {};
  const texts = [question.text];
  const { tokens } = question.text && app.can("count", { texts }, card) ? await app.ask("count", { texts }, card) : {};
  return { kind, characters: tokens?.data[0] ? [...question.text].length / tokens.data[0] : null };
}

/** Where tokens of the models are of different kinds, their distances are not the same stretch of text. */
function unitsNote(found) {
  if (new Set(found.map(({ unit }) => unit.kind)).size < 2) return null;
  const each = found.map(({ name, unit }) => (unit.characters === null ? t("reach.unit", { name, unit: t(`unit.${unit.kind}`) }) : t("reach.unit.wide", { name, unit: t(`unit.${unit.kind}`), characters: number(unit.characters, 1) })));
  return h("p", { class: "note units" }, t("reach.units"), " ", each.join(t("reach.unit.and")), t("reach.units.end"));
}

function sayings(name, answer, { characters }) {
  const near = answer.within["10"];
  const far = answer.last_above["0.01"];
  const allOfIt = answer.sees === null && far === answer.distances.data.length;
  return h("div", {}, h("dt", {}, h("bdi", {}, name)),
    h("dd", {}, h("p", { class: "big" }, t(allOfIt ? "reach.all" : "reach.tokens", { count: whole(far) })),
      characters === null ? null : h("p", { class: "soft" }, t("reach.characters", { count: whole(far * characters) })),
      h("p", { class: "soft" }, t("reach.above", { tenth: whole(answer.last_above["0.1"]), hundredth: whole(far) })),
      near === undefined ? null : h("p", { class: "soft" }, t("reach.within", { share: percent(near) })),
      h("p", { class: "soft" }, sightOf(answer))));
}

/** Lines of all models over the distances of the one that was measured farthest. */
function picture(found, log) {
  const far = found.reduce((best, each) => (each.answer.distances.data.length > best.length ? Array.from(each.answer.distances.data) : best), []);
  const series = found.map(({ name, answer }, at) => ({ name, values: far.map((_, i) => answer.smooth.data[i] ?? NaN), ...pen(at),
    band: at || found.length > 1 || log === "linear" ? null : [finite(answer.low), finite(answer.high)].map((list) => list.map((value) => Math.max(value || LEAST, LEAST))) }));
  return lineChart({ name: t("reach.title"), x: far, xTitle: t("reach.distance"), yTitle: t("reach.share"), series, logY: log !== "linear", low: log === "linear" ? 0 : undefined, high: 320, digits: 4, hint: t("reach.hint") });
}

function twin(found) {
  return onDemand(t("map.twin"), () => {
    const longest = Math.max(...found.map(({ answer }) => answer.distances.data.length));
    const columns = found.flatMap(({ name }) => [name, t("reach.smoothed", { name })]);
    const cells = ({ answer }, at) => [answer.shares, answer.smooth].map(({ data }) => (at < data.length ? number(data[at], 5) : "–"));
    return scrolling(t("reach.title"), table(t("reach.title"), [t("reach.distance"), ...columns], Array.from({ length: longest }, (_, at) => [String(at + 1), ...found.flatMap((each) => cells(each, at))])));
  });
}

export const reachView = {
  id: "reach",
  titleKey: "view.reach",
  leadKey: "view.reach.lead",
  group: "kind",
  fits: (about) => about.views.includes("reach"),
  async draw(root, app) {
    const place = h("div", { class: "reserve" });
    const own = app.question.model;
    const text = app.question.ids ? { ids: app.question.ids } : { text: app.question.text };
    const others = app.question.ids ? [] : app.models.filter(({ id, views }) => id !== own && views?.includes("reach"));
    const draw = () => {
      const beside = app.setting("reach.with", []).filter((id) => others.some((each) => each.id === id)).slice(0, MOST);
      const questions = [[own, app.question], ...beside.map((id) => [id, { model: id, ...text }])];
      const asked = Promise.all(questions.map(async ([name, question]) => ({ name, answer: await app.ask("reach", PARAMS, question), unit: await unitOf(app, question) })));
      return show(place, asked, (found) => [picture(found, app.setting("reach.scale", "log")).element,
        h("dl", { class: "figures" }, ...found.map(({ name, answer, unit }) => sayings(name, answer, unit))), unitsNote(found), h("p", { class: "soft" }, t("reach.smooth"), " ", t("reach.caveat", { count: found[0].answer.positions })), twin(found)], 12);
    };
    const choose = (id, on) => {
      const now = app.setting("reach.with", []).filter((each) => each !== id);
      app.set("reach.with", on ? [...now, id].slice(-MOST) : now);
    };
    const ticks = others.map(({ id }) => tick(id, app.setting("reach.with", []).includes(id), (on) => choose(id, on)));
    root.append(panel(t("reach.title"), t("reach.lead"),
      ticks.length ? h("fieldset", { class: "choice" }, h("legend", {}, t("reach.beside")), h("div", {}, ...ticks)) : null,
      tick(t("reach.log"), app.setting("reach.scale", "log") === "log", (on) => app.set("reach.scale", on ? "log" : "linear")), place));
    await draw();
    return (changed) => (changed.has("settings") ? draw() : undefined);
  },
};
