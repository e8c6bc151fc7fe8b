"""Hugging Face folders from outside: what is accepted, and what is refused with the reason."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from tiny_models import DECODERS, TRANSLATORS, V, ids, saved, theirs

import budgerigar as bg
from budgerigar.api.cards import card
from budgerigar.errors import UserError
from budgerigar.formats.hugging_face import describe, is_hugging_face, load_weights, problems
from budgerigar.text.tokenizers import train_tokenizer


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    made: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in made:
            made[name] = saved(name, tmp_path_factory.mktemp(name))
        return made[name]

    return get


@pytest.fixture
def copied(models: Callable[[str], Path], tmp_path: Path) -> Callable[..., Path]:
    """A copy of a model's folder with other settings (`...` takes one away)."""

    def get(name: str, **settings: Any) -> Path:
        folder = tmp_path / name
        shutil.copytree(models(name), folder)
        values = json.loads((folder / "config.json").read_text()) | settings
        kept = {key: value for key, value in values.items() if value is not ...}
        (folder / "config.json").write_text(json.dumps(kept))
        return folder

    return get


def weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], Any]) -> Path:
    """Rewrite a folder's weights."""
    tensors = dict(load_file(folder / "model.safetensors"))
    change(tensors)
    save_file(tensors, folder / "model.safetensors")
    return folder


def refused(folder: Path, *words: str) -> str:
    with pytest.raises(UserError) as caught:
        load_weights(describe(folder))
    message = str(caught.value)
    for word in words:
        assert word in message, message
    return message


# -- what is one and what is not -------------------------------------------------------------------
def test_is_told_by_its_config(models: Callable[[str], Path], tmp_path: Path) -> None:
    assert is_hugging_face(models("gpt2"))
    assert not is_hugging_face(tmp_path)
    for content in (
        '{"format_version": 1, "model_type": "gpt2"}',
        "[1]",
        "{",
        '{"a": 1}',
        "[" * 10**5,
    ):
        (tmp_path / "config.json").write_text(content)
        assert not is_hugging_face(tmp_path)


def test_an_unknown_architecture_lists_the_families(copied: Callable[..., Path]) -> None:
    folder = copied("gpt2", model_type="mamba", architectures=["MambaForCausalLM"])
    refused(folder, "MambaForCausalLM is no model", "Llama (LlamaForCausalLM", "Marian (", "GPT-2")
    folder = copied("llama", architectures=..., model_type=...)
    refused(folder, "neither architectures nor model_type")
    folder = copied("bert", architectures=["BertForQuestionAnswering"])
    refused(folder, "BertForQuestionAnswering has another output layer", "BertForMaskedLM")


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("gpt2", ["n_embd", "n_head", "n_layer"]),
        ("llama", ["hidden_size", "intermediate_size", "num_attention_heads"]),
        ("bert", ["hidden_size", "max_position_embeddings"]),
        ("distilbert", ["dim", "hidden_dim"]),
        ("t5", ["d_model", "d_kv", "num_heads"]),
        ("marian", ["d_model", "encoder_layers", "decoder_ffn_dim"]),
    ],
)
def test_all_settings_that_are_missing_are_told(
    name: str, missing: list[str], copied: Callable[..., Path]
) -> None:
    folder = copied(name, vocab_size="many", **dict.fromkeys(missing, ...))
    refused(folder, *(f"{key} is missing" for key in missing), "vocab_size = 'many'", "config.json")


