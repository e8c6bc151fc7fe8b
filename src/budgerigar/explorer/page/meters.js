// Numbers with a bar beside them, in tables: shares, coverage, differences that may be negative.

import { h, number } from "./dom.js";

/** A bar of value / top with the number; for signed numbers it grows from the middle, hatched below zero. */
export function meter(value, top, { digits = 3, signed = false, kind = "" } = {}) {
  if (value === null || !Number.isFinite(value)) return h("span", { class: "bar-cell" }, h("span"), h("span", { class: "figure" }, "–"));
  const share = top > 0 ? Math.min(1, Math.abs(value) / top) : 0;
  const bar = signed
    ? h("span", { class: "signed-meter", "aria-hidden": "true" }, h("span", { class: value < 0 ? "below" : "above", "--share": share }))
    : h("span", { class: `track ${kind}`, "aria-hidden": "true" }, h("span", { class: "fill", "--share": share }));
  const words = `${signed && value > 0 ? "+" : ""}${number(value, digits)}`;
  return h("span", { class: "bar-cell" }, bar, h("span", { class: "figure" }, words));
}

const PARTS = [["thead, tbody", "rowgroup"], ["tr", "row"], ["thead th", "columnheader"], ["tbody th", "rowheader"], ["td", "cell"]];

/** A table whose rows become blocks on a narrow screen, each number with its column's name; it stays a table for who
 * hears it, whatever its parts are drawn as. */
export function stacking(table) {
  const columns = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  for (const row of table.tBodies[0].rows) {
    if (row.cells.length === columns.length) columns.forEach((words, at) => at && (row.cells[at].dataset.column = words));
  }
  table.setAttribute("role", "table");
  for (const [selector, role] of PARTS) for (const part of table.querySelectorAll(selector)) part.setAttribute("role", role);
  table.classList.add("stacking");
  return table;
}

/** A table that scrolls within the page; open: at its full height. */
export function scrolling(name, content, open = false) {
  return h("div", { class: open ? "scroll open" : "scroll", tabindex: 0, role: "region", "aria-label": name }, content);
}
