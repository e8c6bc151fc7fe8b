// Lines over a shared x axis, as SVG that is drawn anew when its room changes. Colour never says anything alone:
// lines differ in their dashes too, and each is named in the legend. A chart is a picture; what it says stands
// in a table beside it (the view's), and what it chooses can be chosen by keyboard elsewhere.

import { PINNED } from "./colours.js";
import { h, number, shorten, svg } from "./dom.js";
import { t } from "./i18n.js";

const DASHES = ["", "7 4", "2 3", "10 3 2 3", "5 2", "1 2"];
const FONT = 12;
const LABEL = 9; // characters of a token below the axis

/** Colour and dash of the n-th line. */
export function pen(at) {
  return { colour: PINNED[at % PINNED.length], dash: DASHES[at % DASHES.length] };
}

function scaleOf(low, high, log, from, to) {
  const turn = log ? Math.log10 : (value) => value;
  const [a, b] = [turn(low), turn(high)];
  return (value) => from + (to - from) * (turn(Math.max(value, log ? low : -Infinity)) - a) / (b - a || 1);
}

/** On a logarithmic axis with less than two powers of ten: 1, 2 and 5 times each. */
function between(low, high) {
  const first = Math.floor(Math.log10(low));
  const steps = Array.from({ length: Math.ceil(Math.log10(high)) - first + 1 }, (_, i) => [1, 2, 5].map((part) => part * 10 ** (first + i))).flat();
  return steps.filter((value) => value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9));
}

/** Round numbers between low and high; powers of ten on a logarithmic axis. */
export function roundTicks(low, high, log, most) {
  if (log) {
    const first = Math.ceil(Math.log10(low) - 1e-9);
    const powers = Array.from({ length: Math.floor(Math.log10(high) + 1e-9) - first + 1 }, (_, i) => 10 ** (first + i));
    if (powers.length < 2) return between(low, high);
    const every = Math.ceil(powers.length / most);
    return powers.filter((_, i) => (powers.length - 1 - i) % every === 0);
  }
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough || 1));
  const step = [1, 2, 5, 10].map((part) => part * power).find((each) => each >= rough) ?? power;
  const out = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + 1e-9 * step; at++) out.push(at * step);
  return out;
}

function short(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e4 || size < 1e-3) return value.toExponential(0).replace("e+", "e").replaceAll("-", "−");
  return String(Number(value.toPrecision(3))).replace("-", "−");
}

class Chart {
  constructor(options) {
    Object.assign(this, { high: 240, digits: 3, ...options });
    this.place = h("div", { class: "lines-place" });
    this.readout = h("p", { class: "readout soft" });
    const legend = h("ul", { class: "lines-legend" }, ...this.series.filter(({ quiet }) => !quiet).map(({ name, colour, dash }) =>
      h("li", {}, svg("svg", { width: 30, height: 10, "aria-hidden": "true" }, svg("line", { class: "lines-path", x1: 0, x2: 30, y1: 5, y2: 5, "--colour": colour, "stroke-dasharray": dash })), h("bdi", {}, name))));
    this.element = h("div", { class: "lines" }, this.series.length > 1 ? legend : null, this.place, this.readout);
    let width = 0;
    new ResizeObserver(() => {
      if (this.place.clientWidth === width) return;
      width = this.place.clientWidth;
      this.draw();
    }).observe(this.place);
  }

  /** Where the mark (a vertical line) stands: an index of `x`; null: nowhere. */
  mark(at) {
    this.marked = at;
    this.move(at);
  }

  move(at) {
    this.readout.replaceChildren(...(at === null || at === undefined ? [this.hint ?? ""] : [h("bdi", {}, this.nameOf(at)), ": ", ...this.words(at)]));
    if (!this.line) return;
    const shown = at ?? null;
    this.line.toggleAttribute("hidden", shown === null);
    if (shown !== null) for (const end of ["x1", "x2"]) this.line.setAttribute(end, this.toX(this.x[shown]));
  }

  nameOf(at) {
    return this.labels ? `${this.labels[at]}${t("mark.aside", { words: at })}` : `${this.xTitle} ${short(this.x[at])}`;
  }

  words(at) {
    const told = this.series.filter(({ values, quiet }) => !quiet && Number.isFinite(values[at]));
    return told.flatMap(({ name, values }, i) => [i ? " · " : "", told.length > 1 ? `${name} ` : "", h("strong", {}, number(values[at], this.digits))]);
  }

  bounds() {
    const all = this.series.flatMap(({ values, band }) => [...values, ...(band ? [...band[0], ...band[1]] : [])]).filter((value) => Number.isFinite(value) && (!this.logY || value > 0));
    const low = this.low ?? Math.min(...all);
    return [low, Math.max(low + 1e-9, this.top ?? Math.max(...all))];
  }

