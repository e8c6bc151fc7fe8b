// Arcs between tokens, for the strongest weights only: from the token that looks (blue end) to the token
// looked at (orange end). Drawing every weight as a line is what makes other viewers stand still.

import { h, number, shorten, svg } from "./dom.js";
import { rowOf } from "./matrix.js";
import { t } from "./i18n.js";

const PER_ROW = 3; // arcs of a token at most
const SHORT = 64; // tokens that are all shown; of a longer text only what the chosen token has to do with
const AROUND = 14; // tokens before and after the chosen one
const BESIDE = 2; // tokens before and after those that it looks at
const GAP = 16;

/** Which rows or columns are drawn: all of a short text, else neighbourhoods, in their order. */
function drawn(count, centres) {
  if (count <= SHORT) return Array.from({ length: count }, (_, at) => at);
  const found = new Set();
  for (const [centre, around] of centres) {
    for (let at = Math.max(0, centre - around); at <= Math.min(count - 1, centre + around); at++) found.add(at);
  }
  return [...found].sort((a, b) => a - b);
}

/** The edges to draw: [{query, key, value}], the chosen query's last so that they lie on top. */
function strongest(matrix, chosen, least, rows) {
  const edges = [];
  for (const query of rows) {
    for (const [key, value] of rowOf(matrix, query, query === chosen ? 8 : PER_ROW).strongest) {
      if (value >= least) edges.push({ query, key, value });
    }
  }
  return edges.sort((a, b) => (a.query === chosen) - (b.query === chosen));
}

/** Where each token stands; `gaps`: where tokens are left out. */
function placed(labels, positions, measure) {
  const places = new Map();
  const gaps = [];
  let x = 8;
  positions.forEach((at, i) => {
    if (i && at > positions[i - 1] + 1) {
      gaps.push(x + 12);
      x += 24;
    }
    const wide = measure(shorten(labels[at], 14)) + GAP;
    places.set(at, { x: x + wide / 2, wide });
    x += wide;
  });
  return { places, gaps, wide: x + 8 };
}

const dots = ({ gaps }, y) => gaps.map((x) => svg("text", { x, y, "text-anchor": "middle", class: "arc-token" }, "…"));

function tokensAt(labels, places, y, chosen, kind, pick) {
  return [...places].map(([at, { x }]) => svg("text", { x, y, "text-anchor": "middle", "dominant-baseline": "middle",
    class: at === chosen ? `arc-token ${kind}` : "arc-token", onclick: () => pick(at) }, shorten(labels[at], 14)));
}

function curve(edge, from, to, layout) {
  if (!layout.same) {
    const middle = (layout.top + layout.bottom) / 2;
    return `M${from.x} ${layout.top}C${from.x} ${middle} ${to.x} ${middle} ${to.x} ${layout.bottom}`;
  }
  if (edge.query === edge.key) return `M${from.x - 5} ${layout.top}c-9 -22 19 -22 10 0`;
  const tall = Math.min(layout.top - 8, 16 + Math.abs(from.x - to.x) * 0.42);
  return `M${from.x} ${layout.top}C${from.x} ${layout.top - tall * 1.33} ${to.x} ${layout.top - tall * 1.33} ${to.x} ${layout.top}`;
}

/**
 * A drawing (in a scrolling box). matrix.same: rows and columns are the same tokens, one line is enough.
 * options: {chosen: query or null, least: smallest weight, pick(query)}.
 */
export function arcs(matrix, { chosen = null, least = 0.05, pick = () => {}, name = "" }) {
  const centre = chosen ?? matrix.queries.length - 1;
  const targets = rowOf(matrix, centre, 8).strongest.filter(([, value]) => value >= least).map(([key]) => [key, BESIDE]);
  const near = [centre, AROUND];
  const shownRows = drawn(matrix.queries.length, matrix.same ? [near, ...targets] : [near]);
  const shownColumns = matrix.same ? shownRows : drawn(matrix.keys.length, targets);
  const long = shownRows.length < matrix.queries.length || shownColumns.length < matrix.keys.length;
  const context = document.createElement("canvas").getContext("2d");
  context.font = `14px ${getComputedStyle(document.body).fontFamily}`;
  const measure = (label) => context.measureText(label).width;
  const rows = placed(matrix.queries, shownRows, measure);
  const columns = matrix.same ? rows : placed(matrix.keys, shownColumns, measure);
  const edges = strongest(matrix, chosen, least, shownRows).filter(({ key }) => columns.places.has(key));
  const reach = Math.max(60, ...edges.map((edge) => Math.abs(rows.places.get(edge.query).x - columns.places.get(edge.key).x)));
  const tall = matrix.same ? Math.min(170, 16 + reach * 0.42) + 10 : 130;
  const layout = matrix.same ? { same: true, top: tall } : { same: false, top: 34, bottom: tall };
  const paths = edges.map((edge) => {
    const ours = edge.query === chosen;
    const attributes = { d: curve(edge, rows.places.get(edge.query), columns.places.get(edge.key), layout),
      class: ours ? "arc ours" : "arc", "stroke-width": 0.6 + 5 * edge.value, "stroke-opacity": ours ? 1 : 0.18 + 0.5 * edge.value };
    return svg("path", attributes, svg("title", {}, `${matrix.queries[edge.query]} → ${matrix.keys[edge.key]} ${number(edge.value)}`));
  });
  const ends = edges.filter((edge) => edge.query === chosen).map((edge) =>
    svg("circle", { cx: columns.places.get(edge.key).x, cy: matrix.same ? layout.top : layout.bottom, r: 2 + 3 * edge.value, class: "arc-end" }));
  const texts = matrix.same
    ? [...tokensAt(matrix.queries, rows.places, layout.top + 16, chosen, "q", pick), ...dots(rows, layout.top + 16)]
    : [...dots(rows, 20), ...dots(columns, layout.bottom + 16), ...tokensAt(matrix.queries, rows.places, 20, chosen, "q", pick), ...tokensAt(matrix.keys, columns.places, layout.bottom + 16, null, "k", () => {})];
  const wide = Math.max(rows.wide, columns.wide);
  const high = (matrix.same ? layout.top : layout.bottom) + 32;
  const drawing = svg("svg", { width: wide, height: high, viewBox: `0 0 ${wide} ${high}`, "aria-hidden": "true", class: "arcs" }, ...paths, ...ends, ...texts);
  const scroll = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": name }, drawing);
  const middle = rows.places.get(centre)?.x ?? 0;
  requestAnimationFrame(() => (scroll.scrollLeft = middle - scroll.clientWidth / 2));
  const note = long ? t("arcs.part") : null;
  return h("div", {}, scroll, note ? h("p", { class: "soft" }, note) : null);
}
