// Probability bars: the likeliest few, and always the sum of what is not shown.

import { h, percent, whole } from "./dom.js";
import { labelNodes } from "./tokens.js";
import { t } from "./i18n.js";

/**
 * items: [{label, share, note, faint, chosen, onclick}]; rest: {count, share} or null; `of`: the largest share
 * that a full bar stands for. A bar with onclick is a button.
 */
export function bars(items, rest, { name, of = 1, action = (label) => label } = {}) {
  const row = ({ label, share, note, faint, chosen, onclick }) => {
    const inner = [h("bdi", { class: "label" }, ...labelNodes(label)),
      h("span", { class: "track" }, h("span", { class: "fill", "--share": Math.min(1, share / of) })),
      h("span", { class: "figure" }, percent(share)), note ? h("span", { class: "note-inline" }, note) : null];
    const marks = `bar${faint ? " faint" : ""}${chosen ? " chosen" : ""}`;
    if (!onclick) return h("li", { class: marks }, ...inner);
    return h("li", { class: marks }, h("button", { type: "button", onclick, "aria-label": `${action(label)}${t("mark.comma")}${percent(share)}${note ? `${t("mark.comma")}${note}` : ""}` }, ...inner));
  };
  const list = h("ol", { class: "bars", "aria-label": name }, ...items.map(row));
  if (rest) {
    list.append(h("li", { class: "bar rest" }, h("span", { class: "label" }, t("bars.rest", { count: whole(rest.count) })),
      h("span", { class: "track" }, h("span", { class: "fill", "--share": Math.min(1, rest.share / of) })), h("span", { class: "figure" }, percent(rest.share))));
  }
  return list;
}
