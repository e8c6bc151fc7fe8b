// Numbers in the text of a tour: each is asked of the model that is shown when the page is drawn.

import { bytes, number, percent, whole, word } from "./dom.js";
import { Absent, ends, headFor, sited, stepsOf } from "./lesson_scene.js";
import { siteOf } from "./sites.js";
import { t, translated } from "./i18n.js";

const FLOAT = 4; // bytes of a float32

function site(scene, params) {
  const found = siteOf(sited(scene, params));
  if (!found) throw new Absent(t("lesson.noattention", { model: scene.question.model }));
  return found;
}

/** Keys and values of a text of `length` tokens, in bytes. */
export function cacheBytes(scene, length) {
  const selves = scene.about.sites.filter(({ of, kind }) => of === "decoder" && kind === "self");
  const { layers, kv_heads: heads, d_head: width } = selves[0] ?? site(scene, {});
  return 2 * layers * heads * width * FLOAT * length;
}

/** Weights that all heads compute for a text of `length` tokens, each looking at itself and what is before. */
export function cellCount(scene, length) {
  const { heads, causal, windows } = site(scene, {});
  const half = (n) => (n * (n + 1)) / 2;
  const cells = (window) => {
    if (!causal) return length * length;
    const wide = Math.min(window ?? length, length);
    return half(wide) + (length - wide) * wide;
  };
  return heads * windows.reduce((sum, window) => sum + cells(window), 0);
}

async function step(scene, params, name) {
  const inner = sited(scene, params);
  const at = ends(inner, params);
  const answer = await stepsOf(inner, await headFor(inner, params, at), at.query);
  return number(answer[name].data[strongest(answer, at.keys)], 2);
}

/** Of a key of several tokens the one that gets most: scores are of single tokens. */
export function strongest(answer, keys) {
  return keys.reduce((best, at) => (answer.weights.data[at] > answer.weights.data[best] ? at : best), keys.at(-1));
}

async function link(scene, params) {
  const inner = sited(scene, params);
  const head = await headFor(inner, params, ends(inner, params));
  if (!head.link) throw new Absent(t("lesson.absent", { word: params.key, model: scene.question.model }));
  return head.link;
}

/** The share of a word as what comes next: {share, rank, tokens}. Where it is several tokens, the product of their shares,
 * each given those before it, and no rank. null: a recorded page does not know. */
export async function nextShare(scene, label) {
  const { next, words } = scene.reading;
  if (!next) throw new Absent(t("lesson.nonext", { model: scene.question.model }));
  const at = Array.from(next.ids.data).findIndex((id) => words[id].replaceAll("␣", "") === label);
  if (at >= 0) return { share: next.p.data[at], rank: at + 1, tokens: 1 };
  const { text } = scene.question;
  const longer = { ...scene.question, text: /\p{Script=Han}$/u.test(text) ? text + label : `${text} ${label}` };
  if (!scene.can("read", { top: 10 }, longer)) return null;
  const before = scene.reading.spellings.read.ids.data;
  const { spellings: { read }, surprise } = await scene.ask("read", { top: 10 }, longer);
  if (before.some((id, place) => read.ids.data[place] !== id)) return null; // the word changed how the text is cut
  const nats = surprise.nats.data.subarray(before.length).reduce((sum, each) => sum + each, 0);
  const tokens = read.ids.data.length - before.length;
  return { share: Math.exp(-nats), rank: tokens === 1 ? surprise.rank.data[before.length] : null, tokens };
}

const NUMBERS = {
  model: (scene) => scene.question.model,
  layers: (scene) => String(scene.about.layers),
  heads: (scene) => String(site(scene, {}).heads),
  parameters: (scene) => whole(scene.about.parameters ?? 0),
  vocabulary: (scene) => whole(scene.about.vocab_size),
  context: (scene) => (scene.about.context_length ? whole(scene.about.context_length) : "–"),
  tokens: (scene) => String(scene.reading.spellings.read.labels.length),
  d_head: (scene, params) => String(site(scene, params).d_head),
  root: (scene, params) => number(Math.sqrt(site(scene, params).d_head), 2),
  weight: async (scene, params) => number((await link(scene, params)).weight, 2),
  head: async (scene, params) => (await link(scene, params)).name,
  untrained: async (scene, params) => number((await link(scene, params)).untrained ?? NaN, 2),
  uniform: async (scene, params) => number((await link(scene, params)).uniform, 2),
  distance: (scene, params) => {
    const { query, key } = ends(sited(scene, params), params);
    return String(Math.abs(query - key));
  },
  score: (scene, params) => step(scene, params, "scores"),
  scaled: (scene, params) => step(scene, params, "scaled"),
  difference: async (scene, params) => {
    const inner = sited(scene, params);
    const at = ends(inner, params);
    return number((await stepsOf(inner, await headFor(inner, params, at), at.query)).difference, 1);
  },
  p: async (scene, params) => {
    const found = await nextShare(scene, params.word);
    if (!found) throw new Absent(t("needs.live"));
    return percent(found.share);
  },
  likeliest: (scene) => {
    const { next, words } = scene.reading;
    return next ? words[next.ids.data[0]] : "–";
  },
  translation: (scene) => scene.reading.text ?? "–",
  cells: (scene, { length }) => whole(cellCount(scene, length)),
  cache: (scene, { length }) => large(cacheBytes(scene, length)),
};

/** Bytes up to gigabytes. */
export function large(value) {
  return value < 1e9 ? bytes(value) : `${whole(value / 1e8) / 10} GB`;
}

/** A place in a sentence that a number of the model fills. */
export function liveNumber(scene, { number: name, params }) {
  const place = word("…", { class: "real", "data-number": name });
  if (!scene) {
    place.textContent = name === "model" ? t("lesson.themodel") : "–";
    return place;
  }
  const failed = (error) => {
    place.textContent = "–";
    place.title = error.missing ? t("needs.live") : error.words ? translated(error.words).text : error.message;
    place.classList.add("missing");
  };
  try {
    Promise.resolve(NUMBERS[name](scene, params)).then((words) => (place.textContent = words), failed);
  } catch (error) {
    failed(error);
  }
  place.title = t("lesson.real", { model: scene.question.model });
  return place;
}
