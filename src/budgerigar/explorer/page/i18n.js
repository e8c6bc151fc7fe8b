// All visible words: t("key", {values}). English and Chinese live in i18n/en.json and i18n/zh.json, with the
// same keys. In an exported file they stand in <script type="application/json" id="words">.
//
// What the library says (errors, reasons, results of experiments) comes in English with the template that it was
// made from; i18n/said.zh.json has a Chinese text per template.

export const LANGUAGES = ["en", "zh"];

const tables = {};
let language = "en";
let wishes = 0; // the newest wish wins, whichever words arrive first

/** The language that a visitor probably wants. */
export function preferredLanguage() {
  return (navigator.languages ?? [navigator.language]).some((name) => /^zh/i.test(name)) &&
    !/^en/i.test(navigator.language) ? "zh" : "en";
}

async function table(name) {
  const inlined = document.getElementById("words");
  if (inlined) return JSON.parse(inlined.textContent)[name];
  const response = await fetch(new URL(`./i18n/${name}.json`, document.baseURI));
  if (!response.ok) throw new Error(`${name}.json: ${response.status}`);
  return response.json();
}

/** Load the words of a language and use them from now on. English stays behind it. */
export async function useLanguage(name) {
  const wanted = LANGUAGES.includes(name) ? name : "en";
  const wish = (wishes += 1);
  for (const each of new Set(["en", wanted, ...(wanted === "en" ? [] : [`said.${wanted}`])])) tables[each] ??= await table(each);
  if (wish !== wishes) return language;
  language = wanted;
  document.documentElement.lang = wanted === "zh" ? "zh-Hans" : "en";
  return wanted;
}

export function currentLanguage() {
  return language;
}

/** {name} becomes values.name; {name|token|tokens} the first word where that is 1, else the second. */
function filled(words, values) {
  return words.replace(/\{(\w+)(?:\|([^|}]*)\|([^|}]*))?\}/g, (whole, name, one, many) => {
    if (!(name in values)) return whole;
    return one === undefined ? String(values[name]) : String(values[name]) === "1" ? one : many;
  });
}

/** The words of `key`, with {name} replaced by values.name. An unknown key is shown as it is. */
export function t(key, values = {}) {
  return filled(tables[language]?.[key] ?? tables.en?.[key] ?? key, values);
}

/** What the library says, {$said, template, values} or plain text, in the language of the page; where that has no
 * translation, in English: `foreign` tells. */
export function translated(words) {
  if (typeof words === "string") return { text: words, foreign: language !== "en" && /[a-z]{2}/i.test(words) };
  const pattern = tables[`said.${language}`]?.[words.template];
  if (pattern === undefined) return { text: words.$said, foreign: language !== "en" };
  const values = Object.entries(words.values).map(([name, value]) => [name, translated(value).text]);
  return { text: filled(pattern, Object.fromEntries(values)), foreign: false };
}

/** Is there a text for this key? */
export function hasText(key) {
  return key in (tables.en ?? {});
}
