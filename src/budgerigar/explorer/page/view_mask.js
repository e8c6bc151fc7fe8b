// An encoder fills in: click a token to hide it and see what the model would put there; how well it tells every
// token when that one is hidden; and the pair in which one word decides where "it" looks.

import { encoderPanels } from "./filling.js";
import { button, choice, h, number, onDemand, panel, percent, show, table, word } from "./dom.js";
import { meter, scrolling } from "./meters.js";
import { pairPanel } from "./pair.js";
import { tokenStrip } from "./tokens.js";
import { t } from "./i18n.js";

const REPORTED = { top: 10 };
const TOP = 5;
const GUESSES = 3; // in the table
const HEADS = 12; // of those that look

let returning = null; // the token that was clicked: it has the focus again when the answer is drawn

function whole(question) {
  return Object.fromEntries(Object.entries(question).filter(([name]) => name !== "mask"));
}

/** Mask a token or show it again. */
function toggle(app, at) {
  const { mask = [] } = app.question;
  const now = mask.includes(at) ? mask.filter((each) => each !== at) : [...mask, at].sort((a, b) => a - b);
  returning = at;
  const there = !now.length || app.can("mask_out", { top: TOP }, { ...app.question, mask: now });
  const shown = there ? now : [at]; // a file has each token hidden by itself
  app.look(shown.length ? { ...app.question, mask: shown } : whole(app.question));
}

/** nats per token from what was hidden in turn; NaN where nothing is asked (special tokens). */
function natsOf(found, count) {
  const nats = new Array(count).fill(NaN);
  found.positions.data.forEach((at, i) => (nats[at] = found.nats.data[i]));
  return nats;
}

function turnTable(labels, found) {
  const k = found.top_ids.shape[1];
  const guesses = (i) => h("span", {}, ...Array.from({ length: Math.min(GUESSES, k) }, (_, g) =>
    h("span", { class: "pair" }, word(found.words[found.top_ids.data[i * k + g]]), " ", percent(found.top_p.data[i * k + g]))));
  return onDemand(t("mask.turn.twin"), () => scrolling(t("mask.turn.twin"), table(t("mask.turn.twin"), [t("word.token"), t("mask.guesses"), "p", t("word.nats"), t("word.rank")],
    Array.from(found.positions.data, (at, i) => [h("span", {}, `${at} `, word(labels[at])), guesses(i), percent(Math.exp(-found.nats.data[i])), number(found.nats.data[i], 2), String(found.rank.data[i])]), { numbersFrom: 2 })));
}

function strip(app, spelling, found) {
  const tokens = { ...spelling, nats: found ? natsOf(found, spelling.labels.length) : undefined, top: found?.full_scale ?? 1 };
  const made = tokenStrip(tokens, t("mask.strip"), (at) => toggle(app, at));
  const masked = new Set(app.question.mask ?? []);
  made.querySelectorAll("button").forEach((each, at) => {
    each.setAttribute("aria-pressed", String(masked.has(at)));
    each.classList.toggle("hidden-token", masked.has(at));
    if (masked.has(at)) each.setAttribute("aria-label", `${each.title}${t("mark.comma")}${t("mask.is")}`);
  });
  return made;
}

/** Heads by where they look from the masked token, or from where they look at it. */
function glanceTable(app, answer) {
  const figure = (value) => (value === null ? "–" : number(value, 3));
  const open = ({ layer, head, other }) => {
    const [query, key] = answer.direction === "from" ? [answer.position, other] : [other, answer.position];
    app.select({ layer, head, query, key });
    app.go("head");
  };
  const title = t(answer.direction === "from" ? "mask.from" : "mask.to");
  const rows = answer.heads.slice(0, HEADS).map((one) => [button(one.name, () => open(one), { class: "link" }), h("span", {}, word(one.label, { class: `word ${answer.direction === "from" ? "k" : "q"}` }), ` ${one.other}`),
    meter(one.weight, 1), figure(one.distance), figure(one.untrained), number(one.uniform, 3)]);
  return h("div", {}, h("h3", {}, title), scrolling(title, table(title, [t("word.head"), t("word.token"), t("links.weight"), t("links.distance"), t("links.untrained"), t("links.uniform")], rows, { numbersFrom: 2, hidden: true }), true));
}

/** Of each masked token (one at a time): who looks where. */
function glancePanel(app, masked, labels) {
  const place = h("div", { class: "stacked reserve" });
  const draw = (at) => {
    const asked = ["from", "to"].map((direction) => app.ask("glance", { position: at, direction, untrained: true }));
    return show(place, Promise.all(asked), (answers) => answers.map((answer) => glanceTable(app, answer)), 10);
  };
  const pick = masked.length > 1 ? choice(t("mask.which"), masked.map((at) => [String(at), `${labels?.[at] ?? ""} ${at}`.trim()]), String(masked[0]), (at) => draw(Number(at))) : null;
  draw(masked[0]);
  return panel(t("mask.heads"), t("mask.heads.lead"), pick, place, h("p", { class: "soft" }, t("links.explained")));
}

export const maskView = {
  id: "mask",
  titleKey: "view.mask",
  leadKey: "view.mask.lead",
  group: "kind",
  fits: (about) => about.views.includes("mask_out"),
  async draw(root, app) {
    if (!app.about.tokenizer.mask) {
      root.append(panel(t("mask.title"), null, h("p", { class: "note" }, t("mask.cannot"))), pairPanel(app));
      return () => {};
    }
    const masked = app.question.mask ?? [];
    const place = h("div", { class: "mask-place" });
    const fills = h("div", { class: "view-body bare" });
    const clear = masked.length ? button(t("mask.clear"), () => app.look(whole(app.question))) : null;
    const look = masked.length ? button(t("mask.look"), () => { app.select({ query: masked[0] }); app.go("head"); }) : null;
    root.append(panel(t("mask.title"), t("mask.lead"), place, masked.length ? h("div", { class: "controls" }, clear, look) : h("p", { class: "note" }, t("mask.click"))),
      fills, masked.length && app.can("glance", { position: masked[0], direction: "from", untrained: true }) ? glancePanel(app, masked, app.reading.spellings.read.labels) : "", pairPanel(app));
    const asked = Promise.all([app.ask("read", REPORTED, whole(app.question)), app.ask("mask_out", { top: TOP })]);
    await show(place, asked, ([reading, found]) => {
      const spelling = reading.spellings.read;
      fills.replaceChildren(...encoderPanels(app, spelling));
      return [strip(app, spelling, found), h("p", { class: "totals" }, t("mask.totals", { total: number(found.total, 2), count: found.positions.data.length, mean: number(found.total / Math.max(1, found.positions.data.length), 3) })),
        turnTable(spelling.labels, found)];
    }, 6);
    if (returning !== null) place.querySelectorAll(".strip button")[returning]?.focus({ preventScroll: true });
    returning = null;
    return () => {};
  },
};
