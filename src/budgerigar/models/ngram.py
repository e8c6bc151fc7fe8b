"""The first ancestor: an n-gram that predicts the next token from counts of the last n - 1.

Fitting is counting (`ngram_counts.py`) and smoothing (`ngram_smoothing.py`); there is nothing to
train. The state that it carries is its last n - 1 tokens, and no more: what lies further back
cannot matter to it. That is the limit which everything after it tries to lift.

Shapes: B batch, T positions, V vocab_size, n order, N_k distinct n-grams of length k.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.layers.taps import Taps, tap
from budgerigar.models.configs import NgramConfig
from budgerigar.models.ngram_counter import MEMORY, NgramCounter
from budgerigar.models.ngram_counts import (
    CountedLevel,
    Ints,
    ngram_ids,
    suffix_ids,
    usable_context,
)
from budgerigar.models.ngram_explain import Explanation, explain
from budgerigar.models.ngram_smoothing import Floats, SmoothedLevel, smooth


@dataclass
class NgramState:
    """The last n - 1 tokens of each row, right-aligned, and how many of them are real."""

    tokens: Ints
    """(B, n - 1)"""
    known: Ints
    """(B,) real entries of `tokens`"""
    lengths: Tensor
    """(B,) int64: tokens read so far"""

    @property
    def nbytes(self) -> int:
        """Bytes carried from step to step."""
        return int(self.tokens.nbytes + self.known.nbytes + self.lengths.nbytes)

    def select(self, rows: Tensor) -> NgramState:
        """A copy with the given rows (R,) int64."""
        chosen = rows.cpu().numpy()
        return NgramState(self.tokens[chosen], self.known[chosen], self.lengths[rows.cpu()])


COUNTED = ("keys", "counts")
SMOOTHED = ("discounts", "backoff", "probabilities")
"""Arrays of each length in a file; see `SmoothedLevel`."""


class NgramModel:
    """An interpolated n-gram. Logits are natural logarithms of probabilities, float32."""

    context_length: None = None
    device = torch.device("cpu")

    def __init__(
        self,
        config: NgramConfig,
        levels: Sequence[SmoothedLevel] = (),
        end_id: int | None = None,
    ) -> None:
        """A model from smoothed levels; without any it knows nothing, and all is equally likely."""
        self.config = config.validate()
        self.levels = list(levels)
        self.end_id = end_id

    # -- making one ------------------------------------------------------------------------------
    @classmethod
    def fit(
        cls,
        tokens: NDArray,
        config: NgramConfig,
        end_id: int | None = None,
        *,
        memory: int = MEMORY,
        folder: Path | None = None,
    ) -> Self:
        """Count `tokens` (n,) and smooth. `end_id` opens documents; contexts never reach across.

        memory: bytes to sort with; folder: where tables lie that grow large (None: the system's
        place for temporary files).
        """
        config.validate()
        counter = NgramCounter(tokens, config.vocab_size, end_id, memory=memory, folder=folder)
        return cls.from_counts(counter.count_to(config.order), config, end_id, folder)

    @classmethod
    def from_counts(
        cls,
        counted: Sequence[CountedLevel],
        config: NgramConfig,
        end_id: int | None = None,
        folder: Path | None = None,
    ) -> Self:
        """Smooth what was counted already (lengths 1 … order)."""
        levels = smooth(counted[: config.order], config.vocab_size, config.smoothing, folder)
        fell_back = [str(n) for n, level in enumerate(levels, start=1) if not level.estimated]
        if fell_back:
            lengths = ", ".join(fell_back)
            progress.note(
                f"n-gram: too few counts for discounts of their own at length {lengths}; "
                "0.5, 1 and 1.5 are used there"
            )
        return cls(config, levels, end_id)

    def state_tensors(self) -> dict[str, NDArray]:
        """All that `from_tensors` needs, for a safetensors file; the arrays it works with."""
        end = -1 if self.end_id is None else self.end_id
        tensors: dict[str, NDArray] = {"end_id": np.array([end], dtype=np.int64)}
        for length, level in enumerate(self.levels, start=1):
            for what in (*COUNTED, *SMOOTHED):
                tensors[f"ngrams.{length}.{what}"] = getattr(level, what)
        return tensors

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Any], config: NgramConfig) -> Self:
        """The model that `state_tensors` came from (numpy arrays or torch tensors).

        Arrays are used as they are, so that mapped ones stay on the disk until they are touched. A
        file of an earlier version has the counts alone; they are smoothed again.
        """
        lengths = range(1, config.order + 1)
        names = ["end_id", *(f"ngrams.{k}.{what}" for k in lengths for what in COUNTED)]
        missing = [name for name in names if name not in tensors]
        if missing:
            raise UserError(
                f"these are not the counts of an n-gram of order {config.order}: "
                f"{', '.join(missing)} missing; the file is damaged or belongs to another model"
            )
        end = int(np.asarray(tensors["end_id"])[0])
        levels: list[SmoothedLevel] = []
        counted: list[CountedLevel] = []
        for length in lengths:
            found = {
                what: np.asarray(tensors[f"ngrams.{length}.{what}"])
                for what in (*COUNTED, *SMOOTHED)
                if f"ngrams.{length}.{what}" in tensors
            }
            if len(found) == len(COUNTED) + len(SMOOTHED):
                levels.append(SmoothedLevel(**found, vocab_size=config.vocab_size))
            else:
                counted.append(_counted_again(found, counted, config.vocab_size))
        if counted:
            levels = smooth(counted, config.vocab_size, config.smoothing)
        return cls(config, levels, None if end < 0 else end)

    # -- what it knows ---------------------------------------------------------------------------
    @property
    def vocab_size(self) -> int:
        """V."""
        return self.config.vocab_size

    @property
    def n_ngrams(self) -> list[int]:
        """Distinct n-grams of each length 1 … n."""
        return [len(level.keys) for level in self.levels]

    @property
    def nbytes(self) -> int:
        """Bytes of all its tables."""
        return sum(
            value.nbytes
            for level in self.levels
            for value in vars(level).values()
            if isinstance(value, np.ndarray)
        )

    def find(self, tokens: Ints, usable: Ints, longest: int | None = None) -> list[Ints]:
        """Ids of the known n-grams that end at each position; see `ngram_ids`."""
        keys = [level.keys for level in self.levels[:longest]]
        return ngram_ids(keys, tokens, usable, self.vocab_size)

    def score(
        self, tokens: NDArray, usable: Ints | None = None, best: bool = False
    ) -> tuple[Floats, Ints]:
        """Nats -ln p of every token given those before it, all at once.

        `tokens` (n,); `usable` (n,): how many tokens before each may be used (default: all of its
        document, see `usable_context`). -> nats (n,), and with `best` the most probable token at
        each position (n,), else an empty array.
        """
        tokens = np.asarray(tokens, dtype=np.int64)
        own = usable_context(tokens, self.end_id)[:-1]
        usable = own if usable is None else np.minimum(own, usable)
        found = self.find(tokens, own)
        probability = np.full(len(tokens), 1 / self.vocab_size)
        guess = np.zeros(len(tokens) if best else 0, dtype=np.int64)
        guess_probability = probability.copy()
        for length, level in enumerate(self.levels, start=1):
            if not len(level.keys):
                break
            contexts = self._contexts(found, usable, length)
            weight = np.where(contexts >= 0, level.backoff[contexts], 1.0)
            seen = (contexts >= 0) & (found[length - 1] >= 0)
            entries = np.where(seen, found[length - 1], 0)
            probability = np.where(seen, level.probabilities[entries], weight * probability)
            if best:
                guess_probability *= weight
                leads = np.where(contexts >= 0, level.leads[contexts], -1)
                rival = np.where(leads >= 0, level.probabilities[leads], -1.0)
                better = rival >= guess_probability
                guess = np.where(better, level.keys[leads] % self.vocab_size, guess)
                guess_probability = np.where(better, rival, guess_probability)
        return -np.log(probability), guess

    def _contexts(self, found: list[Ints], usable: Ints, length: int) -> Ints:
        """Id of the context (length - 1 tokens) before each position; -1: unknown or not usable."""
        if length == 1:
            return np.zeros(len(usable), dtype=np.int64)
        before = np.concatenate([[-1], found[length - 2][:-1]])
        return np.where(usable >= length - 1, before, -1)

    def distributions(self, contexts: Sequence[Ints]) -> Floats:
        """Probabilities of every token, given the ids of the known contexts of M places.

        `contexts[k]` (M,): id of the last k + 1 tokens, -1 where unknown, for k + 1 < n; none at
        all: one place with nothing before it. -> (M, V) float64
        """
        rows = len(contexts[0]) if contexts else 1
        result = np.full((rows, self.vocab_size), 1 / self.vocab_size)
        for length, level in enumerate(self.levels[: len(contexts) + 1], start=1):
            known = contexts[length - 2] if length > 1 else np.zeros(rows, dtype=np.int64)
            places = np.flatnonzero(known >= 0)
            if not len(places):
                break
            ids = known[places]
            weights = level.backoff[ids]
            if len(places) == rows:
                result *= weights[:, None]
            else:
                result[places] *= weights[:, None]
            begin, stop = level.ranges(ids)
            count = stop - begin
            ends = np.cumsum(count)
            entries = np.arange(ends[-1]) + np.repeat(begin - (ends - count), count)
            columns = level.keys[entries] % self.vocab_size
            result[np.repeat(places, count), columns] = level.probabilities[entries]
        return result

    def explain(self, context: Sequence[int], token: int | None = None) -> Explanation:
        """Which part of `context` was known and how the model backed off, for one next token.

        `token`: the next token asked about; None: the most probable one.
        """
        return explain(self, context, token)

    # -- running it ------------------------------------------------------------------------------
    def start(
        self,
        batch_size: int,
        source: Tensor | None = None,
        source_lengths: Tensor | None = None,
        taps: Taps | None = None,
    ) -> NgramState:
        """The state before the first token."""
        if source is not None:
            raise UserError(
                "an n-gram reads no source text: it continues a text. "
                "For translation train an encoder-decoder"
            )
        carried = np.zeros((batch_size, self.config.order - 1), dtype=np.int64)
        nothing = np.zeros(batch_size, dtype=np.int64)
        return NgramState(carried, nothing, torch.zeros(batch_size, dtype=torch.int64))

    def step(
        self,
        tokens: Tensor,
        state: NgramState,
        lengths: Tensor | None = None,
        all_positions: bool = False,
        taps: Taps | None = None,
    ) -> tuple[Tensor, NgramState]:
        """Read `tokens` (B, T), `lengths[b]` real ones in row b.

        -> log-probabilities float32 (B, V), or (B, T, V) with `all_positions`; and the new state.
        """
        rows, width = tokens.shape
        read = np.full(rows, width) if lengths is None else lengths.cpu().numpy().astype(np.int64)
        carried = self.config.order - 1
        stream = np.concatenate([state.tokens, tokens.cpu().numpy().astype(np.int64)], axis=1)
        padding = np.arange(carried + width) >= (carried + read)[:, None]
        stream[padding] = 0
        if stream.size and not 0 <= stream.min() <= stream.max() < self.vocab_size:
            raise UserError(f"token ids must be 0 to {self.vocab_size - 1}")
        usable = usable_context(stream, self.end_id, first=carried - state.known)
        found = self.find(stream.ravel(), usable[:, :-1].ravel(), longest=carried)
        grid = np.arange(rows)[:, None]
        if all_positions:
            places = carried + np.broadcast_to(np.arange(width), (rows, width))
        else:
            places = carried + read[:, None] - 1
        logits = self._logits(found, usable, grid, places, stream.shape)
        kept = grid, read[:, None] + np.arange(carried)
        new = NgramState(
            stream[kept],
            np.minimum(state.known + read, carried),
            state.lengths + torch.from_numpy(read),
        )
        return tap(taps, "logits", logits if all_positions else logits[:, 0]), new

    def _logits(
        self, found: list[Ints], usable: Ints, grid: Ints, places: Ints, shape: tuple[int, ...]
    ) -> Tensor:
        """Log-probabilities after the given places (B, P) of the stream. -> (B, P, V) float32"""
        contexts = []
        room = usable[grid, places + 1]
        for length, ids in enumerate(found, start=1):
            here = ids.reshape(shape)[grid, np.maximum(places, 0)]
            contexts.append(np.where(room >= length, here, -1).ravel())
        if not contexts:
            contexts = [np.full(places.size, -1, dtype=np.int64)]
        probabilities = self.distributions(contexts)
        logits = torch.from_numpy(np.log(probabilities).astype(np.float32))
        return logits.reshape(*places.shape, self.vocab_size)

    def forward(
        self, tokens: Tensor, lengths: Tensor | None = None, taps: Taps | None = None
    ) -> Tensor:
        """Log-probabilities (B, T, V) after every position of `tokens` (B, T)."""
        return self.step(tokens, self.start(len(tokens)), lengths, True, taps)[0]


def _counted_again(
    found: Mapping[str, NDArray], shorter: Sequence[CountedLevel], vocab_size: int
) -> CountedLevel:
    """A length of a file that has counts alone, on top of the shorter ones."""
    keys, counts = found["keys"], found["counts"]
    if shorter:
        suffixes = suffix_ids(keys, shorter[-1].keys, shorter[-1].suffixes, vocab_size)
    else:
        suffixes = np.zeros(len(keys), dtype=np.int64)
    # What was saved is what smoothing used: the adjusted counts below the longest length.
    return CountedLevel(keys, counts, suffixes, adjusted=counts)
