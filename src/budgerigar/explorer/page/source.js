// Where answers come from: the server, or records (recorded.js). Both sources have one interface:
//
//   source.live               can it answer anything, or only what was recorded?
//   source.models()           -> list of models with what they can
//   source.ask(question, name, params)  -> the decoded payload of that view; AskError otherwise
//     A live one's promise has a `job`: {began: when (ms of the page), report: {description, done, total, unit}|null, part: what is known so far,
//     hear(function(job)) -> unhear, stop(), again() -> a new promise of the same}. Stopped: AskError.stopped
//   source.has(question, name, params)  -> false when it certainly cannot answer (a control is disabled)
//   source.asked(question, name)  of records: the parameters with which a view was recorded; null: any
//   source.questions          of records: what they are about, the first one to begin with
//
// A question is plain JSON: {model, text} or {model, source, target}, and optionally checkpoint, off, how,
// of, kind, blank, mask. Answers are kept, newest last, up to KEPT of them.

import { ANSWER, FRAMES, PROGRESS, lastFrame } from "./frames.js";
import { unpack } from "./payload.js";
import { heard, lost } from "./recovery.js";

const KEPT = 240;

/** What went wrong: text in the page's language, or the server's {$said, …} (see i18n.js `translated`). `missing`: this
 * file has no record of it. */
export class AskError extends Error {
  constructor(words, status, missing = false) {
    super(words.$said ?? words);
    if (words.$said) this.words = words;
    this.status = status;
    this.missing = missing;
  }
}

/** JSON with sorted keys, no spaces, and without undefined: the name of a record. */
export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value ?? null);
  const keys = Object.keys(value).filter((key) => value[key] !== undefined).sort();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`).join(",")}}`;
}

/** Remembers promises by key and drops the one unused for longest. A failure is not kept. */
class Memory {
  constructor(most) {
    this.most = most;
    this.kept = new Map();
  }

  get(key, make) {
    let found = this.kept.get(key);
    if (found) this.kept.delete(key);
    else {
      found = make();
      found.catch(() => this.kept.delete(key));
    }
    this.kept.set(key, found);
    while (this.kept.size > this.most) this.kept.delete(this.kept.keys().next().value);
    return found;
  }
}

const heardWords = ({ error, ...rest }) => ({ $said: error, ...rest });

/** A request that did not come to its end: stopped here, or there is no server. */
function broken(error) {
  const found = new AskError("", 0);
  found.stopped = error.name === "AbortError";
  if (!found.stopped) lost();
  return found;
}

/** The last frame's answer; tell({report} or {part}) of those before it. */
async function framed(response, tell) {
  const read = (content) => JSON.parse(new TextDecoder().decode(content));
  const { kind, content } = await lastFrame(response, (each, news) => tell(each === PROGRESS ? { report: read(news) } : { part: unpack(news) }));
  if (kind === ANSWER) return unpack(content);
  throw new AskError(heardWords(read(content)), kind);
}

async function fetched(address, options, tell) {
  try {
    const response = await fetch(address, options);
    heard(response);
    if (response.headers.get("content-type") === FRAMES) return await framed(response, tell);
    if (response.ok) return unpack(await response.arrayBuffer());
    throw new AskError(await response.json().then(heardWords, () => response.statusText), response.status);
  } catch (error) {
    throw error instanceof AskError || !["AbortError", "TypeError"].includes(error.name) ? error : broken(error);
  }
}

/** The answer to `body`, with its job. */
function asking(body, again) {
  const ends = new AbortController();
  const hearing = new Set();
  const job = { began: performance.now(), report: null, part: null, again, stop: () => ends.abort(), hear: (listener) => {
    hearing.add(listener);
    return () => hearing.delete(listener);
  } };
  const tell = (news) => {
    Object.assign(job, news);
    for (const listener of [...hearing]) listener(job);
  };
  const headers = { "Content-Type": "application/json", Accept: `${FRAMES}, application/octet-stream` };
  const answer = fetched("/api/ask", { method: "POST", headers, body, signal: ends.signal }, tell);
  answer.job = job;
  return answer;
}

/** Answers from the server that served this page. */
export function liveSource() {
  const memory = new Memory(KEPT);
  const source = {
    live: true,
    models: () => fetched("/api/models"),
    has: () => true,
    asked: () => null,
    ask(question, name, params = {}) {
      const key = canonical([question, name, params]);
      return memory.get(key, () => asking(canonical({ question, name, params }), () => source.ask(question, name, params)));
    },
  };
  return source;
}
