"""What a model learns to do, and which models can learn what. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from budgerigar.training.recipe_fields import TextRecipe, TrainingRecipe

NEXT_TOKEN, PAIRS = "next-token", "pairs"
MASKED_WORDS, SPAN_CORRUPTION = "masked-words", "span-corruption"
CLASSIFICATION = "classification"
FILL_IN = (MASKED_WORDS, SPAN_CORRUPTION)
"""objectives that fill gaps of running text"""

_FITTING = {  # objective -> assemblies of a Transformer that can learn it
    NEXT_TOKEN: ("decoder-only",),
    PAIRS: ("encoder-decoder",),
    MASKED_WORDS: ("encoder-only",),
    SPAN_CORRUPTION: ("encoder-decoder",),
    CLASSIFICATION: ("encoder-only",),
}
_BY_ASSEMBLY = {
    "decoder-only": NEXT_TOKEN,
    "encoder-only": MASKED_WORDS,
    "encoder-decoder": PAIRS,
}


def reads_pairs(model: Mapping[str, Any]) -> bool:
    """Whether these settings of a model, with their "kind", are those of an encoder-decoder."""
    kind = model.get("kind", "transformer")
    both = kind == "transformer" and model.get("assembly") == "encoder-decoder"
    return both or kind == "rnn-encoder-decoder"


def objective_of(model: Mapping[str, Any], asked: str = "auto") -> str:
    """What a model of these settings learns; "auto": what its assembly is made for."""
    if asked != "auto":
        return asked
    if model.get("kind", "transformer") == "transformer":
        return _BY_ASSEMBLY.get(str(model.get("assembly", "decoder-only")), NEXT_TOKEN)
    return PAIRS if reads_pairs(model) else NEXT_TOKEN


def objective_problems(
    text: TextRecipe, training: TrainingRecipe, model: Mapping[str, Any], where: str
) -> Iterable[str]:
    """In words, an objective that this model cannot learn, and settings that it rules out."""
    objective, asked = objective_of(model, training.objective), training.objective
    kind = model.get("kind", "transformer")
    assembly = model.get("assembly", "decoder-only") if kind == "transformer" else None
    usual = objective_of(model)
    fitting = _FITTING.get(objective, ())
    if asked != "auto" and objective != usual and assembly not in fitting:
        what = f"of assembly {assembly}" if assembly else f"of kind {kind}"
        yield (
            f"{where}: [training] objective = {objective!r} is for a Transformer of assembly "
            f"{' or '.join(fitting)}, not for one {what}"
        )
    if objective in FILL_IN and training.mask_share <= 0:
        yield f"{where}: [training] mask_share = {training.mask_share} must be above 0"
    if training.best_by == "accuracy" and objective != CLASSIFICATION:
        yield f"{where}: [training] best_by = 'accuracy' is for objective classification"
    if model.get("token_head") is False and objective not in (CLASSIFICATION, "auto"):
        yield f"{where}: [model] token_head = false leaves nothing to predict {objective} with"
