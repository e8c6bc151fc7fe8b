// The lesson, and every tour that a teacher wrote: pages of text in which the model that is shown fills in numbers and
// pictures. The pages are data (lesson/en/*.md, lesson/zh/*.md); explorer/tour.py reads them.

import { announce } from "./a11y.js";
import { button, failure, h, show } from "./dom.js";
import { FIGURES, opening } from "./lesson_figures.js";
import { liveNumber } from "./lesson_numbers.js";
import { sceneOf } from "./lesson_scene.js";
import { command, whyBlock } from "./lesson_why.js";
import { allTours, hasTours, pagesOf } from "./tours.js";
import { currentLanguage, t } from "./i18n.js";
import { landOn } from "./view_block.js";
import { workedModel } from "./worked_dials.js";

const ASKS = { sentence: "read", translation: "alignment", mask: "mask_out", backoff: "back_off", compare: "compare" }; // what a view cannot do without

let offers = 0; // names of radio groups must differ

/** A text's parts as nodes; numbers are asked of the scene. */
function inline(parts, scene) {
  return parts.map((part) => {
    if (typeof part === "string") return part;
    if (part.strong) return h("strong", {}, part.strong);
    if (part.code) return h("code", {}, part.code);
    if (part.link) return h("a", { href: part.link, target: "_blank", rel: "noopener noreferrer" }, part.words);
    return liveNumber(scene, part);
  });
}

class Page {
  constructor(app, page) {
    Object.assign(this, { app, page, scene: null, failed: null });
  }

  /** Read a sentence; a page whose model is not here still has its text. */
  async speakOf(sentence) {
    this.scene = null;
    this.failed = null;
    if (!sentence && !this.page.source) return;
    try {
      this.scene = await sceneOf(this.app, this.page, sentence);
    } catch (error) {
      this.failed = error;
    }
  }

  /** A sentence as the model that is shown reads it, and what is special about that. */
  told(sentence) {
    const remarks = (this.scene?.remarks ?? []).map((words) => h("p", { class: "note lesson-remark" }, words));
    return [h("p", { class: "lesson-sentence" }, h("bdi", {}, this.scene?.question.text ?? this.scene?.question.source ?? sentence)), ...remarks];
  }

  figure(block) {
    const place = h("div", { class: `figure-place figure-${block.kind}` });
    if (!this.scene) place.append(h("p", { class: "note" }, t("lesson.above")));
    else show(place, (async () => FIGURES[block.kind](this.scene, block.params))(), (nodes) => nodes, 5);
    return h("figure", {}, place);
  }

  open(block) {
    const { scene, app } = this;
    const words = t("lesson.open", { view: t(`view.${block.rest}`) });
    const go = button(words, async () => {
      try {
        if (block.rest === "block") landOn(block.params.part ?? null);
        app.state.set(await opening(scene, block.rest, block.params));
      } catch (error) {
        go.after(failure(error));
      }
    }, { class: "open-view" });
    go.disabled = !scene || !scene.about.views.includes(ASKS[block.rest] ?? block.rest);
    return h("p", {}, go);
  }

  question(block, blocks) {
    const answer = h("div", { class: "answer" }, ...blocks);
    const offered = block.blocks.find(({ kind }) => kind === "choices");
    return h("details", { class: "lesson-question" }, h("summary", {}, ...inline(block.parts, this.scene)), offered ? this.choices(offered, answer) : null, answer);
  }

  /** Answers to choose from; the explanation opens with the first choice. */
  choices({ items, right }, answer) {
    const told = h("p", { role: "status", class: "strong" });
    const name = `offered-${(offers += 1)}`;
    const option = (item, at) => {
      const input = h("input", { type: "radio", name, onchange: () => {
        told.textContent = t(right[at] ? "lesson.right" : "lesson.wrong");
        answer.hidden = false;
      } });
      return h("label", { class: "tick" }, input, h("span", {}, ...inline(item, this.scene)));
    };
    answer.hidden = true;
    return h("div", { class: "lesson-choices" }, h("fieldset", { class: "offered" }, h("legend", { class: "sr-only" }, t("lesson.choose")), ...items.map(option)), told);
  }

  async block(block) {
    const { kind } = block;
    if (kind === "heading") return h("h3", {}, ...inline(block.parts, this.scene));
    if (kind === "text") return h("p", {}, ...inline(block.parts, this.scene));
    if (kind === "list") return h("ul", { class: "points" }, ...block.items.map((item) => h("li", {}, ...inline(item, this.scene))));
    if (kind === "sentence") {
      await this.speakOf(block.rest);
      return h("div", { class: "lesson-told" }, ...this.told(block.rest));
    }
    if (kind === "worked") return workedModel(block.rest);
    if (kind === "why") return whyBlock(this.app, block.rest);
    if (kind === "command") return command(block.rest);
    if (kind === "open") return this.open(block);
    if (kind === "question") return this.question(block, await this.blocks(block.blocks.filter(({ kind: inner }) => inner !== "choices")));
    if (kind === "card") return h("section", { class: "lesson-card" }, h("h3", {}, ...inline(block.parts, this.scene)), ...await this.blocks(block.blocks));
    return this.figure(block);
  }

