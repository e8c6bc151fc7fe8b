// A `budgie why` on a page: its command, and where a server is there a button that runs it and shows what came out.

import { button, failure, h, onDemand } from "./dom.js";
import { t } from "./i18n.js";

/** A command line to copy. */
export function command(line) {
  const done = h("span", { class: "soft", role: "status" });
  const copy = button(t("lesson.copy"), async () => {
    try {
      await navigator.clipboard.writeText(line);
      done.textContent = t("lesson.copied");
    } catch {
      done.textContent = t("lesson.copy.not");
    }
  }, { class: "plain" });
  return h("p", { class: "command" }, h("code", {}, line), copy, done);
}

function result(answer) {
  const side = ({ what, words }) => h("div", {}, h("dt", {}, what), h("dd", { class: "big" }, words));
  const pictures = answer.bars.map(({ title, unit, rows, top }) => h("div", {}, h("h4", {}, unit ? `${title} (${unit})` : title),
    h("ul", { class: "why-rows" }, ...rows.map(([name, value, words]) => h("li", {}, h("span", {}, name), h("span", { class: "track", "aria-hidden": "true" }, h("span", { class: "fill", "--share": Math.min(1, Math.max(0, value / top)) })), h("span", { class: "figure" }, words))))));
  return h("div", { class: "why-result", lang: "en" }, h("p", { class: "strong" }, answer.problem),
    h("dl", { class: "figures" }, side(answer.without), side(answer.with)), ...pictures, h("p", {}, answer.shows),
    h("p", { class: `verdict ${answer.held ? "yes" : "no"}` }, answer.verdict),
    onDemand(t("why.screen"), () => h("pre", { class: "scroll", tabindex: 0 }, answer.text)), h("p", { class: "soft" }, t("why.took", { seconds: Math.round(answer.seconds), seed: answer.seed })));
}

/** The experiment on a part. */
export function whyBlock(app, part) {
  const place = h("div", { "aria-live": "polite" });
  const line = `budgie why ${part}`;
  const box = h("section", { class: "why-box", "aria-label": line }, h("h3", {}, t("why.title")), app.source.live ? h("p", { class: "soft" }, t("why.lead")) : "", command(line));
  if (!app.source.live) {
    box.append(h("p", { class: "note" }, t("why.static")));
    return box;
  }
  const run = button(t("why.run"), async () => {
    run.disabled = true;
    place.replaceChildren(h("p", { class: "note", role: "status" }, t("why.running")));
    try {
      place.replaceChildren(result(await app.ask("why", { part, seed: 1 })));
    } catch (error) {
      place.replaceChildren(failure(error));
      run.disabled = false;
    }
  }, { class: "primary" });
  box.append(run, place);
  return box;
}
