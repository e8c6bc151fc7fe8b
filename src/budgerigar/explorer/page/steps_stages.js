// The steps of attention that a model has, in their order: a name, a sentence and an equation for each, with this
// model's own sizes (Vaswani et al. 2017, section 3.2; Bahdanau et al. 2015 for additive attention).

import { number } from "./dom.js";
import { t } from "./i18n.js";

/** What W_Q reads: x̂ after a norm, else x; what W_K and W_V read: the same rows, or y of an encoder. */
export function symbols(answer) {
  const own = answer.normed ? "x̂" : "x";
  return { own, other: answer.key_side === "source" ? "y" : own };
}

/** The number that scores are divided by or multiplied with, in words. */
export function scaleWords({ scale, sizes }) {
  const root = Math.sqrt(sizes.d_head);
  if (Math.abs(scale.factor - 1 / root) < 1e-9) return t("steps.scale.root", { width: sizes.d_head, root: number(root, 3) });
  if (scale.factor === 1) return t("steps.scale.one");
  return t("steps.scale.other", { factor: number(scale.factor, 4) });
}

function vectorsEquation(answer) {
  const { own, other } = symbols(answer);
  const parts = [`q = W_Q ${own}`, `kⱼ = W_K ${other}ⱼ`];
  if (answer.W_V) parts.push(`vⱼ = W_V ${other}ⱼ`);
  return parts.join("     ");
}

function streamEquation(answer) {
  const added = answer.after_norm ? "norm(a)" : "a";
  const parts = [answer.residual ? "x" : null, added, answer.feed_forward ? "FFN" : null].filter(Boolean).join(" + ");
  return answer.norm_place === "post" ? `x′ = norm(${parts})` : `x′ = ${parts}`;
}

/** [{id, short, title, words, equation}] of the steps that this attention has. */
export function stagesOf(answer) {
  const { additive, sizes } = answer;
  const found = [{ id: "vectors", short: additive ? "q k" : "q k v", equation: vectorsEquation(answer),
    words: t(answer.key_side === "source" ? "steps.vectors.cross" : "steps.vectors.words") }];
  const add = (id, equation, words = t(`steps.${id}.words`)) => found.push({ id, equation, words });
  if (additive) add("compare", "sⱼ = v · tanh(q + kⱼ)", t("steps.compare.additive"));
  else add("compare", `sⱼ = q · kⱼ = q₁kⱼ₁ + q₂kⱼ₂ + … (${sizes.d_head})`);
  if (answer.scale) add("scale", answer.scale.factor === 1 ? "sⱼ" : `sⱼ ${answer.scale.heading}`, `${scaleWords(answer)} ${t("steps.scale.words")}`);
  if (answer.capped) add("cap", `${answer.softcap} · tanh(sⱼ ÷ ${answer.softcap})`);
  if (answer.biased) add("bias", "sⱼ + b(i − j)");
  add("mask", "sⱼ = −∞   ⇒   exp(sⱼ) = 0");
  add("softmax", answer.sink ? "wⱼ = exp(sⱼ) ÷ (exp(s₁) + … + exp(sₙ) + exp(sink))" : "wⱼ = exp(sⱼ) ÷ (exp(s₁) + … + exp(sₙ))");
  add("values", "z = w₁v₁ + w₂v₂ + … + wₙvₙ", t(additive ? "steps.values.additive" : "steps.values.words"));
  if (answer.contribution) add("output", "W_O z", t("steps.output.words", { heads: sizes.n_heads }));
  if (answer.after) add("stream", streamEquation(answer), t(answer.residual ? "steps.stream.words" : "steps.stream.alone"));
  return found.map((stage) => ({ short: t(`steps.${stage.id}.short`), title: t(`steps.${stage.id}.title`), ...stage }));
}

/** The columns of numbers beside the keys: [{id, stage, values, heading}]. */
export function columnsOf(answer) {
  const found = [{ id: "score", stage: "compare", values: answer.scores.data, heading: answer.additive ? "v·tanh(q+k)" : "q·k" }];
  if (answer.scale) found.push({ id: "scaled", stage: "scale", values: answer.scaled.data, heading: answer.scale.heading });
  if (answer.capped) found.push({ id: "capped", stage: "cap", values: answer.capped.data, heading: t("steps.cap.short") });
  if (answer.biased) found.push({ id: "biased", stage: "bias", values: answer.biased.data, heading: t("steps.bias.heading") });
  found.push({ id: "masked", stage: "mask", values: found[found.length - 1].values, heading: t("steps.mask.short") });
  return [...found, { id: "weight", stage: "softmax", values: answer.weights.data, heading: t("steps.softmax.short") }];
}
