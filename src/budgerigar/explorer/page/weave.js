// Two texts side by side, words joined by lines as thick as the weight between them: an alignment to be read.

import { h, shorten, svg } from "./dom.js";

const LINE = 27; // pixels from word to word
const LEAST = 0.08; // weights from here on are drawn

/**
 * sources, targets: labels; weight(target, source) in 0..1; chosen: {target, source} (null: none);
 * pick({target} or {source}); names: {sources, targets} in words. A picture: tokens are chosen by keyboard elsewhere.
 */
export function weave({ sources, targets, weight, chosen, pick, names }) {
  const high = LINE * Math.max(sources.length, targets.length) + 34;
  const place = h("div");
  const draw = () => {
    const wide = Math.min(place.clientWidth, 520);
    if (!wide) return;
    const left = wide * 0.36;
    const right = wide * 0.64;
    const y = (at) => 34 + LINE * at + LINE / 2;
    const lines = targets.flatMap((_, target) => sources.map((__, source) => [target, source, weight(target, source)])).filter(([, , value]) => value >= LEAST);
    const ours = ([target, source]) => target === chosen.target || (chosen.target === null && source === chosen.source);
    lines.sort((a, b) => ours(a) - ours(b));
    const curve = ([target, source, value]) => svg("path", { class: ours([target, source]) ? "ours" : null, "stroke-width": 0.5 + 7 * value,
      d: `M${left + 6} ${y(source)}C${wide / 2} ${y(source)} ${wide / 2} ${y(target)} ${right - 6} ${y(target)}` });
    const label = (words, at, x, anchor, mark, choose) => svg("text", { x, y: y(at) + 5, "text-anchor": anchor, class: mark || null, onclick: choose }, shorten(words, Math.floor(wide / 30)));
    place.replaceChildren(svg("svg", { class: "weave", width: wide, height: high, "aria-hidden": "true" },
      svg("text", { class: "weave-soft", x: left, y: 16, "text-anchor": "end" }, names.sources), svg("text", { class: "weave-soft", x: right, y: 16 }, names.targets),
      ...lines.map(curve),
      ...sources.map((words, at) => label(words, at, left, "end", at === chosen.source ? "k" : "", () => pick({ source: at }))),
      ...targets.map((words, at) => label(words, at, right, "start", at === chosen.target ? "q" : "", () => pick({ target: at })))));
  };
  new ResizeObserver(draw).observe(place);
  return place;
}
