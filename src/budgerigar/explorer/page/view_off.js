// Switch heads off and see what becomes of the next token, the loss, the translation; and what each head alone does.

import { button, choice, failure, h, headName, number, panel, percent, said, show, table, whole, word } from "./dom.js";
import { meter, scrolling } from "./meters.js";
import { abilityName } from "./role_names.js";
import { siteOf } from "./sites.js";
import { t } from "./i18n.js";

const TOP = 8;
const LEAST_POINTS = 0.01;

let returning = null; // the switch that was pressed: it has the focus again when the answer is drawn

function without(question) {
  return Object.fromEntries(Object.entries(question).filter(([name]) => !["off", "how", "of", "kind"].includes(name)));
}

/** The heads of this attention that the question switches off. */
function offHere(app, site) {
  const { off, of, kind } = app.question;
  return (of ?? site.of) === site.of && (kind ?? site.kind) === site.kind ? off ?? [] : [];
}

/** How heads can be switched off here: additive attention runs word by word, so no place of another text is its own. */
function waysOf(app) {
  return app.about.kind === "rnn-encoder-decoder" ? ["mean", "zero"] : ["mean", "zero", "resample"];
}

function howOf(app) {
  return app.question.off?.length ? app.question.how ?? "zero" : app.setting("off.how", "mean");
}

/** The question with these heads off. */
function asking(app, site, off, how) {
  const base = without(app.question);
  return off.length ? { ...base, off, how, of: site.of, kind: site.kind } : base;
}

function recorded(app, site, off, how) {
  return app.can("off", { top: TOP, measure: false }, asking(app, site, off, how));
}

/** A file has each head off by itself: where it lacks several together, it shows the last one pressed alone. */
function ask(app, site, off, how, pressed = off.at(-1)) {
  const there = !off.length || recorded(app, site, off, how);
  app.look(asking(app, site, there ? off : [pressed], how));
}

/** Name of one head, or of a whole layer where the question says so. */
function isOff(off, layer, head) {
  return off.includes(headName(layer, head)) || off.includes(`L${layer}`);
}

function spread(off, site) {
  return off.flatMap((name) => (/^L\d+$/.test(name) ? Array.from({ length: site.heads }, (_, head) => `${name}.H${head}`) : [name]));
}

/** An effect with its sign where it has one: without a head a text can become easier, too. */
function effectWords({ size, signed }, digits = 3) {
  return signed === undefined ? number(size, digits) : `${signed > 0 ? "+" : ""}${number(signed, digits)}`;
}

function board(app, site, effects) {
  const off = offHere(app, site);
  const top = Math.max(1e-9, ...[...effects.values()].map(({ size }) => size));
  const toggle = (name) => {
    const now = spread(off, site);
    returning = name;
    ask(app, site, now.includes(name) ? now.filter((each) => each !== name) : [...now, name].sort(), howOf(app), name);
  };
  const one = (layer, head) => {
    const name = headName(layer, head);
    const effect = effects.get(name);
    const words = effect ? `${name}${t("mark.comma")}${t("off.effect", { value: effectWords(effect) })}` : name;
    return h("button", { type: "button", class: "switch", "data-name": name, "aria-pressed": String(isOff(off, layer, head)), "aria-label": t("off.switch", { head: words }), disabled: !isOff(off, layer, head) && !recorded(app, site, [name], howOf(app)), onclick: () => toggle(name) },
      name, effect ? h("span", { class: "track", "aria-hidden": "true" }, h("span", { class: "fill", "--share": effect.size / top })) : null, effect ? h("span", { class: "soft" }, effectWords(effect)) : null);
  };
  return h("div", { class: "switchboard", role: "group", "aria-label": t("off.board") }, ...Array.from({ length: site.layers }, (_, layer) =>
    h("div", { class: "switch-row" }, h("span", { class: "soft" }, t("grid.layer", { layer })), ...Array.from({ length: site.heads }, (_, head) => one(layer, head)))));
}

// -- what becomes of it -------------------------------------------------------------------------------

/** A difference of two probabilities in percentage points. */
function points(difference) {
  const size = 100 * Math.abs(difference);
  if (size > 0 && size < LEAST_POINTS) return t("off.tiny", { value: LEAST_POINTS });
  return `${difference < 0 ? "−" : "+"}${number(size, 2)}`;
}

