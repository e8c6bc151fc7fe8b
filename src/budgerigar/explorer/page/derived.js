// What a recorded page computes from larger records, as the library's views do (inspection/views/):
//
//   row        from one head's matrix
//   steps      from a head's parts ("of_head"), its layer's ("of_layer") and its matrix; W_Q … W_O where they
//              are recorded ("matrices")
//   links      from the matrices of all heads; an untrained copy's where it is recorded ("untrained")
//   positions  of later layers, from the first one's and what differs ("turns")
//   unit       from the gates of its layer
//
// needs(params) -> [[name, params], …] of the records without which it cannot be; derive(params, get) ->
// the view's value, where get(name, params) is a record or null.

import { t } from "./i18n.js";
import { AskError } from "./source.js";

const FUTURE = 1; // the mask's code of later tokens
const REPORTED = { top: 10 }; // of `read`, as the page asks it

const plain = (data, shape = [data.length], within = 0) => ({ data, shape, within });

/** Row `at` of an array with rows, as an array. */
function rowOf(array, at) {
  const wide = array.shape.slice(1).reduce((product, n) => product * n, 1);
  return plain(array.data.subarray(at * wide, (at + 1) * wide), array.shape.slice(1), array.within);
}

const place = ({ layer, head, of, kind }) => ({ layer, head, of, kind });
const whole = (params) => ["head", { ...place(params), mask: true }];

// -- row -----------------------------------------------------------------------------------------------

async function labelsOf(get, side) {
  return (await get("read", REPORTED)).spellings[side].labels;
}

async function row(params, get) {
  const answer = await get(...whole(params));
  const { query } = params;
  const weights = rowOf(answer.weights, query);
  const order = Int32Array.from(weights.data.keys()).sort((a, b) => weights.data[b] - weights.data[a] || a - b);
  const { name, layer, head, kv_head, of, kind, title } = answer;
  return { name, layer, head, kv_head, of, kind, title, query, label: (await labelsOf(get, answer.queries))[query], weights,
    codes: rowOf(answer.mask, query), sum: answer.row_sums.data[query], order: plain(order) };
}

// -- steps ---------------------------------------------------------------------------------------------

const inHead = (params) => ["of_head", place(params)];
const inLayer = ({ layer, of, kind }) => ["of_layer", { layer, of, kind }];
const matrices = (params) => ["matrices", place(params)];

/** A payload's arrays with a row for each query, reduced to one. */
function reduced(value, query) {
  const found = { ...value };
  for (const name of value.rows) {
    const [first, inner] = name.split(".");
    if (value[first] === null) continue;
    found[first] = inner ? { ...value[first], [inner]: rowOf(value[first][inner], query) } : rowOf(value[first], query);
  }
  return found;
}

function mostWithin(value) {
  if (value === null || typeof value !== "object") return 0;
  if (ArrayBuffer.isView(value.data)) return value.within;
  return Math.max(0, ...Object.values(value).map(mostWithin));
}

const largest = ({ data }) => data.reduce((most, value) => Math.max(most, Math.abs(value)), 0);

/** Weight times value, key by key. */
function weighted(weights, v) {
  const wide = v.shape[1];
  return plain(v.data.map((value, at) => value * weights.data[Math.floor(at / wide)]), v.shape, v.within + weights.within * largest(v));
}

/** Rows of a matrix times a vector, and how far a sum of their stored numbers may be off. */
function times({ shape: [rows, columns], weights }, vector) {
  const out = new Float32Array(rows);
  let within = 0;
  for (let i = 0; i < rows; i++) {
    let off = 0;
    for (let j = 0; j < columns; j++) {
      const weight = weights.data[i * columns + j];
      out[i] += weight * vector.data[j];
      off += Math.abs(weight) * vector.within + Math.abs(vector.data[j]) * weights.within;
    }
    within = Math.max(within, off);
  }
  return plain(out, [rows], within);
}

const shapeAlone = (rows, columns) => ({ shape: [rows, columns], weights: null, bias: null });

