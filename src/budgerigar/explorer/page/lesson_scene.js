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

const pairs = (model) => /encoder-decoder/.test(model.kind);

const questionFor = (model, text) => (pairs(model) ? { model: model.id, source: text } : { model: model.id, text });

/** What of the page's question is changed of the model itself, and so holds for any text: heads that are off, a source that
 * is, an earlier moment of the training. Masked tokens are of one text alone. */
function editsOf({ off, how, of, kind, reference, blank, checkpoint }) {
  return { ...(off?.length ? { off, how, of, kind, reference } : {}), ...(blank ? { blank } : {}), ...(checkpoint ? { checkpoint } : {}) };
}

/** Those in words. */
function editWords(question) {
  const words = [...(question.off ?? []).map((head) => t("edit.off", { head }))];
  if (question.blank) words.push(t("edit.blank"));
  if (question.checkpoint) words.push(t("edit.checkpoint", { name: question.checkpoint }));
  if (question.mask?.length) words.push(t("edit.mask"));
  return words.join(t("list.comma"));
}

/** A question with the edits of the page's own one, where that is about the same model and can be answered so. */
function edited(app, question) {
  const own = app.question ?? {};
  if (own.model !== question.model || app.unread) return question;
  const changed = { ...question, ...editsOf(own) };
  return app.can("read", { top: TOP }, changed) ? changed : question;
}

/** Whether a page's numbers are those of the model as it is changed at the top; null where nothing is. */
function editRemark(app, question) {
  const own = app.question ?? {};
  const what = editWords(own);
  if (!what) return null;
  const applied = editWords(question);
  return t(applied ? "lesson.edited" : "lesson.unedited", { model: question.model, what: applied || what });
}

/** What a translator is given: the page's source, or its sentence where that is made of characters that the model does not
 * know and reads byte by byte. */
