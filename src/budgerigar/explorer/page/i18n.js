// All visible words: t("key", {values}). English and Chinese live in i18n/en.json and i18n/zh.json, with the
// same keys. In an exported file they stand in <script type="application/json" id="words">.

export const LANGUAGES = ["en", "zh"];

const tables = {};
let language = "en";

/** The language that a visitor probably wants. */
export function preferredLanguage() {
  return (navigator.languages ?? [navigator.language]).some((name) => /^zh/i.test(name)) &&
    !/^en/i.test(navigator.language) ? "zh" : "en";
}

async function table(name) {
  const inlined = document.getElementById("words");
  if (inlined) return JSON.parse(inlined.textContent)[name];
  const response = await fetch(new URL(`./i18n/${name}.json`, document.baseURI));
  return response.json();
}

/** Load the words of a language and use them from now on. English stays behind it. */
export async function useLanguage(name) {
  const wanted = LANGUAGES.includes(name) ? name : "en";
  for (const each of new Set(["en", wanted])) tables[each] ??= await table(each);
  language = wanted;
  document.documentElement.lang = wanted === "zh" ? "zh-Hans" : "en";
  return wanted;
}

export function currentLanguage() {
  return language;
}

/** The words of `key`, with {name} replaced by values.name. An unknown key is shown as it is. */
export function t(key, values = {}) {
  const words = tables[language]?.[key] ?? tables.en?.[key] ?? key;
  return words.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

/** Is there a text for this key? */
export function hasText(key) {
  return key in (tables.en ?? {});
}