@pytest.mark.parametrize("value", [-3, 2.5, True, [1], {}, "7", 1e400, 10**30])
def test_settings_that_are_no_sizes(value: Any, copied: Callable[..., Path]) -> None:
    refused(copied("llama", hidden_size=value), "hidden_size", "must be a whole number")


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "one scale in all layers"),
        ("gpt2", {"add_cross_attention": True}, "reads no source"),
        ("gpt2", {"activation_function": "mish"}, "activation_function = 'mish'"),
        (
            "llama",
            {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}},
            "the length of each",
        ),
        ("llama", {"rope_parameters": {"rope_type": "longrope"}}, "the length of each text"),
        ("llama", {"rope_parameters": {"rope_type": "llama3"}}, "factor is missing"),
        ("llama", {"rope_parameters": {"partial_rotary_factor": 0.5}}, "turned whole"),
        ("llama", {"rope_parameters": 3}, "must be a table"),
        ("qwen2", {"layer_types": ["full_attention"]}, "layer_types"),
        ("bert", {"is_decoder": True}, "looks back only"),
        ("bert", {"position_embedding_type": "relative_key"}, "are a table"),
        ("t5", {"feed_forward_proj": "gated-mish"}, "gated-mish"),
        ("marian", {"decoder_ffn_dim": 48}, "one size is needed"),
        ("marian", {"normalize_before": True}, "after each sublayer"),
        ("llama", {"num_attention_heads": 5, "head_dim": None}, "n_heads"),
        ("llama", {"architectures": "LlamaForCausalLM"}, "a list of words"),
    ],
)
def test_what_this_transformer_has_no_dial_for(
    name: str, settings: dict[str, Any], words: str, copied: Callable[..., Path]
) -> None:
    refused(copied(name, **settings), words, "config.json")


@pytest.mark.parametrize(
    "settings",
    [
        {"hidden_size": 10**12},
        {"vocab_size": 10**15},
        {"num_hidden_layers": 9_000},
        {"head_dim": 10**9},
        {"intermediate_size": 2**62},
    ],
)
def test_a_description_of_something_vast_costs_nothing(
    settings: dict[str, Any], copied: Callable[..., Path]
) -> None:
    refused(copied("llama", **settings), "weights, and the files beside it hold")


# -- quantised, pickled ----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"quantization": {"group_size": 64, "bits": 4}}, "quantised for MLX"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "quantised by gptq"),
        ({"quantization_config": {"quant_method": "bitsandbytes"}}, "quantised by bitsandbytes"),
        ({"quantization_config": {}}, "quantised (it has"),
    ],
)
def test_quantised_folders_are_refused(
    settings: dict[str, Any], words: str, copied: Callable[..., Path]
) -> None:
    refused(copied("llama", **settings), words, ".gguf file of the same model")


def test_packed_weights_give_themselves_away(copied: Callable[..., Path]) -> None:
    def pack(tensors: dict[str, torch.Tensor]) -> None:
        tensors["model.layers.0.mlp.up_proj.weight"] = torch.zeros(40, 3, dtype=torch.uint32)
        tensors["model.layers.0.mlp.up_proj.scales"] = torch.zeros(40, 1)

    refused(weights(copied("llama"), pack), "quantised weights", "2 such tensors")


def test_pickles_are_refused(copied: Callable[..., Path]) -> None:
    folder = copied("bert")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    refused(folder, "a pickle, which can run any program", "model.safetensors")


# -- weights that do not fit -----------------------------------------------------------------------
def test_missing_unused_and_misshapen_tensors_are_all_told(copied: Callable[..., Path]) -> None:
    def damage(tensors: dict[str, torch.Tensor]) -> None:
        del tensors["transformer.h.0.ln_1.weight"], tensors["transformer.h.1.ln_1.weight"]
        tensors["transformer.h.1.mlp.c_fc.weight"] = torch.zeros(96, 24)
        tensors["transformer.h.2.ln_1.weight"] = torch.zeros(24)

    folder = weights(copied("gpt2"), damage)
    words = (
        "transformer.h.0–1.ln_1.weight is missing (it fills decoder.0–1.attention_norm.weight)",
        "transformer.h.1.mlp.c_fc.weight is (96, 24), not (24, 96)",
        "transformer.h.2.ln_1.weight (24,) is not part of this model",
    )
    refused(folder, *words)
    assert problems(describe(folder)) == list(words)


