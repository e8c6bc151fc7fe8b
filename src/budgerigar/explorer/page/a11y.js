// For keyboards and screen readers: spoken announcements, and groups with one tab stop.

let region = null;
let timer = null;

/** Say `words` through the page's live region; while a key repeats only the last ones are said. */
export function announce(words) {
  if (!region) {
    region = document.createElement("div");
    for (const [name, value] of [["class", "sr-only"], ["aria-live", "polite"], ["role", "status"]]) region.setAttribute(name, value);
    document.body.append(region);
  }
  clearTimeout(timer);
  timer = setTimeout(() => (region.textContent = words), 120);
}

/**
 * One tab stop for the items (buttons) in `group`: arrows, Home and End move the focus among them.
 * `selector` finds the items; `columns()`: how many stand in a row, where up and down should use that.
 */
export function roving(group, selector, columns = () => 1) {
  const items = () => [...group.querySelectorAll(selector)].filter((item) => !item.disabled);
  const stop = (chosen) => {
    for (const item of group.querySelectorAll(selector)) item.tabIndex = item === chosen ? 0 : -1;
  };
  group.addEventListener("focusin", (event) => {
    const item = event.target.closest(selector);
    if (item) stop(item);
  });
  group.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const all = items();
    const at = all.indexOf(event.target.closest(selector));
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns(), ArrowDown: columns() }[event.key];
    const to = event.key === "Home" ? 0 : event.key === "End" ? all.length - 1 : at + (step ?? 0);
    if (at < 0 || to === at || to < 0 || to >= all.length) return;
    event.preventDefault();
    all[to].focus();
  });
  stop(items().find((item) => item.matches("[aria-pressed=true], [aria-current]")) ?? items()[0]);
}

/**
 * Do `act`, which builds anew what `place` holds. What had the focus there gets it back, found by its id or data-view, else
 * what otherwise() gives has it: a keyboard never loses its place.
 */
export function keepFocus(place, act, otherwise = () => null) {
  const had = place.contains(document.activeElement) ? document.activeElement : null;
  act();
  if (!had || place.contains(document.activeElement)) return;
  const name = had.id ? `#${CSS.escape(had.id)}` : had.dataset.view ? `[data-view="${CSS.escape(had.dataset.view)}"]` : null;
  ((name && place.querySelector(name)) ?? otherwise())?.focus({ preventScroll: true });
}

/** Does the reader want less motion? */
export function calm() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

/** Is the reader typing into something? Then single keys are text. */
export function typing(target) {
  return target.matches?.("input:not([type=range], [type=radio], [type=checkbox]), textarea, select, [contenteditable]");
}
