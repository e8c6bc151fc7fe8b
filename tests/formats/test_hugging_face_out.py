"""Our own runs as Hugging Face folders: `transformers` gives our logits and our ids; or a clear no."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tiny_models import ids

import budgerigar as bg
from budgerigar.errors import UserError
from budgerigar.formats.families import FAMILIES
from budgerigar.formats.families.fitting import best_fit, fit
from budgerigar.formats.hugging_face_out import save_hugging_face
from budgerigar.formats.run import Loaded, make_config
from budgerigar.layers.config import LayerPattern, RotaryScaling, TransformerConfig
from budgerigar.layers.packed_linear import PackedEmbedding, PackedLinear, PackedMatrix
from budgerigar.models.transformer import Transformer
from budgerigar.text.tokenizers import Tokenizer, train_tokenizer

TEXT = "the cat sat on the mat. a dog ran to the cat! 轩辕有一只虎皮鹦鹉。 naïve café\n" * 20
SAMPLE = "a dog sat on 虎皮, naïve X  end"
PLAIN: dict[str, Any] = {"qkv_bias": False, "output_bias": False, "ff_bias": False}
RMS: dict[str, Any] = {"norm": "rms", "norm_bias": False}
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "nanogpt": (
        "GPT2LMHeadModel",
        "bpe",
        {"positions": "learned", "norm_bias": False, "activation": "gelu", **PLAIN},
    ),
    "gpt2-squared-relu": (
        "GPT2LMHeadModel",
        "character",
        {"positions": "learned", "activation": "squared-relu", "attention_scale": 0.3},
    ),
    "llama": (
        "LlamaForCausalLM",
        "unigram",
        {"activation": "swiglu", "norm_weight": False, "tied_embeddings": False, **RMS, **PLAIN},
    ),
    "llama-scaled": (
        "LlamaForCausalLM",
        "byte",
        {
            "activation": "geglu-tanh",
            "rotary_scaling": RotaryScaling("yarn", 4.0, 16, 1.1, 16.0),
            "d_head": 12,
            **RMS,
            **PLAIN,
        },
    ),
    "mistral": (
        "MistralForCausalLM",
        "word",
        {"activation": "geglu", "n_kv_heads": 2, "attention_window": 5, **RMS, **PLAIN},
    ),
    "windows in some layers": (
        "Qwen2ForCausalLM",
        "byte",
        {
            "activation": "swiglu",
            "layers": (LayerPattern(attention_window=4), LayerPattern()),
            **RMS,
            **PLAIN,
        },
    ),
    "marian": (
        "MarianMTModel",
        "bpe",
        {
            "assembly": "encoder-decoder",
            "positions": "sinusoidal",
            "sinusoid_layout": "split",
            "norm_place": "post",
            "activation": "relu",
            "embedding_scale": "sqrt",
        },
    ),
    "t5": (
        "T5ForConditionalGeneration",
        "wordpiece",
        {
            "assembly": "encoder-decoder",
            "positions": "relative",
            "activation": "relu",
            "head_scale": 32**-0.5,
            **RMS,
            **PLAIN,
        },
    ),
    "bert": (
        "BertForMaskedLM",
        "byte",
        {
            "assembly": "encoder-only",
            "positions": "learned",
            "norm_place": "post",
            "embedding_norm": True,
            "head_transform": True,
        },
    ),
    "vectors": (
        "BertModel",
        "byte",
        {
            "assembly": "encoder-only",
            "positions": "learned",
            "norm_place": "post",
            "embedding_norm": True,
            "token_head": False,
        },
    ),
}


def tokenizer_of(kind: str) -> Tokenizer:
    size = {"bpe": 300, "unigram": 300, "wordpiece": 560}.get(kind)
    return train_tokenizer([TEXT], kind, size, end=True)


def run_of(dials: dict[str, Any], kind: str = "byte") -> Loaded:
    """A run with random weights."""
    tokenizer = tokenizer_of(kind)
    both = dials.get("assembly") == "encoder-decoder"
    config = TransformerConfig(
        vocab_size=tokenizer.vocab_size, context_length=64, d_model=32, n_layers=2, n_heads=4,
        init_std=0.3, decoder_start=tokenizer.end_id if both else None, **dials,
    )  # fmt: skip
    network = Transformer(config, seed=1).eval()
    settings = make_config(config, {"pairs": True} if both else {})
    return Loaded(network, tokenizer, settings, None, Path("nowhere"), tokenizer if both else None)


@pytest.mark.parametrize("name", MODELS)
def test_transformers_gives_our_logits_and_ids(name: str, tmp_path: Path) -> None:
    architecture, kind, dials = MODELS[name]
    run = run_of(dials, kind)
    exported = save_hugging_face(run, tmp_path / "out")
    assert exported.architecture == architecture
    values = json.loads((tmp_path / "out" / "config.json").read_text())
    cls = getattr(transformers, values["architectures"][0])
    model, info = cls.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(v for k, v in info.items() if not (name == "vectors" and "missing" in k))
    assert not [key for key in info["missing_keys"] if "pooler" not in key]
    source, tokens = ids(1, 9), ids(1, 30, seed=1)
    with torch.inference_mode():
        if run.source_tokenizer is not None:
            ours = run.network(tokens, source=source)
            theirs = model.eval()(input_ids=source, decoder_input_ids=tokens).logits
        else:
            ours, out = run.network(tokens), model.eval()(tokens)
            theirs = out.last_hidden_state if name == "vectors" else out.logits
    assert (ours - theirs).abs().max() <= 1e-5 * theirs.abs().max()
    # their tokenizer gives what our model reads, and its text comes back
    reader = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    model_of_run = bg.Model(run.network, run.tokenizer, run.config)
    wanted = model_of_run.encode(SAMPLE)
    assert reader(SAMPLE).input_ids == wanted
    assert reader.decode(wanted, skip_special_tokens=True) == SAMPLE
    again = bg.load(tmp_path / "out")  # and we read our own
    assert again.tokenizer.kind == kind
    assert again.encode(SAMPLE) == wanted
    with torch.inference_mode():
        given = {"source": source} if run.source_tokenizer is not None else {}
        found = again.network(tokens, **given)
    assert (found - ours).abs().max() <= 1e-5 * ours.abs().max()


def test_what_a_family_has_besides_is_said(tmp_path: Path) -> None:
    notes = save_hugging_face(run_of(MODELS["nanogpt"][2]), tmp_path / "a").notes
    assert "biases of queries, keys and values (zeros)" in notes[0]
    notes = save_hugging_face(run_of(MODELS["t5"][2]), tmp_path / "b").notes
    assert any("queries' weights are multiplied by 0.353553" in note for note in notes)


@pytest.mark.parametrize(
    ("dials", "words"),
    [
        ({"qk_norm": "head", **RMS, **PLAIN, "activation": "swiglu"}, ["Llama", "qk_norm = head"]),
        ({"positions": "alibi"}, ["positions = alibi", "`budgie eject`"]),
        ({"positions": "learned", "embedding_scale": "sqrt"}, ["GPT-2", "embedding_scale = 5.65685"]),
        (
            {**MODELS["marian"][2], "norm_epsilon": 1e-6, "sinusoid_layout": "interleaved"},
            ["Marian", "norm_epsilon = 1e-06 (there: 1e-05)", "interleaved (there: split)"],
        ),
        (
            {**MODELS["bert"][2], "head_transform": False},
            ["BERT", "head_transform = false (there: true)"],
        ),
        (
            {
                **RMS,
                **PLAIN,
                "activation": "swiglu",
                "layers": (LayerPattern(rotary_base=5.0), LayerPattern()),
            },
            ["rotary_base = 5, 10000 (there: 10000)"],
        ),
    ],
)  # fmt: skip
def test_dials_without_a_counterpart_are_named(
    dials: dict[str, Any], words: list[str], tmp_path: Path
) -> None:
    with pytest.raises(UserError) as caught:
        save_hugging_face(run_of(dials), tmp_path / "out")
    assert all(word in str(caught.value) for word in words)
    assert not list(tmp_path.iterdir())


def test_every_dial_that_changes_logits_is_looked_at() -> None:
    """One dial at a time off what a family says: the fit must notice, or the logits be the same."""
    base = fit(FAMILIES[1], TransformerConfig(activation="swiglu", **RMS, **PLAIN)).config
    changes: dict[str, Any] = {
        "sink_logit": True, "attention_softcap": 5.0, "logit_softcap": 5.0, "residual": False,
        "parallel_residual": True, "norm_place": "post", "norm_offset": True, "embedding_size": 8,
        "final_norm": False, "head_scale": 0.5, "rotary_fraction": 0.5, "qk_norm": "full",
        "token_types": 2, "embedding_norm": True, "head_bias": True,
        "rotary_scaling": RotaryScaling("ntk", 2.0),
    }  # fmt: skip
    for name, value in changes.items():
        with pytest.raises(UserError, match=name.replace("norm_offset", "norm_offset")):
            best_fit(FAMILIES, base.replace(**{name: value}))


def test_other_models_and_places_that_are_taken(tmp_path: Path) -> None:
    run = run_of(MODELS["nanogpt"][2])
    (tmp_path / "there").mkdir()
    with pytest.raises(UserError, match="exists already"):
        save_hugging_face(run, tmp_path / "there")
    from budgerigar.models.configs import NgramConfig

    run.network = type("Ngram", (), {"config": NgramConfig()})()
    with pytest.raises(UserError, match="of kind ngram"):
        save_hugging_face(run, tmp_path / "out")


def test_two_vocabularies_are_both_written(tmp_path: Path) -> None:
    run = run_of({**MODELS["marian"][2], "shared_embeddings": False, "source_vocab_size": 287})
    run.source_tokenizer = tokenizer_of("character")
    exported = save_hugging_face(run, tmp_path / "out")
    reader = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(tmp_path / "out" / "source_tokenizer.json")
    )
    ids = run.source_tokenizer.encode(SAMPLE)
    assert reader(SAMPLE).input_ids == [*ids, run.source_tokenizer.end_id]
    assert any("source_tokenizer.json" in note for note in exported.notes)
    again = bg.load(tmp_path / "out")
    assert again.encode(SAMPLE) == [*ids, run.source_tokenizer.end_id]
    assert again.source_tokenizer is not None
    assert (again.tokenizer.vocab_size, again.source_tokenizer.vocab_size) == (257, 287)


def test_quantised_weights_are_written_out_in_full(tmp_path: Path) -> None:
    """A model that keeps its matrices as integers and scales, as out of a GGUF file."""
    run = run_of(MODELS["llama"][2])
    generator = torch.Generator().manual_seed(0)

    def packed(rows: int, columns: int) -> PackedMatrix:
        codes = torch.randint(-9, 9, (rows, columns), generator=generator, dtype=torch.int8)
        return PackedMatrix(codes, torch.rand(rows, columns // 8, generator=generator) / 20)

    block = run.network.decoder.get_submodule("1")
    block.feed_forward.down = PackedLinear(packed(32, block.feed_forward.down.in_features))
    run.network.embedding.tokens = PackedEmbedding(packed(run.tokenizer.vocab_size, 32))
    tokens = ids(1, 20)
    with torch.inference_mode():
        wanted = run.network(tokens)
        save_hugging_face(run, tmp_path / "out")
        found = bg.load(tmp_path / "out").network(tokens)
    assert (found - wanted).abs().max() <= 1e-4 * wanted.abs().max()
