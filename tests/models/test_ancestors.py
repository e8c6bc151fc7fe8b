"""What every next-token model promises, of the feed-forward and the recurrent ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from budgerigar import models
from budgerigar.errors import UserError
from budgerigar.evaluation import evaluate
from budgerigar.formats.run import load_network, make_config, save_weights
from budgerigar.generation.generate import generate_ids
from budgerigar.generation.options import SamplingOptions
from budgerigar.layers.recurrent import NAMES
from budgerigar.layers.taps import Taps
from budgerigar.models import ancestor_card
from budgerigar.models.ancestor_configs import FeedForwardConfig, RecurrentConfig
from budgerigar.models.base import NextTokenModel, State
from budgerigar.models.configs import config_from_dict, config_to_dict
from budgerigar.text.store import TokenStore

V, B, T = 11, 3, 9
CONFIGS: dict[str, Any] = {
    "feed-forward": FeedForwardConfig(V, order=4, d_embedding=5, d_hidden=7, dropout=0.3),
    "bigram": FeedForwardConfig(
        V, order=2, d_embedding=6, d_hidden=0, direct_connections=True, dropout=0.1
    ),
    "tied": FeedForwardConfig(
        V, order=5, d_embedding=6, d_hidden=6, direct_connections=True, tied_embeddings=True
    ),
    "elman": RecurrentConfig(V, cell="elman", d_embedding=5, d_hidden=6, dropout=0.3),
    "gru": RecurrentConfig(
        V, cell="gru", n_layers=2, d_embedding=5, d_hidden=6, d_output=5, tied_embeddings=True
    ),
    "lstm": RecurrentConfig(
        V, cell="lstm", n_layers=3, d_embedding=5, d_hidden=6, d_output=4, initialisation="uniform"
    ),
}
EVERY = pytest.mark.parametrize("name", CONFIGS)


def build(name: str, seed: int = 3) -> Any:
    return models.build(CONFIGS[name], seed).eval()


def tokens(rows: int = B, width: int = T, seed: int = 0) -> Tensor:
    return torch.randint(0, V, (rows, width), generator=torch.Generator().manual_seed(seed))


def close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@EVERY
def test_is_a_next_token_model_without_a_limit(name: str) -> None:
    model = build(name)
    assert isinstance(model, NextTokenModel)
    assert isinstance(model.start(2), State)
    assert model.context_length is None
    logits = model(tokens())
    assert logits.shape == (B, T, V)
    assert logits.dtype == torch.float32
    with pytest.raises(UserError, match="no source"):
        model.start(1, source=tokens(1))


@EVERY
@pytest.mark.parametrize("cuts", [(T,), (1,) * T, (4, 1, 4), (2, 7)])
def test_any_cutting_into_steps_is_the_forward_pass(name: str, cuts: tuple[int, ...]) -> None:
    model, read, found = build(name), tokens(), []
    state, last = model.start(B), None
    for part in read.split(cuts, dim=1):
        before = state.select(torch.arange(B))
        logits, state = model.step(part, state, all_positions=True)
        last, _ = model.step(part, before)
        found.append(logits)
    close(torch.cat(found, dim=1), model(read))
    close(last, model(read)[:, -1])
    assert state.lengths.tolist() == [T] * B


@EVERY
def test_rows_of_other_lengths_and_selected_ones_go_on_as_if_alone(name: str) -> None:
    model, read = build(name), tokens()
    lengths = torch.tensor([9, 2, 5])
    logits, state = model.step(read, model.start(B), lengths)
    assert state.lengths.tolist() == lengths.tolist()
    chosen = torch.tensor([2, 1, 1, 0])
    more = tokens(4, 3, seed=1)
    after, _ = model.step(more, state.select(chosen), all_positions=True)
    for row, origin in enumerate(chosen.tolist()):
        own = read[origin : origin + 1, : lengths[origin]]
        close(logits[origin], model(own)[0, -1])
        close(after[row], model(torch.cat([own, more[row : row + 1]], dim=1))[0, -3:])


@EVERY
def test_a_step_of_no_tokens_leaves_a_row_as_it_is(name: str) -> None:
    model, read = build(name), tokens()
    _, state = model.step(read, model.start(B))
    _, state = model.step(read[:, :2], state, torch.tensor([2, 0, 1]))
    assert state.lengths.tolist() == [11, 9, 10]
    logits, _ = model.step(read[:, :1], state)
    close(logits[1], model(torch.cat([read[1], read[1, :1]])[None])[0, -1])


@EVERY
def test_no_prediction_depends_on_what_comes_later_or_on_other_rows(name: str) -> None:
    model, read = build(name), tokens()
    changed = read.clone()
    changed[0, 5:] = (changed[0, 5:] + 1) % V
    before, after = model(read), model(changed)
    assert torch.equal(before[0, :5], after[0, :5])
    assert torch.equal(before[1:], after[1:])
    assert not torch.equal(before[0, 5:], after[0, 5:])


@EVERY
def test_documents_see_nothing_of_each_other(name: str) -> None:
    model, read = build(name), tokens()
    documents = torch.tensor([[0, 0, 1, 1, 1, 1, 2, 3, 3], [0] * 9, [1, 1, 1, 1, 2, 2, 2, 2, 2]])
    begins = [[0, 2, 6, 7], [0], [0, 4]]
    positions = torch.zeros_like(documents)
    for row, places in enumerate(begins):
        for begin in places:
            positions[row, begin:] = torch.arange(T - begin)
    found = model(read, document_ids=documents, positions=positions)
    close(found, model(read, document_ids=documents))
    for row, places in enumerate(begins):
        for begin, end in zip(places, [*places[1:], T], strict=True):
            close(found[row, begin:end], model(read[row : row + 1, begin:end])[0])


@EVERY
def test_a_carried_state_goes_on_is_cut_off_and_ends_with_its_document(name: str) -> None:
    model, read = build(name), tokens(width=12)
    state = model.start(B)
    positions = torch.arange(12)[None].repeat(B, 1)
    positions[1, 7:] = torch.arange(5)  # in the second window a document begins
    positions[2, 4:] = torch.arange(8)  # with it
    parts = [
        model(r, positions=p, state=state)
        for r, p in zip(read.split(4, 1), positions.split(4, 1), strict=True)
    ]
    found = torch.cat(parts, dim=1)
    assert not any(t.requires_grad for t in state.tensors().values())
    assert state.lengths.tolist() == [12] * B
    close(found[0], model(read[:1])[0])
    close(found[1, 7:], model(read[1:2, 7:])[0])
    close(found[2, 4:], model(read[2:, 4:])[0])
    # and what is stepped on from there knows nothing before the document either
    close(
        model.step(read[:, :1], state)[0][2],
        model(torch.cat([read[2, 4:], read[2, :1]])[None])[0, -1],
    )


@EVERY
def test_a_state_comes_back_from_its_tensors(name: str) -> None:
    model, read = build(name), tokens()
    _, state = model.step(read, model.start(B))
    other = model.start(B)
    other.load_tensors(state.tensors())
    assert torch.equal(model.step(read, other)[0], model.step(read, state)[0])


@EVERY
def test_looking_changes_nothing_and_names_what_there_is(name: str) -> None:
    model, read, taps = build(name), tokens(), Taps(record=["*"])
    assert torch.equal(model(read, taps=taps), model(read))
    width = CONFIGS[name].d_hidden
    if isinstance(CONFIGS[name], RecurrentConfig):
        depth = range(CONFIGS[name].n_layers)
        hidden = [f"decoder.{i}.{part}" for i in depth for part in NAMES[CONFIGS[name].cell]]
    else:
        hidden = ["decoder.0.hidden"] if width else []
    assert set(taps.values) == {"decoder.embedding", *hidden, "logits"}
    assert all(taps.values[part].shape == (B, T, width) for part in hidden)
    # step by step the same is seen
    stepwise = Taps(record=["*"], replace={"decoder.*": lambda value: value})
    close(model(read, taps=stepwise), model(read))
    for part, value in taps.values.items():
        close(stepwise.values[part], value)


@EVERY
def test_a_run_folder_gives_the_same_model_back(name: str, tmp_path: Path) -> None:
    model, read = build(name), tokens()
    assert config_from_dict(config_to_dict(model.config)) == model.config
    save_weights(tmp_path, model)
    loaded = load_network(tmp_path, make_config(model.config, {}))
    assert torch.equal(loaded(read), model(read))
    assert not torch.equal(build(name, seed=4)(read), model(read))
    assert torch.equal(build(name)(read), model(read))


@EVERY
def test_the_card_counts_the_built_model_and_its_state(name: str) -> None:
    model, config = build(name), CONFIGS[name]
    assert sum(ancestor_card.parameters(config).values()) == sum(
        p.numel() for p in model.parameters()
    )
    assert model.start(7).nbytes == 7 * ancestor_card.state_bytes(config)
    products = [p for n, p in model.named_parameters() if p.dim() == 2 and "embedding" not in n]
    flops = 2 * sum(p.numel() for p in products)
    if config.tied_embeddings:
        flops += 2 * V * config.d_embedding
    assert ancestor_card.flops_per_token(config) == flops


@EVERY
def test_windowed_and_streaming_evaluation_reset_and_carry(name: str) -> None:
    model = build(name)
    ids = tokens(1, 41)[0].numpy().astype(np.uint16)
    store = TokenStore(ids, 41, 41, None, np.bincount(ids, minlength=V))
    read = torch.from_numpy(ids.astype(np.int64))
    windowed = evaluate(model, store, context_length=10)
    pieces = [(read[a : a + 10], read[a + 1 : a + 11]) for a in range(0, 40, 10)]
    for nats, expected in (
        (windowed.nats, pieces),
        (evaluate(model, store, context_length=10, streaming=True).nats, [(read[:-1], read[1:])]),
        (evaluate(model, store, context_length=10, forward=model).nats, pieces),
    ):
        by_hand = sum(
            float(nn.functional.cross_entropy(model(x[None])[0], y, reduction="sum").detach())
            for x, y in expected
        )
        assert nats == pytest.approx(by_hand, rel=1e-5)


@EVERY
def test_generates_alone_and_in_a_batch_what_forward_says(name: str) -> None:
    model = build(name)
    prompts = [[1, 2, 3], [4], [5, 6, 7, 8, 9, 1, 2]]
    options = SamplingOptions(max_new_tokens=12, temperature=0.0)
    found: list[list[int]] = [[] for _ in prompts]
    for event in generate_ids(model, prompts, options):
        found[event.request].append(event.token)
    for prompt, new in zip(prompts, found, strict=True):
        with torch.no_grad():
            greedy = model(torch.tensor([[*prompt, *new]]))[0].argmax(-1)
        assert new == greedy[len(prompt) - 1 : -1].tolist()
        assert len(new) == 12


@EVERY
def test_dropout_only_in_training(name: str) -> None:
    model, read = build(name), tokens()
    before = model(read)
    model.train()
    torch.manual_seed(0)
    assert torch.equal(model(read), before) == (not CONFIGS[name].dropout)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (FeedForwardConfig(order=1, d_hidden=-1, dropout=1.0), ["order = 1", "d_hidden", "dropout"]),
        (FeedForwardConfig(d_hidden=0), ["direct_connections = true"]),
        (FeedForwardConfig(tied_embeddings=True), ["d_hidden = d_embedding"]),
        (FeedForwardConfig(vocab_size=0, d_embedding=0), ["vocab_size", "d_embedding"]),
        (RecurrentConfig(cell="rnn", n_layers=2.5), ["cell", "n_layers"]),  # type: ignore[arg-type]
        (RecurrentConfig(n_layers=0, d_hidden=0, d_output=0, dropout=-1), ["n_layers", "d_hidden",
         "d_output", "dropout"]),
        (RecurrentConfig(tied_embeddings=True), ["d_output = 128"]),
        (RecurrentConfig(n_layers=10**9), ["most allowed"]),
    ],
)  # fmt: skip
def test_every_problem_of_a_config_is_named_at_once(config: Any, words: list[str]) -> None:
    with pytest.raises(UserError) as error:
        config.validate()
    assert all(word in str(error.value) for word in words)
