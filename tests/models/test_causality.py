"""What an encoder-decoder may not know, probed by changing it: later targets, padding, other rows.

The same probe for every kind. Where nothing may move, not a bit may; and what is visible must move
the answer, or the probe would prove nothing. With it: the batch is invisible, and so is looking.

Shapes: B batch, T target positions, S source positions, V vocab_size.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import pytest
import torch
from dials import config_of
from torch import Tensor

from budgerigar.layers.taps import Taps
from budgerigar.models import build
from budgerigar.models.configs import RnnEncoderDecoderConfig
from budgerigar.models.modes import without_source

VOCAB = 17
PAPER = {"positions": "sinusoidal", "norm_place": "post", "activation": "relu"}
TRANSFORMERS: dict[str, dict[str, Any]] = {
    "as in the paper": {**PAPER, "embedding_scale": "sqrt"},
    "pre-norm, rotary": {"positions": "rotary", "n_kv_heads": 2},
    "relative, as T5": {"positions": "relative", "norm": "rms", "activation": "geglu"},
    "learned, step by step": {"positions": "learned", "attention_softcap": 8.0},
    "alibi, a sink": {"positions": "alibi", "sink_logit": True},
    "no positions, window": {"positions": "none", "attention_window": 3},
    "two vocabularies": {**PAPER, "shared_embeddings": False, "source_vocab_size": 29},
}
RNNS: dict[str, dict[str, Any]] = {
    "GRU with attention": {"d_attention": 10},
    "LSTM with attention": {"cell": "lstm", "bidirectional": False, "maxout": False},
    "two layers with attention": {
        "n_encoder_layers": 2,
        "n_decoder_layers": 2,
        "shared_embeddings": False,
    },
    "GRU without": {"attention": "none", "context_every_step": True},
    "LSTM without": {"cell": "lstm", "attention": "none", "n_encoder_layers": 2},
    "LSTM, source reversed": {
        "cell": "lstm",
        "attention": "none",
        "reverse_source": True,
        "bidirectional": False,
    },
}
SMALL_RNN = {"vocab_size": VOCAB, "d_embedding": 12, "d_hidden": 16}
EVERY = [*TRANSFORMERS, *RNNS]


@cache
def network(name: str) -> Any:
    """A small network with weights so large that every path through it shows."""
    if name in TRANSFORMERS:
        return build(config_of(TRANSFORMERS[name], assembly="encoder-decoder"), seed=1).eval()
    model = build(RnnEncoderDecoderConfig(**{**SMALL_RNN, **RNNS[name]}), seed=1).eval()
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.empty(parameter.shape).normal_(0, 0.4, generator=generator))
    return model


class Pairs(NamedTuple):
    """A batch: what `forward` takes."""

    tokens: Tensor  # (B,T)
    source: Tensor  # (B,S)
    source_lengths: Tensor  # (B,)

    def row(self, number: int) -> Pairs:
        """One pair alone, its source without padding."""
        real = int(self.source_lengths[number])
        rows = slice(number, number + 1)
        return Pairs(self.tokens[rows], self.source[rows, :real], self.source_lengths[rows])


def pairs(rows: int = 4, targets: int = 9, sources: int = 7, seed: int = 0) -> Pairs:
    """Random pairs; the sources have 1 to S tokens."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, VOCAB, (rows, targets), generator=generator)
    source = torch.randint(0, VOCAB, (rows, sources), generator=generator)
    lengths = torch.randint(1, sources + 1, (rows,), generator=generator)
    lengths[0] = sources
    return Pairs(tokens, source, lengths)


@torch.inference_mode()
def logits(model: Any, batch: Pairs, taps: Taps | None = None) -> Tensor:
    found: Tensor = model(
        batch.tokens, source=batch.source, source_lengths=batch.source_lengths, taps=taps
    )
    return found


@torch.inference_mode()
def stepped(
    model: Any, batch: Pairs, sizes: tuple[int, ...] = (), taps: Taps | None = None
) -> Tensor:
    """The same, read in pieces of these sizes after `start` (default: one token at a time)."""
    state = model.start(
        len(batch.tokens), source=batch.source, source_lengths=batch.source_lengths, taps=taps
    )
    out, at = [], 0
    for size in sizes or (1,) * batch.tokens.shape[1]:
        piece = batch.tokens[:, at : at + size]
        found, state = model.step(piece, state, all_positions=True, taps=taps)
        out.append(found)
        at += size
    return torch.cat(out, dim=1)


def close(ours: Tensor, want: Tensor) -> None:
    """Promise 3: 1e-4 relative (to the largest logit)."""
    assert (ours - want).abs().max() <= 1e-4 * want.abs().max().clamp(min=1.0)


def other(tokens: Tensor) -> Tensor:
    """A different token at every place."""
    return (tokens + 5) % VOCAB


@pytest.mark.parametrize("name", EVERY)
def test_a_later_target_token_moves_no_logit_before_it(name: str) -> None:
    model, batch = network(name), pairs()
    want = logits(model, batch)
    for at in range(1, batch.tokens.shape[1]):
        changed = batch.tokens.clone()
        changed[:, at:] = other(changed[:, at:])
        found = logits(model, batch._replace(tokens=changed))
        assert torch.equal(found[:, :at], want[:, :at])
        assert (found[:, at] != want[:, at]).any(-1).all()


