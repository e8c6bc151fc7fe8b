// Where answers come from: the server, or records (recorded.js). Both sources have one interface:
//
//   source.live               can it answer anything, or only what was recorded?
//   source.models()           -> list of models with what they can
//   source.ask(question, name, params)  -> the decoded payload of that view; AskError otherwise
//   source.has(question, name, params)  -> false when it certainly cannot answer (a control is disabled)
//   source.questions          of records: what they are about, the first one to begin with
//
// A question is plain JSON: {model, text} or {model, source, target}, and optionally checkpoint, off, how,
// of, kind, blank, mask. Answers are kept, newest last, up to KEPT of them.

import { unpack } from "./payload.js";

const KEPT = 240;

/** What went wrong, in the server's words. `missing`: this file has no record of it. */
export class AskError extends Error {
  constructor(words, status, missing = false) {
    super(words);
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

async function fetched(address, options) {
  let response;
  try {
    response = await fetch(address, options);
  } catch {
    throw new AskError("", 0);
  }
  if (response.ok) return unpack(await response.arrayBuffer());
  const words = await response.json().then((body) => body.error, () => response.statusText);
  throw new AskError(words, response.status);
}

/** Answers from the server that served this page. */
export function liveSource() {
  const memory = new Memory(KEPT);
  const post = (body) =>
    fetched("/api/ask", { method: "POST", headers: { "Content-Type": "application/json" }, body });
  return {
    live: true,
    models: () => fetched("/api/models"),
    has: () => true,
    ask(question, name, params = {}) {
      const key = canonical([question, name, params]);
      return memory.get(key, () => post(canonical({ question, name, params })));
    },
  };
}
