// Tours: pages of text with places for what the model computes (explorer/tour.py reads them). The server has
// them under /api/tours, a site in a file that <script id="tours"> names; a single file has none.
//
//   {tours: [{id, languages: {en: [PAGE], zh: [PAGE]} or {any: [PAGE]}}]}

import { AskError } from "./source.js";

let loading = null;

/** Can this page show tours at all? */
export function hasTours() {
  return !document.getElementById("recorded") || Boolean(document.getElementById("tours"));
}

async function fetched() {
  const named = document.getElementById("tours");
  const address = named ? new URL(JSON.parse(named.textContent), document.baseURI) : "/api/tours";
  let response;
  try {
    response = await fetch(address);
  } catch {
    throw new AskError("", 0);
  }
  if (!response.ok) throw new AskError(response.statusText, response.status);
  return (await response.json()).tours;
}

/** All tours, asked for once. */
export function allTours() {
  loading ??= fetched();
  loading.catch(() => (loading = null));
  return loading;
}

/** The pages of a tour in a language, or in the one that it is written in. */
export function pagesOf(tour, language) {
  return tour.languages[language] ?? tour.languages.any ?? tour.languages.en ?? [];
}
