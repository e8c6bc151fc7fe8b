"""Any run of ours as a Hugging Face folder, where a family of open models can say what it is.

The folder holds config.json, model.safetensors (float32), generation_config.json and the tokenizer,
as `transformers` reads them (AutoModel…, AutoTokenizer).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from budgerigar.errors import UserError
from budgerigar.formats.atomic import folder_aside
from budgerigar.formats.families import FAMILIES
from budgerigar.formats.families.fitting import Fit, best_fit
from budgerigar.formats.hugging_face import is_hugging_face
from budgerigar.formats.hugging_face_tokenizer import copy_tokenizer, write_tokenizer
from budgerigar.formats.run import Loaded
from budgerigar.formats.tensors import write_tensors
from budgerigar.formats.weight_rules import give, shapes_of
from budgerigar.layers.config import TransformerConfig
from budgerigar.models.configs import kind_of
from budgerigar.models.transformer import Transformer

_KEPT = (
    "bos_token_id", "eos_token_id", "pad_token_id", "forced_eos_token_id", "bad_words_ids",
    "decoder_start_token_id", "id2label", "label2id", "task_specific_params",
)  # fmt: skip
"""what an imported model's config.json says beyond its shape, and keeps saying"""


@dataclass(frozen=True)
class Exported:
    """A folder that was written."""

    folder: Path
    family: str
    architecture: str
    notes: list[str]
    """what a reader should know, a sentence each"""


def save_hugging_face(loaded: Loaded, folder: str | Path) -> Exported:
    """Write `loaded` as a new Hugging Face folder; it appears whole or not at all.

    Raises:
        UserError: no family can say what it is (the dials without a counterpart are named), or
            something is at `folder` already.
    """
    folder = Path(folder)
    if folder.exists():
        raise UserError(f"{folder} exists already; choose another folder or remove it first.")
    found = family_fit(loaded)
    values = _config(loaded, found)
    shapes = shapes_of(Transformer.unfilled(found.config))
    rules = found.family.rules(found.config)
    tensors = give(loaded.network, rules, shapes, found.query_factor)
    with folder_aside(folder, f"make the folder {folder}") as aside:
        _write(aside / "config.json", values)
        write_tensors(aside / "model.safetensors", tensors, {"format": "pt"})
        if is_hugging_face(loaded.folder):
            notes = copy_tokenizer(loaded.folder, aside)
        else:
            notes = write_tokenizer(loaded, aside)
            if found.config.decoder_layers:
                _write(aside / "generation_config.json", _generation(values))
    return Exported(folder, found.family.name, values["architectures"][0], [*_added(found), *notes])


def family_fit(loaded: Loaded) -> Fit:
    """The family that says what `loaded` is; its own first, where it was imported."""
    config = loaded.network.config
    if not isinstance(config, TransformerConfig):
        raise UserError(
            f"{loaded.folder} is of kind {kind_of(config)}, and Hugging Face folders are for "
            "Transformers: no family of open models has that shape."
        )
    own = (loaded.config.get("imported") or {}).get("family")
    return best_fit(sorted(FAMILIES, key=lambda family: family.name != own), config)


def _config(loaded: Loaded, found: Fit) -> dict[str, Any]:
    """config.json: the family's words for the shape, and the special ids."""
    if is_hugging_face(loaded.folder):
        before = json.loads((Path(loaded.folder) / "config.json").read_text(encoding="utf-8"))
        kept = {name: before[name] for name in _KEPT if name in before}
        return {**found.values, "dtype": "float32", **kept}
    tokenizer = loaded.tokenizer
    ends = sorted(tokenizer.end_ids)
    ids = {
        "bos_token_id": next(iter(tokenizer.start_ids), None),
        "eos_token_id": ends[0] if len(ends) == 1 else (ends or None),
        "pad_token_id": getattr(tokenizer, "pad_id", None),
    }
    if found.config.assembly == "encoder-decoder":
        start = loaded.network.config.decoder_start
        start = ends[0] if start is None and ends else start
        pad = start if ids["pad_token_id"] is None else ids["pad_token_id"]
        # a padded target counts as unseen by its mask; this family demands an id for it
        ids |= {"decoder_start_token_id": start, "pad_token_id": pad, "forced_eos_token_id": None}
    values = {**found.values, "dtype": "float32", **ids}
    classes = (loaded.config.get("text") or {}).get("classes")
    if classes and found.config.n_classes == len(classes):
        values["id2label"] = {str(number): name for number, name in enumerate(classes)}
        values["label2id"] = {name: number for number, name in enumerate(classes)}
    return values


def _generation(values: dict[str, Any]) -> dict[str, Any]:
    names = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")
    return {name: values[name] for name in names if values.get(name) is not None}


def _added(found: Fit) -> list[str]:
    """What the family has and the model says otherwise or not at all; it changes no result."""
    network, given = found.asked, found.config
    added = [
        words
        for name, words in {
            "norm_weight": "scales of norms (ones)",
            "norm_bias": "shifts of norms (zeros)",
            "qkv_bias": "biases of queries, keys and values (zeros)",
            "output_bias": "biases of attention's output (zeros)",
            "ff_bias": "biases of the feed-forward (zeros)",
            "head_bias": "a bias of the output layer (zeros)",
        }.items()
        if getattr(given, name) and not getattr(network, name)
    ]
    notes = []
    if added:
        notes.append(f"Added, because this family has them, without effect: {', '.join(added)}.")
    if found.query_factor != 1.0:
        notes.append(
            f"This family scales scores by {given.scale:g}: the queries' weights are multiplied by "
            f"{found.query_factor:g}, which comes to the same."
        )
    return notes


def _write(path: Path, values: dict[str, Any]) -> None:
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
