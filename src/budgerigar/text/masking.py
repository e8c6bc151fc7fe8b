"""Masked words: some tokens of a text are hidden, and are to be told from both sides.

Devlin et al. 2018, section 3.1: 15 % of the tokens are chosen; of these 80 % become `[MASK]`, 10 %
another token, 10 % stay as they are, so that the model must keep an idea of every token. What is
chosen is drawn anew for each batch (Liu et al. 2019, section 4.1: dynamic masking), from a generator
of its own that depends on seed and number of the batch alone.

Shapes: B windows, T tokens of each, N chosen ones of a batch, V vocab_size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.text.batches import Batch, gather_windows
from budgerigar.text.bucketing import generator
from budgerigar.text.fill_in_tokens import need_mask
from budgerigar.text.store import TokenStore
from budgerigar.text.words import word_edges

_MASKS, _GROUPS = 1, 2  # what a generator is for, beside the seed


class MaskedBatch(NamedTuple):
    """tokens (B,T) int64 with what is hidden replaced; targets (N,) int64, the tokens that were
    chosen, row by row; chosen (B,T) bool, where they stand; document_ids, positions as of `Batch`."""

    tokens: Tensor
    targets: Tensor
    chosen: Tensor
    document_ids: Tensor | None
    positions: Tensor | None

    def inputs(self) -> dict[str, Tensor | None]:
        """The keyword arguments of a model's `forward`."""
        return {
            "tokens": self.tokens,
            "only": self.chosen,
            "document_ids": self.document_ids,
            "positions": self.positions,
        }


