from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from budgerigar.errors import UserError
from budgerigar.layers.taps import Taps
from budgerigar.models.base import NextTokenModel, State
from budgerigar.models.configs import NgramConfig, Smoothing
from budgerigar.models.ngram import SMOOTHED, NgramModel

END = 0


def small_model(order: int = 4, end_id: int | None = END, seed: int = 0) -> NgramModel:
    tokens = np.random.default_rng(seed).choice(6, 500, p=[0.1, 0.4, 0.2, 0.1, 0.1, 0.1])
    return NgramModel.fit(tokens, NgramConfig(6, order), end_id)


def steps_of(model: NgramModel, row: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Logits after every position, read in chunks of the given sizes."""
    state, parts = model.start(1), []
    for chunk in row[None].split(sizes, dim=1):
        logits, state = model.step(chunk, state, all_positions=True)
        parts.append(logits)
    assert state.lengths.tolist() == [len(row)]
    return torch.cat(parts, dim=1)[0]


def test_keeps_the_contract() -> None:
    model = small_model()
    assert isinstance(model, NextTokenModel)
    assert isinstance(model.start(2), State)
    assert model.context_length is None
    assert model.vocab_size == 6


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_cutting_into_steps_gives_the_scored_numbers(data: st.DataObject) -> None:
    order = data.draw(st.integers(1, 5))
    end_id = data.draw(st.sampled_from([None, END]))
    model = small_model(order, end_id)
    tokens = data.draw(st.lists(st.integers(0, 5), min_size=2, max_size=20))
    sizes, left = [], len(tokens)
    while left:
        sizes.append(data.draw(st.integers(1, left)))
        left -= sizes[-1]
    logits = steps_of(model, torch.tensor(tokens), sizes)
    assert logits.dtype == torch.float32
    torch.testing.assert_close(logits.exp().sum(-1), torch.ones(len(tokens)))
    nats, _ = model.score(np.array(tokens))
    own = -logits[:-1].gather(1, torch.tensor(tokens[1:])[:, None])[:, 0]
    np.testing.assert_allclose(own.numpy(), nats[1:], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(model.forward(torch.tensor([tokens]))[0], logits, rtol=0, atol=0)


@pytest.mark.parametrize("order", [1, 2, 4])
def test_the_batch_is_invisible(order: int) -> None:
    model = small_model(order)
    rng = np.random.default_rng(1)
    rows = [rng.integers(0, 6, n).tolist() for n in (1, 7, 3, 5)]
    more = [rng.integers(0, 6, n).tolist() for n in (2, 1, 0, 3)]

    def padded(lists: list[list[int]], filler: int) -> torch.Tensor:
        width = max(map(len, lists))
        return torch.tensor([row + [filler] * (width - len(row)) for row in lists])

    state = model.start(4)
    first, state = model.step(padded(rows, 5), state, torch.tensor([1, 7, 3, 5]))
    second, state = model.step(padded(more, 3), state, torch.tensor([2, 1, 0, 3]))
    assert state.lengths.tolist() == [3, 8, 3, 8]
    for number, (row, extra) in enumerate(zip(rows, more, strict=True)):
        alone = steps_of(model, torch.tensor(row + extra), [len(row + extra)])
        torch.testing.assert_close(first[number], alone[len(row) - 1], rtol=0, atol=0)
        torch.testing.assert_close(second[number], alone[-1], rtol=0, atol=0)


def test_select_copies_rows() -> None:
    model = small_model()
    _, state = model.step(torch.tensor([[1, 2, 3], [4, 5, 1]]), model.start(2))
    chosen = state.select(torch.tensor([1, 0, 1]))
    assert chosen.lengths.tolist() == [3, 3, 3]
    assert chosen.nbytes == 3 * (3 * 8 + 8 + 8)
    next_tokens = torch.tensor([[2], [2], [3]])
    logits, _ = model.step(next_tokens, chosen)
    for row, text in enumerate([[4, 5, 1, 2], [1, 2, 3, 2], [4, 5, 1, 3]]):
        alone, _ = model.step(torch.tensor([text]), model.start(1))
        torch.testing.assert_close(logits[row], alone[0], rtol=0, atol=0)
    chosen.tokens[:] = 0
    assert state.tokens.tolist() == [[1, 2, 3], [4, 5, 1]]


def test_nothing_before_end_matters() -> None:
    model = small_model()
    one, _ = model.step(torch.tensor([[3, 3, 4, END, 2]]), model.start(1))
    other, _ = model.step(torch.tensor([[END, 2]]), model.start(1))
    torch.testing.assert_close(one, other, rtol=0, atol=0)
    without = small_model(end_id=None)
    one, _ = without.step(torch.tensor([[1, 1, END, 2]]), without.start(1))
    other, _ = without.step(torch.tensor([[END, 2]]), without.start(1))
    assert not torch.equal(one, other)


def test_usable_context_limits_what_is_looked_at() -> None:
    model = small_model(end_id=None)
    tokens = np.array([1, 2, 3, 1, 2, 1])
    limited, _ = model.score(tokens, np.array([0, 1, 1, 2, 1, 2]))
    for place, start in [(1, 0), (2, 1), (3, 1), (4, 3), (5, 3)]:
        alone, _ = model.score(tokens[start : place + 1])
        assert limited[place] == pytest.approx(alone[-1], rel=1e-12)


@pytest.mark.parametrize("smoothing", ["kneser-ney", "witten-bell"])
@pytest.mark.parametrize("end_id", [None, END])
def test_saved_and_restored(smoothing: Smoothing, end_id: int | None, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    tokens = np.random.default_rng(4).integers(0, 9, 3000)
    model = NgramModel.fit(tokens, NgramConfig(9, 4, smoothing), end_id)
    save_file(model.state_tensors(), tmp_path / "model.safetensors")
    again = NgramModel.from_tensors(load_file(tmp_path / "model.safetensors"), model.config)
    assert again.end_id == end_id
    np.testing.assert_array_equal(again.score(tokens)[0], model.score(tokens)[0])


@pytest.mark.parametrize("smoothing", ["kneser-ney", "witten-bell"])
def test_a_file_with_counts_alone_is_smoothed_again(smoothing: Smoothing) -> None:
    tokens = np.random.default_rng(4).integers(0, 9, 3000)
    model = NgramModel.fit(tokens, NgramConfig(9, 4, smoothing))
    old = {n: a for n, a in model.state_tensors().items() if not n.endswith(SMOOTHED)}
    assert len(old) == 9
    again = NgramModel.from_tensors(old, model.config)
    np.testing.assert_array_equal(again.score(tokens)[0], model.score(tokens)[0])


def test_tables_are_used_as_they_are_given() -> None:
    """So that those of a mapped file stay on the disk until they are touched."""
    tensors = small_model().state_tensors()
    again = NgramModel.from_tensors(tensors, small_model().config)
    for name, array in again.state_tensors().items():
        assert name == "end_id" or np.shares_memory(array, tensors[name])


def test_another_models_tensors_are_refused() -> None:
    model = small_model(order=3)
    with pytest.raises(UserError, match=r"order 4: ngrams\.4\.keys, ngrams\.4\.counts missing"):
        NgramModel.from_tensors(model.state_tensors(), NgramConfig(6, 4))


def test_large_vocabulary_and_order() -> None:
    rng = np.random.default_rng(5)
    tokens = (rng.zipf(1.4, 4000) * 7919) % 70_000
    model = NgramModel.fit(tokens, NgramConfig(70_000, 8))
    assert len(model.n_ngrams) == 8
    text = torch.from_numpy(tokens[100:120])
    logits, _ = model.step(text[None], model.start(1))
    assert logits.exp().sum().item() == pytest.approx(1, abs=1e-4)
    assert logits.argmax().item() == tokens[120]
    nats, best = model.score(tokens[100:121], best=True)
    assert -logits[0, tokens[120]].item() == pytest.approx(nats[-1], rel=1e-5)
    assert best[-1] == tokens[120]


def test_an_unfitted_model_finds_all_equally_likely() -> None:
    model = NgramModel(NgramConfig(8, 3))
    logits, state = model.step(torch.tensor([[1, 2]]), model.start(1))
    torch.testing.assert_close(logits.exp(), torch.full((1, 8), 1 / 8))
    assert model.step(torch.tensor([[1]]), state)[0].shape == (1, 8)


@pytest.mark.parametrize("tokens", [[], [1], [END], [END, END, 1]])
def test_hardly_any_text(tokens: list[int]) -> None:
    model = NgramModel.fit(np.array(tokens, dtype=np.uint16), NgramConfig(4, 5), END)
    logits, _ = model.step(torch.tensor([[END, 1, 2]]), model.start(1), all_positions=True)
    torch.testing.assert_close(logits.exp().sum(-1), torch.ones(1, 3))


def test_fallback_discounts_are_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    NgramModel.fit(np.array([0, 1, 0, 2, 1]), NgramConfig(3, 3))
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "length 1, 2, 3" in said
    assert "0.5, 1 and 1.5" in said


def test_mistakes_are_named() -> None:
    model = small_model()
    with pytest.raises(UserError, match="0 to 5"):
        model.step(torch.tensor([[6]]), model.start(1))
    with pytest.raises(UserError, match="source"):
        model.start(1, source=torch.tensor([[1]]))
    with pytest.raises(UserError, match="order = 99,999 is more than 64"):
        NgramConfig(6, 99_999).validate()
    with pytest.raises(UserError, match="order = 0"):
        NgramModel(NgramConfig(4, 0))


def test_logits_can_be_tapped() -> None:
    model = small_model()
    taps = Taps(record=("logits",))
    logits, _ = model.step(torch.tensor([[1, 2]]), model.start(1), taps=taps)
    assert torch.equal(taps.values["logits"], logits)


@pytest.mark.needs_data
@pytest.mark.parametrize(("order", "limit"), [(5, 1.5612), (7, 1.5171)])
def test_known_figures(data_folder: Path, order: int, limit: float) -> None:
    """Order 5 has 1.561 and order 7 has 1.517 nats per character, streaming, last tenth."""
    text = (data_folder / "tinyshakespeare.txt").read_text(encoding="utf-8")
    points = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
    letters, tokens = np.unique(points, return_inverse=True)
    cut = int(len(tokens) * 0.9)
    model = NgramModel.fit(tokens[:cut], NgramConfig(len(letters), order))
    mean = model.score(tokens[cut:])[0][1:].mean()
    assert limit - 0.001 < mean < limit
