"""A translator whose probabilities and attention are given by functions, and the slow, sure searches.

`naive_beam` and `brute_force` are written from the definition, with lists, one source at a time, and
share nothing with the package.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor

Ids = tuple[int, ...]
Table = Callable[[Ids, Ids], Sequence[float]]  # (source, target so far) -> of the next token
START, END = 0, 1


def hashed(vocab_size: int, seed: int = 0, sharpness: float = 1.5, end: float = 0.0) -> Table:
    """Other random probabilities after every source and target; `end` is added to END's logit."""

    @cache
    def table(source: Ids, history: Ids) -> np.ndarray:
        rng = np.random.default_rng([seed, *source, 1_000_003, *history])
        logits = sharpness * rng.standard_normal(vocab_size)
        logits[END] += end
        weights = np.exp(logits)
        return weights / weights.sum()

    return table


@cache
def hashed_attention(source: Ids, history: Ids) -> np.ndarray:
    """Random attention of the next token to each source token."""
    rng = np.random.default_rng([7, *source, 1_000_003, *history])
    weights = np.exp(2 * rng.standard_normal(len(source)))
    return weights / weights.sum()


@dataclass
class TranslatorState:
    rows: list[tuple[Ids, Ids]]
    width: int = 0  # S, the longest source of the batch
    dead: bool = False

    @property
    def lengths(self) -> Tensor:
        return torch.tensor([len(history) for _, history in self.rows])

    @property
    def nbytes(self) -> int:
        return 0

    def select(self, rows: Tensor) -> TranslatorState:
        return TranslatorState([self.rows[i] for i in rows.tolist()], self.width)


class ScriptedTranslator:
    """`table(source, history)` gives the next token's probabilities; logits are their logarithms."""

    def __init__(
        self,
        table: Table,
        vocab_size: int,
        context_length: int | None = None,
        attention: Callable[[Ids, Ids], np.ndarray] | None = None,
    ) -> None:
        self.table, self.vocab_size, self.context_length = table, vocab_size, context_length
        self.attention = attention
        self.device = torch.device("cpu")
        self.config = SimpleNamespace()
        self.widths: list[int] = []  # rows of every step

    def start(self, batch_size, source=None, source_lengths=None, taps=None) -> TranslatorState:
        if source is None:
            return TranslatorState([((), ())] * batch_size)
        lines = zip(source.tolist(), source_lengths.tolist(), strict=True)
        return TranslatorState([(tuple(line[:n]), ()) for line, n in lines], source.shape[1])

    def step(self, tokens, state, lengths=None, all_positions=False, taps=None):
        assert not state.dead, "a consumed state was used again"
        state.dead = True
        self.widths.append(len(tokens))
        rows = [
            (source, (*history, *new))
            for (source, history), new in zip(state.rows, tokens.tolist(), strict=True)
        ]
        if self.context_length is not None:
            assert max(len(h) for _, h in rows) <= self.context_length
        with np.errstate(divide="ignore"):
            logits = np.log(np.array([self.table(s, h[1:]) for s, h in rows], dtype=np.float64))
        if taps is not None and self.attention is not None:
            weights = torch.zeros(len(rows), 1, 1, state.width, dtype=torch.float64)
            for row, (source, history) in zip(weights, rows, strict=True):
                row[0, 0, : len(source)] = torch.from_numpy(self.attention(source, history[1:]))
            taps("decoder.0.cross_attention.weights", weights)
        return torch.from_numpy(logits).float(), TranslatorState(rows, state.width)


@dataclass(frozen=True)
class Found:
    ids: Ids
    log_p: float
    score: float
    finished: bool


@dataclass
class Rules:
    """What a search is asked for."""

    limit: int
    divisor: Callable[[int], float] = lambda n: 1.0
    beta: float = 0.0
    attention: Callable[[Ids, Ids], np.ndarray] = hashed_attention

    def found(self, source: Ids, ids: Ids, log_p: float, finished: bool) -> Found:
        n = len(ids) + finished
        score = log_p / self.divisor(n)
        if self.beta:
            received = sum(self.attention(source, ids[:i]) for i in range(n))
            score += self.beta * sum(math.log(min(a, 1.0)) for a in received)
        return Found(ids, log_p, score, finished)


def _sorted(found: list[Found]) -> list[Found]:
    return sorted(found, key=lambda f: (not f.finished, -f.score))


def naive_beam(table: Table, source: Ids, width: int, rules: Rules) -> list[Found]:
    """The beam by its definition, without any early stop."""
    going: list[tuple[Ids, float]] = [((), 0.0)]
    found: list[Found] = []
    for _ in range(rules.limit):
        continuations = []
        for rank, (ids, log_p) in enumerate(going):
            for token, p in enumerate(table(source, ids)):
                if p > 0:
                    continuations.append((-(log_p + math.log(p)), rank, token))
        continuations.sort()
        following = []
        for cost, rank, token in continuations[: width - len(found)]:
            ids = going[rank][0]
            if token == END:
                found.append(rules.found(source, ids, -cost, True))
            else:
                following.append(((*ids, token), -cost))
        going = following
    found += [rules.found(source, ids, log_p, False) for ids, log_p in going]
    return _sorted(found)


def brute_force(table: Table, source: Ids, vocab_size: int, rules: Rules) -> list[Found]:
    """Every target that ends within the limit, and every one that reaches it without an end."""
    found = []
    for ids in _sequences(vocab_size, rules.limit):
        log_p = 0.0
        for i, token in enumerate(ids):
            p = table(source, ids[:i])[token]
            log_p += math.log(p) if p > 0 else -math.inf
        if len(ids) < rules.limit:
            p = table(source, ids)[END]
            ended = log_p + (math.log(p) if p > 0 else -math.inf)
            found.append(rules.found(source, ids, ended, True))
        else:
            found.append(rules.found(source, ids, log_p, False))
    return _sorted([f for f in found if f.log_p > -math.inf])


def _sequences(vocab_size: int, limit: int) -> Iterator[Ids]:
    tokens = [t for t in range(vocab_size) if t != END]
    for n in range(limit + 1):
        yield from itertools.product(tokens, repeat=n)
