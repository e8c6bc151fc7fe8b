// The server went away, or another one answers in its place. What was answered before may be of other models, so the page
// begins anew as soon as a server is there; what it shows stands in its address.

const PAUSE = 1500; // ms between two tries

let started = null;
let waiting = false;

/** Each answer says which start of the server gave it. */
export function heard(response) {
  const now = response.headers.get("x-started");
  if (started !== null && now !== null && now !== started) location.reload();
  started ??= now;
}

/** A request found no server: try until there is one. */
export function lost() {
  if (waiting) return;
  waiting = true;
  const again = async () => {
    const answer = await fetch("/api/models").catch(() => null);
    if (answer?.ok) location.reload();
    else setTimeout(again, PAUSE);
  };
  setTimeout(again, PAUSE);
}