  draw() {
    const wide = this.place.clientWidth;
    if (!wide) return;
    const [low, high] = this.bounds();
    const roof = this.yTitle ? 26 : 10;
    const longest = Math.max(1, ...(this.labels ?? []).map((label) => Math.min(LABEL, [...label].length)));
    const floor = this.high - (this.labels && longest > 2 ? 34 + longest * 7.4 : 40);
    const left = 50;
    this.toX = scaleOf(this.x[0], this.x[this.x.length - 1], this.logX, left, wide - 12);
    this.toY = scaleOf(low, high, this.logY, floor, roof);
    const rows = roundTicks(low, high, this.logY, 5).flatMap((value) => [
      svg("line", { class: "lines-grid", x1: left, x2: wide - 12, y1: this.toY(value), y2: this.toY(value) }),
      svg("text", { x: left - 7, y: this.toY(value) + 4, "text-anchor": "end" }, short(value))]);
    this.line = svg("line", { class: "lines-mark", y1: roof, y2: floor });
    const picture = svg("svg", { class: "lines-svg", width: wide, height: this.high, role: "img", "aria-label": this.name, "font-size": FONT }, ...rows,
      ...(this.labels ? this.tokenTicks(wide, floor) : this.numberTicks(wide, floor)),
      ...this.series.flatMap((one) => this.drawn(one)), this.line,
      svg("text", { class: "lines-title", x: left, y: this.high - 4 }, `→ ${this.xTitle}`), this.yTitle ? svg("text", { class: "lines-title", x: 2, y: 12 }, `↑ ${this.yTitle}`) : null);
    picture.addEventListener("pointermove", (event) => this.move(this.nearest(event)));
    picture.addEventListener("pointerleave", () => this.move(this.marked ?? null));
    if (this.onpick) picture.addEventListener("click", (event) => this.onpick(this.nearest(event)));
    picture.classList.toggle("picks", Boolean(this.onpick));
    this.place.replaceChildren(picture);
    this.move(this.marked ?? null);
  }

  nearest(event) {
    const at = event.clientX - this.place.getBoundingClientRect().left;
    let best = 0;
    this.x.forEach((value, i) => {
      if (Math.abs(this.toX(value) - at) < Math.abs(this.toX(this.x[best]) - at)) best = i;
    });
    return best;
  }

  numberTicks(wide, floor) {
    return roundTicks(this.x[0], this.x[this.x.length - 1], this.logX, Math.max(3, Math.min(10, wide / 90))).map((value) =>
      svg("text", { x: this.toX(value), y: floor + 16, "text-anchor": "middle" }, short(value)));
  }

  tokenTicks(wide, floor) {
    const step = Math.max(1, Math.ceil((FONT + 3) * this.labels.length / (wide - 62)));
    return this.labels.map((label, at) => [label, this.toX(this.x[at])]).filter((_, at) => at % step === 0).map(([label, x]) => ([...label].length <= 2
      ? svg("text", { x, y: floor + 16, "text-anchor": "middle" }, label)
      : svg("text", { transform: `translate(${x + 4} ${floor + 8}) rotate(-90)`, "text-anchor": "end" }, shorten(label, LABEL))));
  }

  drawn({ values, band, colour, dash, quiet }) {
    const parts = [];
    if (band) {
      const upper = this.x.map((x, i) => `${this.toX(x)},${this.toY(band[1][i])}`);
      const lower = this.x.map((x, i) => `${this.toX(x)},${this.toY(band[0][i])}`).reverse();
      parts.push(svg("polygon", { class: "lines-band", points: [...upper, ...lower].join(" "), "--colour": colour }));
    }
    let path = "";
    let open = false;
    this.x.forEach((x, i) => {
      const there = Number.isFinite(values[i]) && !(this.logY && values[i] <= 0);
      if (there) path += `${open ? "L" : "M"}${this.toX(x).toFixed(1)} ${this.toY(values[i]).toFixed(1)}`;
      open = there;
    });
    parts.push(svg("path", { class: quiet ? "lines-path quiet" : "lines-path", d: path, "--colour": colour, "stroke-dasharray": dash || null }));
    return parts;
  }
}

/**
 * options: {name (for screen readers), x: [numbers, rising], labels: [token of each x] or null, xTitle, yTitle,
 * series: [{name, values, colour, dash, band: [lows, highs], quiet}], logX, logY, low, top, high (pixels), digits,
 * hint, onpick(index)}. Returns {element, mark(index or null)}.
 */
export function lineChart(options) {
  return new Chart(options);
}
