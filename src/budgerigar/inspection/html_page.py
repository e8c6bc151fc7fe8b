"""The page that `html.py` fills: one file, no framework, no request to anywhere."""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>__TITLE__</title>
<style>
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #fff; --soft: #767676; --line: #999 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #eee; --paper: #161616; --soft: #a0a0a0; --line: #777 } }
body { margin: 1rem; font: 15px/1.45 system-ui, "Noto Sans CJK SC", "Noto Sans SC", "PingFang SC",
  "Microsoft YaHei", sans-serif; color: var(--ink); background: var(--paper) }
h1 { font-size: 1.1rem; margin: 0 0 .5rem; unicode-bidi: plaintext }
#grid { display: flex; flex-wrap: wrap; gap: .4rem; margin-bottom: .8rem }
#grid h2 { flex-basis: 100%; font-size: .9rem; margin: .3rem 0 0 }
#grid button { font: inherit; font-size: 12px; color: inherit; background: none; padding: 3px;
  border: 2px solid transparent; cursor: pointer }
#grid button[aria-pressed=true] { border-color: #d55e00 }
#grid canvas { display: block; width: 64px; height: 64px; image-rendering: pixelated }
#map { max-width: 100%; overflow: auto }
#scale { width: 160px; height: 12px; vertical-align: middle }
#large:focus { outline: 2px solid #d55e00 }
#said { min-height: 3em; margin: .4rem 0; font-variant-numeric: tabular-nums;
  unicode-bidi: plaintext }
small { color: var(--soft) }
table { border-collapse: collapse; font-size: 13px } td, th { padding: 1px 8px; text-align: left }
</style>
</head>
<body>
<h1 id="about"></h1>
<div id="grid" role="group" aria-label="heads"></div>
<div id="map"><canvas id="large" tabindex="0" role="img"></canvas></div>
<p id="said" aria-live="polite"></p>
<p><small>Row: <span id="qa"></span>. Column: <span id="ka"></span>. Hatched: masked.
 Move with the mouse or the arrow keys. Numbers are within <span id="within"></span>.</small></p>
<p>weight 0 <canvas id="scale" width="256" height="1"></canvas> <span id="top"></span></p>
<details><summary>the same as a table</summary><table id="twin"></table></details>
<script type="application/json" id="data">__DATA__</script>
<script>
"use strict";
const D = JSON.parse(document.getElementById("data").textContent);
const el = id => document.getElementById(id);
const bytes = text => Uint8Array.from(atob(text), c => c.charCodeAt(0));
const masks = D.masks.map(bytes), memo = new Map();
// A translator has several kinds of attention, each with its own axes: A, of T rows and S columns.
const axes = h => D.axes[D.heads[h].axes];
const cells = h => axes(h).queries.length * axes(h).keys.length;
let head = 0, A = D.axes[0], T = A.queries.length, S = A.keys.length, row = T - 1, key = 0;
function weights(h) {
  if (!memo.has(h)) {
    const raw = bytes(D.heads[h].weights), out = new Float64Array(cells(h));
    const wide = D.full > 255;
    for (let i = 0; i < cells(h); i++) {
      out[i] = (wide ? raw[2 * i] + 256 * raw[2 * i + 1] : raw[i]) / D.full;
    }
    memo.set(h, out);
  }
  return memo.get(h);
}
const colour = w => D.colours[Math.min(255, Math.round(255 * w / D.top))];
function pixels(h) {
  const wide = axes(h).keys.length, high = axes(h).queries.length;
  const image = new ImageData(wide, high), w = weights(h), m = masks[D.heads[h].mask];
  for (let i = 0; i < wide * high; i++) {
    if (!m[i]) image.data.set([...colour(w[i]), 255], 4 * i);
  }
  const canvas = document.createElement("canvas");
  canvas.width = wide; canvas.height = high; canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}
function hatch(g, x, y, wide, high, step, line, thick = 0.6) {
  g.save(); g.beginPath(); g.rect(x, y, wide, high); g.clip();
  g.strokeStyle = line; g.lineWidth = thick; g.beginPath();
  for (let d = -high; d < wide; d += step) { g.moveTo(x + d, y + high); g.lineTo(x + d + high, y); }
  g.stroke(); g.restore();
}
const style = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const cut = s => { const c = [...s]; return c.length > 14 ? c.slice(0, 7).join("") + "…" +
  c.slice(-6).join("") : s; };
