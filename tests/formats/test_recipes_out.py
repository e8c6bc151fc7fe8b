"""Which recipes' runs become Hugging Face folders, as the help of `budgie convert` says; end to end."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import torch

from budgerigar.api import convert
from budgerigar.cli.commands import convert as command
from budgerigar.errors import UserError
from budgerigar.formats.ctranslate2_out import check
from budgerigar.formats.families import FAMILIES
from budgerigar.formats.families.fitting import best_fit
from budgerigar.formats.load import load_any
from budgerigar.training.recipe import load_recipe
from budgerigar.training.run import train

TEXT = "The cat sat on the mat. Then the dog sat on the log, and the cat ran off.\n" * 60
SMALL: dict[str, Any] = {
    "steps": 5, "threads": 1, "evaluate_every": 5, "sample_tokens": 3, "precision": "float32",
    "baselines": False, "compile": False, "batch_size": 2, "accumulate": 1, "warmup_steps": 0,
    "learning_rate": 3e-3, "d_model": 32, "n_heads": 4, "context_length": 32, "vocab_size": 520,
}  # fmt: skip
LLAMA = {"activation": "swiglu", "qk_norm": "none"}


def _recipes() -> list[str]:
    folder = resources.files("budgerigar.training") / "recipes"
    names = [item.name.removesuffix(".toml") for item in folder.iterdir()]
    return [name for name in sorted(names) if load_recipe(name).kind == "transformer"]


@pytest.mark.parametrize("name", _recipes())
def test_the_help_names_the_recipes_that_go_out(name: str) -> None:
    config = load_recipe(name).model_config(1000)
    said = " ".join(str(command.__doc__).split())
    try:
        family = best_fit(FAMILIES, config).family.name
    except UserError:
        assert f"{name}," not in said
        assert f"{name} (" not in said
        if config.assembly == "encoder-decoder":
            check(config)  # goes out to CTranslate2
        return
    _, _, after = said.partition(name)
    assert after, f"{name} is one of {family}'s"
    assert after.split("(")[1].split(")")[0] == family


def test_the_plan_s_own_shape_is_llama_s_with_two_dials() -> None:
    recipe = load_recipe("shakespeare").replace(model=LLAMA)
    assert best_fit(FAMILIES, recipe.model_config(1000)).family.name == "Llama"


def test_a_tied_t5_whose_logits_are_not_scaled_says_so() -> None:
    config = load_recipe("t5-tiny").model_config(300)
    plain = best_fit(FAMILIES, config.replace(tied_embeddings=True, head_scale=1.0))
    assert plain.family.name == "T5"
    assert plain.values["scale_decoder_outputs"] is False
    usual = best_fit(
        FAMILIES, config.replace(tied_embeddings=True, head_scale=config.d_model**-0.5)
    )
    assert "scale_decoder_outputs" not in usual.values


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "more", "cls"),
    [
        ("gpt2-124m", {"n_layers": 2}, "AutoModelForCausalLM"),
        (None, {"n_layers": 2, "tokenizer": "bpe", **LLAMA}, "AutoModelForCausalLM"),
        ("bert-base", {"n_layers": 2, "d_ff": 64}, "AutoModelForMaskedLM"),
        ("t5-tiny", {"n_encoder_layers": 2, "n_decoder_layers": 2}, "AutoModelForSeq2SeqLM"),
    ],
)
def test_a_trained_run_is_the_same_model_in_transformers(
    recipe: str | None, more: dict[str, Any], cls: str, tmp_path: Path
) -> None:
    import transformers

    text = tmp_path / "cats.txt"
    text.write_text(TEXT, encoding="utf-8")
    run = train(recipe, [text], out=tmp_path / "run", settings={**SMALL, **more})
    done = convert(run.folder, tmp_path / "out")
    assert done.difference is not None
    assert done.difference < 1e-5
    theirs = getattr(transformers, cls).from_pretrained(tmp_path / "out").eval()
    network = load_any(run.folder).network
    ids = torch.randint(5, 200, (2, 12), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        if cls == "AutoModelForSeq2SeqLM":
            ours = network(ids, source=ids)
            found = theirs(input_ids=ids, decoder_input_ids=ids).logits
        else:
            ours, found = network(ids), theirs(input_ids=ids).logits
    assert float((ours - found).abs().max()) < 1e-4 * float(ours.abs().max())
