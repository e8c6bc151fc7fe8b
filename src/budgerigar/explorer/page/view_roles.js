// Roles of heads with their evidence: how often, on how many rows, and against what an untrained copy and the best
// fixed distance get. A role that no head has is printed as not found.

import { button, h, number, onDemand, panel, percent, said, show, table } from "./dom.js";
import { meter, scrolling, stacking } from "./meters.js";
import { badgeName, roleName, roleWhat } from "./role_names.js";
import { siteTitle } from "./sites.js";
import { t } from "./i18n.js";

const known = (array, at) => (array && array.data[at] >= 0 ? array.data[at] : null);
const figure = (value) => (value === null ? "–" : number(value, 3));

function place(name) {
  const [, layer, head] = /^L(\d+)\.H(\d+)$/.exec(name);
  return { layer: Number(layer), head: Number(head) };
}

/** Tokens back (−) or ahead (+). */
function distance(back) {
  return back > 0 ? `−${back}` : back < 0 ? `+${-back}` : "0";
}

function headButton(app, site, at) {
  const name = site.heads[at];
  return button(name, () => app.state.set({ view: "head", selection: { ...app.state.get().selection, of: site.of, kind: site.kind, ...place(name), query: null, key: null } }), { class: "link" });
}

/** Found by which heads, or not found and who came closest. */
function verdict(app, site, role) {
  if (role.reason !== null) return [h("span", { class: "verdict no" }, t("roles.unmeasured")), " ", h("span", { class: "soft" }, said(role.reason))];
  if (!role.found.length) return [h("span", { class: "verdict no" }, t("roles.missing")), ...(role.best === null ? [] : [" ", h("span", { class: "soft" }, t("roles.closest")), " ", headButton(app, site, role.best)])];
  return [h("span", { class: "verdict yes" }, "✓ "), ...role.found.flatMap((at) => [headButton(app, site, at), " "])];
}

function row(app, site, role) {
  const title = h("th", { scope: "row" }, roleName(role.role, role.name), h("div", { class: "soft" }, roleWhat(role.role, role.what)));
  if (role.reason !== null) return h("tr", {}, title, h("td", { colspan: 7 }, ...verdict(app, site, role)));
  const at = role.found[0] ?? role.best;
  const cell = (value) => h("td", { class: "number" }, figure(value));
  if (at === null || at === undefined) return h("tr", {}, title, h("td", { colspan: 7 }, ...verdict(app, site, role)));
  const offset = known(role.offset, at);
  return h("tr", {}, title, h("td", {}, ...verdict(app, site, role)), h("td", { class: "number" }, meter(known(role.score, at), 1)), h("td", { class: "number" }, String(role.rows.data[at])),
    cell(known(role.precision, at)), cell(known(role.recall, at)), cell(role.best_untrained), h("td", { class: "number" }, offset === null ? "–" : `${number(offset, 3)} (${distance(role.offset_at.data[at])})`));
}

/** Each head with its badges and habits. */
function heads(app, site) {
  return onDemand(t("roles.every"), () => scrolling(`${siteTitle(site)}${t("mark.colon")}${t("roles.every")}`, table(t("roles.every"),
    [t("word.head"), t("roles.badges"), t("roles.entropy"), t("roles.confidence"), t("roles.sink"), ...site.roles.filter(({ reason }) => reason === null).map((role) => roleName(role.role, role.name))],
    site.heads.map((_, at) => [headButton(app, site, at), h("span", {}, ...site.badges[at].map((badge) => h("span", { class: "badge" }, badgeName(badge)))), figure(known(site.entropy, at)), figure(known(site.confidence, at)), figure(known(site.sink_rate, at)),
      ...site.roles.filter(({ reason }) => reason === null).map((role) => figure(known(role.score, at)))]), { numbersFrom: 2 })));
}

function rules(site) {
  return onDemand(t("roles.rules"), () => scrolling(`${siteTitle(site)}${t("mark.colon")}${t("roles.rules")}`, table(t("roles.rules"), [t("roles.role"), t("roles.rule"), t("roles.texts"), t("roles.chance")],
    site.roles.filter(({ reason }) => reason === null).map((role) => [roleName(role.role, role.name), said(role.rule), said(role.on), role.best === null ? "–" : percent(known(role.uniform, role.best) ?? NaN)]), { numbersFrom: 3 })));
}

function sitePanel(app, site) {
  const columns = [t("roles.role"), t("roles.heads"), t("roles.score"), t("roles.rows"), t("roles.precision"), t("roles.recall"), t("roles.untrained"), t("roles.offset")];
  const found = site.roles.filter((role) => role.found.length).length;
  return panel(siteTitle(site), t("roles.count", { found, all: site.roles.length }), scrolling(siteTitle(site), stacking(h("table", { class: "roles" },
    h("caption", {}, t("roles.caption")), h("thead", {}, h("tr", {}, ...columns.map((words, at) => h("th", { scope: "col", class: at > 1 ? "number" : null }, words)))),
    h("tbody", {}, ...site.roles.map((role) => row(app, site, role))))), true), heads(app, site), rules(site));
}

export const rolesView = {
  id: "roles",
  titleKey: "view.roles",
  leadKey: "view.roles.lead",
  group: "change",
  fits: (about) => about.views.includes("roles"),
  async draw(root, app) {
    const place = h("div", { class: "view-body" });
    const first = panel(t("roles.how"), null, h("p", {}, t("roles.explained")));
    root.append(first, place);
    await show(place, app.ask("roles"), (answer) => answer.sites.map((site) => sitePanel(app, site)), 14);
    return () => {};
  },
};
