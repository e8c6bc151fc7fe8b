// The page: starts, asks what was read, draws the chosen view, keeps the address and the state the same.

import { announce, keepFocus } from "./a11y.js";
import { cssParts } from "./colours.js";
import { button, failure, h, waiting } from "./dom.js";
import { createPath } from "./path.js";
import { aboutLine, menu, questionForm, sentenceBar, switches } from "./frame.js";
import { helpDialog } from "./help.js";
import { preferredLanguage, t, useLanguage } from "./i18n.js";
import { hostTheme, onHostTheme } from "./host.js";
import { listenForKeys } from "./keys.js";
import { recordedSource } from "./recorded.js";
import { shorterOffer } from "./shorter.js";
import { siteOf } from "./sites.js";
import { canonical, liveSource } from "./source.js";
import { START, createStore, fromHash } from "./state.js";
import { hasTours } from "./tours.js";
import { VIEWS } from "./views.js";

const EXAMPLES = { pair: "轩辕有一只虎皮鹦鹉", text: "Xuanyuan had a budgerigar when he was young . It had green feathers ." };
const TOP = 10;
const TYPING_PAUSE = 350; // ms without a key, after which a quick model is asked while the reader types
const QUICK = 300; // ms that an answer may take for that

class App {
  constructor(source, store) {
    Object.assign(this, { source, state: store, models: [], about: null, reading: null, question: null, took: 0, t });
  }

  ask(name, params = {}, question = this.question) {
    return this.source.ask(question, name, params);
  }

  can(name, params = {}, question = this.question) {
    return this.source.has(question, name, params);
  }

  select(partial) {
    this.state.set({ selection: { ...this.state.get().selection, ...partial } });
  }

  setting(name, otherwise) {
    return this.state.get().settings[name] ?? otherwise;
  }

  set(name, value) {
    this.state.set({ settings: { ...this.state.get().settings, [name]: value } });
  }

  go(view) {
    this.state.set({ view });
  }

  /** Ask about something else. */
  look(question) {
    this.state.set({ question });
  }
}

/** The question to begin with: the address's, the file's, or an example that fits the model. */
function complete(app, asked) {
  const model = app.models.find(({ id }) => id === asked?.model) ?? app.models[0];
  const pair = /encoder-decoder/.test(model.kind);
  const given = [model.id, undefined].includes(asked?.model) ? { ...asked, model: model.id } : { model: model.id, ...wordsOf(asked ?? {}, pair) };
  if (given.text !== undefined || given.ids || given.source !== undefined) return given;
  const old = app.question ?? {};
  if (pair) {
    return { ...given, source: old.source ?? model.example ?? EXAMPLES.pair, target: old.source === undefined ? null : old.target ?? null };
  }
  return { ...given, text: old.text ?? model.example ?? EXAMPLES.text };
}

/** Of a question about a model that is not here: the text, where the model that is shown can be asked with it. */
function wordsOf({ text, source, target }, pair) {
  if (pair) return source === undefined ? {} : { source, target };
  return text === undefined ? {} : { text };
}

