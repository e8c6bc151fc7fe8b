// The address and the browser's history. The address always says what is shown: it can be sent to somebody, and a reload
// brings it back. A step for the Back button is another view, another question or another page of a tour; where a cursor
// goes within one, and every further pause while typing, only changes the address of the step.

import { toHash } from "./state.js";

const PAUSE = 200; // ms in which moves of a cursor become one change of the address

function written(push, hash) {
  if (location.hash === hash) return;
  try {
    if (!push || !location.hash) return history.replaceState(history.state, "", hash);
    history.replaceState({ top: scrollY }, "");
    history.pushState(null, "", hash);
  } catch {
    // a frame inside a notebook has no address of its own
  }
}

/** The history of a store. asked(state): its question as one text, however much of it is given. */
class Path {
  constructor(store, asked) {
    Object.assign(this, { store, asked, at: null, later: null, address: null, going: false, typing: false, byTyping: false, top: history.state?.top ?? null });
  }

  place(state) {
    return JSON.stringify([state.view, this.asked(state), state.settings.tour ?? null, state.settings.page ?? 1]);
  }

  /** What waits to be written. */
  flush() {
    if (this.later === null) return;
    clearTimeout(this.later);
    this.later = null;
    written(false, this.address);
  }

  /** The address follows the state. */
  write() {
    const state = this.store.get();
    const now = this.place(state);
    const moved = now !== this.at;
    if (moved) this.flush(); // it belongs to the step before
    const push = moved && this.at !== null && !this.going && !(this.typing && this.byTyping);
    if (moved) this.byTyping = this.typing;
    if (push) this.top = null;
    Object.assign(this, { at: now, address: toHash(state) });
    clearTimeout(this.later);
    this.later = null;
    if (moved || this.going) written(push, this.address);
    else this.later = setTimeout(() => this.flush(), PAUSE);
  }

  /** Ask for what was typed up to a pause. */
  typed(ask) {
    this.typing = true;
    ask();
    this.typing = false;
  }

  /** How far down the reader was, of a step that the browser brought back; once. */
  taken() {
    const { top } = this;
    this.top = null;
    return top;
  }

  /** show(hash): what the browser's buttons ask for. */
  listen(show) {
    addEventListener("hashchange", () => {
      if (location.hash === this.address) return;
      this.top = history.state?.top ?? null;
      this.going = true;
      show(location.hash);
      this.going = false;
    });
    addEventListener("pagehide", () => {
      this.flush();
      try {
        history.replaceState({ top: scrollY }, "");
      } catch {
        // as above
      }
    });
  }
}

export function createPath(store, asked) {
  try {
    history.scrollRestoration = "manual"; // views are drawn too late for the browser's own
  } catch {
    // a frame without a history
  }
  return new Path(store, asked);
}