@dataclass(frozen=True)
class MaskRule:
    """Which tokens may be chosen, how many are, and what becomes of them.

    maskable: bool (V,). others: ids of pieces that training has seen. joins: `word_edges` where whole
    words are hidden, else None. share: of the tokens of a window that may be chosen. Of the chosen ones
    the share `masked` becomes `[MASK]`, the share `replaced` one of `others`.
    """

    mask_id: int
    maskable: np.ndarray
    others: np.ndarray
    joins: tuple[np.ndarray, np.ndarray] | None = None
    share: float = 0.15
    masked: float = 0.8
    replaced: float = 0.1

    @property
    def passes(self) -> int:
        """Into how many parts a text is cut for evaluation, each hidden in turn: 7 of 1/7 for 15 %."""
        return max(round(1 / self.share), 2)

    def choose(self, tokens: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """bool (B,T): the share of each window's maskable tokens, at least one of it.

        Whole words are taken in random order until there are enough; the one that would exceed the
        share is taken with the probability that makes the share right on average.
        """
        free = self.maskable[tokens]
        wanted = np.maximum(np.rint(self.share * free.sum(1)), 1)[:, None]
        units = self.units(tokens)
        keys = np.take_along_axis(random.random(tokens.shape), units, axis=1)
        coins = np.take_along_axis(random.random(tokens.shape), units, axis=1)
        keys[~free] = 2.0  # behind all others
        order = np.argsort(keys, axis=1, kind="stable")
        first, size = _runs(np.take_along_axis(units, order, axis=1))
        taken = first + np.take_along_axis(coins, order, axis=1) * size < wanted
        chosen = np.empty_like(free)
        np.put_along_axis(chosen, order, taken, axis=1)
        return chosen & free

    def units(self, tokens: np.ndarray) -> np.ndarray:
        """(B,T) numbers, rising: tokens of a number are hidden together, a word or a single token."""
        if self.joins is None:
            return np.broadcast_to(np.arange(tokens.shape[1]), tokens.shape)
        begins, ends = self.joins
        parted = np.ones(tokens.shape, dtype=bool)
        parted[:, 1:] = ~(ends[tokens[:, :-1]] & begins[tokens[:, 1:]])
        return np.cumsum(parted, axis=1) - 1

    def hide(
        self, tokens: np.ndarray, chosen: np.ndarray, random: np.random.Generator
    ) -> np.ndarray:
        """tokens (B,T) with the chosen ones masked, replaced or left."""
        hidden = tokens.copy()
        fate = random.random(int(chosen.sum()))
        drawn = self.others[random.integers(len(self.others), size=len(fate))]
        stays = np.where(fate < self.masked + self.replaced, drawn, tokens[chosen])
        hidden[chosen] = np.where(fate < self.masked, self.mask_id, stays)
        return hidden

    def groups(self, tokens: np.ndarray, seed: int, first: int = 0) -> np.ndarray:
        """(B,T) which of `passes` passes hides a token, -1 for those that are never hidden.

        Each token once; the same for the same seed and number of the window (of the first row:
        `first`), whatever stands beside it in the batch.
        """
        free, units = self.maskable[tokens], self.units(tokens)
        found = np.full(tokens.shape, -1, dtype=np.int64)
        for row in range(len(tokens)):
            kept, numbers = np.unique(units[row][free[row]], return_inverse=True)
            order = generator(seed, _GROUPS, first + row).permutation(len(kept))
            found[row, free[row]] = order[numbers] % self.passes
        return found


def _runs(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(place of the first, how many there are) of the run of equal numbers that each place is in."""
    width = numbers.shape[1]
    index = np.broadcast_to(np.arange(width), numbers.shape)
    opens = np.ones(numbers.shape, dtype=bool)
    opens[:, 1:] = numbers[:, 1:] != numbers[:, :-1]
    first = np.maximum.accumulate(np.where(opens, index, 0), axis=1)
    closes = np.ones(numbers.shape, dtype=bool)
    closes[:, :-1] = opens[:, 1:]
    backwards = np.where(closes, index, width)[:, ::-1]
    last = np.minimum.accumulate(backwards, axis=1)[:, ::-1]
    return first, last - first + 1


def mask_rule(tokenizer: Any, whole_words: bool, share: float = 0.15) -> MaskRule:
    """The rule of Devlin et al. for a vocabulary: whatever is no special token may be chosen.

    Raises:
        UserError: the vocabulary has no `[MASK]`, or nothing that could be hidden.
    """
    maskable = np.ones(tokenizer.vocab_size, dtype=bool)
    maskable[list(tokenizer.special_ids.values())] = False
    mask_id = need_mask(tokenizer)
    others = np.flatnonzero(maskable & ~np.asarray(tokenizer.never_seen))
    if not len(others):
        raise UserError("there is no token in this text that could be hidden")
    joins = word_edges(tokenizer) if whole_words else None
    return MaskRule(mask_id, maskable, others, joins, share)


class Windows(Protocol):
    """Endless batches of windows with a place that can be kept: `WindowBatches`."""

    def next(self) -> Batch:
        """The next batch."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Where it stands."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        ...


class MaskedBatches:
    """Windows of a text with words masked by `rule`, the same for the same seed.

    The masks of a batch depend on (seed, number of the batch) alone.
    """

    def __init__(self, windows: Windows, rule: MaskRule, seed: int) -> None:
        self._windows, self._rule, self._seed = windows, rule, seed
        self._drawn = 0

    def next(self) -> MaskedBatch:
        """The next batch."""
        batch = self._windows.next()
        random = generator(self._seed, _MASKS, self._drawn)
        self._drawn += 1
        tokens = batch.tokens.numpy()
        chosen = self._rule.choose(tokens, random)
        hidden = self._rule.hide(tokens, chosen, random)
        return masked_batch(batch, hidden, chosen)

    def state_dict(self) -> dict[str, Any]:
        """Where it stands, as JSON-able values."""
        return {"windows": self._windows.state_dict(), "drawn": self._drawn}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`."""
        self._windows.load_state_dict(state["windows"])
        self._drawn = int(state["drawn"])


def masked_batch(batch: Batch, hidden: np.ndarray, chosen: np.ndarray) -> MaskedBatch:
    """`batch` with the tokens `hidden` (B,T) to read, and its own at `chosen` (B,T) to tell."""
    tokens = batch.tokens.numpy()
    read, targets, places = map(torch.from_numpy, (hidden, tokens[chosen], chosen))
    return MaskedBatch(read, targets, places, batch.document_ids, batch.positions)


def whole_windows(
    store: TokenStore, length: int, rows: int, first: int = 0
) -> tuple[Batch, np.ndarray]:
    """`rows` consecutive windows of a text from number `first` on, and how many tokens each has.

    Together they hold every token once; the last is short, padded on the right.
    """
    starts = np.arange(first, min(first + rows, -(-store.n_tokens // length))) * length
    return gather_windows(store, starts, length), np.minimum(store.n_tokens - starts, length)
