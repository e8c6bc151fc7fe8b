// Numbers in the text of a tour: each is asked of the model that is shown when the page is drawn.

import { bytes, number, percent, whole, word } from "./dom.js";
import { Absent, ends, headFor, sited, stepsOf } from "./lesson_scene.js";
import { siteOf } from "./sites.js";
import { t } from "./i18n.js";

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
  const { layers, heads, causal } = site(scene, {});
  return layers * heads * (causal ? (length * (length + 1)) / 2 : length * length);
}

async function step(scene, params, name) {
  const inner = sited(scene, params);
  const { query, key } = ends(inner, params);
  const answer = await stepsOf(inner, await headFor(inner, params, { query, key }), query);
  return number(answer[name].data[key], 2);
}

async function link(scene, params) {
  const inner = sited(scene, params);
  const head = await headFor(inner, params, ends(inner, params));
  if (!head.link) throw new Absent(t("lesson.absent", { word: params.key, model: scene.question.model }));
  return head.link;
}

/** The share of `label` among the next tokens: {share, rank}; null: not among those that are named. */
export function nextShare(scene, label) {
  const { next, words } = scene.reading;
  if (!next) throw new Absent(t("lesson.nonext", { model: scene.question.model }));
  const bare = (id) => words[id].replaceAll("␣", "");
  const at = Array.from(next.ids.data).findIndex((id) => bare(id) === label);
  return at < 0 ? null : { share: next.p.data[at], rank: at + 1 };
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
    const { query, key } = ends(inner, params);
    return number((await stepsOf(inner, await headFor(inner, params, { query, key }), query)).difference, 1);
  },
  p: (scene, params) => {
    const found = nextShare(scene, params.word);
    return found ? percent(found.share) : t("lesson.rare");
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
    place.textContent = "–";
    return place;
  }
  const failed = (error) => {
    place.textContent = "–";
    place.title = error.missing ? t("needs.live") : error.message;
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
