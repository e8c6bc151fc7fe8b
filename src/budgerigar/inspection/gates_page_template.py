"""The page that `gates_page.py` fills: one file, no framework, no request to anywhere."""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>__TITLE__</title>
<style>
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #fff; --soft: #6a6a6a; --line: #999 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #eee; --paper: #161616; --soft: #a8a8a8; --line: #777 } }
body { margin: 1rem; font: 15px/1.45 system-ui, "Noto Sans CJK SC", "Noto Sans SC", "PingFang SC",
  "Microsoft YaHei", sans-serif; color: var(--ink); background: var(--paper) }
h1 { font-size: 1.1rem; margin: 0 0 .5rem; unicode-bidi: plaintext }
h2 { font-size: .9rem; margin: .9rem 0 .2rem; font-weight: 600 }
#text { font: 15px/1.6 ui-monospace, "Noto Sans Mono CJK SC", monospace; white-space: pre-wrap;
  overflow-wrap: anywhere; border: 1px solid var(--line); padding: .5rem; max-height: 22rem;
  overflow: auto }
#text span { cursor: pointer } #text span.here { outline: 2px solid #d55e00 }
#parts { overflow: auto } #parts canvas { display: block; image-rendering: pixelated;
  cursor: crosshair }
#said { min-height: 3em; margin: .4rem 0; font-variant-numeric: tabular-nums;
  unicode-bidi: plaintext }
