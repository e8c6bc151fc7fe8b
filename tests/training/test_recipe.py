"""Recipes: read, overridden in order, refused with all problems at once, written back."""

from __future__ import annotations

import math
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from budgerigar.errors import UserError
from budgerigar.training.recipe import (
    load_recipe,
    override,
    recipe_from_dict,
    recipe_names,
    recipe_path,
    to_toml,
)

EXPECTED = ["gpt2-124m", "nanogpt-char-cpu", "nanogpt-char-gpu", "ngram", "shakespeare", "stories"]


def test_the_package_has_the_promised_recipes() -> None:
    assert set(EXPECTED) <= set(recipe_names())


@pytest.mark.parametrize("name", EXPECTED)
def test_each_recipe_builds_a_valid_model_and_survives_toml(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.about
    recipe.model_config(65)
    assert recipe_from_dict(tomllib.loads(to_toml(recipe))) == recipe


@pytest.mark.parametrize("name", EXPECTED)
def test_each_recipe_states_a_number_and_its_source(name: str) -> None:
    text = recipe_path(name).read_text()
    assert "eached here" in text or "not run by us" in text


def test_the_yardstick_is_what_was_published() -> None:
    recipe = load_recipe("nanogpt-char-cpu")
    config, t = recipe.model_config(65), recipe.training
    assert (config.n_layers, config.n_heads, config.d_model, config.context_length) == (
        4,
        4,
        128,
        64,
    )
    assert (t.steps, t.batch_size, t.learning_rate, t.min_learning_rate) == (2000, 12, 1e-3, 1e-4)
    assert (t.warmup_steps, t.beta2, t.weight_decay, t.clip) == (100, 0.99, 0.1, 1.0)
    assert (t.optimizer, t.schedule, t.window_order) == ("adamw", "cosine", "random")
    assert config.positions == "learned"
    assert config.tied_embeddings
    assert not config.qkv_bias | config.output_bias | config.ff_bias | config.norm_bias


def test_order_of_overriding_and_none_left_out(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[training]\nsteps = 7\nbatch_size = 3\n[model]\nd_model = 64\n")
    flags = {"batch_size": 5, "seed": None, "n_layers": 2, "tokenizer": "byte"}
    recipe = override(load_recipe("nanogpt-char-cpu"), file, flags)
    assert (recipe.training.steps, recipe.training.batch_size, recipe.training.seed) == (7, 5, 1)
    assert (recipe.model["d_model"], recipe.model["n_layers"]) == (64, 2)
    assert recipe.text.tokenizer == "byte"
    assert "patience" not in to_toml(recipe)


def test_all_problems_at_once_with_the_nearest_name() -> None:
    with pytest.raises(UserError) as caught:
        recipe_from_dict(
            {
                "trainng": {},
                "training": {"stepz": 3, "clip": "x", "seed": True},
                "model": {"n_head": 3, "vocab_size": 3},
            }
        )
    message = str(caught.value)
    for words in ("'training'", "'steps'", "clip = 'x'", "seed = True", "'n_heads'", "vocab_size"):
        assert words in message


def test_unknown_flag_and_unknown_recipe_name_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'learning_rate'"):
        override(load_recipe("ngram"), {"learnin_rate": 1})
    with pytest.raises(UserError, match="did you mean 'shakespeare'"):
        load_recipe("shakespere")


def test_values_out_of_range_are_refused() -> None:
    values = {"steps": 0, "beta1": 1.0, "threads": "many", "minutes": -1.0, "device": "tpu"}
    with pytest.raises(UserError) as caught:
        recipe_from_dict({"training": values})
    assert all(name in str(caught.value) for name in values)


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("training", name, value)
        for name in (
            "learning_rate",
            "epsilon",
            "clip",
            "spike",
            "weight_decay",
            "minutes",
            "beta1",
        )
        for value in (math.nan, math.inf, -1.0)
    ]
    + [
        ("training", "embedding_learning_rate", -1.0),
        ("training", "head_learning_rate", -1.0),
        ("training", "muon_momentum_warmup", -1),
        ("training", "sample_every", -1),
        ("training", "evaluation_tokens", 1),
        ("training", "seed", -1),
        ("training", "seed", 2**63),
        ("training", "threads", 0),
        ("training", "threads", 99_999),
        ("text", "corpus_seed", -1),
        ("text", "n_stories", 0),
        ("text", "filler_words", [5]),
        ("text", "filler_words", [9, 1]),
        ("text", "filler_words", ["a", "b"]),
        ("text", "validation", ""),
        ("text", "validation_fraction", math.nan),
    ],
)
def test_numbers_that_no_run_can_use_are_refused(part: str, name: str, value: object) -> None:
    with pytest.raises(UserError, match=name):
        recipe_from_dict({part: {name: value}})


@pytest.mark.parametrize("part", ["text", "model", "training"])
@pytest.mark.parametrize("value", [3, [1], "x"])
def test_a_part_that_is_no_table_is_refused(part: str, value: object) -> None:
    with pytest.raises(UserError, match="must be a table"):
        recipe_from_dict({part: value})
    with pytest.raises(UserError, match="must be a table"):
        override(load_recipe("stories"), {part: value})


def test_another_kind_of_model_drops_the_settings_of_the_first() -> None:
    recipe = override(load_recipe("shakespeare"), {"kind": "ngram", "order": 3})
    assert recipe.model_config(65).order == 3


@pytest.mark.parametrize(
    ("recipe", "choice", "gone"),
    [
        ("bahdanau2015", {"attention": "none"}, "d_attention"),
        ("multi30k-lstm", {"attention": "bahdanau"}, "reverse_source"),
        ("multi30k", {"text": {"vocabulary": "separate"}}, "shared_embeddings"),
        ("stories-zh-en", {"vocabulary": "joint"}, "source_tokenizer"),
    ],
)
def test_a_choice_drops_what_the_recipe_had_set_for_another(
    recipe: str, choice: dict[str, object], gone: str
) -> None:
    before, after = load_recipe(recipe), override(load_recipe(recipe), choice)
    assert {**vars(before.text), **before.model}[gone]
    assert not {**vars(after.text), **after.model}.get(gone)
    after.model_config(100)


def test_what_is_given_itself_is_not_dropped() -> None:
    with pytest.raises(UserError, match="d_attention does nothing"):
        override(load_recipe("bahdanau2015"), {"attention": "none", "d_attention": 8})


def test_damaged_toml_is_a_users_error(tmp_path: Path) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text("[training\n")
    with pytest.raises(UserError, match=r"bad\.toml"):
        load_recipe(bad)


def test_importing_recipes_loads_no_torch() -> None:
    code = (
        "import sys, budgerigar.training.recipe; "
        "print('torch' in sys.modules, 'numpy' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False"]
