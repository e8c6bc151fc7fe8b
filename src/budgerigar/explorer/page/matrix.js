// A matrix as it is shown: hidden first token, transposed, scaled. Pure functions, no drawing.
//
// A matrix = {queries, keys: labels; values: Float32Array (queries x keys); codes: Uint8Array or null (0
// visible, else why not: reasons[code]); reasons: words; sums: exact sums of the rows, where known; queryAxis, keyAxis: words; signed; within;
// sumless: the sum of a row means nothing; rowTitle: what rows are, for the table}.

/** The code of cells that the reader hid, beside the model's own masks. */
export const HIDDEN = 255;

const LEAST = 1e-4; // the smallest weight that the logarithmic scale tells from 0

/**
 * Weights without the first key, renormalised: A[i,j] / (1 - A[i,0]), Xiao et al. 2023's sink left out.
 * A row that looks at nothing else becomes all zeros.
 */
export function withoutFirst(matrix) {
  const wide = matrix.keys.length;
  const values = new Float32Array(matrix.values.length);
  const codes = matrix.codes ? matrix.codes.slice() : new Uint8Array(values.length);
  for (let row = 0; row < matrix.queries.length; row++) {
    const at = row * wide;
    let rest = 0; // summed rather than 1 - first: a learned sink may keep a part of the row
    for (let key = 0; key < wide; key++) rest += matrix.values[at + key];
    const kept = rest - matrix.values[at];
    codes[at] = codes[at] || HIDDEN;
    if (kept <= 1e-9) continue;
    for (let key = 1; key < wide; key++) values[at + key] = (matrix.values[at + key] * rest) / kept;
  }
  return { ...matrix, values, codes };
}

function turned(list, high, wide) {
  const out = new list.constructor(list.length);
  for (let row = 0; row < high; row++) {
    for (let column = 0; column < wide; column++) out[column * high + row] = list[row * wide + column];
  }
  return out;
}

/** Rows and columns as drawn: {rows, columns, rowAxis, columnAxis, values, codes, high, wide, turned}. */
export function arranged(matrix, transpose = false) {
  const shown = {
    rows: matrix.queries, columns: matrix.keys, rowAxis: matrix.queryAxis, columnAxis: matrix.keyAxis,
    values: matrix.values, codes: matrix.codes, high: matrix.queries.length, wide: matrix.keys.length,
    turned: transpose, reasons: matrix.reasons ?? [], signed: Boolean(matrix.signed),
  };
  if (!transpose) return shown;
  return {
    ...shown,
    rows: shown.columns, columns: shown.rows, rowAxis: shown.columnAxis, columnAxis: shown.rowAxis,
    values: turned(shown.values, shown.high, shown.wide),
    codes: shown.codes && turned(shown.codes, shown.high, shown.wide),
    high: shown.wide, wide: shown.high,
  };
}

/** The largest size of a visible number. */
export function largest(matrix) {
  let most = 0;
  for (const value of matrix.values) if (Math.abs(value) > most) most = Math.abs(value);
  return most;
}

/** A round number at or above `value`, for the end of a legend. */
export function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 3, 5, 7.5, 10].map((step) => step * power).find((top) => top >= value * (1 - 1e-6));
}

/** value / top in 0..1 on a scale; "log" goes down to a ten-thousandth of the top. */
export function share(value, top, scale) {
  const part = Math.min(1, Math.max(0, value / top));
  if (scale === "root") return Math.sqrt(part);
  if (scale === "log") return part <= LEAST ? 0 : 1 - Math.log10(part) / Math.log10(LEAST);
  return part;
}

/** What the legend says: [[place 0..1, number], …]. */
export function ticks(top, scale, signed) {
  if (signed) return [-1, -0.5, 0, 0.5, 1].map((part) => [(part + 1) / 2, part * top]);
  const parts = { linear: [0, 0.25, 0.5, 0.75, 1], root: [0, 0.05, 0.2, 0.5, 1], log: [1e-4, 1e-3, 1e-2, 0.1, 1] };
  return parts[scale].map((part) => [share(part, 1, scale), part * top]);
}

/** The sum of a row over its visible keys: the exact one where the answer had it. */
export function rowSum(matrix, query) {
  if (matrix.sums) return matrix.sums[query];
  const wide = matrix.keys.length;
  let sum = 0;
  for (let at = query * wide; at < (query + 1) * wide; at++) if (!matrix.codes?.[at]) sum += matrix.values[at];
  return sum;
}

/** The row of a query: its sum over visible keys and its strongest keys [[key, value], …]. */
export function rowOf(matrix, query, most = 3) {
  const wide = matrix.keys.length;
  const values = matrix.values.subarray(query * wide, (query + 1) * wide);
  const order = [];
  values.forEach((value, key) => {
    if (matrix.codes && matrix.codes[query * wide + key]) return;
    order.push([key, value]);
  });
  order.sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
  return { sum: rowSum(matrix, query), strongest: order.slice(0, most) };
}
