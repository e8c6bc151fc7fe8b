"""Translators as CTranslate2's folders: model.bin (float32), config.json, vocabularies.

    version (uint32), name of the kind (string), its revision, number of variables (uint32)
    variable: name, number of dimensions (uint8), dimensions (uint32), type (uint8), bytes (uint32),
    then its data
    number of aliases (uint32), alias: name, name of a variable     a string: length (uint16), bytes, 0

A squared ReLU, which the format lacks, is a gate whose two matrices are the same: relu(Wx) · Wx.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.formats.atomic import folder_aside
from budgerigar.formats.families.fitting import differences
from budgerigar.formats.run import Loaded
from budgerigar.formats.weight_rules import weight_of
from budgerigar.layers.config import TransformerConfig
from budgerigar.layers.positions import sinusoids

VERSION, NAME, REVISION = 6, "TransformerSpec", 7
_ACTIVATIONS = {"relu": 0, "gelu-tanh": 1, "silu": 2, "gelu": 3}
_GATES = {"squared-relu": 0, "geglu-tanh": 1, "swiglu": 2, "geglu": 3}
_TYPES = {np.dtype(np.float32): 0, np.dtype(np.int8): 1, np.dtype(np.int16): 2}
_SAID = (
    "assembly", "vocab_size", "source_vocab_size", "context_length", "d_model", "n_layers",
    "n_encoder_layers", "n_decoder_layers", "sinusoid_layout", "position_offset", "norm",
    "norm_epsilon", "norm_weight", "norm_bias", "n_heads", "d_ff", "qkv_bias", "output_bias",
    "ff_bias", "head_bias", "tied_embeddings", "shared_embeddings", "decoder_start",
)  # fmt: skip
"""dials whose every value has a counterpart"""
_SOME: dict[str, tuple[str, ...]] = {
    "positions": ("sinusoidal", "learned"),
    "norm_place": ("pre", "post"),
    "activation": (*_ACTIVATIONS, *_GATES),
    "embedding_scale": ("none", "sqrt"),
}
"""dials of which these values have one"""
Array = NDArray[Any]


def save_ctranslate2(loaded: Loaded, folder: str | Path) -> None:
    """Write a translator as a new folder; it appears whole or not at all.

    Raises:
        UserError: it is no encoder-decoder, has dials without a counterpart (named), or something is
            at `folder` already.
    """
    folder, config = Path(folder), loaded.network.config
    if folder.exists():
        raise UserError(f"{folder} exists already; choose another folder or remove it first.")
    check(config)
    aliases = _aliases(config)
    with folder_aside(folder, f"make the folder {folder}") as aside:
        with (aside / "model.bin").open("wb") as file:
            _write(file, dict(_variables(loaded.network, config)), aliases)
        target, source = vocabularies(loaded)
        _json(aside / "config.json", _settings(config, target, loaded.tokenizer.end_id))
        if source == target:
            _json(aside / "shared_vocabulary.json", target)
        else:
            _json(aside / "source_vocabulary.json", source)
            _json(aside / "target_vocabulary.json", target)


def check(config: Any) -> None:
    """Raise a `UserError` that names every dial without a counterpart."""
    if not isinstance(config, TransformerConfig) or config.assembly != "encoder-decoder":
        what = getattr(config, "assembly", type(config).__name__)
        raise UserError(
            "CTranslate2 folders are written for Transformers that translate, and this model is "
            f"{what}."
        )
    values = {name: getattr(config, name) for name in _SAID}
    for name, known in _SOME.items():
        value = getattr(config, name)
        values[name] = value if value in known else known[0]
    lacking = differences(config, TransformerConfig(**values))
    if lacking:
        lines = "\n".join(f"  - {words}" for words in lacking)
        raise UserError(f"CTranslate2 has no counterpart for dials of this model:\n{lines}")


def vocabularies(loaded: Loaded) -> tuple[list[str], list[str]]:
    """(target's, source's) pieces by number, every one another text."""
    config = loaded.network.config
    target = _pieces(loaded.tokenizer, config.vocab_size)
    rows = config.vocab_size if config.shared_embeddings else config.source_vocab_size
    return target, _pieces(loaded.source_tokenizer, rows or config.vocab_size)


def _pieces(tokenizer: Any, rows: int) -> list[str]:
    pieces = [f"<unused {i}>" for i in range(rows)]
    for piece, number in tokenizer.backend.get_vocab(with_added_tokens=True).items():
        if number < rows:
            pieces[number] = piece
    return pieces


def _settings(config: TransformerConfig, target: list[str], end_id: int) -> dict[str, Any]:
    start = end_id if config.decoder_start is None else config.decoder_start
    return {
        "add_source_bos": False,
        "add_source_eos": True,
        "bos_token": target[start],
        "decoder_start_token": target[start],
        "eos_token": target[end_id],
        "unk_token": target[end_id],
        "layer_norm_epsilon": config.norm_epsilon,
    }


# -- comparing -------------------------------------------------------------------------------------
def has_library() -> bool:
    """Whether CTranslate2 itself is here, to read what was written."""
    return find_spec("ctranslate2") is not None


def their_scores(folder: Path, source: list[str], target: list[str]) -> Tensor:
    """Log-probabilities (T + 1,) that the library gives each token of `target` and the end."""
    import ctranslate2

    translator = ctranslate2.Translator(str(folder), device="cpu", intra_threads=1)
    return torch.tensor(translator.score_batch([source], [target])[0].log_probs)


@torch.inference_mode()
def our_scores(loaded: Loaded, source: list[int], target: list[int]) -> Tensor:
    """The same of the model itself; `source` without its end."""
    network, end = loaded.network, loaded.tokenizer.end_id
    start = end if network.config.decoder_start is None else network.config.decoder_start
    tokens = torch.tensor([[start, *target]], device=network.device)
    read = torch.tensor([[*source, loaded.source_tokenizer.end_id]], device=network.device)
    logits: Tensor = network(tokens, source=read)[0].cpu()
    wanted = torch.tensor([*target, end])
    return logits.log_softmax(-1).gather(1, wanted[:, None])[:, 0]


# -- weights ---------------------------------------------------------------------------------------
def _aliases(config: TransformerConfig) -> dict[str, str]:
    table = "decoder/embeddings/weight"
    found = {"encoder/embeddings_0/weight": table} if config.shared_embeddings else {}
    return found | ({"decoder/projection/weight": table} if config.tied_embeddings else {})


def _variables(network: Any, config: TransformerConfig) -> Iterator[tuple[str, Array]]:
    """Every weight and setting, by the format's names."""
    scaled = config.embedding_scale == "sqrt"
    activation = (_ACTIVATIONS | _GATES)[config.activation]
    for side, depth in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        flags = {"pre_norm": config.norm_place == "pre", "scale_embeddings": scaled}
        yield from ((f"{side}/{name}", np.array(value, np.int8)) for name, value in flags.items())
        yield f"{side}/activation", np.array(activation, np.int8)
        yield f"{side}/num_heads", np.array(config.n_heads, np.int16)
        yield f"{side}/position_encodings/encodings", _positions(network, config, side)
        if config.has_final_norm:
            yield from _norm(network, config, f"{side}.final_norm", f"{side}/layer_norm")
        for layer in range(depth):
            yield from _layer(network, config, f"{side}.{layer}", f"{side}/layer_{layer}")
    yield "encoder/embeddings_merge", np.array(0, np.int8)
    yield "decoder/alignment_layer", np.array(-1, np.int16)
    yield "decoder/alignment_heads", np.array(1, np.int16)
    yield "decoder/embeddings/weight", _array(network, "embedding.tokens.weight")
    if not config.shared_embeddings:
        yield "encoder/embeddings_0/weight", _array(network, "source_embedding.tokens.weight")
    if not config.tied_embeddings:
        yield "decoder/projection/weight", _array(network, "head.weight")
    if config.head_bias:
        yield "decoder/projection/bias", _array(network, "head.bias")