function guesses(answer) {
  const top = Math.max(...answer.guesses.flatMap(({ before, after }) => [before, after]));
  const rows = answer.guesses.map(({ label, before, after }) => [word(label), meter(before, top), meter(after, top, { kind: "after" }), points(after - before)]);
  return [h("h3", {}, t("off.next")), h("p", {}, t("off.moved", { share: percent(answer.moved) })),
    scrolling(t("off.next"), table(t("off.next"), [t("word.token"), t("off.before"), t("off.after"), t("off.points")], rows, { hidden: true }), true)];
}

/** What the mean (or the other text's output) is taken from. */
function takenFrom({ reference, how }) {
  if (!reference) return [];
  const positions = { text: "off.of.text", source: "off.of.source", translation: "off.of.translation" };
  const what = t(positions[reference.of], { count: whole(reference.positions) });
  return [h("p", { class: "soft" }, t(how === "mean" ? "off.over" : "off.from"), " ", what, t("mark.colon"), said(reference.texts), t("mark.stop"))];
}

function result(answer) {
  const parts = takenFrom(answer);
  const pair = (words, text) => h("div", {}, h("dt", {}, words), h("dd", {}, h("bdi", {}, text || "∅")));
  if (answer.translation) {
    parts.push(h("h3", {}, t("off.translation")), h("dl", { class: "sentences" }, pair(t("off.before"), answer.translation.before), pair(t("off.after"), answer.translation.after)));
    if (answer.translation.before === answer.translation.after) parts.push(h("p", { class: "note" }, t("off.same")));
  }
  if (answer.loss) {
    const { before, after, tokens } = answer.loss;
    parts.push(h("dl", { class: "figures" }, h("div", {}, h("dt", {}, t("off.loss", { tokens })), h("dd", { class: "big" }, `${number(before, 3)} → ${number(after, 3)}`)),
      h("div", {}, h("dt", {}, t("off.rise")), h("dd", { class: "big" }, `${after >= before ? "+" : "−"}${number(Math.abs(after - before), 3)}`))));
  }
  if (answer.guesses) parts.push(...guesses(answer));
  if (!answer.guesses && !answer.translation) parts.push(h("p", { class: "note" }, t("off.encoder")));
  return parts;
}

function abilities(answer) {
  const words = { share: (value) => percent(value), nats: (value) => t("token.nats", { nats: number(value, 3) }) };
  return scrolling(t("off.abilities"), table(t("off.abilities.caption"), [t("off.ability"), t("off.before"), t("off.after"), t("off.texts")],
    answer.abilities.map(({ unit, before, after, on, ...which }) => [abilityName(which), words[unit](before), words[unit](after), h("span", { class: "soft" }, said(on))]), { numbersFrom: 1 }), true);
}

function resultPanel(app) {
  const place = h("div", { class: "reserve stacked" });
  const more = h("div");
  const measure = button(t("off.measure"), () => {
    measure.hidden = true;
    show(more, app.ask("off", { top: TOP, measure: true }), abilities, 5);
  });
  measure.disabled = !app.can("off", { top: TOP, measure: true });
  show(place, app.ask("off", { top: TOP, measure: false }), result, 10);
  return panel(t("off.result", { heads: app.question.off.join(t("list.comma")) }), null, place, h("h3", {}, t("off.abilities")), h("p", { class: "soft" }, t("off.abilities.lead")), measure, more);
}

// -- every head by itself -------------------------------------------------------------------------------

/** How much one head alone changes: nats per token where a text is scored, else words of the translation, else probability. */
function effectOf(answer) {
  if (answer.loss) return { size: Math.abs(answer.loss.after - answer.loss.before), signed: answer.loss.after - answer.loss.before, answer };
  if (answer.translation) return { size: distance(answer.translation.before.split(" "), answer.translation.after.split(" ")), answer };
  return { size: answer.moved ?? 0, answer };
}

