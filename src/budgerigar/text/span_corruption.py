"""Corrupted spans: stretches of a text are taken out of the source, and are the target.

Raffel et al. 2020, section 3.1.4 and figure 2: "Thank you <X> me to your party <Y> week ." is read,
and "<X> for inviting <Y> last <Z>" is to be written; <X>, <Y>, <Z> are sentinels, tokens of their
own. 15 % of the tokens go, in spans of 3 on average, drawn anew for each batch. `<end>` ends both.
Evaluation draws them in the same way, but hides every token of a row once, over several passes.

A row is a piece of one document, at most as long as the model's context; no row crosses documents.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from budgerigar.errors import UserError
from budgerigar.text.batches import NOT_SCORED
from budgerigar.text.bucketing import BucketOrder, by_length, cut, generator
from budgerigar.text.fill_in_tokens import need_sentinels
from budgerigar.text.pair_batches import PADDING, PairBatch, pad_rows
from budgerigar.text.store import TokenStore

_SPANS, _PARTS = 3, 4  # what a generator is for, beside the seed
_FEWEST = 2  # tokens of a row: one to hide, one to see


@dataclass(frozen=True)
class SpanRule:
    """share: of a row's tokens that are hidden; span_length: of the spans, on average.

    sentinels: their ids, in order. start_id: what starts the decoder.
    """

    sentinels: tuple[int, ...]
    end_id: int
    start_id: int
    share: float = 0.15
    span_length: float = 3.0

    @property
    def passes(self) -> int:
        """Into how many parts a row is cut for evaluation, each hidden in turn."""
        return max(round(1 / self.share), 2)

    def n_spans(self, length: int) -> int:
        """Spans that a row is cut into, the hidden and the seen; at least two, so something is seen."""
        return min(
            max(round(length / self.span_length), 2), self.passes * (len(self.sentinels) - 1)
        )

    def spans_of_passes(self, length: int) -> np.ndarray:
        """How many spans each pass over a row of `length` tokens hides, where it hides any."""
        full, more = divmod(self.n_spans(length), self.passes)
        counts = np.full(self.passes, full)
        counts[:more] += 1
        return counts[counts > 0]

    def draw(self, length: int, random: np.random.Generator) -> np.ndarray:
        """bool (length,): which tokens training hides: one of the passes of `parts`, drawn anew.

        How much is hidden varies with the spans' lengths. Where it is a fixed number of each row, as in
        the paper, a decoder learns to count how much is left, and is lost in gaps of another length.
        """
        numbers = self._cut(length, random)
        return numbers == random.choice(np.unique(numbers))

    def corrupt(self, ids: np.ndarray, hidden: np.ndarray) -> tuple[list[int], list[int]]:
        """(source, target) of a row: its ids (n,), of which those that are `hidden` (n,) are spans."""
        edges = np.flatnonzero(np.diff(hidden.astype(np.int8))) + 1
        source: list[int] = []
        target: list[int] = []
        number = 0
        for part, is_hidden in zip(np.split(ids, edges), hidden[[0, *edges]], strict=True):
            if not is_hidden:
                source += part.tolist()
                continue
            source.append(self.sentinels[number])
            target += [self.sentinels[number], *part.tolist()]
            number += 1
        return [*source, self.end_id], [*target, self.sentinels[number], self.end_id]

    def parts(self, length: int, seed: int, row: int) -> np.ndarray:
        """(length,) which of `passes` passes hides a token: each once, in spans as training has them.

        The spans of a pass are as far apart as the passes are many, so that no two touch.
        """
        return self._cut(length, generator(seed, _PARTS, row))

    def _cut(self, length: int, random: np.random.Generator) -> np.ndarray:
        """(length,) the pass of each token: all ways of cutting a row into spans equally likely."""
        spans = self.n_spans(length)
        numbers = np.repeat(np.arange(spans), _random_parts(length, spans, random))
        return (numbers + int(random.integers(self.passes))) % self.passes


def span_rule(
    tokenizer: Any, start_id: int | None, share: float = 0.15, span_length: float = 3.0
) -> SpanRule:
    """The rule for a vocabulary; `start_id`: the network's `config.decoder_start`."""
    sentinels = need_sentinels(tokenizer)
    end_id = int(tokenizer.end_id)
    start = end_id if start_id is None else start_id
    return SpanRule(tuple(sentinels), end_id, start, share, span_length)


def _random_parts(n: int, parts: int, random: np.random.Generator) -> np.ndarray:
    """`n` things in `parts` heaps, none of them empty, all ways equally likely."""
    opens = np.zeros(n, dtype=np.int64)
    opens[1 : 1 + parts - 1] = 1
    random.shuffle(opens[1:])
    return np.bincount(np.cumsum(opens), minlength=parts)


@dataclass(frozen=True)
class TextRows:
    """Pieces of documents: tokens[starts[i] : starts[i] + lengths[i]]."""

    starts: np.ndarray
    lengths: np.ndarray

    def __len__(self) -> int:
        return len(self.starts)


