"""Each fault planted alone in a tiny model is found, healthy ones have none, nothing crashes."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from gguf_models import tiny_llama, write_model
from safetensors.torch import load_file, save_file
from tiny_models import CASES, V, saved
from tokenizers import Tokenizer as Backend
from tokenizers import models as backends

import budgerigar as bg
from budgerigar.api import doctor
from budgerigar.cli import main
from budgerigar.errors import UserError
from budgerigar.experiments.doctor import Diagnosis
from budgerigar.formats.gguf_out import save_gguf
from budgerigar.formats.hugging_face_out import save_hugging_face
from budgerigar.formats.run import Loaded, make_config, save_model
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


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Healthy ones: a Hugging Face folder (with the output layer apart, and tied), GGUF, a run."""
    base = tmp_path_factory.mktemp("doctor")
    apart, tied = learnt(tied_embeddings=False), learnt(tied_embeddings=True)
    for name, loaded in (("apart", apart), ("tied", tied)):
        save_hugging_face(loaded, base / name)
        (base / name / "tokenizer_extras.json").unlink()  # as others write it
    save_gguf(tied, base / "model.gguf", "F32")
    save_model(base / "run", apart.network, apart.tokenizer, apart.config)
    return {name: base / name for name in ("apart", "tied", "model.gguf", "run")}


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


def names(found: Diagnosis) -> list[str]:
    return [fault.name for fault in found.faults]


def said(found: Diagnosis) -> str:
    return "\n".join(found.lines())


# -- healthy ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["apart", "tied", "model.gguf", "run"])
def test_a_healthy_model_has_no_fault(name: str, folders: dict[str, Path]) -> None:
    found = doctor(folders[name], TEXT)
    assert found.faults == [], said(found)
    assert found.healthy
    assert found.measured["perplexity as stored"] < 3
    assert (
        found.measured["perplexity in another rotary order"]
        > 2 * (found.measured["perplexity as stored"])
    )
    assert set(found.skipped) <= {"chat template"}, found.skipped


@pytest.mark.parametrize("name", [name for name in CASES if name != "marian-two"])
def test_healthy_models_of_each_family(name: str, tmp_path: Path) -> None:
    folder = saved(name, tmp_path / name)
    letters = [*"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ .,;", "<unk>", "[MASK]"]
    order = ["<s>", "</s>", *letters][:V]
    backend = Backend(
        backends.BPE({piece: i for i, piece in enumerate(order)}, [], unk_token="<unk>")
    )
    backend.save(str(folder / "tokenizer.json"))
    changed(folder, "tokenizer_config.json", eos_token="</s>", unk_token="<unk>")
    for file in ("config.json", "generation_config.json"):
        if (folder / file).is_file():
            changed(folder, file, eos_token_id=1, bos_token_id=0)
    found = doctor(folder)
    assert [f for f in found.faults if f.severity != "note"] == [], said(found)


def test_a_trained_run_has_no_fault(tmp_path: Path) -> None:
    file = tmp_path / "text.txt"
    file.write_text(f"{TEXT}\n" * 60)
    small: dict[str, Any] = {
        "n_layers": 1,
        "n_heads": 2,
        "d_model": 16,
        "context_length": 32,
        "batch_size": 2,
    }
    run = bg.train(file, recipe=bg.Recipe(), out=tmp_path / "run", steps=2, threads=1,
                   baselines=False, sample_every=0, **small)  # fmt: skip
    found = doctor(run.folder)
    assert found.faults == [], said(found)


# -- one fault each --------------------------------------------------------------------------------
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


def _put(name: str, value: float) -> Callable[[Path], None]:
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


_Q = "model.layers.0.self_attn.q_proj.weight"
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
        _tensors(lambda t: t.pop(_Q)),
        "missing, unused or misshapen tensors",
        "error",
    ),
    "unused": (
        "apart",
        _tensors(lambda t: t.update({"model.layers.7.mlp.up_proj.weight": torch.ones(2, 2)})),
        "missing, unused or misshapen tensors",
        "error",
    ),
    "nan": ("apart", _put(_Q, float("nan")), "numbers that are infinite or none", "error"),
    "infinite": ("apart", _put(_Q, float("inf")), "numbers that are infinite or none", "error"),
    "large": ("apart", _put(_Q, 1e6), "numbers beyond float16", "warning"),
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
        _put("decoder.0.self_attention.query.weight", float("nan")),
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
_BESIDE = {"no end": {"generation defaults missing"}, "run: missing": set()}
"""what else is true of one, being the same thing seen from another side"""


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found(fault: str, folders: dict[str, Path], tmp_path: Path) -> None:
    base, plant, name, severity = PLANTED[fault]
    shutil.copytree(folders[base], tmp_path / "model")
    plant(tmp_path / "model")
    found = doctor(tmp_path / "model", TEXT)
    assert set(names(found)) - _BESIDE.get(fault, set()) == {name}, said(found)
    assert len([f for f in found.faults if f.name == name]) == 1
    one = next(f for f in found.faults if f.name == name)
    assert one.severity == severity
    assert one.evidence
    assert one.advice
    assert found.healthy == (severity == "note")


