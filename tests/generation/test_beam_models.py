"""Real encoder-decoders through the search: alone and in batches, as a tree and row by row, and by
plain `forward`."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from budgerigar.generation import beam_batch
from budgerigar.generation.beam import Hypothesis, search
from budgerigar.generation.translation_options import TranslationOptions
from budgerigar.layers.config import LayerPattern, TransformerConfig
from budgerigar.models.beams import RowBeams, TreeBeams, start_beams
from budgerigar.models.modes import without_source
from budgerigar.models.rnn_encoder_decoder import RnnEncoderDecoder
from budgerigar.models.transformer import Transformer

END, V, NEAR = 1, 23, 1e-4
DIALS: dict[str, dict[str, Any]] = {
    "paper": {"positions": "sinusoidal", "norm_place": "post", "activation": "relu"},
    "llama": {"positions": "rotary", "norm": "rms", "n_kv_heads": 2, "activation": "swiglu"},
    "t5": {"positions": "relative", "attention_scale": "none", "norm": "rms"},
    "windowed": {
        "positions": "alibi",
        "layers": (LayerPattern(attention_window=4), LayerPattern()),
        "sink_logit": True,
        "attention_softcap": 5.0,
    },
    "learned": {"positions": "learned", "shared_embeddings": False, "source_vocab_size": 17},
}


@cache
def model(name: str) -> Any:
    if name in ("gru", "lstm"):
        return recurrent(name)
    shape = {"d_model": 32, "n_layers": 2, "n_heads": 4, "init_std": 0.3, "head_bias": True}
    shape["tied_embeddings"] = False
    config = TransformerConfig(
        assembly="encoder-decoder",
        vocab_size=V,
        context_length=32,
        decoder_start=END,
        **shape,  # type: ignore[arg-type]
        **DIALS[name],
    )
    network = Transformer(config, seed=1).eval()
    with torch.no_grad():  # lively: other sources, other targets, which end sooner or later
        for block in network.decoder.blocks():  # type: ignore[union-attr]
            block.cross_attention.output.weight.mul_(4.0)  # type: ignore[union-attr]
        network.head.bias[END] = 0.0 if name == "paper" else 1.0  # type: ignore[index]
    return network


def recurrent(cell: str) -> RnnEncoderDecoder:
    from budgerigar.models.rnn_config import RnnEncoderDecoderConfig

    config = RnnEncoderDecoderConfig(
        vocab_size=V,
        cell=cell,  # type: ignore[arg-type]
        attention="bahdanau" if cell == "gru" else "none",
        d_embedding=24,
        d_hidden=32,
        d_attention=16 if cell == "gru" else None,
        decoder_start=END,
    )
    network = RnnEncoderDecoder(config, seed=1).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(3.0)
    return network


ALL = [*DIALS, "gru", "lstm"]


def sources(n: int, seed: int = 0) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [[*rng.integers(2, 17, rng.integers(0, 13)).tolist(), END] for _ in range(n)]


def run(network: Any, lines: list[list[int]], **settings: Any) -> list[list[Hypothesis]]:
    prefixes = settings.pop("prefixes", None)
    options = TranslationOptions(**settings)
    return search(network, lines, options, start_id=END, end_id=END, prefixes=prefixes)


def agree(one: list[list[Hypothesis]], two: list[list[Hypothesis]]) -> tuple[int, float]:
    """Sources whose targets differ, each of which must be a near tie; the smallest gap between two."""
    differing, smallest = 0, np.inf
    for a, b in zip(one, two, strict=True):
        scores = sorted(h.score for h in a)
        gaps = np.diff(scores) / np.abs(scores[:-1])
        smallest = min(smallest, *gaps) if len(gaps) else smallest
        np.testing.assert_allclose([h.score for h in a], [h.score for h in b], rtol=NEAR)
        if [h.ids for h in a] != [h.ids for h in b]:
            differing += 1
            print(f"{a} differs from {b}")
    return differing, float(smallest)


@pytest.mark.parametrize("settings", [{"beam_size": 1}, {"beam_size": 4, "n_best": 2}])
@pytest.mark.parametrize("name", ALL)
def test_the_batch_is_invisible(name: str, settings: dict[str, int]) -> None:
    network, lines = model(name), sources(14)
    found = [
        run(network, lines, batch_size=size, max_extra=3, min_length=1, **settings)
        for size in (1, 7, 64)
    ]
    for other in found[1:]:
        differing, smallest = agree(found[0], other)
        print(f"{name} {settings}: smallest gap {smallest:.1e}")
        assert differing == 0
    ends = [h.finished for hypotheses in found[0] for h in hypotheses]
    assert 0 < sum(ends) < len(ends) or name in ("t5", "gru", "lstm")
    assert len({hypotheses[0].ids for hypotheses in found[0]}) > 4


@pytest.mark.parametrize("name", ["paper", "gru"])
def test_samples_may_have_a_coverage_penalty(name: str) -> None:
    settings = {"temperature": 1.0, "n_best": 3, "max_extra": 3, "length_penalty": "none"}
    found = run(model(name), sources(5), coverage_penalty=0.5, **settings)
    assert [len(hypotheses) for hypotheses in found] == [3] * 5
    costs = [h.log_probability - h.score for hypotheses in found for h in hypotheses]
    assert min(costs) >= 0
    assert max(costs) > 0.1


@pytest.mark.parametrize("name", DIALS)
def test_a_tree_gives_what_rows_give(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same search with a row, and a copy of the whole cache, per hypothesis."""
    network, lines = model(name), sources(12)
    settings = {"beam_size": 5, "n_best": 5, "max_extra": 8, "coverage_penalty": 0.2}
    as_tree = run(network, lines, **settings)
    made: list[Any] = []

    def rows(network: Any, source: Any, lengths: Any, n: int) -> RowBeams:
        made.append(RowBeams(network, network.start(n, source=source, source_lengths=lengths)))
        return made[-1]

    monkeypatch.setattr(beam_batch, "start_beams", rows)
    differing, _ = agree(as_tree, run(network, lines, **settings))
    assert made
    assert differing == 0


