// How each number of the four steps comes about, for the formula box: equation, the payload's numbers put in, and
// which cells they stand in. A context holds {answer, columns, labels, reasons, parts: Map(name -> Vector or
// element), turns}; names: "x", "normed", "q", "z", "k 3", "score 3", "W_Q", …

import { h, number, word } from "./dom.js";
import { inside, products, sum } from "./formula.js";
import { symbols } from "./steps_stages.js";
import { rowIn } from "./vector.js";
import { t } from "./i18n.js";

const named = (context, symbol, key, role) => [symbol, " ", word(context.labels[key], { class: `word ${role}` }), ` ${key}`];

/** W x + b at one number. */
function through(matrix, input, at, { symbol, letter, weights, result }) {
  const equation = `${symbol}[${at}] = Σᵢ ${letter}[${at}, i] ${input.symbol}[i]${matrix.bias ? ` + b[${at}]` : ""}`;
  const sources = [[weights, "row", at], [input.part, "all"]];
  const row = matrix.weights ? rowIn(matrix.weights, at) : matrix.rows?.get(at);
  const wants = row || !input.values ? null : { name: letter, row: at };
  if (!row || !input.values) return { equation, numbers: `= ${number(result)}`, note: t("formula.large", { size: matrix.shape.join(" × ") }), sources, wants };
  const terms = products(row, input.values);
  if (matrix.bias) terms.push([inside(matrix.bias.data[at]), matrix.bias.data[at]]);
  const total = terms.reduce((all, [, value]) => all + value, 0);
  return { equation, numbers: `= ${sum(terms)} = ${number(total)}`, total, sources };
}

/** One number of q, of k or of v before its position turns it. */
export function projected(context, letter, at, key = null) {
  const { answer, parts } = context;
  const { own, other } = symbols(answer);
  const mine = letter === "q";
  const turned = mine ? answer.q_unrotated : letter === "k" ? answer.k_unrotated : null;
  const values = mine ? (turned ?? answer.q).data : rowIn(turned ?? answer[letter], key);
  const input = mine ? { symbol: own, values: (answer.normed ?? answer.before.vector).data, part: parts.get(answer.normed ? "normed" : "x") }
    : { symbol: `${other}${key}`, values: answer.key_inputs ? rowIn(answer.key_inputs, key) : null, part: null };
  if (!mine && answer.key_side === "same" && key === answer.query) input.part = parts.get(answer.normed ? "normed" : "x");
  const name = `W_${letter.toUpperCase()}`;
  const title = [...(mine ? ["q"] : named(context, letter, key, letter)), t("formula.number", { at })];
  if (!answer[name]) return { title, equation: t("steps.annotation"), numbers: `${letter}[${at}] = ${number(values[at])}` };
  const found = through(answer[name], input, at, { symbol: letter, letter: name, weights: parts.get(name), result: values[at] });
  const normed = answer.qk_norm && letter !== "v";
  return { title, ...found, note: found.note || (normed ? t("formula.normed", { value: number(values[at]) }) : input.values && !input.part ? t("formula.inputs", { key }) : "") };
}

/** One number of q or k after its position turned it: half of a rotary pair. */
export function turnedNumber(context, letter, at, key = null) {
  const { answer, parts, turns } = context;
  const mine = letter === "q";
  const before = mine ? answer.q_unrotated.data : rowIn(answer.k_unrotated, key);
  const after = mine ? answer.q.data : rowIn(answer.k, key);
  const position = answer.places.data[mine ? answer.query : key];
  const title = [...(mine ? ["q"] : named(context, letter, key, letter)), t("formula.number", { at })];
  const half = turns ? turns.pairs.shape[0] : 0;
  const pair = Array.from({ length: half }, (_, i) => i).find((i) => turns.pairs.data[2 * i] === at || turns.pairs.data[2 * i + 1] === at);
  if (pair === undefined) return { title, equation: t(turns ? "formula.still" : "formula.turned"), numbers: `${letter}[${at}] = ${number(after[at])}` };
  const [a, b] = turns.pairs.data.subarray(2 * pair, 2 * pair + 2);
  const angle = position * turns.frequencies.data[pair];
  const [cos, sin] = [Math.cos(angle) * turns.factor, Math.sin(angle) * turns.factor];
  const first = at === a;
  const value = first ? before[a] * cos - before[b] * sin : before[a] * sin + before[b] * cos;
  const equation = first ? `${letter}[${a}] = u[${a}] cos θ − u[${b}] sin θ` : `${letter}[${b}] = u[${a}] sin θ + u[${b}] cos θ`;
  const agrees = Math.abs(value - after[at]) < 1e-3 * Math.max(1, Math.abs(after[at]));
  const [left, right] = first ? [cos, sin] : [sin, cos];
  const numbers = agrees ? `= ${inside(before[a])} × ${inside(left)} ${first ? "−" : "+"} ${inside(before[b])} × ${inside(right)} = ${number(after[at])}` : `= ${number(after[at])}`;
  return { title, equation, numbers, note: t("formula.angle", { pair, position, angle: number(angle, 3), frequency: number(turns.frequencies.data[pair], 4) }),
    sources: [[parts.get(mine ? "u" : `u ${key}`), "one", first ? b : a]] };
}

