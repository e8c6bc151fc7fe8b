// One store for everything that is looked at, mirrored in the address so that an address restores it.
//
//   view        which view is shown
//   question    {model, text} or {model, source, target}, …: what is looked at
//   selection   {of, kind, layer, head, query, key}: one for the whole page; null: not chosen yet
//   picks       "query" or "key": what clicking a token chooses
//   theme       "auto", "light" or "dark";  language: "auto", "en" or "zh"
//   scale       "linear", "root" or "log";  range: "one" (0 to 1) or "own" (0 to the largest)
//   hideSink, transpose     how matrices are drawn
//   pinned      ["L2.H3", …]: at most six heads, each with a colour of its own
//   settings    what a view keeps for itself: {sort: "entropy"}

export const START = Object.freeze({
  view: "sentence",
  question: null,
  selection: Object.freeze({ of: null, kind: null, layer: 0, head: 0, query: null, key: null }),
  picks: "query",
  theme: "auto",
  language: "auto",
  scale: "linear",
  range: "one",
  hideSink: false,
  transpose: false,
  pinned: Object.freeze([]),
  settings: Object.freeze({}),
});

const same = (a, b) => a === b || JSON.stringify(a) === JSON.stringify(b);

/** A store: get(), set(partial), subscribe(function(changed names, state)) -> unsubscribe. */
export function createStore(initial = {}) {
  let state = { ...START, ...initial };
  const listeners = new Set();
  return {
    get: () => state,
    set(partial) {
      const changed = new Set(Object.keys(partial).filter((name) => !same(partial[name], state[name])));
      if (!changed.size) return changed;
      state = { ...state, ...partial };
      for (const listener of [...listeners]) listener(changed, state);
      return changed;
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

const WORDS = ["view", "picks", "theme", "language", "scale", "range"];
const TICKS = ["hideSink", "transpose"];

/** The state as the part of an address after #; what stands as at the start is left out. */
export function toHash(state) {
  const out = new URLSearchParams();
  for (const name of WORDS) if (state[name] !== START[name]) out.set(name, state[name]);
  if (state.view === START.view) out.set("view", state.view);
  for (const name of TICKS) if (state[name]) out.set(name, "1");
  for (const [name, value] of Object.entries(state.selection)) {
    if (value !== null && value !== START.selection[name]) out.set(`s.${name}`, value);
  }
  if (state.pinned.length) out.set("pinned", state.pinned.join(","));
  for (const [name, value] of Object.entries(state.settings)) out.set(`v.${name}`, JSON.stringify(value));
  for (const [name, value] of Object.entries(state.question ?? {})) {
    out.set(`q.${name}`, typeof value === "string" ? value : JSON.stringify(value));
  }
  return `#${out.toString()}`;
}

const PLAIN = new Set(["model", "text", "source", "target", "checkpoint", "how", "of", "kind"]);

function read(json) {
  try {
    return JSON.parse(json);
  } catch {
    return null;
  }
}

const position = (value) => (/^\d{1,7}$/.test(value) ? Number(value) : null);

/** The state that an address holds, over the starting values. Nonsense in it is passed over. */
export function fromHash(hash) {
  const state = { ...START, selection: { ...START.selection }, settings: {} };
  const question = {};
  for (const [name, value] of new URLSearchParams(hash.replace(/^#/, ""))) {
    if (WORDS.includes(name)) state[name] = value;
    else if (TICKS.includes(name)) state[name] = value === "1";
    else if (name === "pinned") state.pinned = value.split(",").slice(0, 6);
    else if (name.startsWith("v.")) state.settings[name.slice(2)] = read(value);
    else if (name.startsWith("q.")) {
      const key = name.slice(2);
      question[key] = PLAIN.has(key) && value !== "null" ? value : read(value);
    } else if (name === "s.of" || name === "s.kind") state.selection[name.slice(2)] = value;
    else if (name.startsWith("s.") && name.slice(2) in state.selection) {
      state.selection[name.slice(2)] = position(value) ?? START.selection[name.slice(2)];
    }
  }
  state.question = Object.keys(question).length ? question : null;
  return state;
}
