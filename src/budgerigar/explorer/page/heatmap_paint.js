// What a heat map draws on its two canvases. The picture holds cells and labels; the cursor lies on a canvas
// of its own, so that moving it costs the same whatever the number of tokens.

import { HIDDEN, share } from "./matrix.js";
import { inkOn } from "./colours.js";
import { shorten } from "./dom.js";

const LABEL = 18; // longest label in characters
const NUMBERS = 34; // cells at least this wide hold their number

/** Chinese and its kin are read with one character below the other. */
const stacks = (label) => /^[⺀-鿿豈-﫿가-힯]{1,6}$/.test(label);

/** One or two letters stand upright above their column. */
const upright = (label) => stacks(label) || [...label].length <= 2;

/** One pixel per cell, masked ones transparent: drawn once, then only stretched. */
export function cellImage(shown, colours, top, scale) {
  const image = new ImageData(shown.wide, shown.high);
  const pixels = new Uint32Array(image.data.buffer);
  const packed = Uint32Array.from(colours, ([r, g, b]) => (255 << 24) | (b << 16) | (g << 8) | r);
  const { values, codes, signed } = shown;
  for (let i = 0; i < values.length; i++) {
    if (codes && codes[i]) continue;
    const part = signed ? (values[i] / top + 1) / 2 : share(values[i], top, scale);
    pixels[i] = packed[Math.round(255 * Math.min(1, Math.max(0, part)))];
  }
  const canvas = document.createElement("canvas");
  canvas.width = shown.wide;
  canvas.height = shown.high;
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

/** Stripes: rising ones for masked cells, falling ones for what the reader hid. */
export function stripes(context, x, y, wide, high, { line, falling = false, step = 6 }) {
  if (wide <= 0 || high <= 0) return;
  context.save();
  context.beginPath();
  context.rect(x, y, wide, high);
  context.clip();
  context.strokeStyle = line;
  context.lineWidth = 1;
  context.beginPath();
  for (let d = -high; d < wide; d += step) {
    context.moveTo(x + d, falling ? y : y + high);
    context.lineTo(x + d + high, falling ? y + high : y);
  }
  context.stroke();
  context.restore();
}

/** Room for labels: left of the rows and above the columns, in CSS pixels. */
export function margins(context, shown, font, most) {
  const width = (label) => context.measureText(shorten(label, LABEL)).width * 1.08; // the chosen one is bold
  const rows = Math.max(8, ...shown.rows.map(width));
  const columns = Math.max(8, ...shown.columns.map((label) =>
    stacks(label) ? [...label].length * font * 1.15 : upright(label) ? font : width(label)));
  return { left: Math.ceil(Math.min(rows, most)) + 14, roof: Math.ceil(Math.min(columns, most)) + 12 };
}

function columnLabel(context, label, x, y, font) {
  context.save();
  context.translate(x, y);
  if (stacks(label)) {
    context.textAlign = "center";
    [...label].reverse().forEach((letter, i) => context.fillText(letter, 0, -(i + 0.5) * font * 1.15));
  } else if (upright(label)) {
    context.textAlign = "center";
    context.fillText(label, 0, -font / 2);
  } else {
    context.rotate(-Math.PI / 2);
    context.textAlign = "left";
    context.fillText(shorten(label, LABEL), 0, 0);
  }
  context.restore();
}

function labels(context, shown, view, theme) {
  const { left, roof, cell, x, y, wide, high, font } = view;
  const every = Math.max(1, Math.ceil((font + 3) / cell));
  context.fillStyle = theme.soft;
  context.textBaseline = "middle";
  context.textAlign = "right";
  for (let row = Math.ceil(y / every) * every; row < shown.high; row += every) {
    const at = (row - y + 0.5) * cell;
    if (at > high) break;
    if (at >= 0) context.fillText(shorten(shown.rows[row], LABEL), left - 7, roof + at);
  }
  for (let column = Math.ceil(x / every) * every; column < shown.wide; column += every) {
    const at = (column - x + 0.5) * cell;
    if (at > wide) break;
    if (at >= 0) columnLabel(context, shown.columns[column], left + at, roof - 7, font);
  }
}

function numbers(context, shown, view, colours, top, scale) {
  const { left, roof, cell, x, y, wide, high } = view;
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (let row = Math.floor(y); row < Math.min(shown.high, y + high / cell); row++) {
    for (let column = Math.floor(x); column < Math.min(shown.wide, x + wide / cell); column++) {
      const at = row * shown.wide + column;
      if (shown.codes && shown.codes[at]) continue;
      const value = shown.values[at];
      if (shown.signed && Math.abs(value) < 0.005) continue; // no difference needs no number
      const part = shown.signed ? (value / top + 1) / 2 : share(value, top, scale);
      context.fillStyle = inkOn(colours[Math.round(255 * Math.min(1, Math.max(0, part)))]);
      const words = value.toFixed(2).replace(/^(-?)0\./, "$1.").replace("-", "−");
      context.fillText(words, left + (column - x + 0.5) * cell, roof + (row - y + 0.5) * cell);
    }
  }
}

/** Cells, hatching, labels and (in large cells) numbers. */
export function paint(context, picture) {
  const { shown, view, theme, image, colours, top, scale } = picture;
  const { left, roof, cell, x, y, wide, high } = view;
  context.clearRect(0, 0, left + wide + 2, roof + high + 2);
  context.font = view.family;
  context.fillStyle = theme.well;
  context.fillRect(left, roof, wide, high);
  stripes(context, left, roof, wide, high, { line: theme.hatch });
  hiddenStripes(context, shown, view, theme);
  context.imageSmoothingEnabled = cell < 1;
  context.imageSmoothingQuality = "high";
  context.drawImage(image, x, y, wide / cell, high / cell, left, roof, wide, high);
  labels(context, shown, view, theme);
  if (cell >= NUMBERS) {
    context.font = view.family.replace(/^\S+/, `${Math.min(12, cell / 3)}px`);
    numbers(context, shown, view, colours, top, scale);
  }
}

/** The column (or transposed: row) of the first token that the reader hid. */
function hiddenStripes(context, shown, view, theme) {
  if (!shown.codes || !shown.codes.includes(HIDDEN)) return;
  const { left, roof, cell, x, y, wide, high } = view;
  const end = (1 - (shown.turned ? y : x)) * cell;
  if (end <= 0) return;
  const box = shown.turned ? [left, roof, wide, Math.min(end, high)] : [left, roof, Math.min(end, wide), high];
  context.fillStyle = theme.well;
  context.fillRect(...box);
  stripes(context, ...box, { line: theme.hatch, falling: true });
}

function tag(context, words, x, y, angle, theme, colour, align) {
  context.save();
  context.translate(x, y);
  context.rotate(angle);
  context.textAlign = align;
  const wide = context.measureText(words).width + 8;
  context.fillStyle = theme.paper;
  context.fillRect(align === "right" ? 4 - wide : -4, -9, wide, 18);
  context.fillStyle = colour;
  context.fillText(words, 0, 0);
  context.restore();
}

/** Cross-hair, the cell under it, pinned cells, and the two labels in full. */
export function paintCursor(context, picture, cursor, pins) {
  const { shown, view, theme } = picture;
  const { left, roof, cell, x, y, wide, high, font } = view;
  context.clearRect(0, 0, left + wide + 2, roof + high + 2);
  if (!cursor) return;
  const [row, column] = cursor;
  const atX = left + (column - x) * cell;
  const atY = roof + (row - y) * cell;
  const colours = shown.turned ? [theme.key, theme.query] : [theme.query, theme.key];
  context.save();
  context.beginPath();
  context.rect(left, roof, wide, high);
  context.clip();
  const thick = Math.max(cell, 3);
  context.lineWidth = 1.5;
  context.strokeStyle = colours[0];
  context.strokeRect(left, atY, wide, thick);
  context.strokeStyle = colours[1];
  context.strokeRect(atX, roof, thick, high);
  for (const [pinRow, pinColumn] of pins) {
    box(context, left + (pinColumn - x) * cell, roof + (pinRow - y) * cell, Math.max(cell, 5), theme, 2);
  }
  box(context, atX, atY, Math.max(cell, 5), theme, 2.5);
  context.restore();
  context.font = `600 ${view.family}`;
  context.textBaseline = "middle";
  if (atY > roof - cell && atY < roof + high) {
    tag(context, shorten(shown.rows[row], LABEL), left - 7, atY + cell / 2, 0, theme, colours[0], "right");
  }
  if (atX > left - cell && atX < left + wide) {
    const label = shown.columns[column];
    if (!upright(label)) tag(context, shorten(label, LABEL), atX + cell / 2, roof - 7, -Math.PI / 2, theme, colours[1], "left");
    else {
      context.fillStyle = theme.paper;
      context.fillRect(atX + cell / 2 - font, 0, 2 * font, roof - 1);
      context.fillStyle = colours[1];
      columnLabel(context, label, atX + cell / 2, roof - 7, font);
    }
  }
}

/** A frame that is seen on dark and on light cells: light inside, dark outside. */
function box(context, x, y, size, theme, thick) {
  context.lineWidth = thick + 2;
  context.strokeStyle = theme.paper;
  context.strokeRect(x, y, size, size);
  context.lineWidth = thick;
  context.strokeStyle = theme.ink;
  context.strokeRect(x, y, size, size);
}
