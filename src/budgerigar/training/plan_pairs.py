"""The plan that is made for sentence pairs without a recipe: an encoder-decoder for corpus and time.

The kind of model and its training are those of the recipe `multi30k`; size, batch, passes and dropout
follow from how many pairs there are and how fast this machine is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from budgerigar.training.asked import refuse_untrainable
from budgerigar.training.corpora import gather_corpus, make_batches, model_config
from budgerigar.training.device import choose_compute
from budgerigar.training.fine_tuning import with_vocabularies
from budgerigar.training.forecast import measure_speed
from budgerigar.training.given import Given
from budgerigar.training.memory import check_memory
from budgerigar.training.plan_parts import (
    DEFAULT_MINUTES,
    Plan,
    counted,
    heads_that_fit,
    in_minutes,
    shape_of,
    slower_when_going_on,
    why_so_long,
)
from budgerigar.training.recipe import Recipe, flat, load_recipe, override
from budgerigar.training.timing import SHARE_FOR_STEPS, measure_steps, settle_threads

# (d_model, layers of each stack, n_heads), from 0.2 to 44 million parameters inside the layers.
SIZES = (
    (64, 2, 2), (96, 2, 4), (128, 3, 4), (192, 4, 4), (256, 4, 4), (384, 5, 6), (512, 6, 8),
)  # fmt: skip
TOKENS_PER_PARAMETER = 1.5  # target tokens read for each weight in the layers; a model that reads
# fewer is larger than its time allows
PARAMETERS_PER_TOKEN = 10.0  # of different text; dropout takes care of models up to there
MOST_PASSES = 60  # over a small corpus, with dropout


def wants_pairs(settings: Mapping[str, Any] | None, given: Given, start_from: Any) -> bool:
    """Whether a training without a recipe is one of sentence pairs."""
    if given.has_pairs:
        return True
    if start_from is not None and start_from.config.get("text", {}).get("pairs"):
        return True
    corpus = flat(settings).get("corpus")
    if corpus is None or corpus == "stories":
        return bool(flat(settings).get("assembly") == "encoder-decoder" and not given)
    from budgerigar.text.catalogue import entry

    return not given and entry(str(corpus)).kind == "pairs"


def make_pair_plan(
    given: Given,
    *,
    corpus: Any = None,
    minutes: float | None = None,
    settings: Mapping[str, Any] | None = None,
    start_from: Any = None,
) -> Plan:
    """Decide everything that `settings` leave open, as `plan.make_plan` does for a text."""
    budget = minutes if minutes is not None else DEFAULT_MINUTES
    base = override(_base_recipe(), settings)
    refuse_untrainable(base, given)
    kept = (None, None)
    if start_from is not None:
        base = with_vocabularies(base, start_from)
        kept = (start_from.tokenizer, start_from.source_tokenizer)
    if corpus is None:
        corpus = gather_corpus(base.text, given, kept[0], kept[1], pairs=True)
    speed = measure_speed()
    model = _shape(corpus, budget, speed) if start_from is None else shape_of(start_from)
    recipe = override(base, {"model": model, "training": _batch(corpus)}, settings)
    recipe = heads_that_fit(recipe, settings)
    if start_from is not None:
        recipe = slower_when_going_on(recipe, settings)
    return _settled(recipe, corpus, budget, speed, settings, minutes is None)


def _base_recipe() -> Recipe:
    """What is the same in every plan."""
    recipe = load_recipe("multi30k")
    text: dict[str, Any] = {"corpus": None, "tokenizer": "auto", "vocab_size": None}
    text |= {"vocabulary": "auto"}
    text |= {"source_language": None, "target_language": None}
    training = {"steps": None, "minutes": None, "threads": "auto"}
    return recipe.replace(about="planned by budgie train", text=text, training=training)


def _shape(corpus: Any, minutes: float, speed: float) -> dict[str, Any]:
    """As large as time and text allow. A target token with its source costs 6 operations for each
    weight in the layers and in the output layer."""
    arithmetic = speed * 60 * minutes * SHARE_FOR_STEPS
    most = PARAMETERS_PER_TOKEN * corpus.train.n_tokens
    fitting = [SIZES[0]]
    for size in SIZES[1:]:
        inner = inner_parameters(size)
        tokens = arithmetic / (6 * (inner + corpus.tokenizer.vocab_size * size[0]))
        if inner <= most and tokens >= TOKENS_PER_PARAMETER * inner:
            fitting.append(size)
    d_model, n_layers, n_heads = fitting[-1]
    return {
        "d_model": d_model,
        "n_layers": n_layers,
        "n_encoder_layers": n_layers,
        "n_decoder_layers": n_layers,
        "n_heads": n_heads,
        "d_ff": 4 * d_model,
    }


def inner_parameters(size: tuple[int, int, int]) -> int:
    """Weights inside both stacks: 12 d_model^2 per encoder layer, 16 per decoder layer."""
    d_model, n_layers, _ = size
    return 28 * n_layers * d_model**2


def _batch(corpus: Any) -> dict[str, Any]:
    """Tokens of a step: small corpora want many small steps."""
    tokens = corpus.train.n_tokens
    per_step = 1024 if tokens < 100_000 else 2048 if tokens < 300_000 else 4096
    return {"batch_tokens": per_step}


def _settled(
    recipe: Recipe,
    corpus: Any,
    minutes: float,
    speed: float,
    settings: Mapping[str, Any] | None,
    by_default: bool,
) -> Plan:
    """Measure steps of the model that was decided, and settle how many there are."""
    from budgerigar import models

    config = model_config(recipe, corpus)
    compute = choose_compute(recipe.training)
    check_memory(config, recipe.training, compute.device)
    network = models.build(config, seed=recipe.training.seed).to(compute.device)
    batches = make_batches(recipe, corpus, network)
    threads = settle_threads(network, batches, recipe.training, compute)
    step = measure_steps(network, batches, recipe.training, compute, seconds=2.0)
    possible = max(int(60 * SHARE_FOR_STEPS * minutes / step.seconds), 1)
    useful = max(math.ceil(MOST_PASSES * corpus.train.n_tokens / step.tokens), 20)
    asked = recipe.training.steps
    steps = asked if asked is not None else min(possible, useful)
    passes = steps * step.tokens / corpus.train.n_tokens
    changes = _habits(recipe, corpus, steps, minutes, step.tokens / step.seconds)
    recipe = override(recipe, {"training": changes, "model": _dropout(recipe, passes)}, settings)
    plan = Plan(
        recipe,
        corpus,
        sum(p.numel() for p in network.parameters()),
        steps,
        steps * step.seconds / 60 / SHARE_FOR_STEPS,
        passes,
        step.tokens / step.seconds,
        {},
        threads,
        math.nan,
    )
    why = why_so_long(asked is not None, steps < possible, by_default)
    plan.reasons = _reasons(plan, config, speed, why)
    return plan


def _habits(
    recipe: Recipe, corpus: Any, steps: int, minutes: float, per_second: float
) -> dict[str, Any]:
    """How often to evaluate, in about a tenth of the minutes: losses run three times faster than
    training, greedy translations of as many tokens a few times slower."""
    sentences = min(200, corpus.validation.n_pairs)
    mean = corpus.validation.n_tokens / corpus.validation.n_pairs
    once = (corpus.validation.n_tokens / 3 + 5 * sentences * mean) / per_second
    times = min(max(int(0.1 * 60 * minutes / once), 4), 15)
    every = math.ceil(steps / times)
    warmup = min(recipe.training.warmup_steps, max(steps // 10, 1))
    return {
        "steps": steps,
        "warmup_steps": warmup,
        "evaluate_every": every,
        "sample_every": math.ceil(steps / 5),
        "checkpoint_every": every,
        "bleu_sentences": sentences,
        "patience": 6 if steps >= 100 else None,
    }


def _dropout(recipe: Recipe, passes: float) -> dict[str, float]:
    """The recipe's, which many passes over few pairs need; less where pairs are seen a few times."""
    share = 1.0 if passes > 8 else 0.5 if passes > 3 else 0.25
    names = ("dropout_embedding", "dropout_residual", "dropout_ff")
    return {name: round(share * recipe.model[name], 3) for name in names if name in recipe.model}


def _reasons(plan: Plan, config: Any, speed: float, why: str) -> dict[str, str]:
    t, corpus = plan.recipe.training, plan.corpus
    layers = ""
    if hasattr(config, "encoder_layers"):
        layers = (
            f": {config.encoder_layers}+{config.decoder_layers} layers, "
            f"{counted(config.n_heads, 'head')}, {config.d_model} wide"
        )
    languages = (corpus.source_language or "source", corpus.target_language or "target")
    return {
        "machine": f"{speed / 1e9:,.0f} billion operations a second in training",
        "pairs": f"{corpus.train.n_pairs:,} to learn from, {corpus.validation.n_pairs:,} held out, "
        f"{languages[0]} to {languages[1]}",
        "model": f"{plan.parameters:,} parameters{layers}",
        "training": f"{counted(plan.steps, 'step')} of up to {t.batch_tokens:,} tokens a side, "
        f"{plan.epochs:.1f} passes over the pairs, {plan.tokens_per_second:,.0f} target tokens a "
        "second",
        "time": f"about {in_minutes(plan.minutes)}{why}",
        "to expect": "no forecast: what a translation gains depends on the languages; BLEU of "
        f"{t.bleu_sentences:,} held-out sentences is shown at each evaluation",
    }
