// An n-gram's back-off: which context it knew at each token, and how each length adds its part to the probability.

import { announce, roving } from "./a11y.js";
import { bars } from "./bars.js";
import { viridis } from "./colours.js";
import { h, number, onDemand, panel, percent, table, whole, word } from "./dom.js";
import { meter, scrolling } from "./meters.js";
import { chosen, spelling } from "./sites.js";
import { labelNodes } from "./tokens.js";
import { t } from "./i18n.js";

const TOP = 8;

const orderColour = (order, most) => viridis(0.08 + 0.9 * (order / Math.max(1, most)));

function context(labels) {
  if (!labels.length) return h("span", { class: "soft" }, t("backoff.nothing"));
  return h("span", {}, ...labels.map((label) => word(label)));
}

class BackOff {
  constructor(app, answer) {
    Object.assign(this, { app, answer, labels: spelling(app, "read").labels });
    this.detail = h("div", { "aria-live": "off" });
    this.strip = this.buildStrip();
  }

  shareOf(at, order) {
    return this.answer.shares.data[at * (this.answer.order + 1) + order];
  }

  /** A column per token: how much of its probability each length of context gave. */
  buildStrip() {
    const orders = Array.from({ length: this.answer.order + 1 }, (_, order) => order);
    const buttons = this.labels.map((label, at) => {
      const token = this.answer.tokens[at];
      const words = token ? t("backoff.token", { label, position: at, matched: token.matched, p: percent(token.p) }) : `${label}${t("mark.comma")}${t("token.first")}`;
      const parts = token ? orders.map((order) => [order, this.shareOf(at, order)]).filter(([, share]) => share > 0) : [];
      return h("button", { type: "button", class: "token", "aria-pressed": "false", "aria-label": words, title: words, onclick: () => this.app.select({ query: at }) },
        h("span", { class: "stack", "aria-hidden": "true" }, ...parts.map(([order, share]) => h("i", { "--share": share, "--colour": orderColour(order, this.answer.order) }))),
        h("bdi", { class: "text" }, ...labelNodes(label)));
    });
    const strip = h("div", { class: "backed", role: "group", "aria-label": t("backoff.strip") }, ...buttons);
    roving(strip, "button");
    return strip;
  }

  keys() {
    const { order } = this.answer;
    return h("p", { class: "order-keys" }, h("span", {}, t("backoff.legend")), ...Array.from({ length: order + 1 }, (_, at) =>
      h("span", { class: "order-key", "--colour": orderColour(at, order) }, at ? t("backoff.length", { count: at }) : t("backoff.any"))));
  }

  refresh() {
    const { query } = chosen(this.app);
    const at = query ?? this.labels.length - 1;
    [...this.strip.children].forEach((each, i) => each.setAttribute("aria-pressed", String(i === at)));
    this.detail.replaceChildren(...this.nodes(at));
    announce(this.strip.children[at].title);
  }

  nodes(at) {
    const token = this.answer.tokens[at];
    if (!token) return [h("p", { class: "note" }, t("surprise.nothing"))];
    const rest = 1 - token.likeliest.reduce((sum, [, p]) => sum + p, 0);
    const items = token.likeliest.map(([label, share]) => ({ label, share, chosen: label === token.label, note: label === token.label ? t("surprise.came") : null }));
    return [h("p", { class: "asked" }, t("backoff.after"), " ", context(token.context), " ", t("backoff.comes"), " ", word(token.label, { class: "word q" }), ": ",
      h("strong", {}, percent(token.p)), t("mark.aside", { words: t("token.nats", { nats: number(token.nats, 3) }) })),
    h("p", {}, token.matched > 0 ? t("backoff.matched", { count: token.matched }) : t("backoff.unmatched"), " ", t("backoff.known", { count: token.context_matched })),
    this.steps(token),
    h("h3", {}, t("backoff.likeliest")), bars(items, { count: this.app.about.vocab_size - items.length, share: Math.max(0, rest) }, { name: t("backoff.likeliest"), of: items[0]?.share ?? 1 })];
  }

  /** From the longest context to none: what was counted, what was added, what was handed on. */
  steps(token) {
    const cell = (content, kind = "number") => h("td", { class: kind }, content);
    const rows = token.steps.map((step) => h("tr", { class: step.order === token.matched ? "matched" : null },
      h("th", { scope: "row" }, h("span", { class: "order-key", "--colour": orderColour(step.order, this.answer.order) }, String(step.order))),
      cell(context(step.context), ""), cell(step.known ? `${whole(step.count)} / ${number(step.total, Number.isInteger(step.total) ? 0 : 1)}` : t("backoff.never")),
      cell(step.known ? number(step.discount, 2) : "–"), cell(number(step.own, 4)), cell(number(step.weight, 4)), cell(meter(step.part, token.p, { digits: 4 }))));
    const heads = [t("backoff.order"), t("backoff.context"), t("backoff.count"), t("backoff.discount"), t("backoff.own"), t("backoff.weight"), t("backoff.part")];
    const sum = token.steps.reduce((total, { part }) => total + part, token.uniform);
    return scrolling(t("backoff.steps"), h("table", { class: "backing" }, h("caption", {}, t("backoff.steps")),
      h("thead", {}, h("tr", {}, ...heads.map((words, i) => h("th", { scope: "col", class: i > 1 ? "number" : null }, words)))),
      h("tbody", {}, ...rows, h("tr", {}, h("th", { scope: "row" }, h("span", { class: "order-key", "--colour": orderColour(0, this.answer.order) }, "0")), cell(t("backoff.any"), ""), cell("–"), cell("–"), cell("–"), cell("–"), cell(meter(token.uniform, token.p, { digits: 4 })))),
      h("tfoot", {}, h("tr", {}, h("th", { scope: "row" }, t("backoff.sum")), h("td", { colspan: 5 }), cell(`${number(sum, 4)} = p`)))), true);
  }

  twin() {
    return onDemand(t("map.twin"), () => scrolling(t("backoff.strip"), table(t("backoff.strip"), [t("word.token"), t("backoff.longest"), "p", t("word.nats")],
      this.labels.map((label, at) => {
        const token = this.answer.tokens[at];
        return [h("span", {}, `${at} `, word(label)), ...(token ? [String(token.matched), percent(token.p), number(token.nats, 3)] : ["–", "–", "–"])];
      }))));
  }
}

export const backoffView = {
  id: "backoff",
  titleKey: "view.backoff",
  leadKey: "view.backoff.lead",
  group: "kind",
  fits: (about) => about.views.includes("back_off"),
  async draw(root, app) {
    const answer = await app.ask("back_off", { top: TOP });
    const view = new BackOff(app, answer);
    root.append(panel(t("backoff.title", { order: answer.order }), t("backoff.lead", { smoothing: answer.smoothing, seen: answer.order - 1 }), view.keys(), view.strip, view.twin(),
      h("p", { class: "facts" }, h("span", {}, t("head.difference", { value: number(answer.difference, 2) })))), panel(t("backoff.one"), t("backoff.one.lead"), view.detail));
    view.refresh();
    return (changed) => (changed.has("selection") ? view.refresh() : undefined);
  },
};
