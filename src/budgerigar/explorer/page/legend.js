// The legend of a heat map: its colours with numbers, what is hatched and why, how exact the numbers are.

import { h, number } from "./dom.js";
import { HIDDEN, ticks } from "./matrix.js";
import { stripes } from "./heatmap_paint.js";
import { cssColour } from "./colours.js";
import { t } from "./i18n.js";

function ramp(colours) {
  const canvas = h("canvas", { class: "ramp", width: 256, height: 1, "aria-hidden": "true" });
  const image = new ImageData(256, 1);
  colours.forEach((colour, i) => image.data.set([...colour, 255], 4 * i));
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

function swatch(falling) {
  const canvas = h("canvas", { class: "swatch", width: 36, height: 24, "aria-hidden": "true" });
  const context = canvas.getContext("2d");
  context.scale(2, 2);
  context.fillStyle = cssColour("--well");
  context.fillRect(0, 0, 18, 12);
  stripes(context, 0, 0, 18, 12, { line: cssColour("--hatch"), falling });
  return canvas;
}

function figure(value, top) {
  if (value !== 0 && Math.abs(value) < 0.001) return number(value, 6).replace(/e-?/, "e−");
  return number(value, top >= 100 ? 0 : top >= 1 ? 2 : 3).replace(/\.?0+$/, "") || "0";
}

/** An element; `shown`: the arranged matrix, `within`: the largest error of the stored numbers. */
export function legend({ colours, top, scale, shown, within, renormalised }) {
  const marks = ticks(top, scale, shown.signed).map(([place, value]) => h("span", { "--at": place }, figure(value, top)));
  const present = new Set(shown.codes ?? []);
  const reasons = [...present].filter((code) => code && code !== HIDDEN).map((code) =>
    h("span", { class: "why" }, swatch(false), shown.reasons[code] ?? t("map.masked")));
  if (present.has(HIDDEN)) reasons.push(h("span", { class: "why" }, swatch(true), t("map.hidden")));
  const notes = [];
  if (renormalised) notes.push(t("map.renormalised"));
  if (within) notes.push(t("map.within", { within: within.toPrecision(1).replace("e-", "e−") }));
  return h("div", { class: "legend" },
    h("div", { class: "scale" }, ramp(colours), h("div", { class: "marks" }, ...marks)), ...reasons,
    notes.length ? h("span", { class: "soft" }, notes.join(" ")) : null);
}
