// The keys, what the colours mean, and what to be careful about: one dialog, opened with "?" or its button.

import { button, h, tick } from "./dom.js";
import { t } from "./i18n.js";

const KEYS = [["← ↑ → ↓", "help.arrows"], ["Enter", "help.enter"], ["[ ]", "help.head"], ["{ }", "help.layer"],
  ["+ − 0", "help.zoom"], ["p n", "help.step"], ["x", "help.picks"], ["Esc", "help.escape"], ["?", "help.help"]];

const CAVEATS = ["help.caveat.weights", "help.caveat.mixed", "help.caveat.beside"];

/** A dialog element with open(). `keys`: {on}: single keys can be switched off (WCAG 2.1.4). */
export function helpDialog(keys) {
  const colour = (role, words) => h("li", {}, h("span", { class: `dot ${role}`, "aria-hidden": "true" }), words);
  const close = button(t("help.close"), () => dialog.close(), { class: "plain" });
  const dialog = h("dialog", { class: "help", "aria-labelledby": "help-title" },
    h("h2", { id: "help-title" }, t("help.title")),
    h("h3", {}, t("help.keys")),
    h("dl", {}, ...KEYS.map(([name, key]) => h("div", {}, h("dt", {}, h("kbd", {}, name)), h("dd", {}, t(key))))),
    tick(t("help.single"), keys.on, (on) => (keys.on = on)),
    h("h3", {}, t("help.colours")),
    h("ul", { class: "dots" }, colour("q", t("help.q")), colour("k", t("help.k")), colour("v", t("help.v"))),
    h("p", {}, t("help.axes")),
    h("h3", {}, t("help.caveats")),
    h("ul", {}, ...CAVEATS.map((key) => h("li", {}, t(key)))),
    close);
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  return dialog;
}
