"""Who takes part in a comparison, how large, and how long each learns.

Equal time: every network gets the same minutes, in the size its recipe (the GPT: the plan of `budgie
train`) gives it. Equal parameters: the same number of weights each. Or the same number of tokens
read. The n-gram takes the order and smoothing that do best on the end of the training text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from budgerigar.errors import UserError
from budgerigar.experiments.seeds import seed_problem
from budgerigar.training.corpora import make_batches, window_length
from budgerigar.training.device import choose_compute
from budgerigar.training.plan import make_plan
from budgerigar.training.recipe import Recipe, TextRecipe, load_recipe
from budgerigar.training.timing import SHARE_FOR_STEPS, settle_threads, steps_for_minutes

RECIPES = {
    "ngram": "ngram",
    "feed-forward": "feed-forward",
    "rnn": "rnn",
    "lstm": "lstm",
    "gru": "gru",
    "gpt": "shakespeare",
}
MODELS = tuple(RECIPES)
DEFAULT_MODELS = ("ngram", "feed-forward", "rnn", "lstm", "gpt")
DEFAULT_MINUTES = 5.0
MOST_PASSES = 30.0  # over a text; more teach it by heart (Muennighoff et al. 2023)
EVALUATIONS = 16
PATIENCE = 6  # evaluations without a better one, and a training ends: it learns by heart
STEADY = 20  # steps between evaluations from which on that can be told
CURVE_TOKENS = 50_000  # of the validation split: what the curves are measured on
LARGE_VOCABULARY = 512  # beyond, the output layer would hold most of the weights


@dataclass(frozen=True)
class Asked:
    """What was asked for: the same comparison again has the same."""

    models: tuple[str, ...] = DEFAULT_MODELS
    minutes: float | None = None
    """of training for each network; None: 5, unless `passes` are given"""
    parameters: int | None = None
    """weights of each network; None: as its recipe or plan says"""
    passes: float | None = None
    """over the training text, for each network: the same tokens read"""
    context_length: int = 256
    """tokens of an evaluation window, for all; and the Transformer's context"""
    seed: int = 1
    device: str = "auto"
    threads: str | int = "auto"

    def validate(self) -> Asked:
        """Return self, or raise one `UserError` that lists all that is wrong."""
        unknown = [name for name in self.models if name not in RECIPES]
        wrong = [f"there is no model {name!r} to compare: {', '.join(MODELS)}" for name in unknown]
        if not self.models:
            wrong.append(f"no model is named; choose from {', '.join(MODELS)}")
        if len(set(self.models)) < len(self.models):
            wrong.append("a model is named twice")
        for name in ("minutes", "parameters", "passes"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                wrong.append(f"{name} = {value} must be more than 0")
        if self.minutes is not None and self.passes is not None:
            wrong.append("minutes and passes both say how long to train; give one of them")
        wrong += [problem] if (problem := seed_problem(self.seed)) else []
        if self.context_length < 2:
            wrong.append(f"context_length = {self.context_length} must be at least 2")
        if wrong:
            raise UserError("this cannot be compared:\n" + "\n".join(f"  - {w}" for w in wrong))
        return self

    @property
    def budget(self) -> float | None:
        """Minutes of training per network; None where the passes decide."""
        return self.minutes if self.passes is not None else self.minutes or DEFAULT_MINUTES


def network_recipe(name: str, text: TextRecipe, corpus: Any, asked: Asked) -> Recipe:
    """The recipe of a network, its size and number of steps settled."""
    recipe = _gpt(text, corpus, asked) if name == "gpt" else _ancestor(name, corpus)
    if asked.parameters is not None:
        recipe = recipe.replace(model=fitting(recipe, corpus, asked.parameters))
    training: dict[str, Any] = {"seed": asked.seed, "device": asked.device, "sample_every": 0}
    training |= {"baselines": False, "threads": asked.threads}
    training["evaluation_tokens"] = min(corpus.validation.n_tokens, CURVE_TOKENS)
    recipe = recipe.replace(text=text, training=training)
    return _with_steps(recipe, corpus, asked)


def _ancestor(name: str, corpus: Any) -> Recipe:
    """Recipes are for characters: with a large vocabulary the output layer is made narrow, and for a
    short text a step reads less, so that there are steps enough."""
    recipe = load_recipe(RECIPES[name])
    training, tokens = recipe.training, corpus.train.n_tokens
    if corpus.tokenizer.vocab_size > LARGE_VOCABULARY:
        narrow: dict[str, Any] = {"d_hidden": 256}
        if recipe.kind == "recurrent":
            narrow = {"d_embedding": 128, "d_output": 128, "tied_embeddings": True}
        recipe = recipe.replace(model=narrow)
    length = min(window_length(training, None), max(tokens - 1, 1))
    rows = min(training.batch_size, max(tokens // (100 * length), 4))
    return recipe.replace(training={"batch_size": rows})


def _gpt(text: TextRecipe, corpus: Any, asked: Asked) -> Recipe:
    """The plan that `budgie train` would make for these minutes; else the small modern model."""
    context = min(asked.context_length, corpus.train.n_tokens - 1)
    if asked.parameters is None and asked.budget is not None:
        settings = {"context_length": context, "seed": asked.seed, "baselines": False}
        settings |= {"threads": asked.threads, "device": asked.device}
        return make_plan(corpus=corpus, minutes=asked.budget, settings=settings).recipe
    tied = corpus.tokenizer.vocab_size > LARGE_VOCABULARY
    rows = max(1024 // context, 1)
    return load_recipe("shakespeare").replace(
        text=text,
        model={"context_length": context, "tied_embeddings": tied},
        training={"batch_size": rows},
    )


# -- equal parameters ----------------------------------------------------------------------------


def fitting(recipe: Recipe, corpus: Any, wanted: int) -> dict[str, Any]:
    """The widths with which the recipe's model comes nearest to `wanted` weights."""
    vocab_size = corpus.tokenizer.vocab_size

    def counted(changes: dict[str, Any]) -> int:
        return count_parameters(recipe.model_config(vocab_size, **changes))

    if recipe.kind != "transformer":
        return widest("d_hidden", 8, wanted, counted)
    found: list[tuple[float, float, int, dict[str, Any]]] = []
    for width in range(32, 1025, 32):
        shape = {"d_model": width, "n_heads": width // 32}
        if counted({**shape, "d_ff": width}) > wanted and found:
            break
        chosen = {**shape, **widest("d_ff", 8, wanted, partial(_counted_with, counted, shape))}
        # the nearest to the wanted number; among equals the one closest to d_ff = 4 d_model
        off = abs(counted(chosen) - wanted) / wanted
        found.append((round(off, 2), abs(chosen["d_ff"] / width - 4), width, chosen))
    return min(found, key=lambda one: one[:3])[3]


def _counted_with(
    counted: Callable[[dict[str, Any]], int], shape: dict[str, Any], changes: dict[str, Any]
) -> int:
    return counted({**shape, **changes})


def widest(
    name: str, step: int, wanted: int, counted: Callable[[dict[str, Any]], int]
) -> dict[str, Any]:
    """{name: the multiple of `step` whose count is nearest to `wanted`}; counts grow with it."""
    low, high = 1, 1
    while counted({name: high * step}) < wanted and high < 1 << 14:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if counted({name: middle * step}) < wanted:
            low = middle
        else:
            high = middle
    best = min((low, high), key=lambda n: abs(counted({name: n * step}) - wanted))
    return {name: best * step}


def count_parameters(config: Any) -> int:
    """Weights of a network of this configuration, from its shapes."""
    from budgerigar.layers import shapes
    from budgerigar.layers.config import TransformerConfig
    from budgerigar.models.ancestor_card import parameters

    if isinstance(config, TransformerConfig):
        return int(shapes.parameters(config).total)
    return sum(parameters(config).values())


# -- how long ------------------------------------------------------------------------------------


def _with_steps(recipe: Recipe, corpus: Any, asked: Asked) -> Recipe:
    """Steps for the minutes (at most so many passes as teach something) or for the passes."""
    from budgerigar import models

    training, train = recipe.training, corpus.train
    config = recipe.model_config(corpus.tokenizer.vocab_size)
    limit = getattr(config, "context_length", None)
    length = min(window_length(training, limit), max(train.n_tokens - 1, 1))
    a_pass = train.n_tokens / (training.batch_size * training.accumulate * length)
    changes: dict[str, Any] = {"minutes": None}
    if asked.budget is None:
        steps = round((asked.passes or 1.0) * a_pass)
    else:
        compute = choose_compute(training)
        network = models.build(config, seed=training.seed).to(compute.device)
        batches = make_batches(recipe, corpus, network)
        changes["threads"] = settle_threads(network, batches, training, compute)
        budget = SHARE_FOR_STEPS * asked.budget
        possible = steps_for_minutes(
            budget, network, batches, training, compute, seconds=min(2.0, 2 * asked.budget)
        )
        steps = min(possible, round(MOST_PASSES * a_pass))
    steps = max(steps, 2)
    every = -(-steps // EVALUATIONS)
    # In a few steps a loss goes up and down, and that says nothing.
    changes["patience"] = PATIENCE if every >= STEADY else None
    return recipe.replace(
        training={
            **changes,
            "steps": steps,
            "evaluate_every": every,
            "warmup_steps": min(training.warmup_steps, -(-steps // 10)),
        }
    )
