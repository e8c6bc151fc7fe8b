"""Recurrent translators keep the contract of every next-token model, whatever the dials."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from budgerigar.errors import UserError
from budgerigar.formats.run import load_network, make_config, save_weights
from budgerigar.layers.taps import Taps
from budgerigar.models import build
from budgerigar.models.base import NextTokenModel
from budgerigar.models.configs import config_from_dict, config_to_dict
from budgerigar.models.modes import without_dropout, without_source
from budgerigar.models.rnn_config import RnnEncoderDecoderConfig
from budgerigar.models.rnn_encoder_decoder import RnnEncoderDecoder

V, T, S = 11, 7, 5
CROSS = "decoder.0.cross_attention"


def config_of(**dials: Any) -> RnnEncoderDecoderConfig:
    dials = {"vocab_size": V, "d_embedding": 6, "d_hidden": 8, **dials}
    return RnnEncoderDecoderConfig(**dials)


def grid() -> Iterator[dict[str, Any]]:
    """Every cell, attention and depth; the smaller dials alternate."""
    depths = [(1, 1), (2, 1), (1, 2), (2, 2)]
    for n, (cell, attention, bidirectional, (up, down)) in enumerate(
        itertools.product(["gru", "lstm"], ["bahdanau", "none"], [True, False], depths)
    ):
        dials: dict[str, Any] = {
            "cell": cell,
            "attention": attention,
            "bidirectional": bidirectional,
            "n_encoder_layers": up,
            "n_decoder_layers": down,
            "maxout": n % 2 == 0,
            "tied_embeddings": n % 3 != 0,
        }
        if attention == "none":
            dials |= {"context_every_step": n % 4 > 1, "reverse_source": n % 3 == 1}
        else:
            dials |= {"d_attention": 5}
        if n % 5 == 2:
            dials |= {"shared_embeddings": False, "source_vocab_size": 9}
        yield dials


ALL = [pytest.param(d, id="-".join(map(str, d.values()))) for d in grid()]
SOME = [
    {"cell": "gru"},
    {"cell": "lstm", "n_decoder_layers": 2},
    {"cell": "lstm", "attention": "none", "bidirectional": False, "reverse_source": True},
    {"cell": "gru", "attention": "none", "context_every_step": True},
]


def model_of(dials: dict[str, Any], dtype: torch.dtype = torch.float32) -> RnnEncoderDecoder:
    made = build(config_of(**dials), seed=1)
    assert isinstance(made, RnnEncoderDecoder)
    return made.to(dtype).eval()


def batch(seed: int = 0) -> tuple[Tensor, dict[str, Tensor]]:
    torch.manual_seed(seed)
    lengths = torch.tensor([S, 1, 3])
    source = torch.randint(0, 9, (3, S))
    return torch.randint(0, V, (3, T)), {"source": source, "source_lengths": lengths}


def close(a: Tensor, b: Tensor) -> None:
    """Promise 3: agreement to 1e-4 relative (to the largest logit); here far below."""
    assert (a - b).abs().max() <= 1e-5 * b.abs().max().clamp(min=1.0)


def in_chunks(model: Any, tokens: Tensor, sizes: list[int], **start: Any) -> Tensor:
    state, out, at = model.start(len(tokens), **start), [], 0
    for size in sizes:
        logits, state = model.step(tokens[:, at : at + size], state, all_positions=True)
        out.append(logits)
        at += size
    return torch.cat(out, dim=1)


@pytest.mark.parametrize("dials", ALL)
def test_one_pass_steps_chunks_ragged_and_selected_rows_agree(dials: dict[str, Any]) -> None:
    model, (tokens, read) = model_of(dials).train(), batch()
    F.cross_entropy(model(tokens, **read).flatten(0, 1), tokens.flatten()).backward()
    gradients = {n: p.grad for n, p in model.named_parameters()}
    lost = [n for n, g in gradients.items() if g is None or not torch.isfinite(g).all()]
    assert not lost, f"no finite gradient for {lost}"
    model.eval()
    with torch.inference_mode():
        whole = model(tokens, **read)
        assert whole.dtype == torch.float32
        for sizes in ([1] * T, [T], [3, 1, 3]):
            close(in_chunks(model, tokens, sizes, **read), whole)
        lengths = torch.tensor([3, 5, 1])
        logits, state = model.step(tokens[:, :5], model.start(3, **read), lengths=lengths)
        close(logits, whole[torch.arange(3), lengths - 1])
        assert state.lengths.tolist() == [3, 5, 1]
        state = state.select(torch.tensor([2, 0, 2]))
        following = torch.stack([tokens[2, 1:4], tokens[0, 3:6], tokens[2, 1:4]])
        expected = torch.stack([whole[2, 1:4], whole[0, 3:6], whole[2, 1:4]])
        first, state = model.step(following[:, :1], state, all_positions=True)
        rest, _ = model.step(following[:, 1:], state, all_positions=True)
        close(torch.cat([first, rest], dim=1), expected)


@pytest.mark.parametrize("dials", SOME)
def test_padding_and_company_change_nothing(dials: dict[str, Any]) -> None:
    model, (tokens, read) = model_of(dials), batch()
    with torch.inference_mode():
        whole = model(tokens, **read)
        for row, length in enumerate(read["source_lengths"].tolist()):
            alone = model(tokens[row : row + 1], source=read["source"][row : row + 1, :length])
            close(whole[row : row + 1], alone)
        noisy = read["source"].clone()
        noisy[torch.arange(S)[None] >= read["source_lengths"][:, None]] = 3
        wider = F.pad(noisy, (0, 4), value=2)
        close(model(tokens, source=wider, source_lengths=read["source_lengths"]), whole)


@pytest.mark.parametrize("dials", SOME)
def test_later_target_tokens_move_no_earlier_logit(dials: dict[str, Any]) -> None:
    model, (tokens, read) = model_of(dials), batch()
    with torch.inference_mode():
        whole = model(tokens, **read)
        for t in range(1, T):
            changed = tokens.clone()
            changed[:, t:] = (changed[:, t:] + 1) % V
            after = model(changed, **read)
            assert torch.equal(after[:, :t], whole[:, :t])
            assert not torch.equal(after[:, t], whole[:, t])


@pytest.mark.parametrize("dials", SOME)
def test_every_source_word_matters(dials: dict[str, Any]) -> None:
    model, (tokens, read) = model_of(dials), batch()
    with torch.inference_mode():
        whole = model(tokens[:1], source=read["source"][:1])
        for s in range(S):
            changed = read["source"][:1].clone()
            changed[0, s] = (changed[0, s] + 1) % 9
            assert not torch.equal(model(tokens[:1], source=changed), whole)


@pytest.mark.parametrize("dials", SOME)
def test_gradients_by_finite_differences(dials: dict[str, Any]) -> None:
    model, (tokens, read) = (
        model_of({**dials, "d_hidden": 3, "d_embedding": 2}, torch.float64),
        batch(),
    )
    names = [name for name, _ in model.named_parameters()]

    def run(*values: Tensor) -> Tensor:
        weights = dict(zip(names, values, strict=True))
        logits = torch.func.functional_call(model, weights, (tokens[:, :4],), read)
        return torch.log_softmax(logits, dim=-1)

    assert torch.autograd.gradcheck(run, tuple(model.parameters()), fast_mode=True)


@pytest.mark.parametrize("dials", ALL[::3])
def test_looking_changes_nothing_and_shows_what_the_steps_show(dials: dict[str, Any]) -> None:
    model, (tokens, read) = model_of(dials), batch()
    with torch.inference_mode():
        taps, stepwise = Taps(record=("*",)), Taps(("*",), {"decoder.0.hidden": lambda v: v})
        whole = model(tokens, **read)
        assert torch.equal(model(tokens, **read, taps=taps), whole)
        close(model(tokens, **read, taps=stepwise), whole)
        assert taps.values.keys() == stepwise.values.keys()
        for name, value in taps.values.items():
            torch.testing.assert_close(value, stepwise.values[name], atol=1e-5, rtol=0, msg=name)
        state = model.start(3, **read)
        plain, after = model.step(tokens[:, :1], state)
        looked, _ = model.step(tokens[:, :1], state, taps=Taps(record=("*",)))
        assert torch.equal(plain, looked)
        after = after.select(torch.tensor([1, 1, 0]))
        plain, _ = model.step(tokens[:, 1:2], after)
        assert torch.equal(model.step(tokens[:, 1:2], after, taps=Taps(record=("*",)))[0], plain)


def test_names_and_shapes_of_what_can_be_seen() -> None:
    model, (tokens, read) = model_of({"cell": "lstm", "d_attention": 5}), batch()
    taps = Taps(record=("*",))
    model(tokens, **read, taps=taps)
    shapes = {name: tuple(value.shape) for name, value in taps.values.items()}
    assert shapes == {
        "encoder.embedding": (3, S, 6),
        "encoder.0.hidden": (3, S, 16),
        "decoder.0.hidden.start": (3, 8),
        "decoder.0.cell.start": (3, 8),
        "decoder.embedding": (3, T, 6),
        f"{CROSS}.query": (3, 1, T, 5),
        f"{CROSS}.key": (3, 1, S, 5),
        f"{CROSS}.value": (3, 1, S, 16),
        f"{CROSS}.scores": (3, 1, T, S),
        f"{CROSS}.weights": (3, 1, T, S),
        f"{CROSS}.head_output": (3, 1, T, 16),
        f"{CROSS}.output": (3, T, 16),
        "decoder.0.hidden": (3, T, 8),
        "decoder.0.cell": (3, T, 8),
        "logits": (3, T, V),
    }
    weights = taps.values[f"{CROSS}.weights"]
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 1, T))
    assert not weights[1, ..., 1:].any()  # a source of one token: nothing else is looked at


def test_the_copied_start_is_the_encoders_last_state() -> None:
    model, (_, read) = model_of({"attention": "none", "bidirectional": False}), batch()
    taps = Taps(record=("*",))
    state = model.start(3, **read, taps=taps)
    last = taps.values["encoder.0.hidden"][torch.arange(3), read["source_lengths"] - 1]
    assert torch.equal(state.layers[0].hidden, last)
    assert not any("start" in name for name, _ in model.named_parameters())


def test_attention_starts_from_the_direction_that_ends_at_the_first_word() -> None:
    model, (_, read) = model_of({}), batch()
    taps = Taps(record=("*",))
    state = model.start(3, **read, taps=taps)
    back = taps.values["encoder.0.hidden"][:, 0, 8:]
    first = next(model.decoder.blocks())
    assert first.start_hidden is not None
    torch.testing.assert_close(state.layers[0].hidden, torch.tanh(first.start_hidden(back)))


@pytest.mark.parametrize("dials", SOME)
def test_without_its_source_no_source_word_matters(dials: dict[str, Any]) -> None:
    model, (tokens, read) = model_of(dials), batch()
    blind = without_source(model)
    with torch.inference_mode():
        one = blind(tokens, **read)
        other = blind(tokens, source=(read["source"] + 1) % 9)
        close(one, other)
        close(in_chunks(blind, tokens, [1] * T, **read), one)
        assert (one - model(tokens, **read)).abs().max() > 1e-3


def test_dropout_is_off_where_asked_and_leaves_other_generators_alone() -> None:
    model, (tokens, read) = model_of({"dropout": 0.5}).train(), batch()
    still = model_of({})
    with without_dropout(model):
        assert torch.equal(model(tokens, **read), still(tokens, **read))
    assert model.training
    assert not torch.equal(model(tokens, **read), model(tokens, **read))


def test_first_weights_depend_on_the_seed_alone() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one = build(config_of(), seed=1).state_dict()
    torch.manual_seed(6)
    two, three = build(config_of(), seed=1).state_dict(), build(config_of(), seed=2).state_dict()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not torch.equal(one["decoder.0.input.weight"], three["decoder.0.input.weight"])
    torch.manual_seed(5)
    build(config_of(), seed=1)
    torch.manual_seed(5)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("dials", SOME)
def test_a_folder_holds_it_whole(dials: dict[str, Any], tmp_path: Path) -> None:
    model, (tokens, read) = model_of(dials), batch()
    assert config_from_dict(config_to_dict(model.config)) == model.config
    save_weights(tmp_path, model)
    again = load_network(tmp_path, make_config(model.config, {}))
    assert torch.equal(again(tokens, **read), model(tokens, **read))


def test_is_a_next_token_model_that_needs_a_source() -> None:
    model = model_of({})
    assert isinstance(model, NextTokenModel)
    assert isinstance(model, nn.Module)
    with pytest.raises(UserError, match="needs a source"):
        model(torch.zeros(1, 2, dtype=torch.long))


def test_a_state_is_small_and_shares_its_source() -> None:
    model, (_, read) = model_of({"d_attention": 5}), batch()
    state = model.start(3, **read)
    assert state.nbytes == 4 * 3 * (8 + S * (16 + 5))
    many = state.select(torch.arange(3).repeat_interleave(4))
    assert many.nbytes == 4 * 3 * (4 * 8 + S * (16 + 5))
    assert many.source_lengths is not None
    assert many.source_lengths.tolist() == [5] * 4 + [1] * 4 + [3] * 4
    assert len(many.lengths) == 12


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_it_learns_to_reverse_with_attention(cell: str) -> None:
    """Every digit in its place, by looking at one source word at a time."""
    model = build(config_of(cell=cell, vocab_size=12, d_embedding=16, d_hidden=32), seed=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(0)

    def draw(n: int) -> tuple[Tensor, Tensor]:
        digits = torch.randint(0, 10, (n, 5), generator=generator)
        return torch.cat([digits, torch.full((n, 1), 10)], 1), digits.flip(1)

    for _ in range(220):
        source, target = draw(64)
        read = torch.cat([torch.full((64, 1), 10), target[:, :-1]], 1)
        loss = F.cross_entropy(model(read, source=source).flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    source, target = draw(200)
    read = torch.cat([torch.full((200, 1), 10), target[:, :-1]], 1)
    taps = Taps(record=("*.weights",))
    found = model(read, source=source, taps=taps).argmax(-1)
    assert (found == target).float().mean() > 0.97