@pytest.mark.parametrize(
    ("metadata", "name"),
    [
        ({"tokenizer.ggml.pre": "unheard-of"}, "unknown pre-tokenizer"),
        ({"tokenizer.ggml.pre": None}, "no pre-tokenizer named"),
        ({"tokenizer.ggml.eos_token_id": 5000}, "an end beyond the vocabulary"),
        ({"tokenizer.chat_template": "<|im_start|>" + CHAT}, "a template for another tokenizer"),
        (
            {
                "tokenizer.chat_template": "{{ bos_token }}" + CHAT,
                "tokenizer.ggml.add_bos_token": True,
            },
            "BOS twice",
        ),
        ({"llama.context_length": 90_000}, "context beyond training"),
    ],
)
def test_faults_of_gguf_files(metadata: dict[str, Any], name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_model(path, tiny_llama(), said=metadata)
    assert names(doctor(path)) == [name]


def test_a_healthy_gguf_of_a_random_model_and_one_without_a_tensor(tmp_path: Path) -> None:
    write_model(tmp_path / "a.gguf", tiny_llama(), quantise="Q8_0")
    assert names(doctor(tmp_path / "a.gguf")) == []
    write_model(tmp_path / "b.gguf", tiny_llama(), leave_out=("blk.1.attn_q.weight",))
    found = doctor(tmp_path / "b.gguf")
    assert names(found) == ["missing, unused or misshapen tensors"]
    assert "blk.1.attn_q.weight" in said(found)


# -- broken files ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("base", "file"),
    [
        ("apart", "config.json"),
        ("apart", "model.safetensors"),
        ("apart", "tokenizer.json"),
        ("apart", "tokenizer_config.json"),
        ("apart", "generation_config.json"),
        ("run", "config.json"),
        ("run", "model.safetensors"),
        ("run", "tokenizer.json"),
    ],
)
def test_a_file_cut_short_is_told_and_the_rest_examined(
    base: str, file: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    shutil.copytree(folders[base], tmp_path / "model")
    path = tmp_path / "model" / file
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    found = doctor(tmp_path / "model", TEXT)
    assert not found.healthy
    assert file in said(found)
    assert found.examined


def test_mutated_files_never_crash(folders: dict[str, Path], tmp_path: Path) -> None:
    draw = random.Random(0)
    shutil.copytree(folders["apart"], tmp_path / "model")
    for _ in range(40):
        path = draw.choice(sorted((tmp_path / "model").iterdir()))
        whole = path.read_bytes()
        mutated = bytearray(whole)
        for _ in range(draw.randint(1, 6)):
            mutated[draw.randrange(min(len(mutated), 2000))] = draw.randrange(256)
        path.write_bytes(mutated)
        assert doctor(tmp_path / "model", TEXT).lines()
        path.write_bytes(whole)


# -- the command -----------------------------------------------------------------------------------
def test_the_status_says_what_was_found(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", str(folders["apart"]), "--text", TEXT]) == 0
    assert "nothing wrong was found" in capsys.readouterr().out
    shutil.copytree(folders["apart"], tmp_path / "model")
    _put(_Q, float("nan"))(tmp_path / "model")
    assert main(["doctor", str(tmp_path / "model"), "--json"]) == 1
    values = json.loads(capsys.readouterr().out)
    assert values["healthy"] is False
    assert values["faults"][0]["name"] == "numbers that are infinite or none"
    assert set(values["faults"][0]) == {"name", "evidence", "advice", "severity"}
    (tmp_path / "empty").mkdir()
    (tmp_path / "note.txt").write_text("hello")
    for nothing in ("empty", "note.txt", "not-there"):
        assert main(["doctor", str(tmp_path / nothing)]) == 2
        assert capsys.readouterr().out == ""


def test_nothing_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no run folder"):
        doctor(tmp_path / "away")