class Page {
  constructor(app) {
    this.app = app;
    this.keys = { on: true };
    this.root = document.getElementById("app");
    this.turn = 0;
    this.update = null;
    this.site = this.siteName();
    this.fresh = !location.hash && hasTours(); // the address names nothing yet
    this.failed = null;
    this.wanted = app.state.get().question?.model; // the model that the address names
    this.path = createPath(app.state, (state) => canonical(complete(app, state.question)));
    app.state.subscribe((changed) => this.changed(changed));
    listenForKeys(app, this.keys, () => this.help);
    this.path.listen((hash) => app.state.set(fromHash(hash)));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.drawView());
    addEventListener("beforeprint", () => document.documentElement.classList.toggle("was-dark", cssParts("--paper")[0] < 128));
    onHostTheme(() => {
      this.paper();
      this.drawView();
    });
  }

  /** The kind of attention that the address names. */
  siteName() {
    const { of, kind } = this.app.state.get().selection;
    return `${of} ${kind}`;
  }

  /** Everything around the view, anew: at the start and for another language. */
  build() {
    const { app } = this;
    this.help = helpDialog(this.keys);
    this.form = h("div");
    this.about = h("div");
    this.nav = h("div", { class: "side" });
    this.bar = h("section", { class: "stickybar", "aria-label": t("strip.queries") });
    this.main = h("main", { id: "view", tabindex: -1 }, waiting(8));
    keepFocus(this.root, () => this.root.replaceChildren(
      h("a", { class: "skip", href: "#view", onclick: (event) => { event.preventDefault(); this.main.focus(); } }, t("skip")),
      h("header", {}, h("div", { class: "top" }, h("p", { class: "brand" }, h("span", { class: "bird", "aria-hidden": "true" }), "Budgerigar", h("span", { class: "tagline" }, t("tagline"))),
        switches(app, () => this.help)), this.form, this.about),
      this.bar, h("div", { class: "body" }, this.nav, this.main), this.help));
    document.title = t("title");
    this.fillForm();
    this.frame();
  }

  fillForm() {
    this.formOf = this.app.question.model;
    keepFocus(this.form, () => this.form.replaceChildren(questionForm(this.app, {
      onask: (question, pressed = false) => this.asked(complete(this.app, question), pressed),
      ontyped: (read) => {
        clearTimeout(this.pause);
        if (this.app.source.live && this.app.took < QUICK) this.pause = setTimeout(() => this.typed(read()), TYPING_PAUSE);
      },
    })), () => this.form.querySelector(".primary"));
  }

  /** Ask. Who presses the button where a view has sentences of its own (the lesson) is shown what was asked for. */
  asked(question, pressed) {
    const away = pressed && this.view().unasked;
    this.app.state.set(away ? { question, view: "sentence" } : { question });
  }

  /** A pause in typing: ask, but leave the field alone. */
  typed(question) {
    if ((question.text ?? question.source ?? "").trim()) this.path.typed(() => this.app.look(question));
  }

  frame() {
    const { app } = this;
    keepFocus(this.about, () => this.about.replaceChildren(aboutLine(app)), () => this.main);
    this.menu = menu(app);
    keepFocus(this.nav, () => this.nav.replaceChildren(this.menu), () => this.main);
    this.sentence = sentenceBar(app);
    const had = this.bar.contains(document.activeElement); // another kind of attention was chosen by keyboard
    this.bar.replaceChildren(this.sentence);
    if (had) this.bar.querySelector("input:checked")?.focus({ preventScroll: true });
    this.toggleBar();
  }

  toggleBar() {
    this.bar.hidden = Boolean(this.view().ownSentence) || !this.app.reading;
  }

  view() {
    const { app } = this;
    const fitting = VIEWS.filter((view) => !app.about || view.fits(app.about));
    return fitting.find(({ id }) => id === app.state.get().view) ?? fitting[0];
  }

  /** Read the question; then everything is drawn for it. A later question overtakes an earlier one. */
  async load() {
    const { app } = this;
    const turn = (this.turn += 1);
    const { going } = this.path;
    const chosen = this.chosen; // a token, together with the question
    const asked = this.wanted ?? app.state.get().question?.model;
    const question = complete(app, app.state.get().question);
    this.wanted = undefined;
    app.question = question;
    app.state.set({ question });
    this.main.setAttribute("aria-busy", "true");
    const began = performance.now();
    const answers = [app.ask("about"), app.ask("read", { top: TOP })];
    const [about, reading] = await Promise.allSettled(answers);
    if (turn !== this.turn) return;
    this.failed = about.reason ?? reading.reason ?? null;
    if (this.failed && this.failed.status === undefined && !this.failed.missing) console.error(this.failed);
    const [known, read] = [about.value ?? null, this.failed ? null : reading.value];
    Object.assign(app, { about: known, reading: read, took: performance.now() - began, unread: this.failed });
    this.read = question;
    if (read) this.keepWhatIsThere(read, going || chosen);
    const typing = document.activeElement?.matches(".ask textarea") && this.formOf === question.model;
    if (going || !typing) this.fillForm(); // never under who types
    this.gone(asked);
    this.frame();
    await this.drawView();
    if (turn !== this.turn) return;
    this.main.removeAttribute("aria-busy");
    if (turn > 1 && !this.failed && !this.path.byTyping) announce(t(this.view().titleKey));
  }

  /** A chosen token stays chosen while it stands there: after an append, without a head. In another text nothing is chosen,
   * unless it was chosen together with it. */
  keepWhatIsThere(reading, given) {
    const { app } = this;
    const [before, site] = [this.stood, siteOf(app)];
    this.stood = reading.spellings;
    if (!before || given) return;
    const { query, key } = app.state.get().selection;
    const kept = (at, side) => {
      const labels = (spellings) => (spellings[side] ?? spellings.read)?.labels;
      return at !== null && labels(before)?.[at] === labels(reading.spellings)?.[at] ? at : null;
    };
    this.update = () => {}; // the view of the text before does not follow any more
    app.select({ query: kept(query, site?.queries ?? "read"), key: kept(key, site?.keys ?? "read") });
  }

  /** The address named a model that is not here: said once, for another is shown. */
  gone(name) {
    const { app } = this;
    if (name !== undefined && name !== app.question.model) this.form.append(h("p", { class: "note", role: "status" }, t("error.gone", { name, model: app.question.model })));
  }

  /** The app as it is now, for one drawing of a view: what is asked next while it waits for answers changes nothing of it. */
  still() {
    const { app, read } = this;
    const { of, kind } = app.state.get().selection;
    const get = () => ({ ...app.state.get(), selection: { ...app.state.get().selection, of, kind } });
    return Object.assign(Object.create(app), { about: app.about, reading: app.reading, question: read, state: { ...app.state, get } });
  }

  /** For who comes for the first time. */
  welcome() {
    return h("section", { class: "panel welcome" }, h("h2", {}, t("welcome.title")), h("p", { class: "lead" }, t("welcome.lead")),
      h("div", { class: "controls" }, button(t("welcome.go"), () => this.app.go("lesson"), { class: "primary" }), h("span", { class: "soft" }, t("welcome.stay"))));
  }

  async drawView() {
    const { app } = this;
    const view = this.view();
    if (!app.reading && !(view.unasked && this.failed)) {
      if (this.failed) this.main.replaceChildren(failure(this.failed), shorterOffer(app, this.failed));
      this.update = this.drawn = null;
      this.shown = view.id;
      this.menu.refresh(view.id);
      return;
    }
    const root = h("div", { class: `view view-${view.id}` });
    const body = h("div", { class: "view-body" });
    if (view.id !== START.view) this.fresh = false;
    root.append(h("h1", {}, t(view.titleKey)), h("p", { class: "lead" }, t(view.leadKey)), ...(this.fresh ? [this.welcome()] : []), body);
    const inside = this.main.contains(document.activeElement);
    this.main.replaceChildren(root);
    if (inside) this.main.focus({ preventScroll: true }); // what had the focus is gone
    document.title = `${t(view.titleKey)} · ${t("title")}`;
    if (this.shown && this.shown !== view.id) announce(t(view.titleKey));
    if (this.shown !== view.id) scrollTo({ top: Math.min(scrollY, this.form.offsetTop) });
    this.shown = view.id;
    this.menu.refresh(view.id);
    this.toggleBar();
    this.update = null;
    this.drawn = root;
    try {
      const update = await view.draw(body, this.still());
      if (this.drawn !== root) return;
      this.update = update ?? null;
      const top = this.path.taken();
      if (top !== null) scrollTo({ top });
    } catch (error) {
      if (error.status === undefined && !error.missing) console.error(error);
      if (this.drawn === root) body.append(failure(error));
    }
  }

  async changed(changed) {
    const { app } = this;
    this.path.write();
    if (changed.has("theme")) this.paper();
    this.chosen = changed.has("selection");
    const asked = changed.has("question") && canonical(complete(app, app.state.get().question)) !== canonical(app.question ?? null);
    if (changed.has("language")) {
      const spoken = this.speak(!asked);
      return asked ? spoken.then(() => this.load()) : spoken; // a step back may change both
    }
    if (asked) return this.load();
    const site = this.siteName();
    if (changed.has("view") || changed.has("theme") || (changed.has("selection") && site !== this.site)) {
      if (site !== this.site) this.frame();
      else this.sentence?.refresh();
      this.site = site;
      return this.drawView();
    }
    this.sentence?.refresh();
    if (changed.size === 1 && changed.has("picks")) return undefined;
    return this.update ? this.update(changed) : this.drawn && this.drawView();
  }

  paper() {
    const { theme: chosen } = this.app.state.get();
    const choice = this.root.querySelector("#switch-theme"); // the address may have chosen
    if (choice) choice.value = chosen;
    const theme = chosen === "auto" ? hostTheme() ?? "auto" : chosen;
    if (theme === "auto") document.documentElement.removeAttribute("data-theme");
    else document.documentElement.dataset.theme = theme;
  }

  /** The page anew in the language that is chosen; as it was where the server does not give its words. */
  async speak(draw) {
    const { language } = this.app.state.get();
    try {
      await useLanguage(language === "auto" ? preferredLanguage() : language);
    } catch {
      this.form.append(failure({ status: 0 }));
      return;
    }
    this.build();
    if (draw) await this.drawView();
  }
}

async function start() {
  const recorded = document.getElementById("recorded");
  const given = recorded ? JSON.parse(recorded.textContent) : null;
  const source = given ? recordedSource(given) : liveSource();
  const store = createStore(given?.state && !location.hash ? { ...START, ...given.state, selection: { ...START.selection, ...given.state.selection } } : fromHash(location.hash));
  const app = new App(source, store);
  const page = new Page(app);
  page.paper();
  const { language, question } = store.get();
  await useLanguage(language === "auto" ? preferredLanguage() : language);
  try {
    const answer = await source.models();
    app.models = answer.models ?? answer;
    app.question = complete(app, question ?? answer.question ?? source.question);
  } catch (error) {
    page.root.replaceChildren(h("main", { class: "starting" }, h("h1", {}, "Budgerigar"), failure(error)));
    return;
  }
  store.set({ question: app.question });
  page.path.write();
  page.build();
  await page.load();
}

start();