/** Words that are to be put in, left out or changed (Levenshtein 1966). */
function distance(first, second) {
  let line = second.map((_, at) => at + 1);
  first.forEach((left, row) => {
    let corner = row;
    let before = row + 1;
    line = line.map((above, at) => {
      const best = Math.min(above + 1, before + 1, corner + (left === second[at] ? 0 : 1));
      corner = above;
      before = best;
      return best;
    });
  });
  return line[line.length - 1];
}

function effectTable(app, site, effects) {
  const rows = [...effects].sort((a, b) => b[1].size - a[1].size);
  const top = Math.max(1e-9, ...rows.map(([, { size }]) => size));
  const translated = rows.some(([, { answer }]) => answer.translation);
  const open = (name) => button(name, () => ask(app, site, [name], howOf(app)), { class: "link", "aria-label": t("off.switch", { head: name }) });
  return scrolling(t("off.every"), table(t("off.every.caption"), [t("word.head"), t(translated ? "off.words" : "off.rise"), ...(translated ? [t("off.after")] : [])],
    rows.map(([name, { size, signed, answer }]) => [open(name), meter(signed ?? size, top, { signed: signed !== undefined, digits: translated ? 0 : 4 }), ...(translated ? [h("bdi", {}, answer.translation.after || "∅")] : [])]), { numbersFrom: 1 }), true);
}

function everyPanel(app, site, effects, redraw) {
  const place = h("div", {}, effects.size ? effectTable(app, site, effects) : "");
  const status = h("span", { class: "soft", role: "status" });
  const how = howOf(app);
  const all = Array.from({ length: site.layers * site.heads }, (_, at) => headName(Math.floor(at / site.heads), at % site.heads));
  let stopped = false;
  const stop = button(t("job.stop"), () => (stopped = true), { class: "plain", hidden: true });
  const run = async () => {
    start.disabled = true;
    stopped = false;
    stop.hidden = false;
    for (const [at, name] of all.entries()) {
      if (!place.isConnected) return;
      if (stopped) break;
      status.textContent = t("off.trying", { at: at + 1, all: all.length });
      effects.set(name, effectOf(await app.ask("off", { top: TOP, measure: false }, asking(app, site, [name], how))));
    }
    status.textContent = stopped ? t("job.stopped") : "";
    start.disabled = false;
    stop.hidden = true;
    redraw();
    place.replaceChildren(effectTable(app, site, effects));
  };
  const start = button(t("off.try", { count: all.length }), () => run().catch((error) => status.replaceChildren(failure(error))));
  start.disabled = !recorded(app, site, [all[0]], how);
  return panel(t("off.every"), t("off.every.lead"), h("div", { class: "controls" }, start, status, stop), place);
}

export const offView = {
  id: "off",
  titleKey: "view.off",
  leadKey: "view.off.lead",
  group: "change",
  fits: (about) => about.views.includes("off"),
  async draw(root, app) {
    const site = siteOf(app);
    const effects = new Map();
    const place = h("div", {}, board(app, site, effects));
    const words = { mean: t("off.mean"), zero: t("off.zero"), resample: t("off.resample") };
    const ways = waysOf(app);
    const how = choice(t("off.how"), ways.map((way) => [way, words[way]]), howOf(app), (value) => {
      if (app.question.off?.length) ask(app, site, app.question.off, value);
      app.set("off.how", value);
    });
    const off = app.question.off ?? [];
    const every = off.length ? button(t("off.all.on"), () => ask(app, site, [], "mean")) : null;
    const few = app.source.live ? null : h("p", { class: "note" }, t(recorded(app, site, [headName(0, 0)], howOf(app)) ? "off.kept" : "off.not.kept"), " ", t("needs.live"));
    root.append(panel(t("off.title"), t("off.lead"), how, place, few, h("div", { class: "controls" }, every, h("p", { class: "soft" }, t("off.ways")))));
    root.append(off.length ? resultPanel(app) : panel(t("off.none.title"), null, h("p", { class: "note" }, t("off.none"))));
    if (app.about.kind !== "encoder") root.append(everyPanel(app, site, effects, () => place.replaceChildren(board(app, site, effects))));
    if (returning) place.querySelector(`[data-name="${returning}"]`)?.focus({ preventScroll: true });
    returning = null;
    return () => {};
  },
};
