// From logits to probabilities, in the order and with the definitions of generation/sampling.py:
// ids that are never drawn, temperature, top-k, top-p. Temperature 0 is greedy: the largest logit, no filter.

const LEAST_TEMPERATURE = 1e-30;

/** softmax in float64; -Infinity becomes exactly 0. */
export function softmax(logits) {
  let most = -Infinity;
  for (const logit of logits) if (logit > most) most = logit;
  const out = new Float64Array(logits.length);
  let sum = 0;
  for (let i = 0; i < logits.length; i++) sum += out[i] = Math.exp(logits[i] - most);
  for (let i = 0; i < logits.length; i++) out[i] /= sum;
  return out;
}

/** Ids from the largest value down; equals in the order of ids. */
export function ranked(values, most = values.length) {
  const ids = Uint32Array.from(values, (_, id) => id);
  return ids.sort((a, b) => values[b] - values[a] || a - b).subarray(0, most);
}

/** Ties with the k-th largest stay, as in `keep_top_k`. */
function topK(logits, order, k) {
  if (k >= logits.length) return logits;
  const least = logits[order[k - 1]];
  return logits.map((logit) => (logit < least ? -Infinity : logit));
}

/** The likeliest up to the first that brings their sum to p; ties stay, as in `keep_top_p`. */
function topP(logits, order, p) {
  const shares = softmax(logits);
  let before = 0;
  let kept = 0;
  while (kept < order.length && before < p) before += shares[order[kept++]];
  const least = logits[order[Math.max(kept, 1) - 1]];
  return logits.map((logit) => (logit < least ? -Infinity : logit));
}

/** Probabilities after the filters: {never (ids), temperature, topK (0 or null: all), topP}. */
export function filtered(given, { never = [], temperature = 1, topK: k = 0, topP: p = 1 } = {}) {
  const logits = Float32Array.from(given);
  for (const id of never) logits[id] = -Infinity;
  const order = ranked(logits);
  if (temperature === 0) {
    const out = new Float64Array(logits.length);
    out[order[0]] = 1;
    return out;
  }
  const most = logits[order[0]];
  let left = temperature === 1 ? Float64Array.from(logits)
    : Float64Array.from(logits, (logit) => (logit - most) / Math.max(temperature, LEAST_TEMPERATURE));
  if (k) left = topK(left, order, k);
  if (p < 1) left = topP(left, order, p);
  return softmax(left);
}
