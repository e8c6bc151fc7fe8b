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

/** The scene of a page and a sentence; throws Absent where no model here can show it. */
export async function sceneOf(app, page, sentence) {
  const fits = ({ kind }) => page.model.includes("any") || page.model.includes(kind);
  const now = app.models.find(({ id }) => id === app.question?.model);
  const order = [now, ...app.models].filter((model) => model && fits(model));
  const asked = order.map((model) => questionFor(model, page, sentence));
  const question = asked.find((each) => app.can("read", { top: TOP }, each));
  if (!question) throw new Absent(order.length ? t("needs.live") : t("lesson.nomodel", { kind: page.model.map((kind) => t(`kind.${kind}`)).join(", ") }));
  const scene = Object.create(app);
  Object.assign(scene, { question, page });
  scene.state = { get: () => ({ ...app.state.get(), selection: NOTHING }) };
  [scene.about, scene.reading] = await Promise.all([scene.ask("about"), scene.ask("read", { top: TOP })]);
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