function unrecorded({ additive, sizes }) {
  const { d_model, d_head } = sizes;
  return { W_Q: shapeAlone(d_head, d_model), W_K: shapeAlone(d_head, d_model), W_V: additive ? null : shapeAlone(d_head, d_model), W_O: null };
}

/** A rotated vector before its position turned it; null where nothing turns. */
function turnedBack(array, position, turns) {
  if (!turns) return null;
  const found = Float32Array.from(array.data);
  const { pairs, frequencies, factor } = turns;
  for (let i = 0; i < pairs.shape[0]; i++) {
    const [a, b] = pairs.data.subarray(2 * i, 2 * i + 2);
    const angle = position * frequencies.data[i];
    const [cos, sin] = [Math.cos(angle) / factor, Math.sin(angle) / factor];
    found[a] = array.data[a] * cos + array.data[b] * sin;
    found[b] = array.data[b] * cos - array.data[a] * sin;
  }
  return plain(found, array.shape, 2 * array.within);
}

function allTurnedBack(keys, places, turns) {
  if (!turns) return null;
  const rows = Array.from({ length: keys.shape[0] }, (_, at) => turnedBack(rowOf(keys, at), places[at], turns).data);
  return plain(Float32Array.from(rows.flatMap((row) => [...row])), keys.shape, 2 * keys.within);
}

async function turnsOf({ layer, of, kind }, get) {
  if (kind !== "self") return null;
  const found = await get(...(layer ? ["turns", { layer, of }] : ["positions", { of, kind }]));
  return found?.turns ?? null;
}

async function steps(params, get) {
  const asked = [inHead(params), inLayer(params), whole(params), matrices(params)].map((each) => get(...each));
  const [mine, shared, map, matrix, turns] = await Promise.all([...asked, turnsOf(params, get)]);
  const { query } = params;
  const part = reduced(mine, query);
  const layer = reduced(shared, query);
  const inputs = shared.key_side === "same" ? shared.normed ?? shared.before.vector : shared.key_inputs;
  const weights = rowOf(map.weights, query);
  const scale = part.scale?.factor ?? 1;
  const places = shared.places?.data;
  const value = { ...part, before: layer.before, normed: layer.normed, key_inputs: inputs, all_heads: layer.all_heads,
    after_norm: layer.after_norm, feed_forward: layer.feed_forward, after: layer.after, query, weights, codes: rowOf(map.mask, query), rows: [],
    label: (await labelsOf(get, part.queries))[query], scaled: plain(part.scores.data.map((score) => score * scale), part.scores.shape, part.scores.within * scale),
    weighted: weighted(weights, part.v), model_output: part.head_output, contribution: null,
    places: shared.places, q_unrotated: turnedBack(part.q, places?.[query], turns), k_unrotated: allTurnedBack(part.k, places, turns), ...unrecorded(part), ...matrix };
  if (value.W_O) value.contribution = times(value.W_O, part.head_output);
  return { ...value, within: Math.max(mostWithin(part), mostWithin(layer), value.contribution?.within ?? 0) };
}

// -- links ---------------------------------------------------------------------------------------------

/** The mean weight of all other places that are as far apart and as visible, and how many there are. */
function sameDistance({ weights, mask, rows, columns }, query, keys) {
  const seen = (by) => keys.reduce((count, key) => count + (mask.data[(query + by) * columns + key + by] === 0), 0);
  const here = seen(0);
  let total = 0;
  let count = 0;
  for (let by = -Math.min(query, ...keys); query + by < rows && Math.max(...keys) + by < columns; by++) {
    if (by === 0 || seen(by) !== here) continue;
    total += keys.reduce((sum, key) => sum + weights.data[(query + by) * columns + key + by], 0);
    count += 1;
  }
  return { distance: count ? total / count : null, distance_pairs: count };
}

