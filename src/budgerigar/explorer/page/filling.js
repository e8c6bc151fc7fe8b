// What an encoder says: the tokens that fill masked positions, and the classes that it tells.

import { bars } from "./bars.js";
import { h, panel } from "./dom.js";
import { t } from "./i18n.js";

const SHOWN = 10;

function fillIn(app, { position, ids, p, rest }, real) {
  const first = Array.from(ids.data).slice(0, SHOWN);
  const shares = Array.from(p.data);
  const others = rest + shares.slice(SHOWN).reduce((sum, share) => sum + share, 0);
  const items = first.map((id, at) => ({ label: app.reading.words[id], share: shares[at], chosen: id === real, note: id === real ? t("fill.stood") : null }));
  const late = Array.from(ids.data).indexOf(real); // the real one, where it is not among the first
  if (late >= SHOWN) items.push({ label: app.reading.words[real], share: shares[late], chosen: true, note: t("surprise.rank", { rank: late + 1 }) });
  return h("div", {}, h("h3", {}, t("fill.at", { position })),
    bars(items, { count: app.about.vocab_size - items.length, share: Math.max(0, others - (late >= SHOWN ? shares[late] : 0)) }, { name: t("fill.at", { position }), of: shares[0] }));
}

/** Panels for what there is to tell; original: the spelling of the text before anything was masked, where it is known. */
export function encoderPanels(app, original = null) {
  const { fill, classes } = app.reading;
  const panels = [];
  if (fill?.length) panels.push(panel(t("fill.title"), t("fill.lead"), ...fill.map((each) => fillIn(app, each, original?.ids.data[each.position]))));
  if (classes) {
    const items = classes.names.map((label, at) => ({ label, share: classes.p.data[at] })).sort((a, b) => b.share - a.share);
    panels.push(panel(t("classes.title"), null, bars(items, null, { name: t("classes.title") })));
  }
  return panels;
}
