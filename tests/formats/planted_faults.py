"""A small model that knows its text, and faults to be planted in its folder, one at a time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

from budgerigar.formats.run import Loaded, make_config
from budgerigar.formats.weight_rules import Interleaved
from budgerigar.layers.config import TransformerConfig
from budgerigar.models.transformer import Transformer
from budgerigar.text.tokenizers import Tokenizer, train_tokenizer

TEXT = "a cat and a bat sat on a mat; a rat ran at a cat, and a bat ran at a rat. a mat sat."
CHAT = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}{{ eos_token }}{% endfor %}"
HEADS = 2


def learnt(**dials: Any) -> Loaded:
    """A model of Llama's shape that knows TEXT by heart."""
    torch.manual_seed(0)
    tokenizer: Tokenizer = train_tokenizer([TEXT], "byte", end=True)
    config = TransformerConfig(
        vocab_size=tokenizer.vocab_size, d_model=32, n_layers=1, n_heads=HEADS, context_length=128,
        norm="rms", norm_bias=False, activation="swiglu", qkv_bias=False, output_bias=False,
        ff_bias=False, initialisation="normal", **dials,
    )  # fmt: skip
    network = Transformer(config, seed=0)
    ids = torch.tensor([tokenizer.end_id, *tokenizer.encode(TEXT)])
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    for _ in range(150):
        optimizer.zero_grad()
        F.cross_entropy(network(ids[None, :-1])[0], ids[1:]).backward()
        optimizer.step()
    values = make_config(config, {"documents": "lines"})
    return Loaded(network.eval(), tokenizer, values, None, Path("none"))


def changed(folder: Path, file: str, **values: Any) -> None:
    """Set values of a JSON file; None takes one out."""
    path = folder / file
    found = json.loads(path.read_text()) if path.is_file() else {}
    found = {k: v for k, v in (found | values).items() if v is not None}
    path.write_text(json.dumps(found))


def weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    """Change the tensors of a folder."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file({k: v.contiguous() for k, v in tensors.items()}, path, {"format": "pt"})


def _bos_in_template(folder: Path) -> None:
    changed(folder, "tokenizer_config.json", chat_template="{{ bos_token }}" + CHAT)


def _bos_in_tokenizer(folder: Path) -> None:
    path = folder / "tokenizer.json"
    document = json.loads(path.read_text())
    step = document["post_processor"]
    steps = [one for one in step.get("processors", [step]) if "single" in one]
    steps[0]["single"].insert(0, steps[0]["single"][0])
    path.write_text(json.dumps(document))


def _rotary(folder: Path) -> None:
    def turn(tensors: dict[str, torch.Tensor]) -> None:
        for name in tensors:
            if name.endswith(("q_proj.weight", "k_proj.weight")):
                tensors[name] = Interleaved(HEADS).write(tensors[name])

    weights(folder, turn)


def _shards(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    order = sorted(tensors)
    homes = {name: f"model-0000{1 + i % 2}-of-00002.safetensors" for i, name in enumerate(order)}
    for shard in set(homes.values()):
        part = {name: tensors[name] for name in order if homes[name] == shard}
        save_file(part, folder / shard, {"format": "pt"})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": homes}))
    (folder / "model-00002-of-00002.safetensors").unlink()


def _pad(tensors: dict[str, torch.Tensor]) -> None:
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        tensors[name] = torch.cat([tensors[name], torch.zeros(7, tensors[name].shape[1])])


def _cut(tensors: dict[str, torch.Tensor]) -> None:
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        tensors[name] = tensors[name][:-7]


def _size(folder: Path, by: int) -> None:
    before = json.loads((folder / "config.json").read_text())["vocab_size"]
    weights(folder, _pad if by > 0 else _cut)
    changed(folder, "config.json", vocab_size=before + by)


def put(name: str, value: float) -> Callable[[Path], None]:
    def change(tensors: dict[str, torch.Tensor]) -> None:
        tensors[name][0, 0] = value

    return lambda folder: weights(folder, change)


def _random_head(tensors: dict[str, torch.Tensor]) -> None:
    shape = tensors["model.embed_tokens.weight"].shape
    tensors["lm_head.weight"] = (
        torch.randn(shape, generator=torch.Generator().manual_seed(1)) * 0.02
    )


def _untie(folder: Path) -> None:
    weights(folder, _random_head)
    changed(folder, "config.json", tie_word_embeddings=False)


def _no_end(folder: Path) -> None:
    (folder / "generation_config.json").unlink()
    changed(folder, "config.json", eos_token_id=None)
    changed(folder, "tokenizer_config.json", eos_token=None)


def _json(file: str, **values: Any) -> Callable[[Path], None]:
    return lambda folder: changed(folder, file, **values)


def _tensors(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], None]:
    return lambda folder: weights(folder, change)


Q = "model.layers.0.self_attn.q_proj.weight"
_SCALED = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 32}
PLANTED: dict[str, tuple[str, Callable[[Path], None], str, str]] = {
    "bos in template": ("apart", _bos_in_template, "BOS twice", "warning"),
    "bos in tokenizer": ("apart", _bos_in_tokenizer, "BOS twice", "error"),
    "ends": (
        "apart",
        _json("generation_config.json", eos_token_id=65),
        "end tokens that disagree",
        "warning",
    ),
    "end beyond": (
        "apart",
        _json("generation_config.json", eos_token_id=[256, 9999]),
        "an end beyond the vocabulary",
        "error",
    ),
    "template": (
        "apart",
        _json("tokenizer_config.json", chat_template="<|im_start|>" + CHAT),
        "a template for another tokenizer",
        "error",
    ),
    "broken template": (
        "apart",
        _json("tokenizer_config.json", chat_template="{% for"),
        "a chat template that does not work",
        "error",
    ),
    "special": (
        "apart",
        _json("tokenizer_config.json", pad_token="<lost>"),
        "special tokens that the vocabulary lacks",
        "error",
    ),
    "rotary": ("apart", _rotary, "rotary order", "error"),
    "rotary tied": ("tied", _rotary, "rotary order", "error"),
    "no head": (
        "apart",
        _tensors(lambda t: t.pop("lm_head.weight")),
        "tied head left random",
        "error",
    ),
    "random head": ("tied", _untie, "tied head left random", "error"),
    "two heads": ("tied", _tensors(_random_head), "tie flag against tensors", "error"),
    "padded": ("apart", lambda f: _size(f, 7), "padded vocabulary", "note"),
    "cut": ("apart", lambda f: _size(f, -7), "vocabulary larger than the model's", "error"),
    "shard": ("apart", _shards, "a shard named but missing", "error"),
    "scaling": (
        "apart",
        _json("config.json", rope_scaling=_SCALED),
        "context beyond training",
        "warning",
    ),
    "base": (
        "apart",
        _json("config.json", max_position_embeddings=100_000),
        "context beyond training",
        "warning",
    ),
    "missing": (
        "apart",
        _tensors(lambda t: t.pop(Q)),
        "missing, unused or misshapen tensors",
        "error",
    ),
    "unused": (
        "apart",
        _tensors(lambda t: t.update({"model.layers.7.mlp.up_proj.weight": torch.ones(2, 2)})),
        "missing, unused or misshapen tensors",
        "error",
    ),
    "nan": ("apart", put(Q, float("nan")), "numbers that are infinite or none", "error"),
    "infinite": ("apart", put(Q, float("inf")), "numbers that are infinite or none", "error"),
    "large": ("apart", put(Q, 1e6), "numbers beyond float16", "warning"),
    "no end": ("apart", _no_end, "no end named", "warning"),
    "no generation_config": (
        "apart",
        lambda f: (f / "generation_config.json").unlink(),
        "generation defaults missing",
        "note",
    ),
    "run: missing": (
        "run",
        _tensors(lambda t: t.pop("decoder.final_norm.weight")),
        "missing, unused or misshapen tensors",
        "error",
    ),
    "run: nan": (
        "run",
        put("decoder.0.self_attention.query.weight", float("nan")),
        "numbers that are infinite or none",
        "error",
    ),
    "run: no weights": (
        "run",
        lambda f: (f / "model.safetensors").unlink(),
        "no weights",
        "error",
    ),
}
BESIDE = {"no end": {"generation defaults missing"}, "run: missing": set()}
"""what else is true of one, being the same thing seen from another side"""