function score(context, key) {
  const { answer, parts } = context;
  const q = answer.q.data;
  const k = rowIn(answer.k, key);
  const sources = [[parts.get("q"), "all"], [parts.get(`k ${key}`), "all"]];
  if (answer.additive) {
    const v = answer.score_vector.data;
    const terms = Array.from(q, (value, i) => [`${inside(v[i])} × tanh(${inside(value)} + ${inside(k[i])})`, v[i] * Math.tanh(value + k[i])]);
    return { equation: "s = Σᵢ v[i] tanh(q[i] + k[i])", numbers: `= ${sum(terms)} = ${number(answer.scores.data[key])}`, sources };
  }
  return { equation: `q · k = Σᵢ q[i] k[i]`, numbers: `= ${sum(products(q, k))} = ${number(answer.scores.data[key])}`, sources };
}

function weight(context, key) {
  const { answer, columns, parts } = context;
  const final = columns.find(({ id }) => id === "masked").values;
  const visible = [...final.keys()].filter((at) => !answer.codes.data[at]);
  const top = Math.max(...visible.map((at) => final[at]), ...(answer.sink ? [answer.sink.logit] : []));
  const total = visible.reduce((all, at) => all + Math.exp(final[at] - top), answer.sink ? Math.exp(answer.sink.logit - top) : 0);
  const equation = "w = exp(s − m) ÷ Σ exp(s − m)";
  const sources = visible.map((at) => [parts.get(`masked ${at}`), "all"]);
  const note = t("formula.softmax", { top: number(top), total: number(total), count: visible.length + (answer.sink ? 1 : 0) });
  if (answer.codes.data[key]) return { equation: "w = exp(−∞) ÷ Σ = 0", note: context.reasons[answer.codes.data[key]], sources: [[parts.get(`masked ${key}`), "all"]] };
  const up = Math.exp(final[key] - top);
  return { equation, numbers: `= exp(${number(final[key])} − ${inside(top)}) ÷ ${number(total)} = ${number(up, 4)} ÷ ${number(total)} = ${number(answer.weights.data[key], 4)}`, note, sources };
}

const SCORES = {
  score,
  scaled: ({ answer, parts }, key) => ({ equation: answer.scale.factor === 1 ? "s × 1" : `s ${answer.scale.heading}`, sources: [[parts.get(`score ${key}`), "all"]],
    numbers: `= ${inside(answer.scores.data[key])} ${answer.scale.heading} = ${number(answer.scaled.data[key])}` }),
  capped: ({ answer, parts }, key) => ({ equation: "c tanh(s ÷ c)", sources: [[parts.get(`scaled ${key}`), "all"]],
    numbers: `= ${answer.softcap} × tanh(${inside(answer.scaled.data[key])} ÷ ${answer.softcap}) = ${number(answer.capped.data[key])}` }),
  biased: ({ answer, parts, columns }, key) => {
    const before = columns[columns.findIndex(({ id }) => id === "biased") - 1];
    const bias = answer.biased.data[key] - before.values[key];
    return { equation: "s + b(i − j)", sources: [[parts.get(`${before.id} ${key}`), "all"]], note: t("formula.distance", { distance: answer.query - key }),
      numbers: `= ${inside(before.values[key])} + ${inside(bias)} = ${number(answer.biased.data[key])}` };
  },
  masked: ({ answer, parts, columns, reasons }, key) => {
    const before = columns[columns.findIndex(({ id }) => id === "masked") - 1];
    const code = answer.codes.data[key];
    return { equation: code ? "s = −∞" : `s = ${number(before.values[key])}`, note: code ? reasons[code] : t("formula.visible"), sources: [[parts.get(`${before.id} ${key}`), "all"]] };
  },
  weight,
};

