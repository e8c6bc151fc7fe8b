// Rotary positions (Su et al. 2021): every pair of numbers of a query or key is a hand that turns with the position,
// each pair at its own speed. The angle between two tokens' hands depends on their distance alone.

import { calm } from "./a11y.js";
import { button, h, number, onDemand, slider, svg, table, whole } from "./dom.js";
import { t } from "./i18n.js";

const MOST = 8; // dials
const FARTHEST = 400; // positions on the slider
const APART = 40;
const BEAT = 140; // ms per position while it plays

const full = 2 * Math.PI;

/** Which pairs are drawn: first and last, and evenly between. */
function drawnPairs(count) {
  const few = Math.min(count, MOST);
  return [...new Set(Array.from({ length: few }, (_, at) => Math.round((at * (count - 1)) / Math.max(1, few - 1))))];
}

function point(angle, size) {
  return [50 + size * Math.cos(angle), 50 - size * Math.sin(angle)];
}

class Dial {
  constructor(pair, turns) {
    Object.assign(this, { pair, frequency: turns.frequencies.data[pair] });
    this.sector = svg("path", { class: "dial-sector" });
    this.query = svg("line", { class: "dial-q", x1: 50, y1: 50 });
    this.key = svg("line", { class: "dial-k", x1: 50, y1: 50 });
    this.words = h("span", {});
    const numbers = turns.pairs.data.subarray(2 * pair, 2 * pair + 2);
    this.element = h("li", { class: "dial" }, svg("svg", { viewBox: "0 0 100 100", "aria-hidden": "true" }, svg("circle", { class: "dial-face", cx: 50, cy: 50, r: 44 }), this.sector, this.key, this.query),
      h("strong", {}, t("dials.pair", { first: numbers[0], second: numbers[1] })), h("span", { class: "soft" }, t("dials.wave", { wave: number(turns.wavelengths.data[pair], turns.wavelengths.data[pair] < 100 ? 1 : 0) })), this.words);
  }

  turn(position, distance) {
    const [at, before] = [position * this.frequency, (position - distance) * this.frequency];
    for (const [line, angle, size] of [[this.query, at, 40], [this.key, before, 32]]) {
      const [x, y] = point(angle, size);
      line.setAttribute("x2", x);
      line.setAttribute("y2", y);
    }
    const between = distance * this.frequency;
    const rest = between % full;
    const [x1, y1] = point(before, 18);
    const [x2, y2] = point(at, 18);
    this.sector.setAttribute("d", between >= full ? "M50 32A18 18 0 1 0 50 68A18 18 0 1 0 50 32Z" : `M50 50L${x1} ${y1}A18 18 0 ${rest > Math.PI ? 1 : 0} 0 ${x2} ${y2}Z`);
    this.words.textContent = t("dials.between", { degrees: number((rest * 360) / full, 1) });
  }
}

/** Nodes; keep({position, distance}) is called when a slider moved. */
export function dials(turns, { position, distance, keep }) {
  const count = turns.frequencies.data.length;
  const made = drawnPairs(count).map((pair) => new Dial(pair, turns));
  const now = { position, distance };
  const turn = () => made.forEach((dial) => dial.turn(now.position, now.distance));
  const place = slider(t("dials.position"), { min: 0, max: FARTHEST, step: 1, value: position }, (value) => {
    now.position = value;
    turn();
    keep(now);
  });
  const apart = slider(t("dials.distance"), { min: 0, max: APART, step: 1, value: distance }, (value) => {
    now.distance = value;
    turn();
    keep(now);
  });
  const input = place.querySelector("input");
  let timer = null;
  const play = button(t("dials.play"), () => {
    clearInterval(timer);
    if (play.getAttribute("aria-pressed") === "true") return stop();
    play.setAttribute("aria-pressed", "true");
    play.textContent = t("dials.pause");
    timer = setInterval(() => {
      if (!play.isConnected) return clearInterval(timer);
      input.value = (now.position + 1) % (FARTHEST + 1);
      input.dispatchEvent(new Event("input"));
    }, BEAT);
  }, { "aria-pressed": "false" });
  const stop = () => {
    play.setAttribute("aria-pressed", "false");
    play.textContent = t("dials.play");
  };
  turn();
  const facts = [t("dials.base", { base: whole(turns.base) }), t("dials.width", { width: turns.width, d_head: turns.d_head })];
  if (made.length < count) facts.unshift(t("dials.some", { drawn: made.length, count }));
  if (turns.scaling) facts.push(t("dials.scaling", { scaling: turns.scaling }));
  const twin = onDemand(t("dials.twin"), () => h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("dials.twin") }, table(t("dials.twin"),
    [t("dials.numbers"), t("dials.frequency"), t("dials.wavelength"), t("dials.angle", { position: now.position })],
    Array.from(turns.frequencies.data, (frequency, pair) => [Array.from(turns.pairs.data.subarray(2 * pair, 2 * pair + 2)).join(", "), number(frequency, 5), number(turns.wavelengths.data[pair], 2), number((now.position * frequency) % full, 4)]))));
  return [h("p", {}, h("span", { class: "dot q", "aria-hidden": "true" }), t("dials.query"), " ", h("span", { class: "dot k", "aria-hidden": "true" }), t("dials.key"), " ", t("dials.explained")),
    h("div", { class: "sliders" }, place, apart, calm() ? h("span", { class: "soft" }, t("dials.calm")) : play), h("ul", { class: "dials" }, ...made.map(({ element }) => element)),
    h("p", { class: "facts" }, ...facts.map((words) => h("span", {}, words))), twin];
}
