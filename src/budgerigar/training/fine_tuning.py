"""Beginning with the weights of another run (`--from`): what is kept of it, and what does not fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.formats.load import load_any
from budgerigar.formats.run import Loaded
from budgerigar.models.configs import config_to_dict
from budgerigar.text.fill_in_tokens import need_mask, need_sentinels
from budgerigar.text.model_catalogue import called
from budgerigar.training.adapting import prepared
from budgerigar.training.classifying import class_settings
from budgerigar.training.objectives import CLASSIFICATION, MASKED_WORDS, SPAN_CORRUPTION
from budgerigar.training.recipe import FROM_TEXT, Recipe, flat, reads_pairs, settings_of

DROPOUT = (
    "dropout"  # begins the names of settings that belong to training: no weight depends on them
)


def load_base(path: str | Path, settings: Mapping[str, Any]) -> Loaded:
    """The model to begin with; refuses settings that would make its weights another model's."""
    base = load_any(path)
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
    if flat(settings).get("objective") == CLASSIFICATION:
        kept.pop("pooling", None)  # the head that uses it is new
    kept = {name: value for name, value in kept.items() if not name.startswith(DROPOUT)}
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
    model = base.config["model"]
    two_sides = reads_pairs(recipe.model)
    if reads_pairs(model) != two_sides:
        kinds = ("one text at a time", "sentence pairs, a source and a target")
        ours, theirs = (kinds[two_sides], kinds[not two_sides])
        raise UserError(
            f"{base.folder} learnt from {theirs}; what was asked for learns from {ours}. The weights "
            "of one are of no use to the other: train a new model, or start from a run of its kind."
        )
    _check_assembly(base, recipe)
    if recipe.kind != base.config["kind"]:
        raise UserError(
            f"{base.folder} is of kind {base.config['kind']}, and the recipe is for {recipe.kind}: "
            "weights fit their own kind of model only. Choose a recipe of that kind, or leave it out."
        )
    if recipe.reads_pairs:
        _check_languages(base, recipe.text)


def _check_assembly(base: Loaded, recipe: Recipe) -> None:
    """An encoder and a decoder read differently, and without an output layer nothing is filled in."""
    model = base.config["model"]
    if base.config["kind"] == "transformer" == recipe.kind:
        had, asked = (str(m.get("assembly", "decoder-only")) for m in (model, recipe.model))
        if had != asked:
            raise UserError(
                f"{base.folder} is {had}, and {recipe.objective} is for {asked}: the weights of one "
                "are of no use to the other. `budgie train FILE --recipe bert-tiny` makes an encoder."
            )
    if recipe.objective == MASKED_WORDS and model.get("token_head") is False:
        raise UserError(
            f"{base.folder} has no output layer over its vocabulary, so it cannot learn to fill in "
            "words. It can learn to tell classes: budgie train FILE.tsv --classify --from "
            f"{base.folder}"
        )
    if recipe.objective == MASKED_WORDS:
        need_mask(base.tokenizer)
    if recipe.objective == SPAN_CORRUPTION:
        need_sentinels(base.tokenizer)


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
    network: Any
    network, new = prepared(recipe, base)
    network = with_dropout(recipe, network)
    if recipe.objective == CLASSIFICATION:
        network = with_class_head(recipe, corpus, network, base)
        new = "; a new layer tells the classes"
    progress.note(
        f"starting from {called(base.folder)}: weights, shape and vocabulary "
        f"({base.tokenizer.vocab_size:,} pieces) kept; optimizer and schedule begin anew{new}"
    )
    model = {k: v for k, v in config_to_dict(network.config).items() if k not in FROM_TEXT}
    return dataclasses.replace(recipe, model=model), network.train()


def with_dropout(recipe: Recipe, network: Any) -> Any:
    """The network with the recipe's dropout in place of the one that its weights were learnt with.

    Raises:
        UserError: adapters lie on it, and the base below them stays as it is.
    """
    from budgerigar import models

    config = network.config
    asked = {n: v for n, v in recipe.model.items() if n.startswith(DROPOUT)}
    changes = {n: v for n, v in asked.items() if hasattr(config, n) and getattr(config, n) != v}
    if not changes:
        return network
    if recipe.training.lora is not None:
        raise UserError(
            f"{', '.join(changes)} cannot be given with --lora: the base below the adapters stays as "
            "it is. Leave it out."
        )
    fresh = models.build(config.replace(**changes), seed=recipe.training.seed)
    take_weights(fresh, network, with_classes=True)
    return fresh


def with_class_head(recipe: Recipe, corpus: Any, trained: Any, base: Loaded) -> Any:
    """The encoder of `base` below a layer that tells the classes of `corpus`: a new one, unless `base`
    told these classes already."""
    from budgerigar import models

    pooling = recipe.model.get("pooling", "mean")
    config = trained.config.replace(**class_settings(recipe, corpus), pooling=pooling)
    network = models.build(config, seed=recipe.training.seed)
    known = base.config.get("text", {}).get("classes") == list(corpus.classes)
    take_weights(network, trained, with_classes=known)
    return network


def take_weights(network: Any, base: Any, with_classes: bool) -> None:
    """Give `network` the weights of `base` that it has too, the class head's only if asked."""
    theirs = dict(base.named_parameters())
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if name in theirs and (with_classes or not name.startswith("class_head.")):
                weight.copy_(theirs[name])
