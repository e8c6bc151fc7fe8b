// What a line `:: name …` of a tour shows: rows, matrices, steps, heads, tables, all asked of the scene's model.
// Each is a function (scene, params) -> nodes; the view puts it into its place and shows what went wrong there.

import { bars } from "./bars.js";
import { mapOptions } from "./controls.js";
import { h, number, percent, table, whole, word } from "./dom.js";
import { HeatMap } from "./heatmap.js";
import { Absent, ends, find, headFor, linksOf, sited, stepsOf } from "./lesson_scene.js";
import { cacheBytes, cellCount, large, nextShare, strongest } from "./lesson_numbers.js";
import { agreement, matrixOf, readFrom, siteOf, siteParams, siteTitle, spelling } from "./sites.js";
import { labelNodes } from "./tokens.js";
import { t } from "./i18n.js";

const FEW = 16; // tokens of a list
const SMALL = 0.001; // weights below are written with their power of ten, all of them
const LENGTHS = [100, 1000, 10000, 100000, 1000000];

/** A table that may be wider than the page. */
export function wideTable(caption, columns, rows, options = {}) {
  return h("div", { class: "scroll open", tabindex: 0, role: "region", "aria-label": caption }, table(caption, columns, rows, options));
}

function tokens(scene) {
  const { labels, ids } = scene.reading.spellings.read;
  return h("ol", { class: "lesson-tokens", "aria-label": t("strip.queries") }, ...labels.map((label, at) =>
    h("li", {}, h("bdi", {}, ...labelNodes(label)), h("span", { class: "soft" }, String(ids.data[at])))));
}

/** The scene, the words and the head of a figure. */
async function placed(scene, params) {
  const inner = sited(scene, params);
  const at = ends(inner, params);
  const head = await headFor(inner, params, at);
  return { inner, at, head, site: siteOf(inner) };
}

function caption(scene, head, words) {
  return h("p", { class: "soft" }, `${scene.question.model} · ${siteTitle(siteOf(scene))} · ${head.name}${t("mark.colon")}${words}`);
}

async function row(scene, params) {
  const { inner, at, head, site } = await placed(scene, params);
  const answer = await inner.ask("row", { layer: head.layer, head: head.head, query: at.query, ...siteParams(inner) });
  const labels = spelling(inner, site.keys).labels;
  const keys = at.keys ?? [];
  const gets = (all) => all.reduce((sum, key) => sum + answer.weights.data[key], 0);
  const visible = Array.from(answer.order.data).filter((key) => !answer.codes.data[key]);
  const single = visible.filter((key) => keys.length < 2 || !keys.includes(key)).map((key) => ({ label: labels[key], share: gets([key]), chosen: key === at.key, note: t("links.position", { position: key }), tokens: 1 }));
  if (keys.length > 1) single.push({ label: wordOf(params.key), share: gets(keys), chosen: true, note: t("links.positions", { from: keys[0], to: keys.at(-1) }), tokens: keys.length });
  const ranked = single.sort((a, b) => b.share - a.share);
  const shown = ranked.filter((item, place) => place < (params.top ?? 5) || item.chosen);
  const count = visible.length - shown.reduce((sum, { tokens: each }) => sum + each, 0);
  const rest = count > 0 ? { count, share: Math.max(0, answer.sum - shown.reduce((sum, { share }) => sum + share, 0)) } : null;
  return [h("p", {}, word(answer.label, { class: "word q" }), " ", t("lesson.looks")), bars(shown, rest, { name: t("head.strongest") }),
    caption(inner, head, t("lesson.sum", { sum: number(answer.sum, 6) }))];
}

