"""The loss of every token of a text, in order, by the quickest way a model offers.

Three ways, one result: an n-gram looks all tokens up at once; a network with `forward` reads
windows in batches; any other next-token model is stepped through with `start` and `step`. In all of
them the first token of the text is given, and an `<end>` among the inputs opens a document that
sees nothing before it.

Shapes: B batch, T positions, V vocab_size; a text of n tokens has n - 1 targets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from budgerigar.errors import UserError
from budgerigar.evaluation.windows import segments, streaming_windows
from budgerigar.models.base import NextTokenModel
from budgerigar.models.modes import without_dropout
from budgerigar.models.ngram import NgramModel
from budgerigar.models.ngram_counts import usable_context
from budgerigar.text.batches import NOT_SCORED, Batch, evaluation_windows
from budgerigar.text.store import TokenStore

Forward = Callable[..., Tensor]

LOGITS_AT_ONCE = 1 << 26
"""Logits per batch (256 MB in float32): with large vocabularies batches get smaller."""

ACTIVATIONS_AT_ONCE = 1 << 27
"""Bytes that a batch's activations may take where its logits are made some at a time."""

LOGITS_IN_PARTS = 1 << 24
"""Logits that are made at a time there (64 MB in float32, and as much again for their softmax)."""

NGRAM_TOKENS_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class LossBlock:
    """Losses of consecutive targets (m,)."""

    targets: NDArray[np.int64]
    nats: NDArray[np.float64]
    correct: NDArray[np.bool_]
    """the target was the most probable token"""
    ranks: NDArray[np.int64] | None = None
    """1: most probable; ties in the order of their ids. Only where they were asked for"""


def losses(
    network: NextTokenModel,
    store: TokenStore,
    context_length: int,
    batch_size: int = 32,
    streaming: bool = False,
    device: torch.device | str | None = None,
    forward: Forward | None = None,
    ranks: bool = False,
) -> Iterator[LossBlock]:
    """Blocks that together hold every target of `store` once, in order."""
    found = _losses(network, store, context_length, batch_size, streaming, device, forward, ranks)
    return (_targets_only(block, store) for block in found) if store.start_ids else found


def _targets_only(block: LossBlock, store: TokenStore) -> LossBlock:
    """Without what only opens a document."""
    kept = ~store.only_open(block.targets)
    ranks = None if block.ranks is None else block.ranks[kept]
    return LossBlock(block.targets[kept], block.nats[kept], block.correct[kept], ranks)


