// The grid: every head of every layer as a small picture, sorted by layer or by what it does.

import { roving } from "./a11y.js";
import { VIRIDIS_TABLE, cssColour } from "./colours.js";
import { scaleChoice } from "./controls.js";
import { choice, failure, h, headName, number, onDemand, panel, table, waiting, word } from "./dom.js";
import { stripes } from "./heatmap_paint.js";
import { share } from "./matrix.js";
import { chosen, siteOf, siteParams, spelling } from "./sites.js";
import { t } from "./i18n.js";
import { badgeName } from "./role_names.js";

const SIZE = 96; // CSS pixels of a thumbnail

const ORDERS = { entropy: (a, b) => a.entropy - b.entropy, first: (a, b) => b.first - a.first,
  confidence: (a, b) => b.confidence - a.confidence, link: (a, b) => b.link.weight - a.link.weight };

/** The heads of one layer, unpacked from its arrays. */
function headsOf(layer) {
  const [count, high, wide] = layer.thumbnails.shape;
  return Array.from({ length: count }, (_, head) => ({
    layer: layer.layer, head, high, wide, mask: layer.mask.data,
    weights: layer.thumbnails.data.subarray(head * high * wide, (head + 1) * high * wide),
    entropy: layer.entropy.data[head], first: layer.first.data[head], confidence: layer.confidence.data[head],
    link: { query: layer.link.query.data[head], key: layer.link.key.data[head], weight: layer.link.weight.data[head] },
  }));
}

/** Drawn once per scale; the page moves the same canvas when heads are sorted anew. */
function thumbnail(head, scale) {
  if (head.drawn !== scale) Object.assign(head, { drawn: scale, canvas: drawThumbnail(head, scale) });
  return head.canvas;
}

function drawThumbnail(head, scale) {
  const image = new ImageData(head.wide, head.high);
  for (let i = 0; i < head.weights.length; i++) {
    if (head.mask[i]) continue;
    image.data.set(VIRIDIS_TABLE[Math.round(255 * share(head.weights[i], 1, scale))], 4 * i);
    image.data[4 * i + 3] = 255;
  }
  const cells = h("canvas", { width: head.wide, height: head.high });
  cells.getContext("2d").putImageData(image, 0, 0);
  const canvas = h("canvas", { width: 2 * SIZE, height: 2 * SIZE, "aria-hidden": "true" });
  const context = canvas.getContext("2d");
  context.fillStyle = cssColour("--well");
  context.fillRect(0, 0, 2 * SIZE, 2 * SIZE);
  stripes(context, 0, 0, 2 * SIZE, 2 * SIZE, { line: cssColour("--hatch"), step: 10 });
  context.imageSmoothingEnabled = false;
  const size = 2 * SIZE * (head.wide >= head.high ? 1 : head.wide / head.high);
  context.drawImage(cells, 0, 0, size, size * head.high / head.wide);
  return canvas;
}

function inWords(app, site, { link, entropy, first, badges }) {
  const parts = [...(badges ?? []), t("grid.entropy", { value: number(entropy, 2) }), t("grid.first", { value: number(first, 2) })];
  if (link.weight > 0) {
    parts.push(t("grid.link", { query: spelling(app, site.queries).labels[link.query], key: spelling(app, site.keys).labels[link.key], weight: number(link.weight, 2) }));
  }
  return parts.join("; ");
}

/** Without the blank before it: a tile has little room, and its name says the label in full. */
const bare = (label) => label.replace(/^␣(?=.)/, "");

function tile(app, site, head) {
  const name = headName(head.layer, head.head);
  const now = chosen(app);
  const { link } = head;
  const strongest = link.weight > 0
    ? [word(bare(spelling(app, site.queries).labels[link.query]), { class: "word q" }), h("span", { class: "arrow" }, "→"), word(bare(spelling(app, site.keys).labels[link.key]), { class: "word k" })]
    : ["–"];
  return h("button", { type: "button", class: "tile", "data-name": name, "aria-pressed": String(now.layer === head.layer && now.head === head.head),
    "aria-label": `${name}${t("mark.colon")}${inWords(app, site, head)}`, title: inWords(app, site, head), onclick: () => {
      app.select({ layer: head.layer, head: head.head });
      app.go("head");
    } },
  thumbnail(head, app.state.get().scale),
  h("span", { class: "tile-line" }, h("strong", {}, name), h("span", { class: "meter", "--share": head.entropy })),
  h("span", { class: "tile-link" }, ...strongest),
  head.badges?.length > 1 ? h("span", { class: "tile-link also" }, `+ ${head.badges.slice(1).join(", ")}`) : null);
}