/** A word without which of its occurrences is meant. */
const wordOf = (name) => name.replace(/#\d+$/, "");

async function heat(scene, params) {
  const { inner, at, head } = await placed(scene, params);
  const payload = await inner.ask("head", { layer: head.layer, head: head.head, ...siteParams(inner), mask: true });
  const map = new HeatMap({ name: `${siteTitle(siteOf(inner))}${t("mark.comma")}${head.name}` });
  requestAnimationFrame(() => { // it needs its width
    map.show(matrixOf(inner, payload), mapOptions(inner));
    if (at.query !== null) map.setCursor(at.query, at.key ?? 0);
  });
  return [map.element, caption(inner, head, agreement(payload, 1))];
}

const weightWords = (value) => (value !== 0 && value < SMALL ? value.toExponential(1).replace("-", "−") : number(value, 4));

async function steps(scene, params) {
  const { inner, at, head, site } = await placed(scene, params);
  const answer = await stepsOf(inner, head, at.query);
  const labels = spelling(inner, site.keys).labels;
  const keys = Array.from(answer.weights.data.keys()).filter((key) => !answer.codes.data[key])
    .sort((a, b) => answer.weights.data[b] - answer.weights.data[a]);
  const most = at.keys ? strongest(answer, at.keys) : null;
  const shown = keys.filter((key, place) => place < (params.top ?? 5) || key === most).sort((a, b) => a - b);
  const masked = labels.length - keys.length;
  const columns = [t("word.token"), t("lesson.score"), answer.scale ? `2. ${answer.scale.heading}` : null, answer.biased ? t("lesson.bias") : null, t("lesson.softmax")];
  const twice = (key) => labels.some((label, at) => at !== key && label === labels[key]);
  const named = (key) => (twice(key) ? [t("mark.aside", { words: t("links.position", { position: key }) })] : []); // which of the two
  const cells = (key) => [h("span", {}, word(labels[key], { class: at.keys?.includes(key) ? "word k" : "word" }), ...named(key)), number(answer.scores.data[key], 2),
    answer.scale ? number(answer.scaled.data[key], 2) : null, answer.biased ? number(answer.biased.data[key], 2) : null, weightWords(answer.weights.data[key])];
  const kept = (list) => list.filter((each) => each !== null);
  const rest = keys.length - shown.length;
  const others = 1 - shown.reduce((sum, key) => sum + answer.weights.data[key], 0);
  return [wideTable(t("lesson.steps", { query: answer.label, head: head.name }), kept(columns), shown.map((key) => kept(cells(key)))),
    h("p", { class: "soft" }, [together(answer, at.keys, params.key), rest ? t("lesson.rest", { count: rest, share: percent(Math.max(0, others)) }) : "", masked ? t("lesson.masked", { count: masked }) : "",
      agreement(answer, 1)].filter(Boolean).join(" · "))];
}

/** What a key of several tokens gets in all. */
function together(answer, keys, name) {
  if (!keys || keys.length < 2) return "";
  return t("lesson.together", { word: wordOf(name), share: percent(keys.reduce((sum, key) => sum + answer.weights.data[key], 0)) });
}

async function links(scene, params) {
  const inner = sited(scene, params);
  const at = ends(inner, params);
  const { queries, keys } = siteOf(inner);
  const answer = await linksOf(inner, at);
  const shown = answer.links.slice(0, params.top ?? 6);
  const figure = (value) => (value === null ? "–" : number(value, 3));
  const name = (side, place, all) => t("links.named", { word: all && all.length > 1 ? wordOf(params.key) : spelling(inner, side).labels[place],
    where: all && all.length > 1 ? t("links.positions", { from: all[0], to: all.at(-1) }) : t("links.position", { position: place }) });
  return wideTable(t("links.caption", { query: name(queries, at.query), key: name(keys, at.key, at.keys) }), [t("word.head"), t("links.weight"), t("links.distance"), t("links.untrained"), t("links.uniform")],
    shown.map((link) => [link.name, figure(link.weight), figure(link.distance), figure(link.untrained), figure(link.uniform)]));
}

async function heads(scene, params) {
  const inner = sited(scene, params);
  const site = siteOf(inner);
  if (!site) throw new Absent(t("lesson.noattention", { model: scene.question.model }));
  const layers = await Promise.all(Array.from({ length: site.layers }, (_, layer) => inner.ask("grid", { layer, ...siteParams(inner) })));
  const label = (side, at) => word(spelling(inner, side).labels[at]);
  const rows = layers.flatMap(({ layers: [{ layer, link, entropy }] }) => Array.from(link.weight.data, (weight, head) =>
    [`L${layer}.H${head}`, weight ? h("span", {}, label(site.queries, link.query.data[head]), " → ", label(site.keys, link.key.data[head])) : "–", number(weight, 2), number(entropy.data[head], 2)]));
  return wideTable(t("lesson.heads"), [t("word.head"), t("grid.by.link"), t("links.weight"), t("lesson.entropy")], rows, { numbersFrom: 2 });
}

async function next(scene, params) {
  const answer = scene.reading.next;
  if (!answer) throw new Absent(t("lesson.nonext", { model: scene.question.model }));
  const { words } = scene.reading;
  const count = Math.min(params.top ?? 5, answer.ids.data.length);
  const items = Array.from({ length: count }, (_, at) => ({ label: words[answer.ids.data[at]], share: answer.p.data[at], chosen: params.word !== undefined && words[answer.ids.data[at]].replaceAll("␣", "") === params.word }));
  const share = items.reduce((sum, item) => sum + item.share, 0);
  const found = params.word === undefined ? null : await nextShare(scene, params.word);
  return [bars(items, { count: scene.about.vocab_size - count, share: Math.max(0, 1 - share) }, { name: t("next.title") }),
    found && (found.rank === null || found.rank > count) ? h("p", {}, word(params.word), `${t("mark.colon")}${percent(found.share)}${t("list.comma")}`, found.rank === null ? t("lesson.spelled", { tokens: found.tokens }) : t("lesson.rank", { rank: found.rank })) : null];
}

async function stream(scene, params) {
  const site = siteOf(scene);
  const of = site?.of === "encoder" ? "encoder" : "decoder";
  const side = scene.reading.spellings.read;
  const position = params.position === undefined ? side.labels.length - 1 : find(scene, "read", params.position).at(-1);
  const ask = (layer) => scene.ask("block", { layer, position, of, units: 12, words: 5, without: false });
  const blocks = await Promise.all(Array.from({ length: scene.about.layers }, (_, layer) => ask(layer)));
  const rows = blocks.flatMap((block) => block.stages.filter(({ name }) => !/norm/.test(name)).slice(block.layer ? 1 : 0)
    .map(({ name, length, cosine }) => [`L${block.layer}`, t(`lesson.stage.${stageOf(name)}`), number(length, 2), number(cosine, 2)]));
  return wideTable(t("lesson.stream", { label: blocks[0].label }), [t("word.layer"), t("lesson.where"), t("lesson.length"), t("lesson.cosine")], rows, { numbersFrom: 2 });
}

function stageOf(name) {
  if (name === "input") return "input";
  return /cross/.test(name) ? "cross" : /attention/.test(name) ? "self" : "forward";
}

async function shuffle(scene) {
  const answer = await scene.ask("positions", { show: "shuffle" });
  const rows = Array.from(answer.order.data, (from, at) => [word(answer.labels[at]), String(from), String(at), number(answer.apart.data[at], 3)]);
  const more = rows.length - FEW;
  return [wideTable(t("lesson.shuffle"), [t("word.token"), t("lesson.was"), t("lesson.is"), t("lesson.apart")], rows.slice(0, FEW), { numbersFrom: 1 }),
    more > 0 ? h("p", { class: "soft" }, t("lesson.more", { count: more })) : null,
    h("p", {}, t(answer.same ? "lesson.same" : "lesson.other", { value: number(answer.largest, 2) }))];
}

async function translation(scene) {
  if (!scene.about.views.includes("alignment")) throw new Absent(t("lesson.nocross", { model: scene.question.model }));
  const answer = await scene.ask("alignment", { head: null });
  const wide = answer.source_words.length + 1;
  const rows = answer.target_words.map((target, at) => {
    const best = answer.best[at];
    return [word(target, { class: "word q" }), best === null ? "–" : word(answer.source_words[best], { class: "word k" }), best === null ? "–" : number(answer.weights.data[at * wide + best], 2)];
  });
  return [wideTable(t("lesson.translation", { source: scene.reading.source ?? "" }), [t("side.predicted"), t("side.source"), t("links.weight")], rows, { numbersFrom: 2 }),
    h("p", { class: "soft" }, t("lesson.translation.read", { model: scene.question.model, head: readFrom(answer.head) }))];
}

function lengths(scene) {
  const rows = LENGTHS.map((length) => [whole(length), whole(cellCount(scene, length)), large(cacheBytes(scene, length))]);
  const narrow = siteOf(scene).windows.filter(Boolean);
  return [wideTable(t("lesson.lengths", { model: scene.question.model }), [t("lesson.tokens"), t("lesson.cells"), t("lesson.cache")], rows, { numbersFrom: 0 }),
    narrow.length ? h("p", { class: "soft" }, t("lesson.window", { model: scene.question.model, layers: narrow.length, window: Math.max(...narrow) })) : null];
}

/** A button that shows a view of the page with the scene's sentence, words and head chosen. */
export async function opening(scene, view, params) {
  const inner = sited(scene, params);
  const selection = { of: params.of ?? null, kind: params.kind ?? null, layer: 0, head: 0, query: null, key: null };
  if (siteOf(inner)) {
    const at = ends(inner, params);
    const { layer, head } = await headFor(inner, params, at);
    Object.assign(selection, siteParams(inner), { query: at.query, key: at.key, layer, head });
  }
  return { question: scene.question, selection, view };
}

export const FIGURES = { tokens, row, heat, steps, links, heads, next, stream, shuffle, translation, lengths };
