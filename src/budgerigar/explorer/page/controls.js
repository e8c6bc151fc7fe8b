// Controls that several views share: which head, and how its matrix is drawn.

import { button, choice, h, headName, tick } from "./dom.js";
import { chosen, siteOf } from "./sites.js";
import { t } from "./i18n.js";

/** A number with buttons for the one before and the next; `.choose(to)` shows another. */
export function stepper(words, value, count, choose) {
  const select = h("select", { "aria-label": words, onchange: () => choose(Number(select.value)) },
    ...Array.from({ length: count }, (_, at) => h("option", { value: at }, String(at))));
  select.value = value;
  const move = (by) => choose((Number(select.value) + by + count) % count);
  const element = h("span", { class: "stepper" }, h("span", { class: "soft", "aria-hidden": "true" }, words),
    button("‹", () => move(-1), { "aria-label": t("head.previous", { what: words }) }), select,
    button("›", () => move(1), { "aria-label": t("head.next", { what: words }) }));
  element.choose = (to) => (select.value = to);
  return element;
}

/** Layer and head as two steppers with the head's name; `.refresh()` after the selection changed. */
export function headBar(app) {
  const site = siteOf(app);
  const now = chosen(app);
  const layer = stepper(t("word.layer"), now.layer, site.layers, (to) => app.select({ layer: to }));
  const head = stepper(t("word.head"), now.head, site.heads, (to) => app.select({ head: to }));
  const name = h("strong", { class: "headname" }, headName(now.layer, now.head));
  const bar = h("div", { class: "headbar" }, name, layer, head);
  bar.refresh = () => {
    const at = chosen(app);
    layer.choose(at.layer);
    head.choose(at.head);
    name.textContent = headName(at.layer, at.head);
  };
  return bar;
}

/** Linear, root or log colours. */
export function scaleChoice(app) {
  const scales = [["linear", t("controls.linear")], ["root", t("controls.root")], ["log", t("controls.log")]];
  return choice(t("controls.scale"), scales, app.state.get().scale, (scale) => app.state.set({ scale }));
}

/** The layer alone, for views of whole layers; `.refresh()` after the selection changed. */
export function layerBar(app) {
  const layer = stepper(t("word.layer"), chosen(app).layer, siteOf(app).layers, (to) => app.select({ layer: to }));
  const name = h("strong", { class: "headname" }, `L${chosen(app).layer}`);
  const bar = h("div", { class: "headbar" }, name, layer);
  bar.refresh = () => {
    layer.choose(chosen(app).layer);
    name.textContent = `L${chosen(app).layer}`;
  };
  return bar;
}

/** How matrices are drawn, for this and every other view. */
export function mapControls(app) {
  const { range, hideSink, transpose } = app.state.get();
  return h("div", { class: "controls" },
    scaleChoice(app),
    choice(t("controls.range"), [["one", "0 – 1"], ["own", t("controls.own")]], range, (value) => app.state.set({ range: value })),
    h("div", { class: "ticks" },
      tick(t("controls.hide"), hideSink, (on) => app.state.set({ hideSink: on })),
      tick(t("controls.transpose"), transpose, (on) => app.state.set({ transpose: on }))));
}

/** The drawing options of a heat map from the state. */
export function mapOptions(app) {
  const { scale, range, hideSink, transpose } = app.state.get();
  return { scale, range, hideSink, transpose };
}
