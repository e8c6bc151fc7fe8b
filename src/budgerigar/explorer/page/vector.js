// A vector as a strip of coloured cells, one per number: blue below 0, red above, the paper's colour at 0. A
// matrix is a strip of several rows. The number under the mouse or the cursor is told to whoever made it.
//
//   const strip = new Vector({ name, values, role: "q", top, columns, onPoint });  root.append(strip.element);
//   strip.mark(index), strip.markRow(row), strip.mark(null): outline what a formula reads
//
// onPoint(index) after a move of the mouse or the keys, onPoint(null) when it leaves. One tab stop; arrows, Home
// and End move inside. `quiet`: no tab stop of its own (cells of a table, which has one).

import { cssParts, divergingTable } from "./colours.js";
import { h, number } from "./dom.js";
import { t } from "./i18n.js";

const WIDE = 64; // numbers in a row of a long vector

let tables = { paper: "", colours: null };

function colours() {
  const paper = cssParts("--card");
  if (tables.paper !== String(paper)) tables = { paper: String(paper), colours: divergingTable(paper) };
  return tables.colours;
}

/** The largest size of the numbers in some arrays: strips that are compared share it. */
export function topOf(...lists) {
  let most = 0;
  for (const list of lists) for (const value of list) if (Math.abs(value) > most) most = Math.abs(value);
  return most || 1;
}

/** A row of a decoded matrix. */
export function rowIn(array, row) {
  const wide = array.shape[array.shape.length - 1];
  return array.data.subarray(row * wide, (row + 1) * wide);
}

/** The length of a vector. */
export function lengthOf(values) {
  let sum = 0;
  for (const value of values) sum += value * value;
  return Math.sqrt(sum);
}

function picture(values, columns, rows, top) {
  const canvas = h("canvas", { width: columns, height: rows, "aria-hidden": "true" });
  const image = new ImageData(columns, rows);
  const table = colours();
  values.forEach((value, at) => {
    const part = Math.min(1, Math.max(-1, value / top));
    image.data.set([...table[Math.round(127.5 * (part + 1))], 255], 4 * at);
  });
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

export class Vector {
  constructor({ name, values, role = "", top = null, columns = null, quiet = false, matrix = false, onPoint = () => {} }) {
    Object.assign(this, { name, values, onPoint, at: null });
    this.columns = columns ?? (values.length <= WIDE ? values.length : WIDE);
    this.rows = Math.ceil(values.length / this.columns);
    this.marker = h("i", { class: "vector-at", hidden: true });
    this.cursor = h("i", { class: "vector-at cursor", hidden: true });
    const shape = matrix ? "matrix" : this.rows > 1 ? "folded" : "line";
    this.element = h("div", { class: `vector ${shape} ${role}`, "--columns": this.columns, "--rows": this.rows,
      role: quiet ? null : "application", tabindex: quiet ? null : 0, "aria-roledescription": quiet ? null : t("vector.role"),
      "aria-label": quiet ? null : t("vector.label", { name, count: values.length, length: number(lengthOf(values), 3) }),
      onkeydown: (event) => this.key(event), onpointermove: (event) => this.pointer(event),
      onpointerleave: () => this.point(null), onblur: () => this.point(null),
      onfocus: () => this.point(this.at ?? 0) },
    picture(values, this.columns, this.rows, top ?? topOf(values)), this.marker, this.cursor);
  }

  place(marker, at, wide = 1) {
    marker.hidden = at === null;
    if (at === null) return;
    marker.style.setProperty("--x", (at % this.columns) / this.columns);
    marker.style.setProperty("--y", Math.floor(at / this.columns) / this.rows);
    marker.style.setProperty("--w", wide / this.columns);
    marker.style.setProperty("--h", 1 / this.rows);
  }

  /** Outline one number (null: none). */
  mark(at) {
    this.place(this.marker, at);
  }

  /** Outline one row of a matrix. */
  markRow(row) {
    this.place(this.marker, row * this.columns, this.columns);
  }

  /** Outline one column of a matrix. */
  markColumn(column) {
    this.place(this.marker, column);
    this.marker.style.setProperty("--h", 1);
  }

  point(at, told = false) {
    if (at === this.at && at !== null && !told) return;
    this.at = at;
    this.place(this.cursor, at);
    this.onPoint(at, told);
  }

  pointer(event) {
    const box = this.element.getBoundingClientRect();
    const part = (at, from, size) => Math.min(1 - 1e-9, Math.max(0, (at - from) / size));
    const column = Math.floor(part(event.clientX, box.left, box.width) * this.columns);
    const row = Math.floor(part(event.clientY, box.top, box.height) * this.rows);
    const at = row * this.columns + column;
    if (at < this.values.length) this.point(at);
  }

  key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const last = this.values.length - 1;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns };
    const step = steps[event.key];
    const at = this.at ?? 0;
    const to = event.key === "Home" ? 0 : event.key === "End" ? last : step === undefined ? null : at + step;
    if (to === null) return;
    event.preventDefault();
    event.stopPropagation();
    if (to >= 0 && to <= last) this.point(to, true);
  }
}
