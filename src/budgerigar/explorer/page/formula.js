// The box that says how one number came about: its equation, the same with the numbers put in, and (outlined
// on the page) the cells that these numbers stand in.

import { announce } from "./a11y.js";
import { h, number } from "./dom.js";
import { t } from "./i18n.js";

const SHOWN = 4; // terms of a sum that are written out

/** A number inside a formula: negative ones in brackets. */
export function inside(value, digits = 3) {
  const words = number(value, digits);
  return words.startsWith("−") ? `(${words})` : words;
}

/**
 * A long sum: its largest terms written out in their order, the others added up. terms: [[words, value], …].
 */
export function sum(terms, digits = 3) {
  const order = terms.map(([, value], at) => [Math.abs(value), at]).sort((a, b) => b[0] - a[0]);
  const shown = new Set(order.slice(0, terms.length <= SHOWN + 1 ? SHOWN + 1 : SHOWN).map(([, at]) => at));
  const words = terms.filter((_, at) => shown.has(at)).map(([each]) => each);
  const rest = terms.reduce((total, [, value], at) => (shown.has(at) ? total : total + value), 0);
  if (shown.size < terms.length) words.push(t("formula.rest", { sum: inside(rest, digits), count: terms.length - shown.size }));
  return words.join(" + ");
}

/** The terms of a · b. */
export function products(a, b, digits = 3) {
  return Array.from(a, (value, at) => [`${inside(value, digits)} × ${inside(b[at], digits)}`, value * b[at]]);
}

export class FormulaBox {
  constructor(hint) {
    this.hint = hint;
    this.element = h("div", { class: "formula" });
    this.outlined = [];
    this.clear();
  }

  clear() {
    this.forget();
    this.element.classList.remove("filled");
    this.element.replaceChildren(h("p", { class: "soft" }, this.hint));
  }

  forget() {
    for (const [element, strip] of this.outlined) {
      element.classList.remove("source");
      strip?.mark(null);
    }
    this.outlined = [];
  }

  /**
   * {title: nodes, equation, numbers, note, sources: [[part, how, at], …]}; a part is an element or a Vector, how is
   * "all", "one", "row" or "column". aloud: a key asked for it.
   */
  show({ title, equation, numbers = "", note = "", sources = [] }, aloud = false) {
    this.forget();
    for (const [part, how, at] of sources) {
      if (!part) continue;
      const strip = part.element ? part : null;
      const element = strip ? strip.element : part;
      element.classList.add("source");
      if (how === "one") strip?.mark(at);
      else if (how === "row") strip?.markRow(at);
      else if (how === "column") strip?.markColumn(at);
      this.outlined.push([element, strip]);
    }
    this.element.classList.add("filled");
    this.element.replaceChildren(h("p", { class: "formula-title" }, title), h("p", { class: "equation" }, equation),
      numbers ? h("p", { class: "equation numbers" }, numbers) : "", note ? h("p", { class: "soft" }, note) : "");
    if (aloud) announce(this.element.textContent);
  }
}