def text_rows(store: TokenStore, length: int) -> TextRows:
    """Every document in as few pieces of about equal size as `length` tokens allow.

    Left out: documents of a single token, of which nothing would be left to see.
    """
    bounds = [-1, store.n_tokens]
    if store.end_id is not None:
        ends = np.flatnonzero(np.asarray(store.tokens) == store.end_id)
        bounds = [-1, *ends.tolist(), store.n_tokens]
    first = np.asarray(bounds[:-1], dtype=np.int64) + 1
    sizes = np.asarray(bounds[1:], dtype=np.int64) - first
    first, sizes = first[sizes >= _FEWEST], sizes[sizes >= _FEWEST]
    pieces = -(-sizes // length)
    number = np.arange(int(pieces.sum())) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    whole, many, begin = (np.repeat(x, pieces) for x in (sizes, pieces, first))
    starts = begin + number * whole // many
    return TextRows(starts, begin + (number + 1) * whole // many - starts)


class SpanBatches:
    """Rows of a text with spans taken out, as pairs; the same for the same seed.

    The spans of a batch depend on (seed, number of the batch) alone. `batch_tokens`: most padded tokens
    of a row's text per batch.
    """

    def __init__(
        self, store: TokenStore, rule: SpanRule, length: int, batch_tokens: int, seed: int
    ) -> None:
        self._store, self._rule, self._seed = store, rule, seed
        self._rows = text_rows(store, min(length, batch_tokens))
        if not len(self._rows):
            raise UserError(
                "no document of this text has two tokens, one to hide and one to see: use more text"
            )
        lengths = self._rows.lengths
        self._order = BucketOrder(lengths, lengths, batch_tokens, seed)
        self._batch_tokens, self._drawn = batch_tokens, 0

    @property
    def n_rows(self) -> int:
        """Rows of an epoch."""
        return len(self._rows)

    def next(self) -> PairBatch:
        """The next batch."""
        random = generator(self._seed, _SPANS, self._drawn)
        self._drawn += 1
        pairs = []
        for row in self._order.next():
            ids = row_ids(self._store, self._rows, int(row))
            pairs.append(self._rule.corrupt(ids, self._rule.draw(len(ids), random)))
        return pairs_batch(pairs, self._rule.start_id)

    def state_dict(self) -> dict[str, Any]:
        """Where it stands, as JSON-able values."""
        return {
            "n_rows": len(self._rows),
            "batch_tokens": self._batch_tokens,
            "seed": self._seed,
            "drawn": self._drawn,
            "order": self._order.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`, which must come from the same text and settings."""
        mine = self.state_dict()
        for name in ("n_rows", "batch_tokens", "seed"):
            if state[name] != mine[name]:
                raise UserError(
                    f"these batches were saved with {name} {state[name]}, here it is {mine[name]}: "
                    "the run cannot go on where it stopped."
                )
        self._drawn = int(state["drawn"])
        self._order.load_state_dict(state["order"])


class MixedBatches:
    """Batches of one kind or the other: of `second` with probability `share`, by (seed, number)."""

    def __init__(self, first: Any, second: Any, share: float, seed: int) -> None:
        self._parts, self._share, self._seed = (first, second), share, seed
        self._drawn = 0

    def next(self) -> Any:
        """The next batch."""
        coin = generator(self._seed, _SPANS, self._drawn, 1).random()
        self._drawn += 1
        return self._parts[coin < self._share].next()

    def state_dict(self) -> dict[str, Any]:
        """Where both stand."""
        return {"drawn": self._drawn, "parts": [part.state_dict() for part in self._parts]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`."""
        self._drawn = int(state["drawn"])
        for part, saved in zip(self._parts, state["parts"], strict=True):
            part.load_state_dict(saved)


def row_ids(store: TokenStore, rows: TextRows, row: int) -> np.ndarray:
    """The ids of one row, int64."""
    start = int(rows.starts[row])
    return np.asarray(store.tokens[start : start + int(rows.lengths[row])]).astype(np.int64)


def pairs_batch(pairs: list[tuple[list[int], list[int]]], start_id: int) -> PairBatch:
    """Sources and targets, each with its `<end>`, as one padded batch."""
    targets = pad_rows([target for _, target in pairs], NOT_SCORED)
    tokens = pad_rows([[start_id, *target[:-1]] for _, target in pairs], PADDING)
    source = pad_rows([source for source, _ in pairs], PADDING)
    lengths = torch.tensor([len(source) for source, _ in pairs])
    return PairBatch(tokens, targets, source, lengths)


def evaluation_spans(
    store: TokenStore, rule: SpanRule, length: int, batch_tokens: int, seed: int
) -> Iterator[tuple[PairBatch, np.ndarray]]:
    """(batch, the number of the row of each of its rows): every token hidden once, always alike.

    Each row comes once for every pass that hides something of it.
    """
    rows = text_rows(store, length)
    passes = [(row, n) for row in range(len(rows)) for n in range(rule.passes)]
    sizes = rows.lengths[[row for row, _ in passes]]
    order = by_length(sizes, sizes)
    for first, last in cut(sizes[order], batch_tokens):
        pairs, numbers = [], []
        for place in order[first:last]:
            row, number = passes[place]
            ids = row_ids(store, rows, row)
            hidden = rule.parts(len(ids), seed, row) == number
            if hidden.any():
                pairs.append(rule.corrupt(ids, hidden))
                numbers.append(row)
        if pairs:
            yield pairs_batch(pairs, rule.start_id), np.asarray(numbers)