/** One head's weight from a query to a word; `keys`: its tokens, whose weights are summed. */
function link(answer, query, keys, untrained) {
  const { layer, head, name, weights, mask, columns } = answer;
  const row = weights.data.subarray(query * columns, (query + 1) * columns);
  const codes = mask.data.subarray(query * columns, (query + 1) * columns);
  const seen = codes.reduce((count, code) => count + (code === 0), 0);
  const weight = keys.reduce((sum, key) => sum + row[key], 0);
  const more = row.reduce((count, value, at) => count + (!keys.includes(at) && value > weight), 0);
  const uniform = keys.filter((key) => codes[key] === 0).length / Math.max(1, seen);
  return { name, layer, head, weight, ...sameDistance(answer, query, keys), untrained, rank: 1 + more, uniform };
}

async function links(params, get) {
  const { query, of, kind } = params;
  const tokens = [params.key].flat();
  const read = await get("read", REPORTED);
  const site = read.sites.find((each) => each.of === of && each.kind === kind);
  const heads = Array.from({ length: site.layers * site.heads }, (_, at) => ({ layer: Math.floor(at / site.heads), head: at % site.heads, of, kind }));
  const answers = await Promise.all(heads.map((head) => get(...whole(head))));
  if (answers.includes(null)) throw new AskError("", 404, true);
  const [first] = answers;
  const where = (places) => (places.length > 1 ? t("links.positions", { from: places[0], to: places.at(-1) }) : t("links.position", { position: places[0] }));
  const labels = (side, places) => t("links.named", { word: places.map((at) => read.spellings[side].labels[at]).join(""), where: where(places) });
  const named = { query: labels(first.queries, [query]), key: labels(first.keys, tokens) };
  if (site.causal && first.mask.data[query * first.columns + tokens[0]] === FUTURE) throw new AskError(t("links.later", named), 422);
  const copy = params.untrained ? await get("untrained", { of, kind }) : null;
  const at = (place) => (copy ? tokens.reduce((sum, key) => sum + copy.weights.data[(place * first.rows + query) * first.columns + key], 0) : null);
  const found = answers.map((answer, place) => link(answer, query, tokens, at(place))).sort((a, b) => b.weight - a.weight);
  const { title, query_axis, key_axis, queries, keys } = first;
  return { of, kind, title, query_axis, key_axis, queries, keys, ...named, query_positions: [query], key_positions: tokens, why_no_untrained: "", links: found };
}

// -- positions, gates ---------------------------------------------------------------------------------------------

/** How positions are told in a later layer: its own turns and bias, the rest as in the first. */
async function positions(params, get) {
  const { layer, of } = params;
  const [first, own] = await Promise.all([get("positions", { ...params, layer: 0 }), get("turns", { layer, of })]);
  return { ...first, ...own };
}

/** One unit of a layer of gates over the text. */
async function unit(params, get) {
  const { layer, unit: number } = params;
  const answer = await get("gates", { layer });
  const column = (array) => plain(Float32Array.from({ length: array.shape[0] }, (_, at) => array.data[at * array.shape[1] + number]), undefined, array.within);
  const parts = Object.fromEntries(Object.entries(answer.parts).map(([name, array]) => [name, column(array)]));
  const opens = new Set(answer.opens.data);
  const before = parts[answer.memory].data.map((_, at, all) => (opens.has(at) ? 0 : all[at - 1]));
  return { layer, unit: number, cell: answer.cell, parts, before: plain(before) };
}

export const DERIVED = {
  row: { needs: (params) => [whole(params)], derive: row },
  steps: { needs: (params) => (Number.isInteger(params.query) ? [inHead(params), inLayer(params), whole(params)] : null), derive: steps },
  links: { needs: ({ query, key, of, kind }) => (Number.isInteger(query) && [key].flat().every(Number.isInteger) ? [whole({ layer: 0, head: 0, of, kind })] : null), derive: links },
  positions: { needs: (params) => ((params.show ?? "kind") === "kind" && params.layer ? [["positions", { ...params, layer: 0 }], ["turns", { layer: params.layer, of: params.of }]] : null), derive: positions },
  unit: { needs: ({ layer }) => [["gates", { layer }]], derive: unit },
};