@pytest.mark.parametrize("name", ALL)
def test_a_log_probability_is_what_forward_gives(name: str) -> None:
    """Whole targets through `forward`, alone: no cache, no batch, no beam."""
    network, lines = model(name), sources(12)
    for line, hypotheses in zip(lines, run(network, lines, n_best=3, max_extra=5), strict=True):
        for found in hypotheses:
            read = torch.tensor([[END, *found.ids]])
            with torch.no_grad():
                logits = network(
                    read, source=torch.tensor([line]), source_lengths=torch.tensor([len(line)])
                )[0]
            wanted = [*found.ids, END] if found.finished else list(found.ids)
            log_p = logits.double().log_softmax(-1)
            total = sum(float(log_p[i, token]) for i, token in enumerate(wanted))
            assert found.log_probability == pytest.approx(total, abs=2e-4)


def test_which_beams_a_model_gets() -> None:
    source, lengths = torch.tensor([[2, END]]), torch.tensor([2])
    assert isinstance(start_beams(model("paper"), source, lengths, 1), TreeBeams)
    assert isinstance(start_beams(model("gru"), source, lengths, 1), RowBeams)
    blank = without_source(model("paper"))
    assert isinstance(start_beams(blank, source, lengths, 1), RowBeams)


# -- without the source ----------------------------------------------------------------------------
@pytest.mark.parametrize("name", ALL)
def test_a_blanked_source_has_no_influence(name: str) -> None:
    network, lines = model(name), sources(12)
    with_it = run(network, lines, max_length=9, min_length=2)
    without = run(network, lines, max_length=9, min_length=2, no_source=True)
    assert len({hypotheses[0].ids for hypotheses in with_it}) > 3
    assert len({hypotheses[0].ids for hypotheses in without}) == 1
    scores = [hypotheses[0].score for hypotheses in without]
    np.testing.assert_allclose(scores, scores[0], rtol=1e-5)
    assert run(network, lines, max_length=9, min_length=2) == with_it  # the original is as it was


def test_a_blanked_source_in_forward_and_step_by_step() -> None:
    network = without_source(model("paper"))
    source, lengths = torch.tensor([[2, 3, END]]), torch.tensor([3])
    read = torch.tensor([[END, 4, 5]])
    with torch.no_grad():
        whole = network(read, source=source, source_lengths=lengths)
        other = network(read, source=source.flip(1), source_lengths=lengths)
        state = network.start(1, source=source, source_lengths=lengths)
        steps = []
        for i in range(3):
            logits, state = network.step(read[:, i : i + 1], state)
            steps.append(logits)
    assert torch.equal(whole, other)
    torch.testing.assert_close(torch.stack(steps, 1), whole, rtol=1e-5, atol=1e-5)
    assert network.vocab_size == V


# -- prefixes --------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["paper", "gru"])
def test_targets_begin_with_their_own_prefix(name: str) -> None:
    network, lines = model(name), sources(9)
    rng = np.random.default_rng(3)
    prefixes = [rng.integers(2, V, i % 4).tolist() for i in range(9)]
    found = run(network, lines, n_best=3, max_extra=6, prefixes=prefixes)
    for prefix, hypotheses in zip(prefixes, found, strict=True):
        assert all(list(h.ids[: len(prefix)]) == prefix for h in hypotheses)
    for i, prefix in enumerate(prefixes):
        alone = run(network, [lines[i]], n_best=3, max_extra=6, prefixes=[prefix])
        assert agree([found[i]], alone)[0] == 0
    assert agree([found[0]], run(network, [lines[0]], n_best=3, max_extra=6))[0] == 0  # empty one
