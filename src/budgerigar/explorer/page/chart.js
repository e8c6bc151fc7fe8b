// A small line chart over layers, with its numbers beside the points. Hidden from screen readers: a table says
// the same.

import { h, svg } from "./dom.js";

const SIZE = { wide: 420, high: 150, left: 12, right: 12, top: 22, bottom: 26 };
const MOST = 14; // points that have their number beside them

/**
 * values: one per name; show(value): its words; log: a logarithmic scale from 1 up; marked: which point is outlined;
 * pick(at): a point was clicked.
 */
export function chart(title, names, values, { show, log = false, marked = null, pick = () => {} }) {
  const scaled = log ? values.map((value) => Math.log(Math.max(1, value))) : values;
  const top = Math.max(...scaled, 1e-9);
  const inner = { wide: SIZE.wide - SIZE.left - SIZE.right - 30, high: SIZE.high - SIZE.top - SIZE.bottom };
  const step = names.length > 1 ? inner.wide / (names.length - 1) : 0;
  const x = (at) => SIZE.left + 15 + at * step;
  const y = (at) => SIZE.top + inner.high * (1 - scaled[at] / top);
  const every = Math.ceil(names.length / MOST);
  const labelled = (at) => at % every === 0 || at === names.length - 1 || at === marked;
  const line = svg("polyline", { class: "chart-line", points: values.map((_, at) => `${x(at)},${y(at)}`).join(" ") });
  const points = values.map((value, at) => svg("circle", { class: at === marked ? "chart-point marked" : "chart-point", cx: x(at), cy: y(at), r: at === marked ? 5.5 : 3.5, onclick: () => pick(at) }, svg("title", {}, `${names[at]}: ${show(value)}`)));
  const numbers = values.flatMap((value, at) => (labelled(at) ? [svg("text", { class: "chart-number", x: x(at), y: y(at) - 8, "text-anchor": "middle" }, show(value))] : []));
  const axis = names.flatMap((name, at) => (labelled(at) ? [svg("text", { class: "chart-name", x: at ? x(at) : 2, y: SIZE.high - 6, "text-anchor": at ? "middle" : "start" }, name)] : []));
  const base = svg("line", { class: "chart-base", x1: SIZE.left, x2: SIZE.wide - SIZE.right, y1: SIZE.high - SIZE.bottom, y2: SIZE.high - SIZE.bottom });
  return h("figure", { class: "chart" }, h("figcaption", {}, title),
    svg("svg", { viewBox: `0 0 ${SIZE.wide} ${SIZE.high}`, "aria-hidden": "true" }, base, line, ...points, ...numbers, ...axis));
}
