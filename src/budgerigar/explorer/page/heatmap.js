// A heat map on canvas: rows are queries (the tokens that look), columns keys (the tokens looked at).
//
//   const map = new HeatMap({ name, onSelect, onHover });  root.append(map.element);
//   map.show(matrix, {scale, range, hideSink, transpose});  map.setCursor(query, key);
//
// onSelect(query, key) after a click or an arrow key; onHover(query, key) while the mouse moves, and with
// (null, null) when it leaves. Keys: arrows, Home, End, Page Up and Down move; Enter pins; + - 0 zoom.

import { announce } from "./a11y.js";
import { VIRIDIS_TABLE, cssColour, cssParts, divergingTable } from "./colours.js";
import { button, h, number, onDemand, waiting, word } from "./dom.js";
import { legend } from "./legend.js";
import { cellImage, margins, paint, paintCursor } from "./heatmap_paint.js";
import { arranged, largest, roundUp, rowOf, rowSum, withoutFirst } from "./matrix.js";
import { t } from "./i18n.js";

const FONT = 13;
const WIDEST = 42; // pixels of a cell at most
const CLOSEST = 60; // … when zoomed in
const PINS = 8;
const TWIN_ROWS = 600;

let maps = 0;

function theme() {
  const names = ["ink", "soft", "paper", "well", "hatch", "query", "key"];
  return Object.fromEntries(names.map((name) => [name, cssColour(`--${name}`)]));
}

export class HeatMap {
  constructor({ name, onSelect = () => {}, onHover = () => {}, digits = 3 }) {
    Object.assign(this, { name, onSelect, onHover, digits, zoom: 1, x: 0, y: 0, cursor: null, hover: null, pins: [] });
    this.picture = h("canvas", { "aria-hidden": "true" });
    this.overlay = h("canvas", { class: "overlay", "aria-hidden": "true" });
    this.stage = h("div", { class: "stage", role: "application", tabindex: 0, "aria-roledescription": t("map.role"),
      onkeydown: (event) => this.key(event) }, this.picture, this.overlay);
    this.readout = h("p", { class: "readout", id: `readout-${(maps += 1)}` }); // told when the picture gets the focus
    this.stage.setAttribute("aria-describedby", this.readout.id);
    this.pinned = h("ul", { class: "pins" });
    this.legend = h("div");
    this.axes = h("p", { class: "axes" });
    this.twin = onDemand(t("map.twin"), () => (this.shown ? this.buildTwin() : waiting(2)));
    this.zooms = h("div", { class: "zoom", role: "group", "aria-label": t("map.zoom") },
      button("−", () => this.zoomBy(1 / 1.6), { "aria-label": t("map.out") }),
      button("+", () => this.zoomBy(1.6), { "aria-label": t("map.in") }),
      button(t("map.fit"), () => this.fit()));
    this.element = h("div", { class: "heatmap" },
      h("div", { class: "above" }, this.axes, this.zooms), this.stage, this.readout, this.pinned, this.legend, this.twin);
    this.listen();
  }