def test_an_untied_head_that_is_not_there_is_not_made_up(copied: Callable[..., Path]) -> None:
    folder = weights(copied("llama"), lambda tensors: tensors.pop("lm_head.weight"))
    refused(folder, "lm_head.weight is missing")


def test_a_tied_model_may_ship_its_head_too(copied: Callable[..., Path]) -> None:
    def ship(tensors: dict[str, torch.Tensor]) -> None:
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()

    def other(tensors: dict[str, torch.Tensor]) -> None:
        tensors["lm_head.weight"] += 1

    folder = weights(copied("llama3"), ship)
    report = load_weights(describe(folder))[1]
    assert report.tied == [("lm_head.weight", "model.embed_tokens.weight")]
    refused(weights(folder, other), "declared to be one (tied)", "tie_word_embeddings")


def test_padded_vocabularies_lose_what_stands_for_no_token(copied: Callable[..., Path]) -> None:
    def pad(tensors: dict[str, torch.Tensor]) -> None:
        for name in ("model.embed_tokens.weight", "lm_head.weight"):
            tensors[name] = torch.cat([tensors[name], torch.full((3, 24), 9.0)])

    network, report = load_weights(describe(weights(copied("llama"), pad)))
    assert [e.transform for e in report.entries if "first" in e.transform] == [
        "first 61 of 64 rows (padded vocabulary)"
    ] * 2
    tokens = ids(1, 9)
    with torch.inference_mode():
        wanted = theirs("llama")(tokens).logits
        assert (network(tokens) - wanted).abs().max() <= 1e-4 * wanted.abs().max()


def test_tensors_that_carry_nothing_are_left_out_and_said(copied: Callable[..., Path]) -> None:
    extra = {
        "gpt2": ["transformer.h.0.attn.bias", "transformer.h.1.attn.masked_bias"],
        "llama": ["model.layers.0.self_attn.rotary_emb.inv_freq"],
        "bert": ["bert.embeddings.position_ids", "cls.seq_relationship.weight"],
        "t5": ["decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"],
        "marian": ["model.encoder.embed_positions.weight"],
    }
    for name, names in extra.items():
        folder = copied(name)
        weights(folder, lambda tensors, names=names: tensors.update(  # type: ignore[misc]
            {new: torch.zeros(2) for new in names}
        ))  # fmt: skip
        report = load_weights(describe(folder))[1]
        assert {left for left, _ in report.ignored} == set(names)
        assert "left out" in report.text()


def test_norms_of_old_files_are_called_gamma_and_beta(copied: Callable[..., Path]) -> None:
    def rename(tensors: dict[str, torch.Tensor]) -> None:
        for name in [name for name in tensors if "LayerNorm" in name]:
            new = name.replace("LayerNorm.weight", "LayerNorm.gamma")
            tensors[new.replace("LayerNorm.bias", "LayerNorm.beta")] = tensors.pop(name)

    network, _ = load_weights(describe(weights(copied("bert"), rename)))
    tokens = ids(1, 9)
    with torch.inference_mode():
        wanted = theirs("bert")(tokens).logits
        assert (network(tokens) - wanted).abs().max() <= 1e-4 * wanted.abs().max()


def test_shards_are_read_and_a_missing_one_is_named(tmp_path: Path) -> None:
    model = theirs("gpt2")
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    shards = sorted(tmp_path.glob("model-*.safetensors"))
    assert len(shards) > 2
    tokens = ids(1, 9)
    with torch.inference_mode():
        wanted = model(tokens).logits
        found = load_weights(describe(tmp_path))[0](tokens)
    assert (found - wanted).abs().max() <= 1e-4 * wanted.abs().max()
    shards[1].unlink()
    refused(tmp_path, f"{shards[1].name} is missing")