  async blocks(list) {
    const found = [];
    for (const each of list) found.push(await this.block(each));
    return found;
  }

  async body() {
    const { sentence, source, title, level, minutes } = this.page;
    await this.speakOf(sentence);
    const facts = [t(`lesson.level.${level}`), minutes ? t("lesson.minutes", { minutes }) : null, this.scene ? t("lesson.model", { model: this.scene.question.model }) : null];
    const head = [h("h2", { tabindex: -1, class: "lesson-title" }, title), h("p", { class: "soft" }, facts.filter(Boolean).join(" · "))];
    const asked = this.scene?.question.source === undefined && sentence ? sentence : source || sentence;
    const { unread } = this.app;
    if (unread && !unread.missing) head.push(h("p", { class: "note lesson-unread", role: "status" }, t("lesson.unread", { why: failure(unread).textContent })));
    if (asked) head.push(...this.told(asked));
    if (this.failed && asked) head.push(failure(this.failed));
    return [...head, ...await this.blocks(this.page.blocks)];
  }
}

/** The tour and the page that the address names. */
function place(app, tours) {
  const tour = tours.find(({ id }) => id === app.setting("tour", tours[0].id)) ?? tours[0];
  const pages = pagesOf(tour, currentLanguage());
  const asked = Number(app.setting("page", 1));
  return { tour, pages, at: Math.min(pages.length, Math.max(1, Number.isInteger(asked) ? asked : 1)) };
}

function contents(app, { pages, at }) {
  const select = h("select", { id: "lesson-page", onchange: () => app.set("page", Number(select.value)) },
    ...pages.map(({ title }, number) => h("option", { value: number + 1 }, `${number + 1}. ${title}`)));
  select.value = at;
  return h("div", { class: "lesson-contents" }, h("label", { for: "lesson-page" }, t("lesson.page", { at, count: pages.length })), select);
}

function turning(app, { pages, at }) {
  const to = (number, key, press) => button(t(key, { title: pages[number - 1].title }), () => app.set("page", number), { "data-press": press, class: press === "n" ? "primary" : null });
  return h("nav", { class: "turning", "aria-label": t("lesson.pages") }, at > 1 ? to(at - 1, "lesson.before", "p") : h("span"), at < pages.length ? to(at + 1, "lesson.next", "n") : h("span"));
}

/** A tour's own name is that of its first page; its file's name says little. */
const titleOf = (tour) => pagesOf(tour, currentLanguage())[0]?.title;

function tourChoice(app, tours, tour) {
  if (tours.length < 2) return null;
  const select = h("select", { "aria-label": t("lesson.tour"), onchange: () => app.state.set({ settings: { ...app.state.get().settings, tour: select.value, page: 1 } }) },
    ...tours.map(({ id }) => h("option", { value: id }, id === "lesson" ? t("view.lesson") : titleOf(tours.find((each) => each.id === id)) ?? id)));
  select.value = tour.id;
  return select;
}

class Lesson {
  constructor(app, root, tours) {
    Object.assign(this, { app, root, tours, turn: 0 });
  }

  async draw(turned = false) {
    const { app, tours, root } = this;
    const turn = (this.turn += 1);
    const now = place(app, tours);
    this.key = `${now.tour.id} ${now.at}`;
    const body = await new Page(app, now.pages[now.at - 1]).body();
    if (turn !== this.turn) return;
    const single = now.pages.length > 1;
    const written = now.tour.languages.any ? null : currentLanguage() === "zh" && now.tour.languages.zh ? "zh-Hans" : "en";
    const article = h("article", { class: "panel lesson", lang: written }, ...body, single ? turning(app, now) : "");
    root.replaceChildren(h("div", { class: "lesson-top" }, ...[tourChoice(app, tours, now.tour), single ? contents(app, now) : null].filter(Boolean)), article);
    if (root.isConnected) document.title = `${now.pages[now.at - 1].title} · ${t("title")}`;
    if (!turned) return;
    scrollTo({ top: root.getBoundingClientRect().top + scrollY - 90 });
    article.querySelector(".lesson-title").focus({ preventScroll: true });
    announce(now.pages[now.at - 1].title);
  }

  update(changed) {
    if (!changed.has("settings")) return;
    const now = place(this.app, this.tours);
    if (`${now.tour.id} ${now.at}` !== this.key) this.draw(true);
  }
}

export const lessonView = {
  id: "lesson",
  titleKey: "view.lesson",
  leadKey: "view.lesson.lead",
  group: "learn",
  ownSentence: true,
  unasked: true, // its pages have sentences of their own
  fits: () => hasTours(),
  async draw(root, app) {
    const lesson = new Lesson(app, root, await allTours());
    await lesson.draw();
    return (changed) => lesson.update(changed);
  },
};
