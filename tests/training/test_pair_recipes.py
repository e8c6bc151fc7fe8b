"""The recipes for translators: valid, with their sources, and faithful to what was published."""

from __future__ import annotations

import tomllib

import pytest

from budgerigar.errors import UserError
from budgerigar.layers.shapes import parameters
from budgerigar.training.recipe import (
    load_recipe,
    override,
    recipe_from_dict,
    recipe_path,
    to_toml,
)

NAMES = [
    "bahdanau2015",
    "iwslt14-de-en",
    "multi30k",
    "stories-zh-en",
    "tatoeba",
    "vaswani2017-base",
    "vaswani2017-big",
]


@pytest.mark.parametrize("name", NAMES)
def test_each_builds_a_valid_model_and_survives_toml(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.reads_pairs
    assert recipe.about
    recipe.model_config(500, decoder_start=0)
    assert recipe_from_dict(tomllib.loads(to_toml(recipe))) == recipe


@pytest.mark.parametrize("name", NAMES)
def test_each_states_a_number_and_its_source(name: str) -> None:
    text = recipe_path(name).read_text("utf-8")
    assert "eached here" in text or "not run by us" in text.replace("\n# ", " ")


@pytest.mark.parametrize(
    ("name", "millions", "most_wrong"), [("vaswani2017-base", 65, 3), ("vaswani2017-big", 213, 5)]
)
def test_the_papers_models_have_the_papers_sizes(name: str, millions: int, most_wrong: int) -> None:
    recipe = load_recipe(name)
    config = recipe.model_config(37000)
    assert parameters(config).total / 1e6 == pytest.approx(millions, abs=most_wrong)
    assert not config.has_final_norm
    t = recipe.training
    assert (t.schedule, t.warmup_steps, t.beta2, t.epsilon) == ("vaswani", 4000, 0.98, 1e-9)
    assert t.batch_tokens * t.accumulate == pytest.approx(25_000, rel=0.02)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"training": {"best_by": "bleu", "bleu_sentences": 0}}, "bleu_sentences"),
        ({"training": {"schedule": "vaswani", "warmup_steps": 0}}, "warmup_steps"),
        ({"training": {"batch_tokens": 0}}, "batch_tokens"),
        ({"text": {"columns": "de"}}, "columns"),
        ({"text": {"n_pairs": 0}}, "n_pairs"),
        ({"text": {"vocabulary": "both"}}, "joint, separate"),
        (
            {
                "text": {"vocabulary": "separate"},
                "model": {"assembly": "encoder-decoder", "shared_embeddings": True},
            },
            "joint",
        ),
        ({"model": {"assembly": "encoder-decoder", "decoder_start": 3}}, "tokenizer's"),
    ],
)
def test_what_cannot_be_is_refused(values: dict[str, dict[str, object]], words: str) -> None:
    with pytest.raises(UserError, match=words):
        recipe_from_dict(values)


def test_flat_settings_find_their_part() -> None:
    changed = override(load_recipe("multi30k"), {"batch_tokens": 512, "source_language": "de"})
    assert changed.training.batch_tokens == 512
    assert changed.text.source_language == "de"
    kinds = [
        {"kind": "transformer", "assembly": "encoder-decoder"},
        {"kind": "rnn-encoder-decoder"},
        {"kind": "transformer"},
        {"kind": "ngram"},
    ]
    assert [recipe_from_dict({"model": m}).reads_pairs for m in kinds] == [True, True, False, False]
