// Keys of the whole page: [ ] heads, { } layers, x what a click chooses, Esc clears, ? help. Arrow keys and
// Enter belong to the heat map that has the focus. None of them acts while the reader types. A button of the view
// with data-press="n" is pressed by n.

import { announce, typing } from "./a11y.js";
import { headName } from "./dom.js";
import { chosen, picking, picksOf, siteOf } from "./sites.js";
import { t } from "./i18n.js";

function step(app, layers, heads) {
  const site = siteOf(app);
  if (!site) return;
  const { layer, head } = chosen(app);
  const to = { layer: (layer + layers + site.layers) % site.layers, head: (head + heads + site.heads) % site.heads };
  app.select(to);
  announce(headName(to.layer, to.head));
}

/** Listen on the document. keys.on: single keys act; help: the dialog. */
export function listenForKeys(app, keys, help) {
  const acts = {
    "[": () => step(app, 0, -1),
    "]": () => step(app, 0, 1),
    "{": () => step(app, -1, 0),
    "}": () => step(app, 1, 0),
    x: () => {
      const picks = picksOf(app) === "query" ? "key" : "query";
      app.state.set(picking(app, picks));
      announce(t(picks === "query" ? "picks.query" : "picks.key"));
    },
    Escape: () => app.select({ query: null, key: null }),
    "?": () => help().showModal(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
    if (document.querySelector("dialog[open]")) return;
    if (!keys.on && event.key !== "Escape") return;
    const pressed = document.querySelector(`main [data-press="${CSS.escape(event.key)}"]:not(:disabled)`);
    const act = pressed ? () => pressed.click() : acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
}
