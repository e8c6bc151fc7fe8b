// What stands around every view: the question, the menu, the sentence with the one selection, the switches.

import { button, choice, h, whole } from "./dom.js";
import { LANGUAGES, currentLanguage, t } from "./i18n.js";
import { chosen, picking, picksOf, siteOf, sitePicker, spelling } from "./sites.js";
import { canonical } from "./source.js";
import { tokenStrip } from "./tokens.js";
import { GROUPS, VIEWS } from "./views.js";

const LANGUAGE_NAMES = { en: "English", zh: "中文" };

function grow(area) {
  area.style.height = "auto";
  area.style.height = `${Math.min(area.scrollHeight + 2, 160)}px`;
}

function field(name, words, value, { submit, typed, placeholder = "" }) {
  const area = h("textarea", { id: `ask-${name}`, name, rows: 1, dir: "auto", spellcheck: "false", placeholder,
    oninput: () => { grow(area); typed(); },
    onkeydown: (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      submit();
    } });
  area.value = value ?? "";
  requestAnimationFrame(() => grow(area));
  return h("div", { class: "field" }, h("label", { for: `ask-${name}` }, words), area);
}

/** The question as a form; onask(question) on Enter or the button, ontyped(question) while typing. */
export function questionForm(app, { onask, ontyped }) {
  const question = app.question ?? {};
  const model = app.models.find(({ id }) => id === question.model) ?? app.models[0];
  const readsPairs = ({ kind }) => /encoder-decoder/.test(kind);
  const pair = readsPairs(model);
  const read = () => {
    const wanted = app.models.find(({ id }) => id === select.value); // chosen already, and not read yet
    if (wanted.id !== model.id && readsPairs(wanted) !== pair) return { model: wanted.id };
    const changes = wanted.id === model.id ? app.question ?? {} : {};
    const kept = Object.fromEntries(Object.entries(changes).filter(([name]) => ["off", "how", "of", "kind", "checkpoint", "blank"].includes(name)));
    const value = (name) => form.elements.namedItem(name).value;
    if (!pair) return { ...kept, model: wanted.id, text: value("text") };
    return { ...kept, model: wanted.id, source: value("source"), target: value("target").trim() ? value("target") : null };
  };
  const submit = () => onask(read(), true);
  const events = { submit, typed: () => ontyped(read) };
  const select = h("select", { id: "ask-model", name: "model", onchange: () => onask({ model: select.value }) },
    ...app.models.map(({ id, name }) => h("option", { value: id, title: name }, id)));
  select.value = model.id;
  const text = question.text ?? (question.ids ? app.reading?.text : "");
  const fields = pair
    ? [field("source", t("ask.source"), question.source, events),
      field("target", t("ask.target"), question.target, { ...events, placeholder: t("ask.own") })]
    : [field("text", t("ask.text"), text, events)];
  const form = h("form", { class: "ask", onsubmit: (event) => { event.preventDefault(); submit(); } },
    h("div", { class: "field model" }, h("label", { for: "ask-model" }, t("ask.model")), select),
    ...fields, h("button", { type: "submit", class: "primary" }, t("ask.look")));
  if (!app.source.live) {
    for (const part of form.elements) part.disabled = true;
    form.append(...[recordedChoice(app, onask), h("p", { class: "note" }, t("ask.recorded"), " ", t("needs.live"))].filter(Boolean));
  }
  return form;
}

/** One line on the model, and what of it is switched off (each with a button that takes it back). */
export function aboutLine(app) {
  const { about } = app;
  if (!about) return h("p", { class: "about" });
  const parts = [t(`kind.${about.kind}`)];
  if (about.layers && about.kind !== "ngram") parts.push(about.heads ? t("about.heads", { layers: about.layers, heads: about.heads }) : t("about.layers", { layers: about.layers }));
  if (about.parameters) parts.push(t("about.parameters", { count: whole(about.parameters) }));
  parts.push(t("about.vocabulary", { count: whole(about.vocab_size) }));
  const { source, read } = app.reading?.spellings ?? {};
  if (read) parts.push(t("about.tokens", { count: (source ?? read).labels.length, most: whole(about.most_tokens) }));
  else parts.push(t("about.most", { most: whole(about.most_tokens) }));
  const line = h("p", { class: "about" }, parts.join(" · "));
  const undo = (words, without) => line.append(" ", button(`${words} ×`, () => app.look(without), { class: "chip", "aria-label": t("edit.undo", { what: words }) }));
  const question = { ...app.question };
  const less = (name) => Object.fromEntries(Object.entries(question).filter(([each]) => each !== name));
  for (const name of question.off ?? []) {
    const off = question.off.filter((each) => each !== name);
    undo(t("edit.off", { head: name }), off.length ? { ...question, off } : less("off"));
  }
  if (question.blank) undo(t("edit.blank"), less("blank"));
  if (question.checkpoint) undo(t("edit.checkpoint", { name: question.checkpoint }), less("checkpoint"));
  if (question.mask?.length) undo(t("edit.mask"), less("mask"));
  return line;
}

/** Why a view is not offered: this model lacks it, or this file. */
function whyNot({ about }, view) {
  const live = { ...about, views: [...about.views, ...(about.unrecorded ?? [])] };
  return t(view.group === "learn" || view.fits(live) ? "needs.live" : "view.unfit");
}

