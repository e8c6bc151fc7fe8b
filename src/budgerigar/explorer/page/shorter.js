// A text that is too long for its model: its beginning, as much of it as the model has places for.

import { button, h } from "./dom.js";
import { t } from "./i18n.js";

const LETTERS = 12; // of a token, at most; where one has more, less of the text is offered
const MANY = 31; // beginnings that are counted at once
const SENT = 60000; // characters of all of them

/** The longest beginning of `text` that fits, cut before a word: {text, most}; null: it fits, or nobody can tell. */
async function beginning(app, question) {
  const name = question.source === undefined ? "text" : "source";
  const count = (texts) => app.ask("count", { texts }, { model: question.model });
  const { most_tokens: most } = await count([""]);
  const letters = [...(question[name] ?? "")].slice(0, most * LETTERS);
  let [fits, over] = [0, letters.length + 1];
  while (over - fits > 1) {
    const many = Math.max(1, Math.min(MANY, over - fits - 1, Math.floor(SENT / over)));
    const lengths = Array.from({ length: many }, (_, at) => fits + Math.ceil(((at + 1) * (over - fits)) / (many + 1))).filter((length) => length < over);
    const { tokens } = await count(lengths.map((length) => letters.slice(0, length).join("")));
    lengths.forEach((length, at) => {
      if (tokens.data[at] <= most) fits = Math.max(fits, length);
      else over = Math.min(over, length);
    });
  }
  if (fits === 0 || fits === [...question[name]].length) return null;
  const part = letters.slice(0, fits).join("");
  const inWord = /[\p{L}\p{N}]$/u.test(part) && /[\p{L}\p{N}]/u.test(letters[fits] ?? "");
  const cut = inWord ? part.replace(/(?<=\s)\S+$/u, "").trimEnd() : part;
  return { question: { ...question, [name]: cut || part }, most };
}

/** A place for a button that asks about the beginning; it stays empty where the text is not too long. */
export function shorterOffer(app, error) {
  const place = h("div", { class: "controls" });
  const { question } = app;
  if (error.status !== 422 || !app.source.live || (question.text ?? question.source) === undefined) return place;
  beginning(app, question).then((found) => {
    if (found && app.question === question) place.replaceChildren(button(t("error.shorter", { count: found.most }), () => app.look(found.question)));
  }, () => {}); // then there is no button
  return place;
}
