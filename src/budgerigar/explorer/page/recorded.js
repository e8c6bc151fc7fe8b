// Answers recorded in a file or beside a page: one or several questions, each with the answers to its views.
//
//   recorded = {models, defaults, looks: [{question, views, records, file}], state}
//   defaults   view -> parameter -> the value that it has where it is not given
//   records    {canonical [name, params]: base64 of the deflated payload}; null: they lie in `file`
//   views      names of the views that this look answers, derived ones included
//   beside     a view asks it; it is no sentence to choose
//
// Parameters that are null or as by default are left out of a record's name. What can be had from larger
// records is derived (derived.js): one head's matrix answers for each of its rows.

import { DERIVED } from "./derived.js";
import { fromBase64, unpack } from "./payload.js";
import { AskError, canonical } from "./source.js";

/** The params that say something: not null, not the default. */
function telling(defaults, params) {
  return Object.fromEntries(Object.entries(params).filter(([name, value]) =>
    value !== null && value !== undefined && canonical(value) !== canonical(defaults?.[name] ?? null)));
}

async function inflated(text) {
  if (typeof DecompressionStream === "undefined") throw new AskError("", 1);
  const stream = new Blob([fromBase64(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

/** One question and its records. */
class Look {
  constructor(look, defaults) {
    this.question = look.question;
    this.views = look.views;
    this.records = look.records ?? null;
    this.file = look.file;
    this.beside = look.beside ?? false;
    this.defaults = defaults;
    this.answers = new Map();
  }

  key(name, params) {
    return canonical([name, telling(this.defaults[name], params)]);
  }

  async load() {
    if (this.records) return;
    this.loading ??= fetch(new URL(this.file, document.baseURI)).then((response) => {
      if (!response.ok) throw new AskError("", response.status);
      return response.json();
    });
    try {
      this.records = await this.loading;
    } catch (error) {
      this.loading = null;
      throw error instanceof AskError ? error : new AskError("", 0);
    }
  }

  /** A record as it lies there. */
  stored(name, params) {
    const key = this.key(name, params);
    if (!this.answers.has(key)) this.answers.set(key, inflated(this.records[key]).then(unpack));
    return this.answers.get(key);
  }

  /** Is it there, or can it be derived? What is not loaded yet may be. */
  has(name, params) {
    if (!this.records || this.key(name, params) in this.records) return true;
    const needs = DERIVED[name]?.needs(params) ?? null;
    return needs !== null && needs.every(([each, given]) => this.key(each, given) in this.records);
  }

  /** The parameters with which a view was recorded, once the records are loaded; those that are as by default are left out. */
  asked(name) {
    const keys = Object.keys(this.records ?? {}).filter((key) => key.startsWith(`[${JSON.stringify(name)},`));
    return keys.map((key) => JSON.parse(key)[1]);
  }

  async ask(name, params) {
    await this.load();
    if (!this.has(name, params)) throw new AskError("", 404, true);
    if (this.key(name, params) in this.records) {
      const answer = await this.stored(name, params);
      return name === "about" ? this.narrowed(answer) : answer;
    }
    const get = (each, given) => (this.key(each, given) in this.records ? this.stored(each, given) : Promise.resolve(null));
    return DERIVED[name].derive(params, get);
  }

  /** The card with the views that are here; `unrecorded`: those that only a live model has. */
  narrowed(about) {
    const here = about.views.filter((name) => this.views.includes(name));
    return { ...about, views: here, unrecorded: about.views.filter((name) => !here.includes(name)) };
  }
}

/** The source of a page that was written to a file. */
export function recordedSource(recorded) {
  const looks = recorded.looks.map((look) => new Look(look, recorded.defaults));
  const named = (question) => canonical(telling({}, question)); // null says nothing
  const byName = new Map(looks.map((look) => [named(look.question), look]));
  const find = (question) => byName.get(named(question));
  return {
    live: false,
    question: looks[0].question,
    questions: looks.filter(({ beside }) => !beside).map((look) => look.question),
    models: async () => recorded.models,
    has: (question, name, params = {}) => find(question)?.has(name, params) ?? false,
    asked: (question, name) => find(question)?.asked(name) ?? [],
    async ask(question, name, params = {}) {
      const look = find(question);
      if (!look) throw new AskError("", 404, true);
      return look.ask(name, params);
    },
  };
}
