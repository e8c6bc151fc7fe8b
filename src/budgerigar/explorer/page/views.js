// The views of the page, from overview to detail, and how to write one.
//
// A view is a module view_<name>.js that exports
//
//   export const nameView = {
//     id: "name",                  // in the address: #view=name
//     titleKey: "view.name",       // the words in the menu; add them to i18n/en.json and i18n/zh.json
//     leadKey: "view.name.lead",   // one sentence on what can be seen here; stands under the title
//     group: "overview",           // which part of the menu (GROUPS below)
//     fits(about) { return about.views.includes("name"); },     // is it offered for this model?
//     async draw(root, app) { … return update; },
//   };
//
// and is imported and listed below. draw() gets an empty element, of a model whose `about` and `read` are
// there already (app.about, app.reading). It puts everything inside `root` and may return a function
// update(changed): it is called when the selection or a setting changes (`changed` is a Set of names of
// state.js: "selection", "scale", "hideSink", …) and must not build anew what has the focus. A view that
// returns nothing is drawn again from the start. When the question, the language or the view changes,
// the old root leaves the page and draw() is called with a new one; what arrives late for an old root
// is seen by nobody, so no care is needed.
//
//   app.ask("head", {layer, head, of, kind})   a payload, decoded (inspection/views/ has the shapes); give every
//                                  parameter, and always in the same way: recorded files know questions by text
//   app.can("head", params)        false where a recorded file certainly lacks it: disable the control,
//                                  with t("needs.live") as its words
//   app.select({layer, head})      the one selection of the page: of, kind, layer, head, query, key
//   app.state.get() / .set({…})    scale, hideSink, transpose, settings, …; all of it stands in the address
//   app.setting("sort", "layer")   a view's own setting; app.set("sort", "entropy") keeps it in the address
//   app.look({…})                  ask about something else: a new question
//   app.go("head")                 another view
//
// Ready pieces: dom.js (h, panel, choice, tick, slider, table, onDemand, waiting, failure, number, percent, word),
// sites.js (siteOf, siteParams, chosen, matrixOf, spelling, headBar), tokens.js (tokenStrip), heatmap.js (HeatMap;
// signed matrices too), arcs.js, bars.js, lines.js (charts), meters.js (bars in tables), weave.js (alignments), controls.js (scale, hide, transpose), a11y.js (announce, roving, calm).
//
// Rules. Only `import { a } from "./x.js";` on one line and `export function|const|class`: files are joined
// into one script for exports. No innerHTML; words through t("…") with a literal key; text of models and
// users inside word() or <bdi>. No inline style attributes: h("i", {"--share": 0.3}) and a rule in style.css. Q is
// blue, K orange, V green (classes q, k, v), and colour never says anything alone. A canvas has a twin in
// words (onDemand), one tab stop, and announce() for what a key changed. Reserve space with waiting() and put
// failure(error) in its place when asking fails: show() in dom.js does both.
// Tests: tests/explorer/conftest.py gives models, page_server and tab; test_page_files.py checks the rules.

import { backoffView } from "./view_backoff.js";
import { blockView } from "./view_block.js";
import { bornView } from "./view_born.js";
import { compareView } from "./view_compare.js";
import { gatesView } from "./view_gates.js";
import { gridView } from "./view_grid.js";
import { headView } from "./view_head.js";
import { lensView } from "./view_lens.js";
import { lessonView } from "./view_lesson.js";
import { linksView } from "./view_links.js";
import { maskView } from "./view_mask.js";
import { offView } from "./view_off.js";
import { positionsView } from "./view_positions.js";
import { reachView } from "./view_reach.js";
import { rolesView } from "./view_roles.js";
import { sentenceView } from "./view_sentence.js";
import { stepsView } from "./view_steps.js";
import { translationView } from "./view_translation.js";

/** Parts of the menu, in their order. */
export const GROUPS = ["learn", "overview", "detail", "kind", "change"];

export const VIEWS = [sentenceView, linksView, gridView, headView, stepsView, positionsView, blockView, lensView, translationView, maskView, gatesView, reachView, backoffView,
  rolesView, offView, bornView, compareView, lessonView];