function twin(app, site, heads) {
  const labels = { queries: spelling(app, site.queries).labels, keys: spelling(app, site.keys).labels };
  return onDemand(t("grid.twin"), () => h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("grid.twin") },
    table(t("grid.twin"), [t("word.head"), t("grid.by.entropy"), t("grid.by.first"), t("grid.by.confidence"), t("grid.by.link")],
      heads.map((head) => [headName(head.layer, head.head), number(head.entropy, 3), number(head.first, 3), number(head.confidence, 3),
        head.link.weight > 0 ? h("span", {}, word(labels.queries[head.link.query]), " → ", word(labels.keys[head.link.key]), ` ${number(head.link.weight, 3)}`) : "–"]))));
}

/** Heads under headings: by layer, by their first role, or all in one order without a heading. */
function grouped(heads, order) {
  const groups = new Map();
  const put = (title, head) => groups.set(title, [...(groups.get(title) ?? []), head]);
  if (order === "layer") heads.forEach((head) => put(t("grid.layer", { layer: head.layer }), head));
  else if (order === "role") {
    for (const head of heads) if (head.badges?.length) put(head.badges[0], head);
    for (const head of heads) if (!head.badges?.length) put(t("grid.norole"), head);
  } else groups.set(null, [...heads].sort(ORDERS[order] ?? ORDERS.entropy));
  return groups;
}

/** Ask once for the roles of all heads, measured on texts of their own; then draw anew. */
async function measureRoles(app, site, heads, place) {
  if (place.roles) return;
  place.roles = true;
  const note = h("p", { class: "note", role: "status" }, t("grid.measuring"));
  place.prepend(note);
  try {
    const { sites } = await app.ask("roles", {});
    const found = sites.find(({ of, kind }) => of === site.of && kind === site.kind);
    found?.heads.forEach((name, at) => {
      const head = heads.find((each) => headName(each.layer, each.head) === name);
      if (head) head.badges = found.badges[at].map(badgeName);
    });
    arrange(app, site, heads, place);
  } catch (error) {
    note.replaceWith(failure(error));
  }
}

function arrange(app, site, heads, place) {
  const order = app.setting("sort", "layer");
  const parts = [...grouped(heads, order)].map(([title, members]) => h("div", { class: title === null ? "grid-group mixed" : "grid-group" },
    title === null ? null : h("h3", {}, h("bdi", {}, title)), h("div", { class: "tiles" }, ...members.map((head) => tile(app, site, head)))));
  place.replaceChildren(h("div", { class: site.heads > 8 ? "grid small" : "grid", role: "group", "aria-label": t("view.grid") }, ...parts), twin(app, site, heads));
  const first = [...place.querySelector(".tiles").children];
  const columns = () => first.filter((each) => each.offsetTop === first[0].offsetTop).length;
  roving(place.querySelector(".grid"), ".tile", columns);
  if (order === "role" && heads.length === site.layers * site.heads) measureRoles(app, site, heads, place);
}

export const gridView = {
  id: "grid",
  titleKey: "view.grid",
  leadKey: "view.grid.lead",
  group: "overview",
  fits: (about) => about.views.includes("grid"),
  async draw(root, app) {
    const site = siteOf(app);
    const place = h("div", { class: "reserve" }, waiting(8));
    const sorts = ["layer", "entropy", "first", "confidence", "link"].map((name) => [name, t(`grid.by.${name}`)]);
    if (app.about.views.includes("roles") && app.can("roles", {})) sorts.push(["role", t("grid.by.role")]);
    root.append(panel(t("grid.title"), t("grid.legend"), h("div", { class: "controls" },
      choice(t("grid.sort"), sorts, app.setting("sort", "layer"), (value) => app.set("sort", value)), scaleChoice(app)), place));
    const heads = [];
    try {
      for (let layer = 0; layer < site.layers; layer++) {
        const answer = await app.ask("grid", { layer, ...siteParams(app) });
        heads.push(...answer.layers.flatMap(headsOf));
        if (root.isConnected) arrange(app, site, heads, place);
      }
    } catch (error) {
      place.append(failure(error));
    }
    return (changed) => {
      if (changed.has("settings") || changed.has("scale")) arrange(app, site, heads, place);
      else if (changed.has("selection")) {
        const { layer, head } = chosen(app);
        for (const tile of place.querySelectorAll(".tile")) tile.setAttribute("aria-pressed", String(tile.dataset.name === headName(layer, head)));
      }
    };
  },
};
