"""The plan that `budgie train FILE` makes when it is given no recipe: what, how large, how long.

Everything follows from three things: the text, the minutes, and this machine's speed, measured for
about a second. Each decision is kept with its reason; `Plan.text()` is what the user reads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from budgerigar.errors import UserError
from budgerigar.training.asked import refuse_untrainable
from budgerigar.training.corpora import gather_corpus, make_batches, measure_baselines
from budgerigar.training.device import choose_compute
from budgerigar.training.forecast import expected_loss, measure_speed
from budgerigar.training.given import Given, Paths
from budgerigar.training.memory import check_memory
from budgerigar.training.plan_pairs import make_pair_plan, wants_pairs
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
from budgerigar.training.timing import SHARE_FOR_STEPS, settle_threads, steps_for_minutes

# (d_model, n_layers, n_heads), from 0.1 to 85 million parameters inside the layers.
SIZES = (
    (64, 2, 2), (96, 4, 3), (128, 4, 4), (192, 4, 6), (256, 6, 8), (384, 6, 6), (512, 8, 8),
    (768, 12, 12),
)  # fmt: skip

TOKENS_PER_PARAMETER = 12  # between what trains best from scratch (Hoffmann et al. 2022: 20) and
# what small texts can give; a model that sees fewer is larger than its time allows
PARAMETERS_PER_TOKEN = 3.0  # of different text; beyond this a model learns it by heart
SHORT_TEXT = 100_000  # tokens


def make_plan(
    files: Given | Paths = (),
    *,
    corpus: Any = None,
    minutes: float | None = None,
    settings: Mapping[str, Any] | None = None,
    start_from: Any = None,
) -> Plan:
    """Decide everything that `settings` leave open.

    Args:
        files: the text, or a `Given`; or `corpus`, one prepared already.
        minutes: time budget; None: 10.
        settings: what the user has decided, as `recipe.override` takes it.
        start_from: a `Loaded` run whose vocabulary and shape are kept.

    Raises:
        UserError: nothing to learn from, or settings that cannot be used.
    """
    given = files if isinstance(files, Given) else Given(files)
    if wants_pairs(settings, given, start_from):
        return make_pair_plan(
            given, corpus=corpus, minutes=minutes, settings=settings, start_from=start_from
        )
    budget = minutes if minutes is not None else DEFAULT_MINUTES
    base = override(_base_recipe(), settings)
    refuse_untrainable(base, given)
    if corpus is None:
        tokenizer = None if start_from is None else start_from.tokenizer
        corpus = gather_corpus(base.text, given, tokenizer)
    if corpus.train.n_tokens < 2:
        raise UserError(
            f"The text has only {corpus.train.n_tokens} tokens to train on; at least 2 are needed "
            "to learn what follows what. Give a longer text."
        )
    speed = measure_speed()
    model = _shape(corpus, budget, speed) if start_from is None else shape_of(start_from)
    training = _training(corpus, int(model["context_length"]))
    recipe = override(base, {"model": model, "training": training}, settings)
    recipe = heads_that_fit(_rates(recipe, settings, start_from is not None), settings)
    return _settled(recipe, corpus, budget, speed, settings, minutes is None)


def _base_recipe() -> Recipe:
    """What is the same in every plan: the modern small model of the recipe `shakespeare`."""
    recipe = load_recipe("shakespeare")
    text = {"corpus": None, "tokenizer": "auto", "documents": "auto"}
    return recipe.replace(
        about="planned by budgie train", text=text, training={"steps": None, "minutes": None}
    )


def _rates(recipe: Recipe, settings: Mapping[str, Any] | None, going_on: bool) -> Recipe:
    """Learning rates that suit what the user chose: AdamW for all, or weights already trained."""
    given = flat(settings)
    training = recipe.training
    if training.optimizer == "adamw" and "learning_rate" not in given:
        plain: dict[str, Any] = {"learning_rate": 2e-3, "weight_decay": 0.1, "clip": 1.0}
        plain |= {"embedding_learning_rate": None, "head_learning_rate": None, "epsilon": 1e-8}
        recipe = recipe.replace(training={k: v for k, v in plain.items() if k not in given})
    return slower_when_going_on(recipe, settings) if going_on else recipe


# -- decisions ----------------------------------------------------------------------------------


def _shape(corpus: Any, minutes: float, speed: float) -> dict[str, Any]:
    """Size and context: as large as time and text allow."""
    arithmetic = speed * 60 * minutes * SHARE_FOR_STEPS
    by_time = math.sqrt(arithmetic / (6 * TOKENS_PER_PARAMETER))
    by_text = PARAMETERS_PER_TOKEN * corpus.train.n_tokens
    most = min(by_time, by_text)
    fitting = [size for size in SIZES if inner_parameters(size) <= most]
    d_model, n_layers, n_heads = fitting[-1] if fitting else SIZES[0]
    context = _context(corpus, d_model)
    return {
        "d_model": d_model,
        "n_layers": n_layers,
        "n_heads": n_heads,
        "context_length": context,
        # A large vocabulary has most of the weights in its embeddings: then one matrix for both.
        "tied_embeddings": corpus.tokenizer.vocab_size > 512,
    }


def inner_parameters(size: tuple[int, int, int]) -> int:
    """Weights inside the layers: 12 d_model^2 each."""
    d_model, n_layers, _ = size
    return 12 * n_layers * d_model**2


def _context(corpus: Any, d_model: int) -> int:
    """A power of two: documents should mostly fit, larger models can use more."""
    wanted = 64 if d_model < 96 else 128 if d_model < 384 else 256
    if corpus.n_documents:
        mean = corpus.train.n_tokens / max(0.9 * corpus.n_documents, 1)
        wanted = min(max(2 ** math.ceil(math.log2(max(1.5 * mean, 2))), 64), 256)
    return max(min(wanted, corpus.train.n_tokens - 1), 1)


def _training(corpus: Any, context: int) -> dict[str, Any]:
    """Batch: about 500 to 1,000 tokens a step for small texts, up to 8,000 for large ones.

    A short text of many different characters is learnt by heart through its embeddings: there
    decay is strong. 320 Chinese poems: 5.47 nats per token without it and 1,024 tokens a step,
    5.33 with 512, 5.24 with 13 passes; 24,000 characters of English gain from the small steps
    and the passes alone (2.08 to 1.98; with decay 2.02).
    """
    tokens = corpus.train.n_tokens
    short = tokens < SHORT_TEXT
    per_step = 1024 if tokens < 3_000_000 else 2048 if tokens < 30_000_000 else 8192
    changes: dict[str, Any] = {"batch_size": max((512 if short else per_step) // context, 1)}
    if short and corpus.tokenizer.vocab_size > 512:
        changes |= {"weight_decay": 1.0, "muon_weight_decay": 0.5}
    return changes


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

    config = recipe.model_config(corpus.tokenizer.vocab_size)
    compute = choose_compute(recipe.training)
    check_memory(config, recipe.training, compute.device)
    network = models.build(config, seed=recipe.training.seed).to(compute.device)
    batches = make_batches(recipe, corpus, network)
    t = recipe.training
    per_step = t.batch_size * t.accumulate * config.context_length
    threads = settle_threads(network, batches, t, compute)
    possible = steps_for_minutes(
        SHARE_FOR_STEPS * minutes, network, batches, t, compute, seconds=1.0
    )
    useful = max(math.ceil(useful_epochs(corpus, config) * corpus.train.n_tokens / per_step), 20)
    steps = t.steps if t.steps is not None else min(possible, useful)
    per_second = possible * per_step / (60 * SHARE_FOR_STEPS * minutes)
    epochs = steps * per_step / corpus.train.n_tokens
    lines = measure_baselines(recipe, corpus, config.context_length)
    evaluations, evaluation_tokens = _evaluations(corpus, minutes, per_second)
    changes = {
        "steps": steps,
        "evaluate_every": math.ceil(steps / evaluations),
        "sample_every": math.ceil(steps / 5),
        "patience": 6 if steps >= 100 else None,
        "evaluation_tokens": evaluation_tokens,
    }
    recipe = override(
        recipe, {"training": changes, "model": _dropout(corpus, config, epochs)}, settings
    )
    plan = Plan(
        recipe,
        corpus,
        sum(p.numel() for p in network.parameters()),
        steps,
        steps * per_step / per_second / 60 / SHARE_FOR_STEPS,
        epochs,
        per_second,
        lines,
        threads,
        expected_loss(lines, steps * per_step, corpus.train.n_tokens),
    )
    asked = "steps" in flat(settings)
    plan.reasons = _reasons(plan, config, speed, why_so_long(asked, steps < possible, by_default))
    return plan


def useful_epochs(corpus: Any, config: Any) -> float:
    """Passes over the text after which a model of this size mostly learns it by heart.

    Seen here: with what `_training` does for short texts, 98,000 parameters in layers go on gaining
    from 23,000 tokens for 13 passes and more, 786,000 from a million tokens for about 20; never more
    than 30 (Muennighoff et al. 2023).
    """
    inner = inner_parameters((config.d_model, config.n_layers, config.n_heads))
    return min(max(16 * (corpus.train.n_tokens / inner) ** 0.8, 13.0), 30.0)


def _dropout(corpus: Any, config: Any, epochs: float) -> dict[str, float]:
    """Against learning a text by heart that is read several times; on the cheap places."""
    inner = inner_parameters((config.d_model, config.n_layers, config.n_heads))
    short = corpus.train.n_tokens < inner
    rate = 0.2 if short and epochs > 2 else 0.1 if epochs > 8 else 0.0
    return {"dropout_residual": rate} if rate else {}


def _evaluations(corpus: Any, minutes: float, per_second: float) -> tuple[int, int | None]:
    """How often to evaluate, and on how many tokens (None: on all), in a tenth of the minutes.

    Evaluating runs about three times faster than training. The whole split up to 20 times where
    that can be afforded 4 times; else 4 times its beginning.
    """
    tokens, affordable = corpus.validation.n_tokens, int(0.1 * 60 * minutes * 3 * per_second)
    if affordable >= 4 * tokens:
        return min(affordable // tokens, 20), None
    return 4, max(affordable // 4, 2000)


def _reasons(plan: Plan, config: Any, speed: float, why_so_long: str) -> dict[str, str]:
    t, corpus = plan.recipe.training, plan.corpus
    context = f"{config.context_length} tokens"
    if config.context_length == corpus.train.n_tokens - 1:
        context += ", because the training text has no more"
    return {
        "machine": f"{speed / 1e9:,.0f} billion operations a second in training",
        "model": f"{plan.parameters:,} parameters: {counted(config.n_layers, 'layer')}, "
        f"{counted(config.n_heads, 'head')}, {config.d_model} wide",
        "context": context,
        "training": f"{counted(plan.steps, 'step')} of {t.batch_size * config.context_length:,} "
        f"tokens, {plan.epochs:.1f} passes over the text, {plan.tokens_per_second:,.0f} tokens a "
        "second",
        "time": f"about {in_minutes(plan.minutes)}{why_so_long}",
        "to expect": _to_expect(plan),
    }


def _to_expect(plan: Plan) -> str:
    if not plan.baselines:
        return "not forecast: that needs the n-grams, which --no-baselines leaves out"
    loss, name = min((v, k) for k, v in plan.baselines.items())
    return (
        f"a loss of about {plan.expected_loss:.2f} nats per token, the "
        f"{name.replace(', streaming', ' (streaming)')} has {loss:.2f} (forecast from that and the "
        "number of tokens; give or take 10 %)"
    )
