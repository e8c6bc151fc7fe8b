// What a page of a tour speaks of: a model that fits it, its own sentence, and the words in it. A scene has
// the interface of the page's app (ask, about, reading, state), so that every piece of the page works with it.

import { siteOf, siteParams, spelling } from "./sites.js";
import { t } from "./i18n.js";

const TOP = 10; // as the page reads
const NOTHING = { of: null, kind: null, layer: 0, head: 0, query: null, key: null };

/** What cannot be shown, in words of the page. */
export class Absent extends Error {
  constructor(words) {
    super(words);
    this.status = 422;
  }
}

function questionFor(model, page, sentence) {
  if (/encoder-decoder/.test(model.kind)) return { model: model.id, source: page.source || sentence };
  return { model: model.id, text: sentence };
}

/** A story, then shorter ones: sentences are left out from the last but one backwards; its first and its last stay. */
export function stories(story) {
  const parts = story.match(/[^.!?。！？]+[.!?。！？]*\s*|[.!?。！？]+\s*/gu) ?? [];
  const found = [story];
  while (parts.length > 2) {
    parts.splice(-2, 1);
    found.push(parts.join(""));
  }
  return found;
}

/** The first question whose text its model can read: the whole story by any model, else a shorter one. */
async function readable(app, page, sentence, models) {
  let refused = null;
  let possible = false;
  for (const story of stories(sentence)) {
    for (const question of models.map((model) => questionFor(model, page, story))) {
      if (!app.can("read", { top: TOP }, question)) continue;
      possible = true;
      try {
        return { question, reading: await app.ask("read", { top: TOP }, question) };
      } catch (error) {
        if (error.status !== 422) throw error;
        refused ??= error;
      }
    }
    if (!possible || page.source) break;
  }
  throw refused ?? new Absent(t("needs.live"));
}

/** The scene of a page and a sentence; throws Absent where no model here can show it. */
export async function sceneOf(app, page, sentence) {
  const fits = ({ kind }) => page.model.includes("any") || page.model.includes(kind);
  const now = app.models.find(({ id }) => id === app.question?.model);
  const order = [...new Set([now, ...app.models])].filter((model) => model && fits(model));
  if (!order.length) throw new Absent(t("lesson.nomodel", { kind: page.model.map((kind) => t(`kind.${kind}`)).join(", ") }));
  const found = await readable(app, page, sentence, order);
  const scene = Object.create(app);
  Object.assign(scene, found, { page });
  scene.state = { get: () => ({ ...app.state.get(), selection: NOTHING }) };
  scene.about = await scene.ask("about");
  const { model, text } = scene.question;
  scene.remarks = [
    now && now.id !== model ? t(fits(now) ? "lesson.instead.long" : "lesson.instead.kind", { model, other: now.id }) : null,
    text !== undefined && text !== sentence ? t("lesson.shorter", { model, context: scene.about.context_length }) : null,
  ].filter(Boolean);
  return scene;
}

/** The same scene with one kind of attention chosen. */
export function sited(scene, { of = null, kind = null }) {
  if (!of && !kind) return scene;
  const found = Object.create(scene);
  found.state = { get: () => ({ ...scene.state.get(), selection: { ...NOTHING, of, kind } }) };
  return found;
}

/** The text of a side with the place of each token in it: characters of several tokens belong to all of them. */
function spans(reading, side) {
  const { pieces, groups } = reading.spellings[side];
  let text = "";
  const places = [];
  for (const { start, length, text: joined } of groups) {
    const part = length > 1 ? joined : pieces[start];
    for (let at = 0; at < length; at++) places[start + at] = [text.length, text.length + part.length];
    text += part;
  }
  return { text, places };
}

const LETTER = /[\p{L}\p{N}]/u;
const WITHOUT_SPACES = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]/u;

function starts(text, word) {
  const found = [];
  const inWord = (letter) => letter !== undefined && LETTER.test(letter);
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1)) {
    const whole = WITHOUT_SPACES.test(word) || !(inWord(word[0]) && inWord(text[at - 1])) && !(inWord(word.at(-1)) && inWord(text[at + word.length]));
    if (whole) found.push(at);
  }
  return found;
}

/** The position of a word ("it", "has#2", "4", "last"): of its last token, which has read all of it. */
export function find(scene, side, word) {
  const count = spelling(scene, side).labels.length;
  if (word === "last") return count - 1;
  if (/^\d+$/.test(word) && Number(word) < count) return Number(word);
  const [, name, number] = /^(.+?)(?:#(\d+))?$/su.exec(word) ?? [null, word, null];
  const { text, places } = spans(scene.reading, side);
  const start = starts(text, name)[Number(number ?? 1) - 1];
  if (start === undefined) throw new Absent(t("lesson.absent", { word, model: scene.question.model }));
  let last = null;
  places.forEach(([from, to], at) => (last = from < start + name.length && to > start ? at : last));
  return last;
}

/** {query, key}: positions of the words that `params` name; null for one that is not named. */
export function ends(scene, params) {
  const site = siteOf(scene);
  if (!site) throw new Absent(t("lesson.noattention", { model: scene.question.model }));
  const at = (side, word) => (word === undefined ? null : find(scene, side, word));
  return { query: at(site.queries, params.query), key: at(site.keys, params.key) };
}

/** Every head by its weight from a query to a key. */
export function linksOf(scene, { query, key }) {
  return scene.ask("links", { query, key, ...siteParams(scene), untrained: true });
}

/** The head that `params` names, else the one that looks most from query to key: {layer, head, name, link}. */
export async function headFor(scene, params, { query, key }) {
  const site = siteOf(scene);
  const named = /^L(\d+)\.H(\d+)$/.exec(params.head ?? "");
  if (named && (Number(named[1]) >= site.layers || Number(named[2]) >= site.heads)) {
    throw new Absent(t("lesson.nohead", { head: params.head, model: scene.question.model }));
  }
  const links = query === null || key === null ? [] : (await linksOf(scene, { query, key })).links;
  const name = params.head ?? links[0]?.name ?? "L0.H0";
  const [layer, head] = name.match(/\d+/g).map(Number);
  return { layer, head, name, link: links.find((each) => each.name === name) ?? null };
}

/** The four steps of one query in one head. */
export function stepsOf(scene, { layer, head }, query) {
  return scene.ask("steps", { layer, head, query, ...siteParams(scene), full: true, parts: "all" });
}
