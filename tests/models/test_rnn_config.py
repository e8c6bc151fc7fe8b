"""Settings of recurrent translators: refused when they mean nothing, counted from shapes."""

from __future__ import annotations

import ast
import inspect
import itertools
import subprocess
import sys
from typing import Any

import pytest
import torch
from test_rnn_encoder_decoder import ALL, config_of
from torch.utils.flop_counter import FlopCounterMode

from budgerigar.errors import UserError
from budgerigar.models import build, rnn_card, rnn_config
from budgerigar.models.card import card, paper_card
from budgerigar.models.papers import paper
from budgerigar.models.rnn_config import RnnEncoderDecoderConfig


@pytest.mark.parametrize(
    ("dials", "words"),
    [
        ({"cell": "rnn"}, "gru, lstm"),
        ({"d_hidden": 0, "dropout": 1.0}, r"d_hidden = 0[\s\S]*dropout = 1.0"),
        ({"n_encoder_layers": 10**6}, "most allowed"),
        ({"d_attention": 0}, "d_attention = 0"),
        ({"source_vocab_size": 9}, "shared_embeddings = false"),
        ({"d_output": 7}, "tied_embeddings"),
        ({"decoder_start": 11}, "decoder_start = 11"),
        ({"context_every_step": True}, "at every step"),
        ({"reverse_source": True}, "wherever they stand"),
        ({"attention": "none", "d_attention": 4}, "leave it out"),
        ({"context_every_step": True, "decoder_start": -1}, r"decoder_start[\s\S]*every step"),
    ],
)
def test_all_problems_are_named(dials: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        config_of(**dials).validate()


def test_each_field_is_explained() -> None:
    tree = ast.parse(inspect.getsource(rnn_config))
    body = next(n for n in tree.body if isinstance(n, ast.ClassDef)).body
    for field, after in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign):
            assert isinstance(after, ast.Expr), ast.unparse(field)


def test_settings_and_card_load_no_torch() -> None:
    code = (
        "import sys; from budgerigar.models.card import paper_card; paper_card('bahdanau2015'); "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("dials", ALL)
def test_parameters_are_those_of_the_built_model(dials: dict[str, Any]) -> None:
    config = config_of(**dials)
    built = sum(p.numel() for p in build(config).parameters())
    assert sum(rnn_card.parameters(config).values()) == built
    assert card(config).facts["parameters"]["total"] == built


@pytest.mark.parametrize("dials", [p.values[0] for p in ALL if "none" in p.id])
def test_flops_are_those_that_torch_counts(dials: dict[str, Any]) -> None:
    config, n = config_of(**dials), 6
    tokens = torch.zeros(1, n, dtype=torch.long)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        build(config)(tokens, source=tokens)
    once = 0  # per sentence: the decoder's start, a constant context
    if not config.copies_state:
        once += (
            config.n_decoder_layers
            * config.start_width
            * config.d_hidden
            * (2 if config.cell == "lstm" else 1)
        )
    once += config.n_gates * config.d_hidden * config.context_width
    expected = n * rnn_card.flops_per_pair(config)["matrices"] + 2 * once
    assert counter.get_total_flops() == expected


def test_bytes_of_a_state_are_those_of_a_started_model() -> None:
    config = config_of(context_length=5, cell="lstm", d_attention=4)
    model = build(config)
    state = model.start(2, source=torch.zeros(2, 5, dtype=torch.long))
    counted = card(config).facts["carried_per_sentence"]["bytes_at_full_context"]
    assert state.nbytes == 2 * counted


def test_papers_are_near_their_published_sizes() -> None:
    sutskever = paper("sutskever2014").config
    assert isinstance(sutskever, RnnEncoderDecoderConfig)
    parts = rnn_card.parameters(sutskever)
    assert sum(parts.values()) == pytest.approx(384e6, rel=0.01)
    assert parts["encoder"] + parts["decoder"] == pytest.approx(64e6, rel=0.01)
    text = paper_card("bahdanau2015").text()
    for words in ("additive attention, width 1000", "d_hidden           1,000", "maxout"):
        assert words in text
