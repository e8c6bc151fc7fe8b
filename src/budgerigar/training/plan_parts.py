"""What plans for texts and for sentence pairs share: the `Plan`, and small decisions in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from budgerigar.training.given import Given
from budgerigar.training.objectives import (
    CLASSIFICATION,
    MASKED_WORDS,
    SPAN_CORRUPTION,
    objective_of,
)
from budgerigar.training.recipe import FROM_TEXT, Recipe, flat

DEFAULT_MINUTES = 10.0
RATES = (
    "learning_rate", "embedding_learning_rate", "head_learning_rate", "muon_learning_rate",
)  # fmt: skip
MUCH_DROPOUT = 0.1


@dataclass
class Plan:
    """What will be done, as data. Losses are nats per token on the validation split."""

    recipe: Recipe
    corpus: Any
    parameters: int
    steps: int
    minutes: float
    epochs: float
    tokens_per_second: float
    baselines: dict[str, float]
    threads: int
    expected_loss: float
    reasons: dict[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """The plan in words, one decision a line."""
        width = max(len(name) for name in self.reasons)
        lines = [f"  {name:<{width}}  {words}" for name, words in self.reasons.items()]
        return "\n".join(["The plan:", *lines])

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "recipe": self.recipe.to_dict(),
            "parameters": self.parameters,
            "steps": self.steps,
            "minutes": self.minutes,
            "epochs": self.epochs,
            "tokens_per_second": self.tokens_per_second,
            "baselines": self.baselines,
            "expected_loss": self.expected_loss,
            "reasons": self.reasons,
        }


def shape_of(run: Any) -> dict[str, Any]:
    """The model settings of a loaded run, as a recipe holds them (without the vocabulary's size)."""
    return {k: v for k, v in run.config["model"].items() if k not in FROM_TEXT}


def recipe_for(settings: Mapping[str, Any] | None, given: Given, base: Any = None) -> str | None:
    """The recipe that needs no plan for what was asked for, or for the run to go on from; None: a plan
    is to be made for the text."""
    asked = flat(settings)
    if asked.get("kind") == "word-vectors":
        return "word-vectors"
    model = {} if base is None else base.config["model"]
    model = {**model, **{n: asked[n] for n in ("kind", "assembly") if n in asked}}
    trained = "auto" if base is None else base.config.get("text", {}).get("objective", "auto")
    objective = str(asked.get("objective", "auto"))
    if objective == "auto" and trained == SPAN_CORRUPTION and not given.has_pairs:
        objective = trained
    return {
        CLASSIFICATION: "classifier",
        MASKED_WORDS: "bert-tiny",
        SPAN_CORRUPTION: "t5-tiny",
    }.get(objective_of(model, objective))


def slower_when_going_on(recipe: Recipe, settings: Mapping[str, Any] | None) -> Recipe:
    """Lower rates for weights that were trained already: large steps would undo what was learnt.

    So would the dropout that keeps a network from learning a few texts by heart from nothing: at most
    0.1 of it (Devlin et al. 2018, appendix A.3).
    """
    given = flat(settings)
    names = [n for n in RATES if n not in given and getattr(recipe.training, n) is not None]
    much = [n for n, v in recipe.model.items() if n.startswith("dropout") and v > MUCH_DROPOUT]
    return recipe.replace(
        training={n: 0.3 * getattr(recipe.training, n) for n in names},
        model={n: MUCH_DROPOUT for n in much if n not in given},
    )


def heads_that_fit(recipe: Recipe, settings: Mapping[str, Any] | None) -> Recipe:
    """A width that the user chose gets heads about 32 wide, unless they chose those too."""
    given = flat(settings)
    if "d_model" not in given or "n_heads" in given or "d_head" in given:
        return recipe
    width = int(given["d_model"])
    fitting = [h for h in range(1, width + 1) if width % (2 * h) == 0 and width // h >= 32]
    return recipe.replace(model={"n_heads": max(fitting, default=1)})


def why_so_long(asked: bool, text_ends_it: bool, by_default: bool) -> str:
    """What decided the number of steps, as the end of the line about time."""
    if asked:
        return ", the steps that were asked for"
    if text_ends_it:
        return ", because more passes over so short a text would teach it by heart"
    return " (--minutes changes it)" if by_default else ""


def in_minutes(minutes: float) -> str:
    if minutes >= 2:
        return f"{minutes:.0f} minutes"
    return counted(max(round(60 * minutes), 1), "second")


def counted(n: int, word: str) -> str:
    """1 layer · 2,000 steps."""
    return f"{n:,} {word}" if n == 1 else f"{n:,} {word}s"
