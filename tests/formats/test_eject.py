"""Ejected files: the same logits, under 300 lines, nothing of ours, clean, and they run."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import random
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer as Backend

from budgerigar.errors import UserError
from budgerigar.formats.eject import eject, fill, source, unsupported
from budgerigar.formats.run import Loaded, make_config, save_model
from budgerigar.formats.tensors import network_tensors, write_tensors
from budgerigar.generation.options import SamplingOptions
from budgerigar.generation.streaming import generate_texts
from budgerigar.layers.config import LayerPattern, RotaryScaling, TransformerConfig
from budgerigar.models.configs import NgramConfig
from budgerigar.models.ngram import NgramModel
from budgerigar.models.transformer import Transformer
from budgerigar.text.tokenizers import train_tokenizer

SMALL = {"vocab_size": 19, "context_length": 16, "d_model": 24, "n_layers": 3, "n_heads": 4}
DIALS: dict[str, list[Any]] = {
    "positions": ["sinusoidal", "learned", "rotary", "relative", "alibi", "none"],
    "sinusoid_layout": ["interleaved", "split"],
    "position_offset": [0, 2],
    "rotary_fraction": [1.0, 0.5],
    "rotary_scaling": [
        None,
        RotaryScaling("linear", 2.0),
        RotaryScaling("llama3", 4.0, original_context_length=8),
        RotaryScaling("yarn", 4.0, original_context_length=8),
    ],
    "relative_shared": [True, False],
    "token_types": [0, 2],
    "norm": ["layer", "rms"],
    "norm_weight": [True, False],
    "norm_bias": [True, False],
    "norm_offset": [False, True],
    "norm_place": ["pre", "post", "sandwich", "output"],
    "final_norm": [None, True, False],
    "residual": [True, False],
    "parallel_residual": [False, True],
    "n_heads": [4, 6],
    "n_kv_heads": [None, 2, 1],
    "d_head": [None, 8],
    "attention_scale": ["sqrt", "none", 0.3],
    "layers": [
        (),
        (LayerPattern(attention_window=3), LayerPattern()),
        (LayerPattern(rotary_base=100.0), LayerPattern(rotary_base=5000.0)),
    ],
    "attention_window": [None, 5],
    "sink_tokens": [0, 2],
    "sink_logit": [False, True],
    "qk_norm": ["none", "head", "full"],
    "attention_softcap": [None, 4.0],
    "activation": [
        "relu",
        "gelu",
        "gelu-tanh",
        "silu",
        "squared-relu",
        "swiglu",
        "geglu",
        "geglu-tanh",
    ],
    "qkv_bias": [True, False],
    "output_bias": [True, False],
    "ff_bias": [True, False],
    "head_bias": [False, True],
    "tied_embeddings": [True, False],
    "embedding_scale": ["none", "sqrt", 3.0],
    "embedding_norm": [False, True],
    "logit_softcap": [None, 6.0],
    "head_scale": [1.0, 0.25],
}


class Plain:
    """Enough of a tokenizer for writing a file: one id per letter."""

    def __init__(self, end_id: int | None = None, never_seen: bool = False) -> None:
        self.end_id, self.vocab_size = end_id, 19
        self.never_seen = np.zeros(19, dtype=bool)
        self.never_seen[3] = never_seen

    def encode(self, text: str) -> list[int]:
        return [ord(character) % 19 for character in text]


def valid(dials: dict[str, Any]) -> TransformerConfig | None:
    config = TransformerConfig(**{**SMALL, **dials})
    return None if config.problems() or unsupported(config) else config


def pairwise_sample(seed: int = 0) -> list[TransformerConfig]:
    """Configurations that together hold every valid pair of settings of two dials."""
    rng = random.Random(seed)
    missing = {
        (a, i, b, j)
        for a, b in itertools.combinations(DIALS, 2)
        for i, j in itertools.product(range(len(DIALS[a])), range(len(DIALS[b])))
        if valid({a: DIALS[a][i], b: DIALS[b][j]}) is not None
    }
    found = []
    while missing:
        best: dict[str, int] = {}
        a, i, b, j = min(missing) if len(missing) < 20 else rng.choice(sorted(missing))
        best = {a: i, b: j}
        for name in rng.sample(sorted(DIALS), len(DIALS)):  # add dials that cover most
            if name in best:
                continue
            gains = []
            for k in range(len(DIALS[name])):
                trial = {**best, name: k}
                if valid({n: DIALS[n][v] for n, v in trial.items()}) is None:
                    continue
                pairs = ((n, v, name, k) if n < name else (name, k, n, v) for n, v in best.items())
                gains.append((sum(_key(*pair) in missing for pair in pairs), rng.random(), k))
            if gains:
                best[name] = max(gains)[2]
        config = valid({n: DIALS[n][v] for n, v in best.items()})
        assert config is not None
        before = len(missing)
        missing -= {_key(n, v, m, w) for (n, v), (m, w) in itertools.combinations(best.items(), 2)}
        assert len(missing) < before
        found.append(config)
    return found


def _key(a: str, i: int, b: str, j: int) -> tuple[str, int, str, int]:
    order = list(DIALS)
    return (a, i, b, j) if order.index(a) < order.index(b) else (b, j, a, i)


def lively(config: TransformerConfig) -> Transformer:
    """A model whose every weight matters, biases, norms and sinks included."""
    network = Transformer(config).eval()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.empty(parameter.shape).normal_(0, 0.2, generator=generator))
    return network


def imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"ejected_{path.parent.name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(config: TransformerConfig, folder: Path, tokenizer: Plain | None = None) -> Path:
    """Eject, import, compare logits to 1e-5 of the largest."""
    folder.mkdir()
    network = lively(config)
    write_tensors(folder / "model.safetensors", network_tensors(network))
    loaded = Loaded(network, tokenizer or Plain(), {}, None, folder)
    path, n_lines = eject(loaded)
    assert n_lines < 300
    tokens = torch.randint(0, 19, (2, 16), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = network(tokens)
        found = imported(path).load()(tokens)
    assert (found - expected).abs().max() <= 1e-5 * expected.abs().max(), config
    return path


def clean(paths: list[Path]) -> None:
    """Formatted, no unused name, no line too long, nothing of ours imported."""
    ruff = [sys.executable, "-m", "ruff"]
    settings = ["--isolated", "--line-length", "100"]
    names = list(map(str, paths))
    for command in (
        [*ruff, "check", *settings, "--select", "E,F,I,W,B,UP", *names],
        [*ruff, "format", "--diff", *settings, *names],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = (
                    [node.module]
                    if isinstance(node, ast.ImportFrom)
                    else [alias.name for alias in node.names]
                )
                assert not any("budgerigar" in str(name) for name in names)


def test_same_logits_over_all_pairs_of_dials(tmp_path: Path) -> None:
    paths = [
        check(config, tmp_path / str(i), Plain(4 if i % 2 else None, never_seen=i % 3 == 0))
        for i, config in enumerate(pairwise_sample())
    ]
    clean(paths)


def test_known_models_read_well(tmp_path: Path) -> None:
    llama = TransformerConfig(
        **SMALL,
        norm="rms",
        activation="swiglu",
        n_kv_heads=2,
        qkv_bias=False,
        output_bias=False,
        ff_bias=False,
    )
    text = check(llama, tmp_path / "llama").read_text()
    for absent in (
        "LayerNorm",
        "sinusoid",
        "relative",
        "alibi",
        "softcap",
        "sink",
        "END",
        "json\n",
    ):
        assert absent not in text.replace("tokenizer.json", "")
    gpt2 = TransformerConfig(**SMALL, positions="learned", activation="gelu-tanh")
    text = check(gpt2, tmp_path / "gpt2").read_text()
    for absent in ("RMSNorm", "rotate", "repeat_interleave", "gate"):
        assert absent not in text


def test_unsupported_dials_are_named(tmp_path: Path) -> None:
    config = TransformerConfig(
        **SMALL, embedding_size=12, layers=(LayerPattern(norm="rms"), LayerPattern())
    )
    with pytest.raises(UserError, match=r"embedding_size = 12.*different norms"):
        source(config, Plain(), tmp_path, tmp_path / "model.py")
    config = TransformerConfig(**SMALL, assembly="encoder-only", attention_window=None)
    with pytest.raises(UserError, match="encoder-only"):
        source(config, Plain(), tmp_path, tmp_path / "model.py")
    ngram = NgramModel.fit(np.arange(19), NgramConfig(vocab_size=19, order=2))
    with pytest.raises(UserError, match="ngram"):
        eject(Loaded(ngram, Plain(), {}, None, tmp_path))


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = check(TransformerConfig(**SMALL), tmp_path / "run")
    loaded = Loaded(lively(TransformerConfig(**SMALL)), Plain(), {}, None, path.parent)
    with pytest.raises(UserError, match="exists already"):
        eject(loaded)


def test_fill_keeps_the_first_branch_that_holds() -> None:
    template = "a\n%if x\nb {{n}}\n%elif y\nc\n%else\nd\n%end\ne"
    assert fill(template, {"x": True, "y": True}, {"n": 7}) == "a\nb 7\ne"
    assert fill(template, {"x": False, "y": True}, {}) == "a\nc\ne"
    assert fill(template, {"x": False, "y": False}, {}) == "a\nd\ne"


@pytest.mark.parametrize(("kind", "documents"), [("character", True), ("bpe", False)])
def test_it_runs_as_a_script_and_says_what_the_model_says(
    tmp_path: Path, kind: str, documents: bool
) -> None:
    text = "虎皮鹦鹉 has green feathers. Once upon a time there was a budgerigar. " * 3
    tokenizer = train_tokenizer([text], kind=kind, end=documents)
    size = tokenizer.vocab_size
    config = TransformerConfig(
        **{**SMALL, "vocab_size": size, "init_std": 0.5, "tied_embeddings": False}
    )
    network = Transformer(config, seed=5).eval()
    run = tmp_path / "run"
    save_model(run, network, tokenizer, make_config(config, {"documents": "none"}))
    out = run if documents else tmp_path / "else where"  # in the run's folder, and outside it
    out.mkdir(exist_ok=True)
    path, _ = eject(run, out / "tiny.py")
    options = SamplingOptions(max_new_tokens=40, temperature=0)
    (expected,) = generate_texts(network, tokenizer, ["Once 虎"], options)
    assert len(set(expected.tokens)) > 1
    done = subprocess.run(
        [sys.executable, str(path), "Once 虎", "--tokens", "40", "--temperature", "0"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Once 虎" + expected.text + "\n"


@pytest.mark.parametrize("kind", ["character", "symbols", "byte", "bpe", "unigram", "word"])
def test_the_tokenizer_file_alone_reads_and_writes_as_ours(tmp_path: Path, kind: str) -> None:
    """An ejected file uses `tokenizers` itself: its ids and its text must be ours."""
    text = "the budgerigar has green feathers. 虎皮鹦鹉 <end> once upon a time\n" * 4
    ours = train_tokenizer([text], kind=kind, end=True)
    ours.save(tmp_path)
    theirs = Backend.from_file(str(tmp_path / "tokenizer.json"))
    theirs.encode_special_tokens = True
    assert theirs.encode(text, add_special_tokens=False).ids == ours.encode(text)
    assert theirs.decode(ours.encode(text)) == text
    rng = np.random.default_rng(0)
    for _ in range(20):
        ids = rng.integers(0, ours.vocab_size, 12).tolist()
        ids = [i for i in ids if not ours.never_seen[i]]
        assert theirs.decode(ids).strip("\ufffd") == ours.decode(ids).strip("\ufffd")


# -- models from elsewhere ---------------------------------------------------------------------------
def imported_folder(folder: Path) -> Path:
    """A tiny Llama of `transformers`, with Llama 2's tokenizer."""
    import foreign_tokenizers as foreign
    from tiny_models import transformers

    foreign.llama_like(folder)
    torch.manual_seed(2)
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=512, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
        )
    )  # fmt: skip
    model.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("form", ["hugging-face", "gguf"])