def _layer(
    network: Any, config: TransformerConfig, ours: str, theirs: str
) -> Iterator[tuple[str, Array]]:
    attention = f"{ours}.self_attention"
    fused = [f"{attention}.{part}" for part in ("query", "key", "value")]
    yield from _linear(network, fused, f"{theirs}/self_attention/linear_0")
    yield from _linear(network, [f"{attention}.output"], f"{theirs}/self_attention/linear_1")
    yield from _norm(
        network, config, f"{ours}.attention_norm", f"{theirs}/self_attention/layer_norm"
    )
    if ours.startswith("decoder"):
        cross, to = f"{ours}.cross_attention", f"{theirs}/attention"
        yield from _linear(network, [f"{cross}.query"], f"{to}/linear_0")
        yield from _linear(network, [f"{cross}.key", f"{cross}.value"], f"{to}/linear_1")
        yield from _linear(network, [f"{cross}.output"], f"{to}/linear_2")
        yield from _norm(network, config, f"{ours}.cross_attention_norm", f"{to}/layer_norm")
    up, to = f"{ours}.feed_forward.up", f"{theirs}/ffn"
    gate = f"{ours}.feed_forward.gate" if config.gated else up
    yield from _linear(network, [gate], f"{to}/linear_0")
    if config.activation in _GATES:
        yield from _linear(network, [up], f"{to}/linear_0_noact")
    yield from _linear(network, [f"{ours}.feed_forward.down"], f"{to}/linear_1")
    yield from _norm(network, config, f"{ours}.feed_forward_norm", f"{to}/layer_norm")