@pytest.mark.parametrize("name", EVERY)
def test_padding_moves_nothing(name: str) -> None:
    """Other tokens in the padding of the sources and of the targets: not a bit changes."""
    model, batch = network(name), pairs()
    want, target_lengths = logits(model, batch), torch.tensor([9, 1, 4, 6])
    source, tokens = batch.source.clone(), batch.tokens.clone()
    beyond = torch.arange(7)[None] >= batch.source_lengths[:, None]
    assert beyond.any()
    source[beyond] = other(source[beyond])
    assert torch.equal(logits(model, batch._replace(source=source)), want)
    assert torch.equal(
        stepped(model, batch._replace(source=source), (4, 1, 4)), stepped(model, batch, (4, 1, 4))
    )
    real = torch.arange(9)[None] < target_lengths[:, None]
    tokens[~real] = other(tokens[~real])
    assert torch.equal(logits(model, batch._replace(tokens=tokens))[real], want[real])


@pytest.mark.parametrize("name", EVERY)
def test_more_padding_moves_nothing_that_counts(name: str) -> None:
    """Sums over more columns may round differently; more than that they may not."""
    model, batch = network(name), pairs()
    wider = torch.cat([batch.source, other(batch.source)], dim=1)
    longer = torch.cat([batch.tokens, other(batch.tokens)], dim=1)
    found = logits(model, Pairs(longer, wider, batch.source_lengths))
    close(found[:, :9], logits(model, batch))


@pytest.mark.parametrize("name", EVERY)
def test_every_real_source_token_moves_every_logit(name: str) -> None:
    """Whatever stands in the source is seen from each target position, the first included."""
    model, batch = network(name), pairs()
    want = logits(model, batch)
    for at in range(batch.source.shape[1]):
        source = batch.source.clone()
        source[:, at] = other(source[:, at])
        moved = (logits(model, batch._replace(source=source)) != want).any(-1)  # (B,T)
        has = batch.source_lengths > at
        assert moved[has].all()
        assert not moved[~has].any()


@pytest.mark.parametrize("name", EVERY)
def test_the_source_of_another_row_moves_nothing(name: str) -> None:
    model, batch = network(name), pairs()
    source, tokens = batch.source.clone(), batch.tokens.clone()
    source[1:], tokens[1:] = other(source[1:]), other(tokens[1:])
    lengths = torch.tensor([7, 7, 7, 1])
    found = logits(model, Pairs(tokens, source, lengths))
    assert torch.equal(found[0], logits(model, batch)[0])


@pytest.mark.parametrize("name", EVERY)
def test_the_order_of_the_source_is_seen(name: str) -> None:
    """Swapping two source tokens moves the answer, except where a model has no positions."""
    model, batch = network(name), pairs(rows=1)
    batch.source[0, :2] = torch.tensor([3, 4])
    swapped = batch.source[:, [1, 0, 2, 3, 4, 5, 6]]
    found, want = logits(model, batch._replace(source=swapped)), logits(model, batch)
    if name == "no positions, window":
        close(found, want)
    else:
        assert (found - want).abs().max() > 1e-3


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("rows", [1, 7, 64])
def test_the_batch_is_invisible(name: str, rows: int) -> None:
    """Alone and unpadded, among 1, 7 or 64 padded; whole, in pieces, token by token."""
    model, batch = network(name), pairs(rows, seed=rows)
    want = torch.cat([logits(model, batch.row(number)) for number in range(rows)])
    for found in (logits(model, batch), stepped(model, batch), stepped(model, batch, (1, 5, 3))):
        close(found, want)
        assert_same_tokens(found, want)


def assert_same_tokens(found: Tensor, want: Tensor) -> None:
    """The likeliest token is the same wherever it leads by more than the tolerance; ties are rare."""
    best = want.topk(2, dim=-1).values
    clear = best[..., 0] - best[..., 1] > 1e-4 * want.abs().max()
    assert torch.equal(found.argmax(-1)[clear], want.argmax(-1)[clear])
    assert int((~clear).sum()) <= max(1, want[..., 0].numel() / 1000)


@pytest.mark.parametrize("name", EVERY)
def test_a_source_of_no_tokens_is_no_source(name: str) -> None:
    """Nothing is NaN, forward or backward, whatever stands in the padding; other rows stay."""
    model, batch = network(name), pairs()
    lengths = torch.tensor([7, 0, 3, 0])
    found, whole = logits(model, batch._replace(source_lengths=lengths)), logits(model, batch)
    assert torch.equal(found[0], whole[0])
    source = batch.source.clone()
    source[1] = other(source[1])
    assert torch.equal(found, logits(model, Pairs(batch.tokens, source, lengths)))
    close(stepped(model, Pairs(batch.tokens, source, lengths)), found)
    model.zero_grad()
    out = model(batch.tokens, source=batch.source, source_lengths=lengths)
    out.square().mean().backward()
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in model.parameters())
    model.zero_grad()
    if name in TRANSFORMERS:  # an RNN's decoder starts from biases even so
        assert torch.equal(logits(without_source(model), batch)[1], found[1])


@pytest.mark.parametrize("name", EVERY)
def test_rows_that_are_selected_go_on_with_their_own_source(name: str) -> None:
    """Beams, finished rows: a state whose rows were repeated, dropped and moved."""
    model, batch = network(name), pairs()
    rows, want = torch.tensor([2, 0, 2, 3]), logits(model, batch)
    with torch.inference_mode():
        state = model.start(4, source=batch.source, source_lengths=batch.source_lengths)
        _, state = model.step(batch.tokens[:, :4], state)
        found, _ = model.step(batch.tokens[rows, 4:], state.select(rows), all_positions=True)
    close(found, want[rows, 4:])


@pytest.mark.parametrize("name", EVERY)
def test_looking_changes_no_bit(name: str) -> None:
    model, batch = network(name), pairs()
    taps = Taps("*")
    assert torch.equal(logits(model, batch, taps), logits(model, batch))
    assert len(taps.values) > 5
    assert torch.equal(stepped(model, batch, (2, 7), Taps("*")), stepped(model, batch, (2, 7)))
