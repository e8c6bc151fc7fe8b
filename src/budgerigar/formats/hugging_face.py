"""Folders in the form of Hugging Face's hub: config.json, safetensors, a tokenizer's files.

What a folder is (`describe`) is told from headers alone; loading maps the weights into memory and
fills one Transformer by the rules of its family.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from budgerigar.errors import UserError
from budgerigar.formats.families import family_of
from budgerigar.formats.families.family import Family
from budgerigar.formats.families.values import Values
from budgerigar.formats.run import Loaded, load_tokenizers, make_config
from budgerigar.formats.safetensors_files import SafetensorsFolder
from budgerigar.formats.weight_rules import LoadReport, TensorSource, fill, match, shapes_of
from budgerigar.layers import shapes
from budgerigar.layers.config import TransformerConfig
from budgerigar.models.transformer import Transformer

_PACKED = (".qweight", ".qzeros", ".scales", ".g_idx", ".absmax", ".weight_scale", "_scale_inv")
_WHOLE_NUMBERS = ("I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL")


@dataclass(frozen=True)
class Described:
    """What a folder holds, from config.json and the headers of its weights."""

    folder: Path
    values: Values
    family: Family
    config: TransformerConfig
    tensors: TensorSource

    @property
    def architecture(self) -> str:
        """The class of `transformers` that wrote it."""
        named = [n for n in self.values.words("architectures") if n in self.family.architectures]
        return named[0] if named else self.family.architectures[0]

    @property
    def stored(self) -> dict[str, int]:
        """Numbers of values by the type that they are stored as: {"BF16": 134515008}."""
        counted: Counter[str] = Counter()
        for name in self.tensors.names():
            counted[self.tensors.dtype(name)] += math.prod(self.tensors.shape(name))
        return dict(counted)


def is_hugging_face(folder: Path) -> bool:
    """Whether a folder's config.json is of that form, and not a run of ours."""
    try:
        values = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    if not isinstance(values, dict) or "format_version" in values:
        return False
    return any(name in values for name in ("model_type", "architectures"))


def describe(folder: Path, tensors: TensorSource | None = None) -> Described:
    """What the folder holds. Reads no weights. `tensors`: headers of weights that lie elsewhere.

    Raises:
        UserError: a family that is not known, settings or files that are missing, damaged or quantised.
    """
    folder = Path(folder)
    values = Values.read(folder / "config.json")
    _refuse_quantised(values)
    family = family_of(values)
    tensors = tensors or SafetensorsFolder(folder)
    _refuse_packed(tensors)
    config = family.config_from(values, tensors)
    try:
        config.validate()
    except UserError as error:
        raise UserError(f"{values.where}: {error}") from None
    _refuse_other_size(config, tensors, values.where)
    return Described(folder, values, family, config, tensors)


def problems(found: Described) -> list[str]:
    """All tensors that are missing, unused or of another shape; from headers alone."""
    network = Transformer.unfilled(found.config)
    rules = found.family.rules(found.config)
    return match(shapes_of(network), rules, found.tensors, found.family.ignored).problems


def load_weights(found: Described) -> tuple[Transformer, LoadReport]:
    """The network, filled, and what filled it."""
    network = Transformer.unfilled(found.config)
    rules = found.family.rules(found.config)
    report = fill(network, rules, found.tensors, found.family.ignored)
    return network.eval(), report


def load_hugging_face(folder: str | Path, device: str = "cpu") -> Loaded:
    """A model of a Hugging Face folder, ready to run.

    Raises:
        UserError: names all that does not fit: see `describe` and `weight_rules.fill`.
    """
    found = describe(Path(folder))
    tokenizer, source_tokenizer = tokenizers_of(found.folder)
    network, report = load_weights(found)
    _check_vocabulary(found, tokenizer, source_tokenizer)
    both = found.config.assembly == "encoder-decoder"
    return Loaded(
        network.to(device),
        tokenizer,
        run_config(found),
        None,
        found.folder,
        source_tokenizer if both else None,
        report,
    )


def tokenizers_of(folder: Path) -> tuple[Any, Any]:
    """(tokenizer, source's); those of a folder that was written here as they were."""
    from budgerigar.text.imported_tokenizer import tokenizers_from_folder

    if (folder / "tokenizer_extras.json").is_file():
        return load_tokenizers(folder)
    return tokenizers_from_folder(folder)


def run_config(found: Described) -> dict[str, Any]:
    """What a run's config.json would say of it."""
    both = found.config.assembly == "encoder-decoder"
    text: dict[str, Any] = {"documents": "none", **({"pairs": True} if both else {})}
    if found.config.n_classes:
        labels = found.values.table("id2label").values
        text["classes"] = [str(labels.get(str(i), i)) for i in range(found.config.n_classes)]
    imported = {
        "form": "Hugging Face folder",
        "family": found.family.name,
        "architecture": found.architecture,
        "stored": found.stored,
    }
    return make_config(found.config, text, imported=imported)


def _check_vocabulary(found: Described, tokenizer: Any, source_tokenizer: Any) -> None:
    """A tokenizer with more ids than the embedding has rows belongs to another model."""
    c = found.config
    for name, given, rows in (
        ("the tokenizer", tokenizer, c.vocab_size),
        ("the source's tokenizer", source_tokenizer, c.source_vocab_size or c.vocab_size),
    ):
        if given is not None and given.vocab_size > rows:
            raise UserError(
                f"{found.folder}: {name} has {given.vocab_size:,} pieces and the model knows {rows:,}: "
                "they belong to different models"
            )


# -- what is refused -------------------------------------------------------------------------------
_WAY_OUT = "Take the folder it was made from, not quantised, or a .gguf file of the same model"


def _refuse_quantised(values: Values) -> None:
    """MLX says `quantization`, GPTQ, AWQ, bitsandbytes and others `quantization_config`."""
    for name in ("quantization_config", "quantization"):
        if name in values:
            method = values.table(name).values.get("quant_method")
            by = f" by {method}" if isinstance(method, str) else " for MLX" * (name[-1] == "n")
            raise UserError(
                f"{values.where}: this model is quantised{by} (it has {name}), and its numbers can be "
                f"read by that tool alone. {_WAY_OUT}."
            )


def _refuse_packed(tensors: TensorSource) -> None:
    """The same without a word of it in config.json: tensors give it away."""
    packed = [name for name in tensors.names() if name.endswith(_PACKED)]
    weights = [name for name in tensors.names() if name.endswith(".weight")]
    packed += [name for name in weights if tensors.dtype(name) in _WHOLE_NUMBERS]
    if packed:
        raise UserError(
            f"{tensors.where} holds quantised weights ({packed[0]}, {len(packed)} such tensors), which "
            f"only the tool that packed them can read. {_WAY_OUT}."
        )


def _refuse_other_size(config: TransformerConfig, tensors: TensorSource, where: str) -> None:
    """A model many times as large as its files is a damaged description; nothing is made of it."""
    described = shapes.parameters(config).total
    there = sum(math.prod(tensors.shape(name)) for name in tensors.names())
    if described > 4 * there + 1_000_000:
        raise UserError(
            f"{where} describes a model of {described:,} weights, and the files beside it hold "
            f"{there:,}: it is damaged, or of another model"
        )
