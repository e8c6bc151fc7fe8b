// The sentence as the model sees it: a strip of tokens, each a button. Bytes are joined into characters over
// their columns; a column's height and colour say how surprised the model was (nats).

import { roving } from "./a11y.js";
import { viridis } from "./colours.js";
import { h, langOf, number } from "./dom.js";
import { t } from "./i18n.js";

/** A label with its blanks and line breaks faint. */
export function labelNodes(label) {
  return label.split(/([␣↵⇥∅])/).filter(Boolean).map((part) =>
    /[␣↵⇥∅]/.test(part) ? h("span", { class: "blank" }, part) : part);
}

/** A part of a character shows its bytes (E8 99 8E), any other token its label. */
function own(tokens, at, group) {
  if (!group) return tokens.labels[at];
  return group.hex?.[at - group.start] ?? tokens.labels[at].replace(/^.* (?=\d+\/\d+$)/, "");
}

function tokenButton(tokens, at, group, pick) {
  const nats = tokens.nats?.[at];
  const told = nats === undefined ? null : Number.isFinite(nats) ? nats : undefined;
  const words = [t("token.name", { label: tokens.labels[at], position: at })];
  const added = tokens.added?.includes(at);
  if (added) words.push(t("token.added"));
  if (told !== null) words.push(told === undefined ? t("token.first") : t("token.nats", { nats: number(told, 2) }));
  const share = told ? Math.min(1, told / tokens.top) : 0;
  const column = told === null ? null
    : h("span", { class: "column", "aria-hidden": "true" },
      told === undefined ? null : h("span", { class: "fill", "--share": Math.max(0.02, share), "--colour": viridis(share) }));
  return h("button", { type: "button", class: added ? "token added" : "token", "data-at": at, "aria-pressed": "false", title: words.join(t("mark.comma")),
    "aria-label": words.join(t("mark.comma")), onclick: (event) => pick(at, event) },
  column, h("bdi", { class: "text", lang: langOf(tokens.labels[at]) }, ...labelNodes(own(tokens, at, group))));
}

/** Scroll a long strip (never the page) so that a token is inside it. */
function reveal(strip, chosen) {
  if (!chosen || strip.scrollHeight <= strip.clientHeight + 1) return;
  const box = strip.getBoundingClientRect();
  const place = chosen.getBoundingClientRect();
  if (place.top < box.top) strip.scrollTop -= box.top - place.top;
  else if (place.bottom > box.bottom) strip.scrollTop += place.bottom - box.bottom;
}

/**
 * A strip. tokens: {labels, groups: [{start, length, text, hex}] (characters of several tokens), added:
 * positions of what is not text, nats (first one NaN; left out: no columns), top: nats of a full column}.
 * pick(position, event): a token was chosen. `strip.choose({query, key})` marks the chosen ones.
 */
export function tokenStrip(tokens, name, pick) {
  const joined = new Map();
  for (const group of tokens.groups ?? []) if (group.length > 1) joined.set(group.start, group);
  const children = [];
  for (let at = 0; at < tokens.labels.length; at++) {
    const group = joined.get(at);
    if (!group) children.push(tokenButton(tokens, at, null, pick));
    else {
      const parts = Array.from({ length: group.length }, (_, i) => tokenButton(tokens, at + i, group, pick));
      children.push(h("span", { class: "joined" }, h("span", { class: "parts" }, ...parts), h("bdi", { class: "glyph", lang: langOf(group.text), "aria-hidden": "true" }, group.text)));
      at += group.length - 1;
    }
  }
  const strip = h("div", { class: `strip${tokens.nats ? " surprised" : ""}`, role: "group", "aria-label": name }, ...children);
  const buttons = [...strip.querySelectorAll("button")];
  roving(strip, "button");
  let marked = new Set();
  const mark = (at, query, key) => {
    const each = buttons[at];
    const roles = [at === query ? t("token.query") : null, at === key ? t("token.key") : null].filter(Boolean);
    each.classList.toggle("query", at === query);
    each.classList.toggle("key", at === key);
    each.setAttribute("aria-pressed", String(roles.length > 0));
    each.setAttribute("aria-label", [each.title, ...roles].join(t("mark.comma")));
  };
  strip.choose = ({ query = null, key = null }) => {
    const now = new Set([query, key].filter((at) => at !== null && at < buttons.length));
    for (const at of new Set([...marked, ...now])) mark(at, query, key);
    marked = now;
    reveal(strip, buttons[query ?? key]);
  };
  return strip;
}