def test_weights_are_mapped_and_not_copied(models: Callable[[str], Path]) -> None:
    """In the maps of this process the file is found, at the place of a weight."""
    maps = Path("/proc/self/maps")
    if not maps.is_file():
        pytest.skip("no /proc here")
    network, _ = load_weights(describe(models("llama")))
    where = network.get_parameter("decoder.1.feed_forward.up.weight").data_ptr()
    lines = [line for line in maps.read_text().splitlines() if str(models("llama")) in line]
    ranges = [[int(end, 16) for end in line.split()[0].split("-")] for line in lines]
    assert any(begin <= where < end for begin, end in ranges)


# -- the verbs -------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", [*DECODERS[:2], TRANSLATORS[2], "minilm", "bert"])
def test_the_verbs_work_on_them(name: str, copied: Callable[..., Path]) -> None:
    text = "the cat sat on the mat. a dog ran to the cat!\n" * 20
    letters = train_tokenizer([text], "symbols", end=True)
    start = {"decoder_start_token_id": 3} if name in TRANSLATORS else {}
    folder = copied(name, bos_token_id=..., eos_token_id=letters.end_id, **start)
    (folder / "generation_config.json").unlink(missing_ok=True)
    assert letters.vocab_size < V
    letters.save(folder)
    (folder / "tokenizer_extras.json").unlink()  # as anybody's tokenizer.json
    model = bg.load(folder)
    assert model.settings["imported"]["family"] in ("GPT-2", "Llama", "Marian", "BERT")
    if name in DECODERS:
        assert len(model.generate("the cat", max_new_tokens=5)) >= 1
        assert model.score("the cat sat").tokens >= 8
        head = model.trace("the cat sat").attention("L1.H0")
        assert head.difference < 1e-5
        (folder / "text.txt").write_text(text)
        assert model.evaluate(folder / "text.txt").nats_per_token > 0
    elif name in TRANSLATORS:
        assert isinstance(model.translate("the cat", max_length=5), str)
        head = model.trace("the cat", "a dog").attention("L0.H0", of="decoder", kind="cross")
        assert head.difference < 1e-5
    else:
        trace = model.trace("the cat sat")
        assert trace.attention("L1.H3").difference < 1e-5
    assert model.load_report is not None
    assert "weights from" in model.load_report.text()
    if name == "minilm":
        with pytest.raises(UserError, match="no output layer"):
            model.logits([1, 2])
    found = card(folder)
    assert found.facts["imported"]["family"] == model.settings["imported"]["family"]
    assert not [note for note in found.notes if note.startswith("weights")]


WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "mat", "on", "##s", "."]


@pytest.mark.parametrize("name", ["minilm", "bert", "bert-classes"])
def test_an_encoder_reads_a_text_as_its_authors_do(name: str, copied: Callable[..., Path]) -> None:
    """[CLS] before it and [SEP] after it, in traces, classes and hidden words."""
    folder = copied(name, id2label={str(i): f"kind {i}" for i in range(5)})
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    model = bg.load(folder)
    text = "the cats sat on the mat."
    reader = transformers.BertTokenizer.from_pretrained(folder)
    read = reader(text).input_ids
    assert model.encode(text) == read
    trace = model.trace(text)
    assert (trace.labels[0], trace.labels[-1]) == ("[CLS]", "[SEP]")
    other = theirs(name)
    other.set_attn_implementation("eager")
    with torch.inference_mode():
        out = other(torch.tensor([read]), output_attentions=True)
    assert trace.attention("L1.H2").weights == pytest.approx(
        out.attentions[1][0, 2].numpy(), abs=1e-5
    )
    if name == "bert":
        hidden = torch.tensor([read])
        hidden[0, 2] = WORDS.index("[MASK]")
        with torch.inference_mode():
            wanted = other(hidden).logits[0, 2].log_softmax(-1)[WORDS.index("cat")]
        assert model.score(text).per_token[1][1] == pytest.approx(-wanted.item(), rel=1e-4)
    if name == "bert-classes":
        best = model.classify(text)[0]  # type: ignore[attr-defined]
        chances = out.logits[0].softmax(-1)
        assert best.label == f"kind {int(chances.argmax())}"
        assert best.probability == pytest.approx(chances.max().item(), rel=1e-4)
