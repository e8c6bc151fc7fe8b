// The two hand-set models of models/worked.py in arithmetic that can be read at a glance; a test compares both. No
// drawing here.

import { softmax } from "./sampling.js";

export const IT_WORDS = ["Xuanyuan", "has", "budgerigar", "green", "it"];
export const IT_SCORES = [1.2, -0.66, 6.8, 0.8, 0.25]; // query of "it" times each key
export const IT_WIDTH = 8; // d_head
export const IT_FEATURES = ["animal", "thing", "person", "action", "colour", "one", "named", "anything"];
export const IT_QUERY = [3, 2, 0.5, -1, 0.5, 1, 1, 0.25];
const IT_KEYS = [[0, 0, 1, 0, 0, 0.45, 0, 1], [0, 0, 0, 1, 0, 0, 0.09, 1], [1, 1, 0, 0, 0, 1, 0.55, 1], [0, 0, 0, 0, 0.6, 0, 0.25, 1], [0, 0, 0, 0, 0, 0, 0, 1]];

/** The keys that make these raw scores: what was dragged is more or less of "anything", the last number. */
export function itKeys(scores = IT_SCORES) {
  return IT_KEYS.map((key, at) => {
    const own = key.reduce((sum, value, i) => sum + value * IT_QUERY[i], 0);
    return [...key.slice(0, -1), key.at(-1) + (scores[at] - own) / IT_QUERY.at(-1)];
  });
}

/** Raw scores -> {scaled, weights}. divided: by the root of d_head. */
export function itSteps(scores = IT_SCORES, divided = true) {
  const scaled = scores.map((score) => (divided ? score / Math.sqrt(IT_WIDTH) : score));
  return { scaled, weights: [...softmax(scaled)] };
}

export const APPLE_FEATURES = ["price", "black", "fruit", "tech"];
export const APPLE = { threshold: 1.3, toFruit: -1, toTech: 0.7 };
export const APPLE_SENTENCES = ["the dear black apple", "the dear apple", "the black apple", "the apple"];
const BEFORE = [0.1, 0.1, 0.6, 0.6];
const BRINGS = { dear: 0.8, black: 0.8, apple: 0.1 }; // what a word says of price (dear), of colour (black), or both
const SOUGHT = ["dear", "black"]; // by head 0 and head 1
const FOUND = 60;
const RESTS = 30; // on "the", where a head that finds nothing rests

/** {before, weights of each head, gathered, unit, after}: the four numbers of "apple" through the block. */
export function appleSteps(sentence = APPLE_SENTENCES[0], { threshold, toFruit, toTech } = APPLE) {
  const words = sentence.split(" ");
  const weights = SOUGHT.map((sought) => [...softmax(words.map((word) => (word === sought ? FOUND : word === "the" ? RESTS : 0)))]);
  const brought = weights.map((row, head) =>
    row.reduce((sum, weight, at) => sum + weight * (words[at] === SOUGHT[head] || words[at] === "apple" ? BRINGS[words[at]] : 0), 0));
  const gathered = BEFORE.map((value, at) => value + (brought[at] ?? 0));
  const unit = Math.max(0, gathered[0] + gathered[1] - threshold);
  const after = [gathered[0], gathered[1], gathered[2] + toFruit * unit, gathered[3] + toTech * unit];
  return { words, before: BEFORE, weights, gathered, unit, after };
}