async function sourceFor(app, model, page, sentence) {
  const texts = [page.source];
  if (!page.source || !sentence || !app.can("count", { texts }, { model: model.id })) return page.source || sentence;
  const { tokens } = await app.ask("count", { texts }, { model: model.id });
  return tokens.data[0] > 2 * [...page.source].length + 1 ? sentence : page.source;
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

/** Which of some texts a model has places for, and how many tokens each has; what was recorded was read. */
async function fitting(app, model, texts) {
  if (!app.can("count", { texts }, { model: model.id })) return texts.map(() => ({ fits: true }));
  const { tokens, most_tokens: most } = await app.ask("count", { texts }, { model: model.id });
  return Array.from(tokens.data, (count) => ({ fits: count <= most, count, most }));
}

/** The first question whose text its model can read: the whole story by any model, else a shorter one. */
async function readable(app, page, sentence, models) {
  const told = stories(sentence);
  const word = named(page.blocks).find((params) => params.word)?.word; // what comes next has to have a place, too
  const asked = await Promise.all(models.map(async (model) => (pairs(model) && page.source ? [await sourceFor(app, model, page, sentence)] : told)));
  const measured = (texts, model) => texts.map((text) => (word && !pairs(model) ? `${text} ${word}` : text));
  const rooms = await Promise.all(models.map((model, number) => fitting(app, model, measured(asked[number], model))));
  for (let at = 0; at < told.length; at++) {
    for (const [number, model] of models.entries()) {
      const question = edited(app, questionFor(model, asked[number][at]));
      if (rooms[number][at]?.fits && app.can("read", { top: TOP }, question)) return { question, reading: await app.ask("read", { top: TOP }, question) };
    }
  }
  const short = rooms.findIndex((room) => room.every(({ fits }) => !fits));
  if (short < 0) throw new Absent(t("needs.live"));
  const { count, most } = rooms[short].at(-1);
  throw new Absent(t("lesson.long", { model: models[short].id, tokens: count, context: most }));
}

/** The scene of a page and a sentence; throws Absent where no model here can show it. */
export async function sceneOf(app, page, sentence) {
  const fits = ({ kind }) => page.model.includes("any") || page.model.includes(kind);
  const now = app.models.find(({ id }) => id === app.question?.model);
  const order = [...new Set([now, ...app.models])].filter((model) => model && fits(model));
  if (!order.length) throw new Absent(t("lesson.nomodel", { kind: page.model.map((kind) => t(`kind.${kind}`)).join(t("list.comma")) }));
  const found = await readable(app, page, sentence, order);
  const scene = Object.create(app);
  Object.assign(scene, found, { page });
  scene.state = { get: () => ({ ...app.state.get(), selection: NOTHING }) };
  scene.about = await scene.ask("about");
  const { model, text } = scene.question;
  scene.remarks = [
    now && now.id !== model ? t(fits(now) ? "lesson.instead.long" : "lesson.instead.kind", { model, other: now.id }) : null,
    text !== undefined && text !== sentence ? t("lesson.shorter", { model, context: scene.about.most_tokens }) : null,
    page.source && scene.question.source !== undefined && scene.question.source !== page.source ? t("lesson.script", { model }) : null,
    inPieces(scene, page),
    editRemark(app, scene.question),
  ].filter(Boolean);
  return scene;
}

/** Every {query, key, …} that a page's numbers and figures name. */
function named(blocks) {
  const of = (parts) => parts.filter(({ params }) => params).map(({ params }) => params);
  return blocks.flatMap(({ params, parts = [], items = [], blocks: inner = [] }) => [params ?? {}, ...of(parts), ...items.flatMap(of), ...named(inner)]);
}

/** What is said of a model that reads the page's words in several tokens each; null where each is one token. */
function inPieces(scene, page) {
  const found = new Map();
  for (const params of named(page.blocks)) {
    for (const role of ["query", "key"]) {
      const site = siteOf(sited(scene, params));
      if (!site || params[role] === undefined || params[role] === "last") continue;
      try {
        const at = find(scene, role === "query" ? site.queries : site.keys, params[role]);
        if (at.length > 1) found.set(params[role].replace(/#\d+$/, ""), at.length);
      } catch {
        // a word that is not there has no number either; its place says so
      }
    }
  }
  const words = [...found].map(([name, tokens]) => t("lesson.pieces.word", { word: name, tokens }));
  return words.length ? t("lesson.pieces", { model: scene.question.model, words: words.join(t("lesson.pieces.and")) }) : null;
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

/** The positions of the tokens of a word ("it", "has#2", "4", "last"). */
export function find(scene, side, word) {
  const count = spelling(scene, side).labels.length;
  if (word === "last") return [count - 1];
  if (/^\d+$/.test(word) && Number(word) < count) return [Number(word)];
  const [, name, number] = /^(.+?)(?:#(\d+))?$/su.exec(word) ?? [null, word, null];
  const { text, places } = spans(scene.reading, side);
  const start = starts(text, name)[Number(number ?? 1) - 1];
  if (start === undefined) throw new Absent(t("lesson.absent", { word, model: scene.question.model }));
  return [...places.keys()].filter((at) => places[at][0] < start + name.length && places[at][1] > start);
}

/** {query, key, keys}: where the words are that `params` name; null for one that is not named. A word of several tokens
 * looks from its last one, which has read all of it, and is looked at in all of them (`keys`). */
export function ends(scene, params) {
  const site = siteOf(scene);
  if (!site) throw new Absent(t("lesson.noattention", { model: scene.question.model }));
  const at = (side, word) => (word === undefined ? null : find(scene, side, word));
  const keys = at(site.keys, params.key);
  return { query: at(site.queries, params.query)?.at(-1) ?? null, key: keys?.at(-1) ?? null, keys };
}

/** Every head by its weight from a query to all tokens of a key. */
export function linksOf(scene, { query, keys }) {
  return scene.ask("links", { query, key: keys.length > 1 ? keys : keys[0], ...siteParams(scene), untrained: true });
}

/** The head that `params` names, else the one that looks most from query to key: {layer, head, name, link}. */
export async function headFor(scene, params, at) {
  const site = siteOf(scene);
  const named = /^L(\d+)\.H(\d+)$/.exec(params.head ?? "");
  if (named && (Number(named[1]) >= site.layers || Number(named[2]) >= site.heads)) {
    throw new Absent(t("lesson.nohead", { head: params.head, model: scene.question.model }));
  }
  const links = at.query === null || at.keys === null ? [] : (await linksOf(scene, at)).links;
  const name = params.head ?? links[0]?.name ?? "L0.H0";
  const [layer, head] = name.match(/\d+/g).map(Number);
  return { layer, head, name, link: links.find((each) => each.name === name) ?? null };
}

/** The four steps of one query in one head. */
export function stepsOf(scene, { layer, head }, query) {
  return scene.ask("steps", { layer, head, query, ...siteParams(scene), full: true, parts: "all" });
}