/** Choose among the questions that a file has answers to; null where it is one. */
function recordedChoice(app, onask) {
  const { questions } = app.source;
  if (questions.length < 2) return null;
  const names = questions.map(({ model, text, source, checkpoint, off, blank }) =>
    [model, checkpoint, ...(off ?? []), blank ? t("edit.blank") : null, text ?? source ?? ""].filter(Boolean).join(" · "));
  const select = h("select", { id: "ask-recorded", onchange: () => onask(questions[select.value]) }, ...names.map((name, at) => h("option", { value: at }, name)));
  const { off, how, of, kind, mask, blank, checkpoint, ...plain } = app.question; // what is changed of a question is none to choose
  const at = questions.findIndex((each) => canonical(each) === canonical(app.question));
  select.value = at < 0 ? questions.findIndex((each) => canonical(each) === canonical(plain)) : at;
  return h("div", { class: "field recorded" }, h("label", { for: "ask-recorded" }, t("ask.choose")), select);
}

/** The menu; `.refresh(view id)` marks where we are. */
export function menu(app) {
  const items = [];
  const nav = h("nav", { class: "menu", "aria-label": t("menu") });
  for (const group of GROUPS) {
    // views of one kind of model are not offered to others; the rest stay in their places, switched off
    const views = VIEWS.filter((view) => view.group === group && (group !== "kind" || !app.about || view.fits(app.about)));
    if (!views.length) continue;
    const list = h("ul", {}, ...views.map((view) => {
      const fits = !app.about || view.fits(app.about);
      const item = button(t(view.titleKey), () => app.go(view.id), { "data-view": view.id, disabled: !fits, title: fits ? null : whyNot(app, view) });
      items.push(item);
      return h("li", {}, item);
    }));
    nav.append(h("p", { class: "group" }, t(`group.${group}`)), list);
  }
  nav.refresh = (id) => {
    for (const item of items) {
      if (item.dataset.view === id) item.setAttribute("aria-current", "page");
      else item.removeAttribute("aria-current");
    }
    const current = items.find((item) => item.dataset.view === id);
    // on narrow screens the menu is one line that scrolls
    if (current) nav.scrollLeft = current.offsetLeft - (nav.clientWidth - current.offsetWidth) / 2;
  };
  requestAnimationFrame(() => nav.refresh(app.state.get().view));
  return nav;
}

function pickers(app) {
  return choice(t("picks"), [["query", t("picks.query")], ["key", t("picks.key")]], picksOf(app), (value) => app.state.set(picking(app, value)));
}

/** The sentence with the selection: one strip, or one of queries and one of keys. `.refresh()` after changes. */
export function sentenceBar(app) {
  const bar = h("div", { class: "sentence" });
  if (!app.reading) return Object.assign(bar, { refresh: () => {} });
  const site = siteOf(app);
  const names = [site?.queries ?? "read"];
  if (site && site.keys !== site.queries) names.push(site.keys);
  const roles = names.length === 1 ? [null] : ["query", "key"];
  const strips = names.map((name, at) => tokenStrip(spelling(app, name), t(roles[at] === "key" ? "strip.keys" : "strip.queries"), (position) => {
    const role = roles[at] ?? (site ? picksOf(app) : "query");
    const pairing = names.length === 1 && app.state.get().view === "links"; // one end after the other: a word that is there stays
    const selection = { ...app.state.get().selection, [role]: !pairing && chosen(app)[role] === position ? null : position };
    app.state.set({ selection, ...(pairing ? picking(app, role === "query" ? "key" : "query") : {}) });
  }));
  const line = (strip, at) => h("div", { class: "strip-line" }, names.length > 1 ? h("span", { class: `strip-name ${roles[at] === "key" ? "k" : "q"}` }, t(`side.${names[at]}`)) : null, strip);
  const controls = [sitePicker(app), site && names.length === 1 ? pickers(app) : null].filter(Boolean);
  bar.append(...strips.map(line));
  if (controls.length) bar.append(h("div", { class: "controls" }, ...controls));
  bar.refresh = () => {
    const { query, key } = chosen(app);
    strips.forEach((strip, at) => strip.choose({ query: roles[at] === "key" ? null : query, key: roles[at] === "query" || !site ? null : key }));
    for (const input of bar.querySelectorAll("input[value=query], input[value=key]")) input.checked = input.value === picksOf(app);
  };
  bar.refresh();
  return bar;
}

/** Language, theme and help. */
export function switches(app, help) {
  const languages = h("select", { id: "switch-language", "aria-label": t("switch.language"), onchange: () => app.state.set({ language: languages.value }) },
    ...LANGUAGES.map((name) => h("option", { value: name, lang: name }, LANGUAGE_NAMES[name])));
  languages.value = currentLanguage();
  const themes = h("select", { id: "switch-theme", "aria-label": t("switch.theme"), onchange: () => app.state.set({ theme: themes.value }) },
    h("option", { value: "auto" }, t("theme.auto")), h("option", { value: "light" }, t("theme.light")), h("option", { value: "dark" }, t("theme.dark")));
  themes.value = app.state.get().theme;
  return h("div", { class: "switches" }, languages, themes, button("?", () => help().showModal(), { "aria-label": t("help.open"), class: "round" }));
}