def test_a_model_from_elsewhere_comes_with_its_weights(form: str, tmp_path: Path) -> None:
    from budgerigar.formats.load import load_any

    place = imported_folder(tmp_path / "hf")
    if form == "gguf":
        from gguf_models import tiny_llama, write_model

        place = tmp_path / "tiny.gguf"
        write_model(place, tiny_llama(intermediate_size=128), "Q4_1")
    path, n_lines = eject(place, tmp_path / "out")
    assert path == tmp_path / "out" / "model.py"
    assert n_lines == path.read_text().count("\n") < 300
    assert "budgerigar" not in path.read_text()
    loaded = load_any(place)
    ids = torch.arange(1, 33)[None]
    spec = importlib.util.spec_from_file_location("ejected_import", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with torch.inference_mode():
        assert torch.allclose(module.load()(ids), loaded.network(ids), atol=1e-5)
    found = subprocess.run(
        [sys.executable, str(path), "The bird", "--tokens", "5", "--temperature", "0"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    options = SamplingOptions(max_new_tokens=5, temperature=0.0)
    (ours,) = generate_texts(loaded.network, loaded.tokenizer, ["The bird"], options)
    assert found.stdout.strip("\n") == ("The bird" + ours.text).strip("\n")


def test_a_model_from_elsewhere_needs_a_new_folder(tmp_path: Path) -> None:
    place = imported_folder(tmp_path / "hf")
    for out in (None, tmp_path / "model.py"):
        with pytest.raises(UserError, match="--out hf-ejected"):
            eject(place, out)
    with pytest.raises(UserError, match="exists already"):
        eject(place, tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["hf"]


@pytest.mark.parametrize("assembly", ["encoder-only", "encoder-decoder"])
def test_what_is_no_decoder_is_told_the_way_out(assembly: Any, tmp_path: Path) -> None:
    network = Transformer(TransformerConfig(**SMALL, assembly=assembly))
    loaded = Loaded(network, Plain(), {}, None, tmp_path)
    with pytest.raises(UserError, match=rf"{assembly}.*budgie convert"):
        eject(loaded, tmp_path / "out")
