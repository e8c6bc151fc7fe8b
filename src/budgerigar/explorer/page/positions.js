// What the views of positions share: how they ask, and a table of positions as a heat map.

import { h, number, word } from "./dom.js";
import { HeatMap } from "./heatmap.js";
import { t } from "./i18n.js";

/** The question after the kind of positions: the same from every view, so that a file needs one record. */
export function kindParams(layer, of) {
  return { show: "kind", layer, head: 0, of, kind: "self", query: null, by: null, seed: 0, blind: false, rows: null };
}

const names = (count, name = String) => Array.from({ length: count }, (_, at) => name(at));

function heat(name, matrix, words) {
  const map = new HeatMap({ name });
  map.words = words;
  map.show({ ...matrix, codes: null, reasons: [], signed: true, within: 0 }, { scale: "linear", range: "own" });
  return map.element;
}

/** Positions x numbers of the embedding. */
export function positionTable(table, name) {
  const [rows, wide] = table.values.shape;
  const half = Math.floor(wide / 2);
  const wave = (at) => table.wavelengths?.data[table.layout === "split" ? at % half : Math.floor(at / 2)];
  return heat(name, { queries: names(rows), keys: names(wide), values: table.values.data, queryAxis: t("positions.axis.position"), keyAxis: t("positions.axis.number") },
    (row, column) => [t("positions.cell", { position: row, number: column }), " ", h("strong", {}, number(table.values.data[row * wide + column], 4)),
      ...(table.wavelengths ? [" · ", h("span", { class: "soft" }, t("positions.wave", { wave: number(wave(column), 1) }))] : [])]);
}

/** Heads x distances: what is added to a score. */
export function biasTable(bias) {
  const [heads, wide] = bias.values.shape;
  const distances = Array.from(bias.distances.data);
  return heat(t("positions.bias"), { queries: names(heads, (head) => `L${bias.layer}.H${head}`), keys: distances.map(String), values: bias.values.data, queryAxis: t("word.head"), keyAxis: t("positions.axis.distance") },
    (row, column) => [word(`L${bias.layer}.H${row}`), ` ${t("positions.bias.cell", { distance: distances[column] })} `, h("strong", {}, number(bias.values.data[row * wide + column], 4))]);
}