def _losses(
    network: NextTokenModel,
    store: TokenStore,
    context_length: int,
    batch_size: int,
    streaming: bool,
    device: torch.device | str | None,
    forward: Forward | None,
    ranks: bool,
) -> Iterator[LossBlock]:
    if getattr(network.config, "assembly", None) == "encoder-only":
        raise UserError(
            "an encoder-only model sees the tokens that it would have to predict, so it has no loss "
            "of the next token; a decoder-only model has"
        )
    if batch_size < 1:
        raise UserError(f"batch_size = {batch_size} must be at least 1")
    if isinstance(network, NgramModel) and forward is None and not ranks:
        return _by_lookup(network, store, context_length, streaming)
    if store.n_targets < 1:
        return iter(())
    context_length = min(context_length, store.n_tokens - 1) if not streaming else context_length
    if forward is None and isinstance(network, nn.Module) and _gives_vectors(network):
        forward, rows = network, _rows_by_bytes(network, context_length, store, batch_size)
    else:
        rows = min(batch_size, max(1, LOGITS_AT_ONCE // (context_length * network.vocab_size)))
    place = torch.device(device) if device is not None else network.device
    if forward is None and network.context_length is not None:
        # A network of positions: one pass over a window gives all its logits.
        forward = network if isinstance(network, nn.Module) else getattr(network, "forward", None)
    if forward is not None:
        return _by_forward(network, forward, store, context_length, rows, streaming, place, ranks)
    return _by_steps(network, store, context_length, rows, streaming, place, ranks)


def _by_lookup(
    network: NgramModel, store: TokenStore, context_length: int, streaming: bool
) -> Iterator[LossBlock]:
    overlap = network.config.order - 1
    for begin in range(1, store.n_tokens, NGRAM_TOKENS_AT_ONCE):
        stop = min(begin + NGRAM_TOKENS_AT_ONCE, store.n_tokens)
        first = max(0, begin - overlap)
        tokens = np.asarray(store.tokens[first:stop], dtype=np.int64)
        usable = usable_context(tokens, store.opens_id)[:-1]
        if not streaming:
            places = np.arange(first, stop, dtype=np.int64)
            usable = np.minimum(usable, (places - 1) % context_length + 1)
        nats, guess = network.score(tokens, usable, best=True)
        kept = slice(begin - first, None)
        targets = tokens[kept]
        yield LossBlock(targets, nats[kept], guess[kept] == targets)


def _by_forward(
    network: NextTokenModel,
    forward: Callable[..., Any],
    store: TokenStore,
    context_length: int,
    rows: int,
    streaming: bool,
    device: torch.device,
    ranks: bool,
) -> Iterator[LossBlock]:
    windows = streaming_windows if streaming else evaluation_windows
    in_parts = forward is network and _gives_vectors(network)
    # not inference_mode: tables that a module builds on first use would be useless in training
    with without_dropout(network), torch.no_grad():
        for whole in windows(store, context_length, rows):
            batch = _without_padding(whole)
            tokens = torch.as_tensor(batch.tokens).to(device, torch.int64)
            targets = torch.as_tensor(batch.targets).to(device, torch.int64)
            scored, fields = targets != NOT_SCORED, _document_fields(batch, device)
            if in_parts:
                yield from _by_parts(network, tokens, targets, scored, fields, ranks)
            else:
                yield measure(forward(tokens, **fields)[scored], targets[scored], ranks)


def _gives_vectors(network: Any) -> bool:
    """Whether its vectors and their logits can be had apart: a decoder alone."""
    config = getattr(network, "config", None)
    return isinstance(network, nn.Module) and (
        getattr(config, "assembly", None) == "decoder-only" and hasattr(network, "read_out")
    )


def _rows_by_bytes(network: Any, length: int, store: TokenStore, most: int) -> int:
    """Windows per batch, so that the activations of a layer stay below a limit."""
    numbers = numbers_of_token(network.config)
    seen = 5 * length if store.end_id is not None else 0  # its row of the mask between documents
    return min(most, max(1, ACTIVATIONS_AT_ONCE // (length * (4 * numbers + seen))))


def numbers_of_token(config: Any) -> int:
    """What is there of a token at a time while a layer of a decoder is computed, about."""
    return int(8 * config.d_model + 3 * config.ff_width)


def _without_padding(batch: Batch) -> Batch:
    """Up to the last target of any row: nothing looks ahead, so the rest is of no use."""
    columns = (torch.as_tensor(batch.targets) != NOT_SCORED).any(0).nonzero()
    width = int(columns[-1]) + 1 if len(columns) else 1
    if width == batch.tokens.shape[1]:
        return batch
    ids, places = (None if x is None else x[:, :width] for x in (batch[2], batch[3]))
    return Batch(batch.tokens[:, :width], batch.targets[:, :width], ids, places)


def _by_parts(
    network: Any,
    tokens: Tensor,
    targets: Tensor,
    scored: Tensor,
    fields: dict[str, Tensor | None],
    ranks: bool,
) -> Iterator[LossBlock]:
    """All vectors of a batch at once, their logits some at a time: those of 8,192 tokens and 49,152
    pieces would take 1.6 GB."""
    vectors, wanted = network.vectors(tokens, **fields)[scored], targets[scored]
    size = max(1, LOGITS_IN_PARTS // network.vocab_size)
    for first in range(0, len(wanted), size):
        part = slice(first, first + size)
        yield measure(network.read_out(vectors[part]), wanted[part], ranks)


def _document_fields(batch: Batch, device: torch.device) -> dict[str, Tensor | None]:
    names = ("document_ids", "positions")
    fields = {name: getattr(batch, name) for name in names}
    return {
        name: None if value is None else torch.as_tensor(value).to(device)
        for name, value in fields.items()
    }


def _by_steps(
    network: NextTokenModel,
    store: TokenStore,
    context_length: int,
    rows: int,
    streaming: bool,
    device: torch.device,
    ranks: bool,
) -> Iterator[LossBlock]:
    """Segments as rows of a batch: windows cut at documents, or whole documents when streaming."""
    carried = streaming and network.context_length is None
    pieces = segments(store, None if carried else context_length, overlapping=streaming)
    with without_dropout(network), torch.no_grad():
        for begin in range(0, len(pieces), rows):
            batch = pieces[begin : begin + rows]
            yield from _step_through(network, store, batch, context_length, device, ranks)


def _step_through(
    network: NextTokenModel,
    store: TokenStore,
    pieces: list[tuple[int, int, int]],
    chunk: int,
    device: torch.device,
    ranks: bool,
) -> Iterator[LossBlock]:
    """Losses of (begin, first scored, stop), side by side, `chunk` tokens a step."""
    found: list[list[LossBlock]] = [[] for _ in pieces]
    places = [begin for begin, _, _ in pieces]
    alive = list(range(len(pieces)))
    state = network.start(len(pieces))
    while alive:
        sizes = [min(chunk, pieces[row][2] - places[row]) for row in alive]
        tokens = torch.zeros(len(alive), max(sizes), dtype=torch.int64)
        for line, (row, size) in enumerate(zip(alive, sizes, strict=True)):
            tokens[line, :size] = _read(store, places[row], places[row] + size)
        lengths = torch.tensor(sizes, device=device)
        logits, state = network.step(tokens.to(device), state, lengths=lengths, all_positions=True)
        for line, (row, size) in enumerate(zip(alive, sizes, strict=True)):
            begin, stop = places[row], places[row] + size
            first = max(begin, pieces[row][1])
            if first < stop:
                targets = _read(store, first + 1, stop + 1).to(device)
                found[row].append(measure(logits[line, first - begin : size], targets, ranks))
            places[row] = stop
        left = [line for line, row in enumerate(alive) if places[row] < pieces[row][2]]
        if left and len(left) < len(alive):
            state = state.select(torch.tensor(left, device=device))
        alive = [alive[line] for line in left]
    for blocks in found:
        yield from blocks


def _read(store: TokenStore, begin: int, stop: int) -> Tensor:
    return torch.from_numpy(np.asarray(store.tokens[begin:stop]).astype(np.int64))


def measure(logits: Tensor, targets: Tensor, ranks: bool = False) -> LossBlock:
    """Losses of `targets` (m,) under `logits` (m, V): true cross-entropy, nothing smoothed."""
    logits = logits.float()
    nats = nn.functional.cross_entropy(logits, targets, reduction="none").double()
    place: NDArray[np.int64] | None = None
    if ranks:
        place = ranks_of(logits, targets).cpu().numpy()
        correct = place == 1
    else:
        correct = (logits.argmax(dim=1) == targets).cpu().numpy()
    return LossBlock(targets.cpu().numpy(), nats.cpu().numpy(), correct, place)


def ranks_of(logits: Tensor, targets: Tensor) -> Tensor:
    """Ranks (m,) of `targets` (m,) among logits (m, V): 1 is the largest, ties by their ids."""
    own = logits.gather(1, targets[:, None])
    ids = torch.arange(logits.shape[1], device=logits.device)
    ahead = (logits > own) | ((logits == own) & (ids < targets[:, None]))
    return 1 + ahead.sum(dim=1)
