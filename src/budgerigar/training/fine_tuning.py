"""Beginning with the weights of another run (`--from`): what is kept of it, and what does not fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.formats.run import Loaded, load_model
from budgerigar.training.plan_parts import shape_of
from budgerigar.training.recipe import Recipe, flat, reads_pairs, settings_of


def load_base(path: Path, settings: Mapping[str, Any]) -> Loaded:
    """The run to begin with; refuses settings that would make its weights another model's."""
    base = load_model(path)
    if base.config["kind"] == "ngram":
        raise UserError(
            f"{path} is an n-gram: it was counted, not trained, so there are no weights to start "
            "from."
        )
    if base.config["kind"] == "word-vectors":
        raise UserError(
            f"{path} holds word vectors, which are no network to train further. A model can begin "
            f"its embedding with them: --embedding-from {path}"
        )
    kept = dict.fromkeys(settings_of(base.config["kind"])) | dict(base.config["model"])
    kept |= _vocabulary_of(base)
    clash = [n for n, v in flat(settings).items() if n in kept and v not in (kept[n], "auto")]
    if clash:
        raise UserError(
            f"{', '.join(clash)} cannot be given here: training goes on from {path} (--from), "
            "whose shape and vocabulary are kept. Leave it out, or train a new model."
        )
    return base


def _vocabulary_of(base: Loaded) -> dict[str, Any]:
    """The settings of `[text]` that the vocabularies of a run have decided."""
    kept = {"tokenizer": base.tokenizer.kind, "vocab_size": base.tokenizer.vocab_size}
    if not reads_pairs(base.config["model"]):
        return kept
    source = base.source_tokenizer
    joint = source is base.tokenizer
    kept |= {"vocabulary": "joint" if joint else "separate"}
    if not joint:
        kept |= {"source_tokenizer": source.kind, "source_vocab_size": source.vocab_size}
    return kept


def check_fits(base: Loaded, recipe: Recipe) -> None:
    """Refuse to put the weights of a run to another task than its own.

    Raises:
        UserError: one reads pairs and the other does not, or they translate between other languages.
    """
    if reads_pairs(base.config["model"]) != recipe.reads_pairs:
        kinds = ("a text, from left to right", "sentence pairs, a source and a target")
        ours, theirs = (kinds[recipe.reads_pairs], kinds[not recipe.reads_pairs])
        raise UserError(
            f"{base.folder} learnt from {theirs}; what was asked for learns from {ours}. The weights "
            "of one are of no use to the other: train a new model, or start from a run of its kind."
        )
    if recipe.kind != base.config["kind"]:
        raise UserError(
            f"{base.folder} is of kind {base.config['kind']}, and the recipe is for {recipe.kind}: "
            "weights fit their own kind of model only. Choose a recipe of that kind, or leave it out."
        )
    if recipe.reads_pairs:
        _check_languages(base, recipe.text)


def _check_languages(base: Loaded, found: Any) -> None:
    """`found`: what says the languages, a recipe's `[text]` or a corpus."""
    for side in ("source_language", "target_language"):
        had, asked = base.config["text"].get(side), getattr(found, side)
        if had and asked and had != asked:
            raise UserError(
                f"{base.folder} has {had!r} as its {side.replace('_', ' ')}, and this is {asked!r}, as "
                "asked for or by the names of the files. It has learnt to translate from and into its "
                "own languages only: leave --from out to train a new model (or, where the names "
                f"mislead, give --{side.replace('_', '-')} {had})."
            )


def with_vocabularies(recipe: Recipe, base: Loaded) -> Recipe:
    """The recipe for going on from `base`: how many vocabularies there are is decided."""
    if not recipe.reads_pairs:
        return recipe
    joint = base.source_tokenizer is base.tokenizer
    alone = {"source_tokenizer": None, "source_vocab_size": None} if joint else {}
    return recipe.replace(text={"vocabulary": "joint" if joint else "separate", **alone})


def continue_from(recipe: Recipe, corpus: Any, base: Loaded) -> tuple[Recipe, Any]:
    """The network of another run, to be trained on; says what was kept of it."""
    pairs = [(corpus.tokenizer, base.tokenizer)]
    if recipe.reads_pairs:
        pairs.append((corpus.source_tokenizer, base.source_tokenizer))
        _check_languages(base, corpus)
    if any(one.fingerprint != other.fingerprint for one, other in pairs):
        raise UserError(
            f"The corpus was prepared with another tokenizer than that of {base.folder}, whose "
            "weights mean its own vocabulary. Give the files, and they are read with that one."
        )
    progress.note(
        f"starting from {base.folder}: weights, shape and vocabulary "
        f"({base.tokenizer.vocab_size:,} pieces) kept; optimizer and schedule begin anew"
    )
    return dataclasses.replace(recipe, model=shape_of(base)), base.network.train()