// Chinese and its kin are read with one character below the other.
const stacks = s => /^[\\u2e80-\\u9fff\\uf900-\\ufaff]{1,6}$/.test(s);
let cell = 20, left = 120, roof = 120;
function draw() {
  const canvas = el("large"), g = canvas.getContext("2d"), ratio = window.devicePixelRatio || 1;
  cell = Math.max(5, Math.min(30, Math.floor(640 / Math.max(T, S))));
  const font = Math.max(9, Math.min(13, cell - 2)), every = Math.ceil((font + 1) / cell);
  const family = font + "px " + getComputedStyle(document.body).fontFamily;
  g.font = family;
  left = 10 + Math.max(...A.queries.map(q => g.measureText(cut(q)).width));
  roof = 10 + Math.max(...A.keys.map(k =>
    stacks(k) ? k.length * font * 1.15 : g.measureText(cut(k)).width));
  const wide = left + S * cell + 4, high = roof + T * cell + 4;
  canvas.width = wide * ratio; canvas.height = high * ratio;
  canvas.style.width = wide + "px"; canvas.style.height = high + "px";
  g.scale(ratio, ratio); g.font = family; g.fillStyle = style("--ink");
  hatch(g, left, roof, S * cell, T * cell, 7, style("--line"));
  g.imageSmoothingEnabled = false;
  g.drawImage(pixels(head), left, roof, S * cell, T * cell);
  g.textBaseline = "middle"; g.textAlign = "right";
  for (let q = 0; q < T; q++) if (q === row || (q % every === 0 && Math.abs(q - row) >= every)) {
    g.globalAlpha = q === row ? 1 : 0.75;
    g.fillText(cut(A.queries[q]), left - 5, roof + (q + 0.5) * cell);
  }
  g.textAlign = "left";
  for (let k = 0; k < S; k++) if (k === key || (k % every === 0 && Math.abs(k - key) >= every)) {
    g.globalAlpha = k === key ? 1 : 0.75;
    g.save(); g.translate(left + (k + 0.5) * cell, roof - 5);
    if (stacks(A.keys[k])) {
      g.textAlign = "center";
      [...A.keys[k]].reverse().forEach((c, i) => g.fillText(c, 0, -(i + 0.5) * font * 1.15));
    } else { g.rotate(-Math.PI / 2); g.fillText(cut(A.keys[k]), 0, 0); }
    g.restore();
  }
  g.globalAlpha = 1; g.strokeStyle = "#d55e00"; g.lineWidth = 2;
  g.strokeRect(left + key * cell, roof + row * cell, cell, cell);
  g.lineWidth = 0.7;
  g.strokeRect(left, roof + row * cell, S * cell, cell);
  g.strokeRect(left + key * cell, roof, cell, T * cell);
  say(canvas);
}
function say(canvas) {
  const w = weights(head), at = row * S + key, why = masks[D.heads[head].mask][at];
  let sum = 0; for (let k = 0; k < S; k++) sum += w[row * S + k];
  const number = why ? D.reasons[why] + ", weight exactly 0" :
    "weight " + w[at].toFixed(D.full > 255 ? 5 : 3);
  el("said").textContent = D.heads[head].name + ": “" + A.queries[row] + "” (position " + row +
    ") looks at “" + A.keys[key] + "” (position " + key + "): " + number +
    ". This row sums to " + sum.toFixed(D.full > 255 ? 4 : 1) + ".";
  canvas.setAttribute("aria-label", el("said").textContent);
}
function twin() {
  const w = weights(head), table = el("twin"); table.textContent = "";
  for (let q = 0; q < T; q++) {
    const order = [...A.keys.keys()].sort((a, b) => w[q * S + b] - w[q * S + a]).slice(0, 3);
    const line = table.insertRow();
    line.insertCell().textContent = q + " " + A.queries[q];
    line.insertCell().textContent = "looks most at " + order.map(k =>
      A.keys[k] + " " + w[q * S + k].toFixed(3)).join(", ");
  }
}
function choose(h) {
  head = h;
  if (A !== axes(h)) {
    A = axes(h); T = A.queries.length; S = A.keys.length;
    row = Math.min(row, T - 1); key = Math.min(key, S - 1);
  }
  el("qa").textContent = A.queryAxis; el("ka").textContent = A.keyAxis;
  buttons.forEach((b, i) => b.setAttribute("aria-pressed", String(i === h)));
  draw(); twin();
}
const buttons = [];
D.heads.forEach((h, i) => {
  if (D.axes.length > 1 && (i === 0 || axes(i) !== axes(i - 1))) {
    const title = document.createElement("h2");
    title.textContent = axes(i).title; el("grid").append(title);
  }
  const button = document.createElement("button"), canvas = pixels(i);
  const shown = document.createElement("canvas"); shown.width = shown.height = 128;
  const g = shown.getContext("2d"); g.imageSmoothingEnabled = false;
  hatch(g, 0, 0, 128, 128, 16, "#999", 3); g.drawImage(canvas, 0, 0, 128, 128);
  button.append(shown, h.short); button.onclick = () => choose(i); el("grid").append(button);
  buttons.push(button);
});
const large = el("large");
large.onmousemove = event => {
  const box = large.getBoundingClientRect();
  const k = Math.floor((event.clientX - box.left - left) / cell);
  const q = Math.floor((event.clientY - box.top - roof) / cell);
  if (k >= 0 && k < S && q >= 0 && q < T && (k !== key || q !== row)) { row = q; key = k; draw(); }
};
large.onkeydown = event => {
  const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const by = move[event.key];
  if (event.key === "[" || event.key === "]") {
    choose((head + (event.key === "]" ? 1 : D.heads.length - 1)) % D.heads.length);
  }
  if (!by) return;
  event.preventDefault();
  row = Math.max(0, Math.min(T - 1, row + by[0])); key = Math.max(0, Math.min(S - 1, key + by[1]));
  draw();
};
el("about").textContent = D.about; el("top").textContent = D.top;
el("within").textContent = D.full > 255 ? "0.00001" : "0.002";
const ramp = new ImageData(256, 1);
D.colours.forEach((c, i) => ramp.data.set([...c, 255], 4 * i));
el("scale").getContext("2d").putImageData(ramp, 0, 0);
if (D.heads.length) {
  const last = weights(0).subarray((T - 1) * S);
  key = last.indexOf(Math.max(...last));
  choose(0);
}
</script>
</body>
</html>
"""