  listen() {
    this.overlay.addEventListener("pointermove", (event) => this.pointer(event));
    this.overlay.addEventListener("pointerdown", (event) => this.press(event));
    this.overlay.addEventListener("pointerup", (event) => this.release(event));
    this.overlay.addEventListener("pointercancel", () => (this.drag = null));
    this.overlay.addEventListener("pointerleave", () => this.leave());
    this.overlay.addEventListener("dblclick", () => this.pin());
    this.stage.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return; // the page scrolls, as everywhere else
      event.preventDefault();
      this.zoomBy(event.deltaY < 0 ? 1.25 : 0.8, this.place(event));
    }, { passive: false });
    let width = 0;
    new ResizeObserver(() => {
      if (this.element.clientWidth === width) return;
      width = this.element.clientWidth;
      this.layout();
    }).observe(this.element);
  }

  /** Show a matrix; what was pinned in another one is forgotten. */
  show(matrix, options = {}) {
    const alike = this.matrix && this.matrix.queries === matrix.queries && this.matrix.keys === matrix.keys;
    if (!alike) Object.assign(this, { pins: [], zoom: 1, x: 0, y: 0, hover: null });
    this.matrix = matrix;
    this.options = { scale: "linear", range: "one", ...options };
    this.used = this.options.hideSink ? withoutFirst(matrix) : matrix;
    this.shown = arranged(this.used, this.options.transpose);
    const own = roundUp(largest(this.shown));
    this.top = this.shown.signed || this.options.range === "own" ? own : 1;
    this.stage.setAttribute("aria-label", t("map.label", { name: this.name, rows: matrix.queries.length, columns: matrix.keys.length }));
    this.axes.replaceChildren(h("span", { class: this.shown.turned ? "k" : "q" }, `${t("map.row")}${t("mark.colon")}${this.shown.rowAxis}`), " · ",
      h("span", { class: this.shown.turned ? "q" : "k" }, `${t("map.column")}${t("mark.colon")}${this.shown.columnAxis}`));
    this.recolour();
  }

  /** Colours anew: after another matrix, scale or theme. */
  recolour() {
    if (!this.shown) return;
    this.theme = theme();
    this.colours = this.shown.signed ? divergingTable(cssParts("--paper")) : VIRIDIS_TABLE;
    this.image = cellImage(this.shown, this.colours, this.top, this.options.scale);
    this.legend.replaceChildren(legend({ colours: this.colours, top: this.top, scale: this.options.scale,
      shown: this.shown, within: this.matrix.within, renormalised: this.options.hideSink }));
    this.twin.refresh();
    this.layout();
  }

  layout() {
    const room = this.element.clientWidth;
    if (!this.shown || !room) return;
    const context = this.picture.getContext("2d");
    const family = `${FONT}px ${getComputedStyle(this.element).fontFamily}`;
    context.font = family;
    const { left, roof } = margins(context, this.shown, FONT, Math.min(130, room * 0.3));
    const most = Math.max(240, Math.min(720, window.innerHeight * 0.78));
    const fit = Math.min(WIDEST, (room - left - 4) / this.shown.wide, Math.max(most / this.shown.high, 0.4));
    const cell = fit * this.zoom;
    const wide = Math.min(room - left - 4, this.shown.wide * cell);
    const high = Math.min(most, this.shown.high * cell);
    this.x = Math.max(0, Math.min(this.x, this.shown.wide - wide / cell));
    this.y = Math.max(0, Math.min(this.y, this.shown.high - high / cell));
    this.view = { left, roof, cell, wide, high, x: this.x, y: this.y, font: FONT, family };
    const ratio = window.devicePixelRatio || 1;
    for (const canvas of [this.picture, this.overlay]) {
      canvas.width = Math.round((left + wide + 2) * ratio);
      canvas.height = Math.round((roof + high + 2) * ratio);
      canvas.style.width = `${left + wide + 2}px`;
      canvas.style.height = `${roof + high + 2}px`;
      canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
    }
    this.overlay.style.touchAction = this.zoom > 1 ? "none" : "pan-y pinch-zoom";
    paint(context, this);
    this.drawCursor();
  }

  /** Redraw the picture without measuring anew (panning). */
  slide() {
    this.view.x = this.x = Math.max(0, Math.min(this.x, this.shown.wide - this.view.wide / this.view.cell));
    this.view.y = this.y = Math.max(0, Math.min(this.y, this.shown.high - this.view.high / this.view.cell));
    paint(this.picture.getContext("2d"), this);
    this.drawCursor();
  }

  /** Larger or smaller around a place ([row, column] as drawn), else the cursor, else the middle. */
  zoomBy(factor, place = null) {
    if (!this.view) return;
    const { cell: before, wide, high } = this.view;
    const [row, column] = place ?? this.toShown(this.cursor) ?? [this.y + high / before / 2, this.x + wide / before / 2];
    const fitting = before / this.zoom;
    this.zoom = Math.max(1, Math.min(Math.max(1, CLOSEST / fitting), this.zoom * factor));
    const grown = this.zoom * fitting / before; // the place stays where it was on the screen
    this.x = column - (column - this.x) / grown;
    this.y = row - (row - this.y) / grown;
    this.layout();
  }

  fit() {
    Object.assign(this, { zoom: 1, x: 0, y: 0 });
    this.layout();
  }

  // -- cursor ------------------------------------------------------------------------------------
  /** [query, key] -> [row, column] as drawn, and back: the same swap. */
  toShown(cell) {
    return cell && (this.shown.turned ? [cell[1], cell[0]] : cell);
  }

  /** Move the cross-hair to a cell; null where nothing is chosen. Does not call onSelect. */
  setCursor(query, key) {
    const inside = query !== null && key !== null && this.matrix && query < this.matrix.queries.length && key < this.matrix.keys.length;
    this.cursor = inside ? [query, key] : null;
    if (this.view && this.cursor && this.reveal()) this.slide();
    else this.drawCursor();
  }

  /** Scroll so that the cursor is inside; true when that moved the picture. */
  reveal() {
    const [row, column] = this.toShown(this.cursor);
    const { cell, wide, high } = this.view;
    const before = [this.x, this.y];
    this.x = Math.min(Math.max(this.x, column + 1 - wide / cell), column);
    this.y = Math.min(Math.max(this.y, row + 1 - high / cell), row);
    return Math.abs(before[0] - this.x) > 0.01 || Math.abs(before[1] - this.y) > 0.01;
  }

  drawCursor() {
    if (!this.view) return;
    const cell = this.hover ?? this.cursor;
    paintCursor(this.overlay.getContext("2d"), this, this.toShown(cell), this.pins.map((pin) => this.toShown(pin)));
    this.readout.replaceChildren(...(cell ? this.words(...cell) : [t("map.hint")]));
  }

  /** A cell in words, as nodes. */
  words(query, key) {
    const { matrix, used } = this;
    const at = query * matrix.keys.length + key;
    const reason = matrix.codes?.[at];
    const hidden = !reason && used.codes?.[at];
    const figure = reason ? matrix.reasons[reason] : hidden ? t("map.hidden") : number(used.values[at], this.digits);
    const parts = [word(matrix.queries[query], { class: "word q" }), matrix.sumless ? " → " : ` ${query} → `, word(matrix.keys[key], { class: "word k" }), ` ${key}${t("mark.colon")}`,
      h("strong", {}, figure)];
    if (!matrix.signed && !matrix.sumless) parts.push(" · ", h("span", { class: "soft" }, t("map.sum", { sum: number(rowSum(matrix, query), this.digits) })));
    return parts;
  }

  // -- mouse, pen, finger --------------------------------------------------------------------------
  /** [row, column] under a pointer, with fractions; null outside. */
  place(event) {
    if (!this.view) return null;
    const box = this.overlay.getBoundingClientRect();
    const { left, roof, cell } = this.view;
    const row = (event.clientY - box.top - roof) / cell + this.y;
    const column = (event.clientX - box.left - left) / cell + this.x;
    const inside = row >= this.y && column >= this.x && row < this.shown.high && column < this.shown.wide;
    return inside ? [row, column] : null;
  }

  pointer(event) {
    if (this.drag && this.zoom > 1) {
      const moved = [event.clientX - this.drag.at[0], event.clientY - this.drag.at[1]];
      this.drag.far ||= Math.hypot(...moved) > 5;
      if (this.drag.far) {
        this.x = this.drag.from[0] - moved[0] / this.view.cell;
        this.y = this.drag.from[1] - moved[1] / this.view.cell;
        this.frame ??= requestAnimationFrame(() => ((this.frame = null), this.slide()));
        return;
      }
    }
    const place = this.place(event);
    if (!place) return;
    const cell = this.toShown(place.map(Math.floor));
    if (this.hover && cell[0] === this.hover[0] && cell[1] === this.hover[1]) return;
    this.hover = cell;
    this.frame ??= requestAnimationFrame(() => ((this.frame = null), this.drawCursor(), this.hover && this.onHover(...this.hover)));
  }

  press(event) {
    this.drag = { at: [event.clientX, event.clientY], from: [this.x, this.y], far: false };
    if (this.zoom > 1) this.overlay.setPointerCapture(event.pointerId);
  }

  release(event) {
    const dragged = this.drag?.far;
    this.drag = null;
    const place = this.place(event);
    if (dragged || !place) return;
    this.select(...this.toShown(place.map(Math.floor)));
  }

  leave() {
    if (!this.hover) return;
    this.hover = null;
    this.drawCursor();
    this.onHover(null, null);
  }

  // -- keyboard ------------------------------------------------------------------------------------
  key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || !this.view) return;
    const page = Math.max(1, Math.floor(this.view.high / this.view.cell / 2));
    const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0],
      PageUp: [-page, 0], PageDown: [page, 0], Home: [0, -Infinity], End: [0, Infinity] };
    const others = { Enter: () => this.pin(), "+": () => this.zoomBy(1.6), "=": () => this.zoomBy(1.6),
      "-": () => this.zoomBy(1 / 1.6), 0: () => this.fit() };
    if (moves[event.key]) {
      const [row, column] = this.toShown(this.cursor) ?? [this.shown.high - 1, 0];
      const to = [Math.max(0, Math.min(this.shown.high - 1, row + moves[event.key][0])),
        Math.max(0, Math.min(this.shown.wide - 1, column + moves[event.key][1]))];
      this.select(...this.toShown(this.cursor ? to : [row, column]));
      announce(this.readout.textContent);
    } else if (others[event.key]) others[event.key]();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  select(query, key) {
    this.hover = null;
    this.setCursor(query, key);
    this.onSelect(query, key);
  }

  /** Keep the cell under the cursor in the list below; again: take it out. */
  pin() {
    const cell = this.hover ?? this.cursor;
    if (!cell) return;
    const at = this.pins.findIndex((pin) => pin[0] === cell[0] && pin[1] === cell[1]);
    if (at >= 0) this.pins.splice(at, 1);
    else this.pins = [...this.pins, [...cell]].slice(-PINS);
    this.pinned.replaceChildren(...this.pins.map((pin) => h("li", {}, ...this.words(...pin))));
    announce(t(at >= 0 ? "map.unpinned" : "map.pinned"));
    this.drawCursor();
  }

  /** A weight with the same digits as its neighbours. One that rounds to zero is not zero: only what is stored exactly can be. */
  inTwin(value) {
    const { signed, sumless, within } = this.matrix;
    if (signed || sumless || value >= 0.5 * 10 ** -this.digits) return number(value, this.digits);
    return value === 0 && within === 0 ? "0" : `< ${number(10 ** -this.digits, this.digits)}`;
  }

  /** The same in words, for screen readers and for those who want numbers. */
  buildTwin() {
    const { matrix } = this;
    const rows = matrix.queries.slice(0, TWIN_ROWS).map((label, query) => {
      const { sum, strongest } = rowOf(matrix, query, 4);
      const cells = strongest.map(([key, value], at) => h("span", { class: "pair" }, word(matrix.keys[key]), ` ${key} `, this.inTwin(value), at < strongest.length - 1 ? "; " : ""));
      return h("tr", {}, h("th", { scope: "row" }, matrix.sumless ? "" : `${query} `, word(label)),
        h("td", {}, ...cells), matrix.signed || matrix.sumless ? null : h("td", { class: "number" }, number(sum, this.digits)));
    });
    const head = [matrix.rowTitle ?? t("map.query"), t("map.strongest"), ...(matrix.signed || matrix.sumless ? [] : [t("map.rowsum")])];
    return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": this.name },
      h("table", {}, h("caption", {}, this.name), h("thead", {}, h("tr", {}, ...head.map((words) => h("th", { scope: "col" }, words)))), h("tbody", {}, ...rows)));
  }
}