def _linear(network: Any, ours: list[str], theirs: str) -> Iterator[tuple[str, Array]]:
    """Several layers of ours, one below the other, as one of theirs."""
    yield f"{theirs}/weight", np.concatenate([_array(network, f"{one}.weight") for one in ours])
    if weight_of(network, f"{ours[0]}.bias") is not None:
        yield f"{theirs}/bias", np.concatenate([_array(network, f"{one}.bias") for one in ours])


def _norm(
    network: Any, config: TransformerConfig, ours: str, theirs: str
) -> Iterator[tuple[str, Array]]:
    """Scale and, of a LayerNorm, shift; ones and zeros where ours has none."""
    scale, shift = (weight_of(network, f"{ours}.{leaf}") for leaf in ("weight", "bias"))
    yield f"{theirs}/gamma", _numbers(torch.ones(config.d_model) if scale is None else scale)
    if config.norm == "layer":
        yield f"{theirs}/beta", _numbers(torch.zeros(config.d_model) if shift is None else shift)


def _positions(network: Any, config: TransformerConfig, side: str) -> Array:
    """A row for each position (context_length, D)."""
    n = config.context_length
    if config.positions == "sinusoidal":
        return _numbers(sinusoids(torch.arange(n), config.d_model, config.sinusoid_layout))
    own = side == "encoder" and not config.shared_embeddings
    name = f"{'source_' if own else ''}embedding.positions.weight"
    return _array(network, name)[config.position_offset :]


def _array(network: Any, name: str) -> Array:
    weight = weight_of(network, name)
    assert weight is not None, name
    return _numbers(weight)


def _numbers(tensor: Tensor) -> Array:
    return tensor.detach().to("cpu", torch.float32).numpy()


# -- writing ---------------------------------------------------------------------------------------
def _write(file: BinaryIO, variables: dict[str, Array], aliases: dict[str, str]) -> None:
    file.write(struct.pack("<I", VERSION) + _string(NAME))
    file.write(struct.pack("<II", REVISION, len(variables)))
    for name, value in sorted(variables.items()):
        head = struct.pack(f"<B{value.ndim}I", value.ndim, *value.shape)
        file.write(_string(name) + head + struct.pack("<BI", _TYPES[value.dtype], value.nbytes))
        file.write(np.ascontiguousarray(value).tobytes())
    file.write(struct.pack("<I", len(aliases)))
    for alias, name in sorted(aliases.items()):
        file.write(_string(alias) + _string(name))


def _string(text: str) -> bytes:
    raw = text.encode("utf-8")
    return struct.pack("<H", len(raw) + 1) + raw + b"\0"


def _json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
