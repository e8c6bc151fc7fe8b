"""What a user asked for that no training here can do, or that has no effect. No torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from budgerigar.errors import UserError
from budgerigar.layers.config import TransformerConfig
from budgerigar.training.given import Given
from budgerigar.training.objectives import (
    CLASSIFICATION,
    MASKED_WORDS,
    NEXT_TOKEN,
    PAIRS,
    SPAN_CORRUPTION,
)
from budgerigar.training.recipe import Recipe, TrainingRecipe

# Settings that matter only beside another one: (names, that setting, its values, in words).
ONLY_WITH: tuple[tuple[str, str, tuple[Any, ...], str], ...] = (
    ("muon_learning_rate muon_momentum muon_momentum_warmup muon_weight_decay muon_steps "
     "muon_iteration", "optimizer", ("muon",), "optimizer muon"),
    ("average_decay", "average", ("ema",), "average ema"),
    ("average_count", "average", ("last",), "average last"),
    ("decay_fraction", "schedule", ("warmup-stable-decay",), "schedule warmup-stable-decay"),
    ("reset_share", "window_order", ("streams",), "window_order streams"),
    ("validation_fraction", "validation", (None,), "a text without a validation file"),
    ("sinusoid_layout", "positions", ("sinusoidal",), "positions sinusoidal"),
    ("position_offset", "positions", ("learned",), "positions learned"),
    ("rotary_base rotary_fraction", "positions", ("rotary",), "positions rotary"),
    ("relative_buckets relative_max_distance relative_shared", "positions", ("relative",),
     "positions relative"),
    ("norm_bias", "norm", ("layer",), "norm layer"),
    ("init_std", "initialisation", ("normal", "depth-scaled", "zero-output"),
     "initialisation normal, depth-scaled or zero-output"),
    ("head_learning_rate", "tied_embeddings", (False,), "an output layer of its own"),
    ("n_encoder_layers n_decoder_layers shared_embeddings", "assembly",
     ("encoder-decoder",), "an encoder-decoder"),
    ("source_tokenizer source_vocab_size", "vocabulary", ("auto", "separate"), "vocabulary separate"),
)  # fmt: skip


# Settings of one kind of text alone.
PAIRS_ONLY = (
    "source_language target_language vocabulary source_tokenizer columns lowercase mix batch_tokens "
    "bleu_sentences best_by"
)
TEXTS_ONLY = (
    "batch_size window_length window_order reset_share documents evaluation_tokens sample_tokens "
    "baselines"
)

# Settings of training that word vectors heed.
BY_VECTORS = ("epochs", "minutes", "learning_rate", "min_learning_rate", "seed", "keep_checkpoints")


def refuse_untrainable(recipe: Recipe, given: Given | None = None) -> None:
    """Raise a `UserError` for a model that cannot learn from what it is given."""
    given = given or Given()
    if recipe.objective in (SPAN_CORRUPTION, CLASSIFICATION):
        return  # what these read is looked at where it is read
    if recipe.reads_pairs:
        if given.text_files:
            raise UserError(
                f"{given.text_files[0]} is one text, and an encoder-decoder learns from sentence "
                "pairs. Give --source FILE and --target FILE, or --pairs FILE; a decoder-only model "
                "learns from a text, and one that fills in spans from both (--recipe t5-tiny)."
            )
        return
    if given.has_pairs:
        raise UserError(
            f"Sentence pairs are for a model that reads a source and writes a target, and this one "
            f"is {_one_of_text(recipe)}. Leave --recipe out for a planned one, "
            "or choose an encoder-decoder (--recipe multi30k, --assembly encoder-decoder)."
        )


def _one_of_text(recipe: Recipe) -> str:
    """What to call a model that reads no pairs."""
    if recipe.kind == "transformer":
        return str(recipe.model.get("assembly", "decoder-only"))
    return f"of kind {recipe.kind}"


def without_effect(recipe: Recipe, given: Iterable[str], has_files: bool) -> list[str]:
    """A remark for each of the settings `given` that changes nothing beside the rest of `recipe`."""
    names = set(given)
    if recipe.kind == "transformer":
        defaults = {f.name: f.default for f in dataclasses.fields(TransformerConfig)}
    else:
        defaults = {}
    values = {**defaults, **recipe.model, **vars(recipe.text), **vars(recipe.training)}
    remarks = []
    for dependent, other, fitting, words in ONLY_WITH:
        if other not in values or values[other] in fitting:
            continue
        remarks += [_remark(name, words) for name in dependent.split() if name in names]
    if has_files or recipe.text.corpus != "stories":
        stories = [n for n in ("n_stories", "language", "filler_words", "n_pairs") if n in names]
        remarks += [_remark(name, "the corpus stories") for name in stories]
    if recipe.kind == "word-vectors":
        networks = [f.name for f in dataclasses.fields(TrainingRecipe) if f.name not in BY_VECTORS]
        remarks += [_remark(n, "models that predict a text") for n in networks if n in names]
        remarks += [_remark(n, "pairs") for n in PAIRS_ONLY.split() if n in names - set(networks)]
        return remarks
    if "epochs" in names:
        remarks.append(_remark("epochs", "word vectors; this model counts --steps or --minutes"))
    for others, words in _ELSEWHERE.get(recipe.objective, ()):
        remarks += [_remark(name, words) for name in others.split() if name in names]
    return remarks


_PAIRS = (PAIRS_ONLY, "pairs")
_HIDING = ("mask_share", "masked words and corrupted spans")
_MASKING = ("whole_words", "masked words")
_SPANS = ("span_length task_share", "corrupted spans")
_CLASSES = ("pooling", "classification")
_WINDOWS = ("window_length window_order reset_share documents evaluation_tokens sample_tokens",
            "running text")  # fmt: skip
# Objective -> settings without effect there, and what they are for.
_ELSEWHERE = {
    NEXT_TOKEN: (_PAIRS, _HIDING, _MASKING, _SPANS, _CLASSES),
    PAIRS: ((TEXTS_ONLY, "running text"), _HIDING, _MASKING, _SPANS, _CLASSES),
    MASKED_WORDS: (_PAIRS, _SPANS, _CLASSES, ("sample_tokens", "models that continue a text")),
    SPAN_CORRUPTION: (
        _MASKING, _CLASSES, ("batch_size window_order reset_share sample_tokens", "next tokens"),
        (" ".join(n for n in PAIRS_ONLY.split() if n not in ("columns", "lowercase", "batch_tokens")),
         "pairs"),
    ),
    CLASSIFICATION: (
        _WINDOWS, _HIDING, _MASKING, _SPANS,
        (" ".join(n for n in PAIRS_ONLY.split() if n not in ("columns", "best_by")), "pairs"),
    ),
}  # fmt: skip


def _remark(name: str, words: str) -> str:
    return f"note: --{name.replace('_', '-')} has no effect here: it is for {words}"