canvas:focus, button:focus, input:focus { outline: 2px solid #d55e00 }
small { color: var(--soft) } label { margin-right: 1rem } input { width: 6em; font: inherit }
button { font: inherit; margin-right: .3rem } button[aria-pressed=true] { font-weight: bold }
table { border-collapse: collapse; font-size: 13px } td, th { padding: 1px 8px; text-align: left }
</style>
</head>
<body>
<h1 id="about"></h1>
<p><span id="layers" role="group" aria-label="layers"></span>
<label>unit <input id="unit" type="number" min="0"></label>
<small>or click a row of a heat map; arrow keys there move the unit and the token</small></p>
<p id="said" aria-live="polite"></p>
<div id="text"></div>
<p><small>Colour of the text: <span id="what"></span> of the unit, −1 blue, 0 white, +1 red.</small></p>
<div id="parts"></div>
<p><small>Rows: units, the longest memory at the top. Columns: tokens. Gates: 0 dark (shut) to 1 yellow
 (open); signed parts: blue below 0, red above. Values are within 1/254 of their scale's end; they were
 computed again from the weights within <span id="difference"></span>.</small></p>
<details><summary>the unit as a table</summary><table id="twin"></table></details>
<script type="application/json" id="data">__DATA__</script>
<script>
"use strict";
const D = JSON.parse(document.getElementById("data").textContent);
const el = id => document.getElementById(id);
const bytes = text => Uint8Array.from(atob(text), c => c.charCodeAt(0));
const T = D.labels.length, memo = new Map();
let layer = D.start[0], unit = D.start[1], at = 0, canvases = [];
function values(l, p) {  // p < 0: what the text is coloured by
  const key = l + ":" + p;
  if (!memo.has(key)) memo.set(key, bytes(p < 0 ? D.layers[l].text : D.layers[l].parts[p].values));
  return memo.get(key);
}
const raw = (p, t, u) => values(layer, p)[t * D.layers[layer].units + u];
const number = (p, t, u) => {
  const part = D.layers[layer].parts[p], b = raw(p, t, u);
  return part.gate ? b / 255 : (b - 127) / 127 * part.top;
};
const css = c => "rgb(" + c.join(",") + ")";
const ink = c => (0.2126 * (c[0] / 255) ** 2.2 + 0.7152 * (c[1] / 255) ** 2.2 +
  0.0722 * (c[2] / 255) ** 2.2) > 0.18 ? "#000" : "#fff";
const spans = D.pieces.map((piece, t) => {
  const span = document.createElement("span");
  span.textContent = piece; span.onclick = () => { at = t; show(); };
  el("text").append(span);
  if (piece.endsWith("↵")) el("text").append(document.createElement("br"));
  return span;
});
function paintText() {
  spans.forEach((span, t) => {
    const c = D.signed[raw(-1, t, unit)];
    span.style.background = css(c); span.style.color = ink(c);
    span.className = t === at ? "here" : "";
  });
}
function picture(p) {
  const L = D.layers[layer], part = L.parts[p], v = values(layer, p);
  const image = new ImageData(T, L.units), colours = part.gate ? D.open : D.signed;
  for (let r = 0; r < L.units; r++) for (let t = 0; t < T; t++) {
    image.data.set([...colours[v[t * L.units + L.order[r]]], 255], 4 * (r * T + t));
  }
  const canvas = document.createElement("canvas");
  canvas.width = T; canvas.height = L.units; canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}
const across = () => Math.max(2, Math.min(16, Math.floor(1100 / T)));
const down = () => Math.max(1, Math.min(14, Math.floor(180 / D.layers[layer].units)));
function build() {
  const L = D.layers[layer];
  el("parts").textContent = ""; canvases = [];
  L.parts.forEach((part, p) => {
    const title = document.createElement("h2");
    title.textContent = part.name + ": " + part.meaning + (part.gate ? " (dark: 0, shut … bright: 1, open)" :
      " (blue: −" + part.top.toPrecision(2) + " … red: +" + part.top.toPrecision(2) + ")");
    const canvas = document.createElement("canvas");
    canvas.width = T * across(); canvas.height = L.units * down(); canvas.tabIndex = 0;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", part.name + " of all units over the text");
    const image = picture(p);
    canvas.onclick = event => {
      const box = canvas.getBoundingClientRect();
      at = Math.max(0, Math.min(T - 1, Math.floor((event.clientX - box.left) / across())));
      const row = Math.floor((event.clientY - box.top) / down());
      unit = L.order[Math.max(0, Math.min(L.units - 1, row))]; show();
    };
    canvas.onkeydown = move;
    el("parts").append(title, canvas); canvases.push([canvas, image]);
  });
  el("what").textContent = L.shown; el("difference").textContent = L.difference;
  el("unit").max = L.units - 1;
}
function move(event) {
  const L = D.layers[layer], row = L.order.indexOf(unit);
  const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  if (!by) return;
  event.preventDefault();
  unit = L.order[Math.max(0, Math.min(L.units - 1, row + by[0]))];
  at = Math.max(0, Math.min(T - 1, at + by[1])); show();
}
function paintParts() {
  const row = D.layers[layer].order.indexOf(unit);
  canvases.forEach(([canvas, image]) => {
    const g = canvas.getContext("2d");
    g.imageSmoothingEnabled = false; g.drawImage(image, 0, 0, canvas.width, canvas.height);
    g.strokeStyle = "#d55e00"; g.lineWidth = 1.5;
    g.strokeRect(0, row * down() - 1, canvas.width, down() + 2);
    g.strokeRect(at * across(), 0, across(), canvas.height);
  });
}
function say() {
  const L = D.layers[layer], follows = L.follows[unit];
  el("said").textContent = L.short + ".U" + unit + ": memory " + L.memory[unit] + " tokens" +
    (follows ? "; follows best: " + follows : "") + ". At “" + D.labels[at] + "” (position " + at +
    "): " + L.parts.map((part, p) => part.name + " " + number(p, at, unit).toFixed(2)).join(", ") + ".";
}
function twin() {
  const L = D.layers[layer], table = el("twin"), head = table.createTHead().insertRow();
  ["token", ...L.parts.map(part => part.name)].forEach(name => {
    const cell = document.createElement("th"); cell.textContent = name; head.append(cell);
  });
  for (let t = 0; t < T; t++) {
    const line = table.insertRow(); line.insertCell().textContent = t + " " + D.labels[t];
    L.parts.forEach((_, p) => { line.insertCell().textContent = number(p, t, unit).toFixed(2); });
  }
}
function show() {
  el("unit").value = unit; paintText(); paintParts(); say();
  el("twin").textContent = ""; if (el("twin").parentElement.open) twin();
}
el("twin").parentElement.ontoggle = show;
el("unit").oninput = () => {
  const wanted = Number(el("unit").value);
  if (Number.isInteger(wanted) && wanted >= 0 && wanted < D.layers[layer].units) {
    unit = wanted; show();
  }
};
const buttons = D.layers.map((L, l) => {
  const button = document.createElement("button");
  button.textContent = L.name; button.onclick = () => choose(l, L.order[0]);
  el("layers").append(button); return button;
});
function choose(l, u) {
  layer = l; unit = u;
  buttons.forEach((b, i) => b.setAttribute("aria-pressed", String(i === l)));
  build(); show();
}
el("about").textContent = D.about;
choose(layer, unit);
</script>
</body>
</html>
"""