/** A cell of the table of keys: column `id`, row `key`. */
export function cellFormula(context, id, key) {
  const heading = context.columns.find((column) => column.id === id).heading;
  return { title: [h("strong", {}, heading), " · ", word(context.labels[key], { class: "word k" }), ` ${key}`], ...SCORES[id](context, key) };
}

/** One number of weight times value. */
export function weightedNumber(context, key, at) {
  const { answer, parts } = context;
  const share = answer.weights.data[key];
  const value = rowIn(answer.v, key)[at];
  return { title: [...named(context, "w v", key, "v"), t("formula.number", { at })], equation: `w v[${at}]`, sources: [[parts.get(`weight ${key}`), "all"], [parts.get(`v ${key}`), "one", at]],
    numbers: `= ${number(share, 4)} × ${inside(value)} = ${number(rowIn(answer.weighted, key)[at], 4)}` };
}

/** One number of the head's output: the sum over keys. */
export function mixed(context, at) {
  const { answer, parts } = context;
  const terms = Array.from(answer.weights.data, (share, key) => [`${number(share, 3)} × ${inside(rowIn(answer.v, key)[at])}`, rowIn(answer.weighted, key)[at]]).filter(([, value]) => value !== 0);
  return { title: ["z", t("formula.number", { at })], equation: `z[${at}] = Σⱼ wⱼ vⱼ[${at}]`, numbers: `= ${sum(terms)} = ${number(answer.head_output.data[at])}`,
    note: t("formula.model", { value: number(answer.model_output.data[at], 6), ours: number(answer.head_output.data[at], 6) }),
    sources: [...answer.weights.data.keys()].map((key) => [parts.get(`weighted ${key}`), "one", at]) };
}

/** One number of x̂, of what the head writes, of the sum of all heads, of the stream afterwards. */
export function streamNumber(context, name, at) {
  const { answer, parts } = context;
  const x = answer.before.vector.data;
  const value = (part) => number(part.data[at]);
  if (name === "x") return { title: ["x", t("formula.number", { at })], equation: `x[${at}] = ${number(x[at])}`, note: t("steps.x") };
  if (name === "normed") return { title: ["x̂", t("formula.number", { at })], ...normedNumber(answer, at), sources: [[parts.get("x"), "all"]] };
  if (name === "contribution") {
    const input = { symbol: "z", values: answer.head_output.data, part: parts.get("z") };
    const found = through({ ...answer.W_O, bias: null }, input, at, { symbol: "o", letter: "W_O", weights: parts.get("W_O"), result: answer.contribution.data[at] });
    return { title: ["o", t("formula.number", { at })], ...found };
  }
  if (name === "all") {
    const own = answer.contribution?.data[at] ?? 0;
    return { title: ["a", t("formula.number", { at })], equation: t("steps.all.equation", { heads: answer.sizes.n_heads }), numbers: `= ${inside(own)} + ${inside(answer.all_heads.data[at] - own)} = ${value(answer.all_heads)}`,
      sources: [[parts.get("contribution"), "one", at]] };
  }
  const added = [["all", answer.after_norm ?? answer.all_heads], ...(answer.feed_forward ? [["ff", answer.feed_forward]] : [])];
  const terms = [...(answer.residual ? [inside(x[at])] : []), ...added.map(([, part]) => inside(part.data[at]))];
  const post = answer.norm_place === "post";
  return { title: ["x′", t("formula.number", { at })], equation: context.equation, numbers: `${post ? "norm" : "="} ${post ? `(${terms.join(" + ")}) = ` : `${terms.join(" + ")} = `}${value(answer.after.vector)}`,
    sources: [...(answer.residual ? [[parts.get("x"), "one", at]] : []), ...added.map(([each]) => [parts.get(each), "one", at])] };
}

function normedNumber({ norm, before, normed }, at) {
  const x = before.vector.data;
  const mean = norm === "layer" ? x.reduce((all, value) => all + value, 0) / x.length : 0;
  const size = Math.sqrt(x.reduce((all, value) => all + (value - mean) ** 2, 0) / x.length);
  const above = norm === "layer" ? `(x[${at}] − ${t("formula.mean")})` : `x[${at}]`;
  const divisor = t(norm === "layer" ? "formula.deviation" : "formula.rms");
  const numbers = norm === "layer" ? `(${inside(x[at])} − ${inside(mean)}) ÷ ${number(size)} = ${number((x[at] - mean) / size)}` : `${inside(x[at])} ÷ ${number(size)} = ${number(x[at] / size)}`;
  return { equation: `x̂[${at}] = ${above} ÷ ${divisor}`, numbers: `${numbers}  →  ${number(normed.data[at])}`, note: t("formula.gain") };
}
