// Payloads: how the server and the exported files send numbers (inspection/views/payload.py packs).
//
//   bytes  = u32 header length (little-endian) | header JSON, padded to 8 | arrays, each at a multiple of 8
//   header = {"value": JSON with {"$array": i}, "arrays": [{type, shape, offset, scale?, low?, within?}]}
//
// An array becomes {data, shape, within}: data is a Float32Array (f2, f4, and u1/u2 with a scale: low +
// raw * scale), an Int32Array (i4, u2 without a scale) or a Uint8Array (u1 without a scale: codes).
// `within` is the largest error that the storage can make (0 for exact); the page shows it.

let halves = null;

/** The float32 value of each of the 65,536 half-precision numbers, computed once. */
function halfTable() {
  if (halves) return halves;
  halves = new Float32Array(65536);
  for (let bits = 0; bits < 65536; bits++) {
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    let size = (1 + fraction / 1024) * 2 ** (exponent - 15);
    if (exponent === 0) size = fraction * 2 ** -24;
    if (exponent === 31) size = fraction ? NaN : Infinity;
    halves[bits] = bits & 0x8000 ? -size : size;
  }
  return halves;
}

function scaled(raw, low, scale) {
  const out = new Float32Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = low + raw[i] * scale;
  return out;
}

function decode(buffer, entry, start) {
  const size = entry.shape.reduce((product, n) => product * n, 1);
  const at = start + entry.offset;
  const hasScale = entry.scale !== undefined && entry.scale !== null;
  switch (entry.type) {
    case "u1": {
      const raw = new Uint8Array(buffer, at, size);
      return hasScale ? scaled(raw, entry.low ?? 0, entry.scale) : raw.slice();
    }
    case "u2": {
      const raw = new Uint16Array(buffer, at, size);
      return hasScale ? scaled(raw, entry.low ?? 0, entry.scale) : Int32Array.from(raw);
    }
    case "i4":
      return new Int32Array(buffer, at, size).slice();
    case "f2": {
      const table = halfTable();
      const out = new Float32Array(size);
      new Uint16Array(buffer, at, size).forEach((bits, i) => (out[i] = table[bits]));
      return out;
    }
    case "f4":
      return new Float32Array(buffer, at, size).slice();
    default:
      throw new Error(`a payload with an array of unknown type ${entry.type}`);
  }
}

function fill(value, arrays) {
  if (Array.isArray(value)) return value.map((item) => fill(item, arrays));
  if (value === null || typeof value !== "object") return value;
  if ("$array" in value) return arrays[value.$array]; // words that know their template ($said) stay as they are
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, fill(item, arrays)]));
}

/** The value that a payload (ArrayBuffer) holds. */
export function unpack(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  // Offsets count from the first array, which follows the header at a multiple of 8.
  const start = Math.ceil((4 + length) / 8) * 8;
  const arrays = header.arrays.map((entry) => ({
    data: decode(buffer, entry, start),
    shape: entry.shape,
    within: entry.within ?? 0,
  }));
  return fill(header.value, arrays);
}

/** The bytes that base64 text stands for, as an ArrayBuffer. */
export function fromBase64(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0)).buffer;
}
