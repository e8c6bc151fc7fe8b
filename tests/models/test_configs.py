from __future__ import annotations

import subprocess
import sys

import pytest

from budgerigar.errors import UserError
from budgerigar.layers.config import TransformerConfig
from budgerigar.models.configs import NgramConfig, config_from_dict, config_to_dict, kind_of


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        (NgramConfig(65, 7, "witten-bell"), "ngram"),
        (TransformerConfig(vocab_size=65, n_layers=2, attention_softcap=30.0), "transformer"),
    ],
)
def test_there_and_back(config: NgramConfig | TransformerConfig, kind: str) -> None:
    values = config_to_dict(config)
    assert values["kind"] == kind == kind_of(config)
    assert config_from_dict(values) == config


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"kind": "lstm"},
            "'lstm' is not known here; the kinds are transformer, recurrent, feed-forward, rnn-encoder-"
            "decoder, ngram",
        ),
        ({}, "None is not known"),
        ({"kind": "ngram", "depth": 3}, "no setting 'depth'"),
        ({"kind": "ngram", "order": "five"}, "whole number"),
        ({"kind": "ngram", "smoothing": "good-turing"}, "kneser-ney, witten-bell"),
    ],
)
def test_mistakes_are_named(values: dict[str, object], words: str) -> None:
    with pytest.raises(UserError, match=words):
        config_from_dict(values)


def test_all_problems_at_once() -> None:
    with pytest.raises(UserError) as caught:
        NgramConfig(0, 0, "none").validate()  # type: ignore[arg-type]
    assert str(caught.value).count("\n") == 3


def test_importing_loads_no_torch() -> None:
    code = "import sys, budgerigar.models.configs; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
