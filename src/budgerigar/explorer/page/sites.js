// Which attention is looked at (encoder or decoder, self or cross), and what its rows and columns are called.

import { choice, number } from "./dom.js";
import { t } from "./i18n.js";

/** The kind of attention chosen; without a choice a translator's cross-attention, else the first. Null: none. */
export function siteOf(app) {
  const sites = app.reading?.sites ?? [];
  const { of, kind } = app.state.get().selection;
  return sites.find((site) => (!of || site.of === of) && (!kind || site.kind === kind) && (of || kind)) ??
    sites.find((site) => site.kind === "cross") ?? sites[0] ?? null;
}

/** {of, kind}: what every question about heads names. */
export function siteParams(app) {
  const { of, kind } = siteOf(app);
  return { of, kind };
}

const TITLES = { "encoder self": "site.encoder.self", "decoder self": "site.decoder.self", "decoder cross": "site.decoder.cross" };

export function siteTitle(site) {
  return t(TITLES[`${site.of} ${site.kind}`] ?? site.title);
}

/** Whether what was recomputed of a head is what the model computed; of one that is off there is nothing to agree with. */
export function agreement({ off, difference }, digits = 2) {
  return t(off ? "head.off" : "head.difference", { value: number(difference, digits) });
}

/** The payload's name of what an alignment was read from ("L3.H1", "L3, mean of 8 heads") in the page's language. */
export function readFrom(name) {
  const [, layer, count] = /^(?:L(\d+)|of all layers), mean of (\d+) heads$/.exec(name) ?? [];
  if (!count) return name;
  return layer ? t("translation.mean.layer", { layer, count }) : t("translation.mean.all", { count });
}

/** The labels and groups of one side: "read", "predicted" or "source". */
export function spelling(app, name) {
  return app.reading.spellings[name] ?? app.reading.spellings.read;
}

/** Words for the two axes. */
export function axes(site) {
  return {
    rows: t(site.predicts ? "axis.predicted" : "axis.query"),
    columns: t(site.kind === "cross" ? "axis.source" : "axis.key"),
  };
}

const REASONS = { "masked: later tokens": "mask.future", "masked: outside the window": "mask.window",
  "masked: another document": "mask.document", "masked: padding": "mask.padding", "masked: the source is switched off": "mask.source" };

/** Why a cell is masked, by its code. */
export function reasons(app) {
  return app.reading.reasons.map((words) => (REASONS[words] ? t(REASONS[words]) : words));
}

/** Layer, head, query and key as far as they exist in this attention: what is looked at now. */
export function chosen(app) {
  const site = siteOf(app);
  const { layer, head, query, key } = app.state.get().selection;
  const rows = spelling(app, site?.queries ?? "read").labels.length;
  const columns = spelling(app, site?.keys ?? "read").labels.length;
  return {
    layer: Math.min(layer, Math.max(0, (site?.layers ?? 1) - 1)),
    head: Math.min(head, Math.max(0, (site?.heads ?? 1) - 1)),
    query: query === null || query >= rows ? null : query,
    key: key === null || key >= columns ? null : key,
  };
}

/** What a click on a token chooses, "query" or "key". Where links between two are asked for it goes from one to the other. */
export function picksOf(app) {
  const { view, picks, settings } = app.state.get();
  return view === "links" ? settings["links.picks"] ?? "query" : picks;
}

/** The part of the state that chooses it. */
export function picking(app, role) {
  const { view, settings } = app.state.get();
  return view === "links" ? { settings: { ...settings, "links.picks": role } } : { picks: role };
}

/** The payload of `head` as a matrix for heat maps and arcs. */
export function matrixOf(app, payload) {
  const site = siteOf(app);
  const words = axes(site);
  return {
    queries: spelling(app, payload.queries).labels, keys: spelling(app, payload.keys).labels,
    values: payload.weights.data, codes: payload.mask && payload.mask.data.some(Boolean) ? payload.mask.data : null,
    within: payload.weights.within, sums: payload.row_sums.data, reasons: reasons(app), queryAxis: words.rows, keyAxis: words.columns,
    signed: false, same: payload.queries === payload.keys,
  };
}

/** Choose among several kinds of attention; null where there is one. */
export function sitePicker(app) {
  const sites = app.reading?.sites ?? [];
  if (sites.length < 2) return null;
  const name = ({ of, kind }) => `${of} ${kind}`;
  return choice(t("site.choose"), sites.map((site) => [name(site), siteTitle(site)]), name(siteOf(app)), (value) => {
    const [of, kind] = value.split(" ");
    app.select({ of, kind, query: null, key: null });
  });
}
