// Heads that the reader keeps at hand, each with a colour of its own, and what they do with the chosen row.

import { MOST_PINNED, PINNED } from "./colours.js";
import { button, h, headName, number, show, word } from "./dom.js";
import { chosen, siteOf, siteParams, spelling } from "./sites.js";
import { t } from "./i18n.js";

const KEYS = 3; // strongest keys shown of each pinned head

function numbers(name) {
  const found = /^L(\d+)\.H(\d+)$/.exec(name);
  return found && { layer: Number(found[1]), head: Number(found[2]) };
}

/** Pinned heads that this attention has: [{name, layer, head, colour}]. */
export function pinnedHeads(app) {
  const site = siteOf(app);
  return app.state.get().pinned.map((name, at) => ({ name, colour: PINNED[at % MOST_PINNED], ...numbers(name) }))
    .filter(({ layer, head }) => layer < site.layers && head < site.heads);
}

/** Pin the head that is shown, or take it out; the oldest makes room. */
function toggle(app) {
  const { layer, head } = chosen(app);
  const name = headName(layer, head);
  const { pinned } = app.state.get();
  app.state.set({ pinned: pinned.includes(name) ? pinned.filter((each) => each !== name) : [...pinned, name].slice(-MOST_PINNED) });
}

/** The button that pins, and the pinned heads as buttons that show them. */
export function pinBar(app) {
  const bar = h("div", { class: "pinbar" });
  bar.refresh = () => {
    const { layer, head } = chosen(app);
    const now = headName(layer, head);
    const pinned = app.state.get().pinned.includes(now);
    const had = bar.contains(document.activeElement) && document.activeElement.dataset.name;
    const chips = pinnedHeads(app).map(({ name, layer: toLayer, head: toHead, colour }) =>
      button(name, () => app.select({ layer: toLayer, head: toHead }), { class: "pin", "data-name": name, "--colour": colour, "aria-current": name === now ? "true" : null }));
    bar.replaceChildren(button(t(pinned ? "pins.unpin" : "pins.pin"), () => toggle(app), { "data-name": "toggle", "aria-pressed": String(pinned) }), ...chips);
    if (had) bar.querySelector(`[data-name="${had}"]`)?.focus();
  };
  bar.refresh();
  return bar;
}

/** For each pinned head its strongest keys of a row. */
export function pinnedRows(app, query) {
  const heads = pinnedHeads(app);
  if (!heads.length) return null;
  const labels = spelling(app, siteOf(app).keys).labels;
  const lines = heads.map(({ name, layer, head, colour }) => {
    const place = h("span");
    show(place, app.ask("row", { layer, head, query, ...siteParams(app) }), (answer) =>
      Array.from(answer.order.data).filter((key) => !answer.codes.data[key]).slice(0, KEYS).map((key) =>
        h("span", { class: "pair" }, word(labels[key]), " ", number(answer.weights.data[key], 3))), 1);
    return h("li", {}, h("span", { class: "pin-name", "--colour": colour }, name), place);
  });
  return h("div", {}, h("h3", {}, t("pins.title")), h("ul", { class: "pinned-rows" }, ...lines));
}
