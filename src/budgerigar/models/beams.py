"""Several hypotheses per source, followed side by side: what beam search asks of a model.

Any next-token model serves as it is (`RowBeams`: a row per hypothesis, copied when it forks). The
Transformer does better (`TreeBeams`): the hypotheses of a source are one row. At each step the row
reads W tokens at once, one per hypothesis, all at the same position, and each sees the cache slots
on its own path and no others. So nothing is ever copied when hypotheses fork, die or change places;
keys and values of the source are shared; and the queries of a source are multiplied with its keys
in one product.

Shapes: B sources, W most open hypotheses of a source, N open hypotheses in all, C slots of the
cache, V vocab_size.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from budgerigar.layers.cache import TransformerState
from budgerigar.layers.taps import Taps
from budgerigar.models.transformer import Transformer


class Beams(Protocol):
    """Open hypotheses of B sources. At first each has one, which has read nothing."""

    def advance(
        self, tokens: np.ndarray, parents: np.ndarray, n_open: np.ndarray, taps: Taps | None = None
    ) -> Tensor:
        """Each open hypothesis reads a token; float32 logits (N,V) of what may follow.

        tokens, parents (B,W) int64: the first n_open[b] of row b count. A parent is the number,
        within its source, of the hypothesis of the step before that goes on with the token. n_open
        (B,) int64; a source with none is over and never comes back. The logits, in the order of
        (source, hypothesis), belong to the caller.
        """
        ...

    def by_hypothesis(self, weights: Tensor) -> Tensor:
        """Cross-attention weights of the last step, as a tap gave them, as (N,heads,S)."""
        ...


def start_beams(
    network: Any, source: Tensor | None, source_lengths: Tensor | None, n: int
) -> Beams:
    """Beams of `n` sources (B,S); an encoder runs here."""
    kind = TreeBeams if isinstance(network, Transformer) else RowBeams
    if source is None:
        return kind(network, network.start(n))
    return kind(network, network.start(n, source=source, source_lengths=source_lengths))


def _open(n_open: np.ndarray) -> np.ndarray:
    """(B,W) bool: which places hold an open hypothesis."""
    return np.arange(int(n_open.max()))[None] < n_open[:, None]


class RowBeams:
    """A row of the state per hypothesis, for every model with `start`, `step` and `select`."""

    def __init__(self, network: Any, state: Any) -> None:
        self.network, self.state = network, state
        self.n_open = np.ones(len(state.lengths), dtype=np.int64)

    def advance(
        self, tokens: np.ndarray, parents: np.ndarray, n_open: np.ndarray, taps: Taps | None = None
    ) -> Tensor:
        """As `Beams.advance`."""
        device, is_open = self.network.device, _open(n_open)
        first = np.cumsum(self.n_open) - self.n_open  # row of each source's first hypothesis
        rows = (first[:, None] + parents[:, : is_open.shape[1]])[is_open]
        if len(rows) != self.n_open.sum() or (rows != np.arange(len(rows))).any():
            self.state = self.state.select(torch.from_numpy(rows).to(device))
        read = torch.from_numpy(tokens[:, : is_open.shape[1]][is_open])[:, None].to(device)
        more = {} if taps is None else {"taps": taps}
        logits, self.state = self.network.step(read, self.state, **more)
        self.n_open = n_open.copy()
        return logits

    def by_hypothesis(self, weights: Tensor) -> Tensor:
        """As `Beams.by_hypothesis`."""
        return weights[:, :, -1]


class TreeBeams:
    """A row of the state per source, whose hypotheses are the branches of a tree in the cache."""

    def __init__(self, network: Transformer, state: TransformerState) -> None:
        self.network, self.state = network, state
        self.sources = np.arange(len(state.lengths))  # which sources still have a row
        # path (B,W,C): the slots that each hypothesis sees; None while all see all
        self.path: Tensor | None = None
        self.slots: list[int] = []  # (C,) the position of the token in each slot
        self.position = 0
        self.wanted: Tensor | None = None

    def advance(
        self, tokens: np.ndarray, parents: np.ndarray, n_open: np.ndarray, taps: Taps | None = None
    ) -> Tensor:
        """As `Beams.advance`."""
        self._drop_finished(n_open)
        device, rows = self.network.device, self.sources
        is_open = _open(n_open[rows])
        width = is_open.shape[1]
        self._extend(parents[rows, :width])
        self.wanted = None if is_open.all() else torch.from_numpy(is_open).to(device)
        return self.network.branch(
            torch.from_numpy(tokens[rows, :width]).to(device),
            self.state,
            self.slots,
            self.path,
            self.wanted,
            taps,
        )

    def _drop_finished(self, n_open: np.ndarray) -> None:
        """Rows whose source is over go, once they are an eighth: to go, the others are copied."""
        going = n_open[self.sources] > 0
        if going.sum() > 7 / 8 * len(going):
            return
        kept = torch.from_numpy(np.flatnonzero(going)).to(self.network.device)
        self.state, self.sources = self.state.select(kept), self.sources[going]
        self.path = None if self.path is None else self.path[kept]

    def _extend(self, parents: np.ndarray) -> None:
        """The paths after one more step: the parent's, and the hypothesis's own new slot.

        A place that holds no open hypothesis has a path too, so that no query is blind.
        """
        batch, width = parents.shape
        old, device = self.path, self.network.device
        if old is None and width > 1:
            old = torch.ones(batch, 1, len(self.slots), dtype=torch.bool, device=device)
        if old is not None:
            places = torch.from_numpy(parents.clip(max=old.shape[1] - 1)).to(device)
            taken = old.gather(1, places[:, :, None].expand(-1, -1, old.shape[2]))
            own = torch.eye(width, dtype=torch.bool, device=device).expand(batch, -1, -1)
            self.path = torch.cat([taken, own], dim=2)
        self.slots += [self.position] * width
        self.position += 1

    def by_hypothesis(self, weights: Tensor) -> Tensor:
        """As `Beams.by_hypothesis`: (B,H,W,S) -> (N,H,S)."""
        by_place = weights.transpose(1, 2)
        return by_place.flatten(0, 1) if self.wanted is None else by_place[self.wanted]
