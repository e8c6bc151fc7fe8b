"""One batch of sources through the search: the loop, and the arrays that it keeps.

Shapes: B sources, W places, N open hypotheses in all, c candidates per hypothesis, V vocab_size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from budgerigar.generation.candidates import Candidates, Chooser, Step
from budgerigar.generation.coverage import Attention
from budgerigar.generation.penalties import coverage, length_divisor
from budgerigar.generation.translation_options import TranslationOptions
from budgerigar.models.beams import start_beams
from budgerigar.text.pair_batches import pad_rows


@dataclass(frozen=True)
class Hypothesis:
    """A target that the search found."""

    ids: tuple[int, ...]
    """without the start token and without `<end>`"""
    log_probability: float
    """natural logarithm of what the model gives to these ids, and to `<end>` if finished"""
    score: float
    """log_probability over the length penalty, plus the coverage penalty"""
    finished: bool
    """False: it reached the length limit without `<end>`"""


class Limits(NamedTuple):
    """Per source of a batch: most tokens of a target, and the ids it must begin with."""

    most: list[int]
    prefixes: list[list[int]]


@dataclass
class Open:
    """Open hypotheses, (B,W) each, of which the first n_open[b] of row b count; best first."""

    n_open: np.ndarray
    tokens: np.ndarray  # the newest, not yet read by the model
    parents: np.ndarray  # which hypothesis of the step before goes on with it
    log_p: np.ndarray  # float64
    history: np.ndarray  # (B,W,t) tokens chosen so far
    sample: np.ndarray  # number of the sample, when drawing


@dataclass
class Found:
    """Hypotheses of one source that are complete."""

    finished: list[Hypothesis] = field(default_factory=list)
    unfinished: list[Hypothesis] = field(default_factory=list)

    def best(self, n: int) -> list[Hypothesis]:
        """Finished ones first, each by score; equals in the order in which they were found."""
        parts = (self.finished, self.unfinished)
        return [h for part in parts for h in sorted(part, key=lambda h: -h.score)][:n]

    def worst_kept(self, n: int) -> float:
        """Score of the n-th best finished one."""
        if len(self.finished) < n:
            return -np.inf
        return sorted((h.score for h in self.finished), reverse=True)[n - 1]


class Search:
    """The search of one batch of sources: its state, its one step, and the loop over it."""

    candidates_per_place = 1
    """continuations looked at for each place of the beam"""

    def __init__(
        self,
        network: Any,
        sources: Sequence[Sequence[int]] | None,
        options: TranslationOptions,
        limits: Limits,
        start_id: int,
        end_id: int,
        banned: Tensor | None,
    ) -> None:
        self.options, self.end_id, n = options, end_id, len(limits.most)
        self.most = np.array(limits.most)
        self.width = options.width * self.candidates_per_place
        self.chooser = Chooser(options, end_id, banned, limits.prefixes, self.width)
        source, lengths = (None, None) if sources is None else pad(sources, network.device)
        self.beams = start_beams(network, source, lengths, n)
        self.found = [Found() for _ in range(n)]
        self.places = np.full(n, self.width)  # not yet taken by finished hypotheses
        roots = options.width if options.sampling else 1
        self.open = Open(
            n_open=np.full(n, roots),
            tokens=np.full((n, roots), start_id),
            parents=np.zeros((n, roots), dtype=np.int64),
            log_p=np.zeros((n, roots)),
            history=np.zeros((n, roots, 0), dtype=np.int64),
            sample=np.tile(np.arange(roots), (n, 1)),
        )
        self.n_tokens = 0
        self.attention: Attention | None = None
        if options.coverage_penalty and source is not None:
            self.attention = Attention(network, source, lengths, roots)

    def run(self) -> list[list[Hypothesis]]:
        """The best targets of each source."""
        while self.open.n_open.any():
            self.step()
        return [self.best(found) for found in self.found]

    def best(self, found: Found) -> list[Hypothesis]:
        """What is given out of a source: finished ones first."""
        return found.best(self.options.n_best)

    # -- one step ------------------------------------------------------------------------------------
    def step(self) -> None:
        """The model reads the newest tokens; places are given to the best continuations."""
        now = self.open
        taps = None if self.attention is None else self.attention.taps()
        logits = self.beams.advance(now.tokens, now.parents, now.n_open, taps)
        is_open = np.arange(now.tokens.shape[1])[None] < now.n_open[:, None]
        if self.attention is not None:
            self.attention.add(self.beams, is_open)
        self.n_tokens += 1
        step = Step(self.n_tokens, is_open, now.history[is_open], now.sample[is_open])
        candidates = self.chooser.choose(logits, step)
        chosen = self._best(candidates, is_open)
        self._continue(self.finish(chosen))
        self._cut()
        self.stop()

    def _best(self, candidates: Candidates, is_open: np.ndarray) -> Chosen:
        """Give the places of each source to the best of all its hypotheses' candidates."""
        n, width = is_open.shape
        c = candidates.ids.shape[1]
        log_p = np.full((n, width, c), -np.inf)
        log_p[is_open] = self.open.log_p[is_open][:, None] + candidates.log_p
        ids = np.zeros((n, width, c), dtype=np.int64)
        ids[is_open] = candidates.ids
        costs, tokens = log_p.reshape(n, -1), ids.reshape(n, -1)
        if self.options.sampling:  # every sample goes its own way
            order = np.broadcast_to(np.arange(width), (n, width))
        else:
            order = np.argsort(-costs, axis=1, kind="stable")[:, : self.width]
        best = np.take_along_axis(costs, order, 1)
        taken = np.isfinite(best) & (np.arange(order.shape[1]) < self.places[:, None])
        return Chosen(taken, order // c, np.take_along_axis(tokens, order, 1), best)

    def finish(self, chosen: Chosen) -> Chosen:
        """Those that chose the end leave with their places; the rest."""
        self.dead_ends(chosen)
        ended = chosen.taken & (chosen.tokens == self.end_id)
        self.keep(chosen, ended)
        self.places -= ended.sum(1)
        return chosen._replace(taken=chosen.taken & ~ended)

    def keep(self, chosen: Chosen, ended: np.ndarray) -> None:
        """What has ended is found."""
        for b, i in np.argwhere(ended).tolist():
            parent = chosen.parents[b, i]
            ids = self.open.history[b, parent]
            self.found[b].finished.append(self.hypothesis(b, parent, ids, chosen.log_p[b, i], True))

    def dead_ends(self, chosen: Chosen) -> None:
        """Nothing may follow any hypothesis of a source that has not found n_best."""
        for b in np.flatnonzero(~chosen.taken.any(1) & (self.open.n_open > 0)).tolist():
            if len(self.found[b].finished) < self.options.n_best:
                for i in range(self.open.n_open[b]):
                    ids, log_p = self.open.history[b, i], self.open.log_p[b, i]
                    self.found[b].unfinished.append(self.hypothesis(b, i, ids, log_p, False))

    def hypothesis(
        self, b: int, place: int, ids: np.ndarray, log_p: float, finished: bool
    ) -> Hypothesis:
        options, n = self.options, max(len(ids) + finished, 1)
        score = log_p / float(length_divisor(options.length_penalty, options.exponent, n))
        if self.attention is not None:
            score += options.coverage_penalty * float(coverage(self.attention.of(b, place)))
        return Hypothesis(tuple(ids.tolist()), float(log_p), float(score), finished)

    def _continue(self, chosen: Chosen) -> None:
        """The others move to the front, in their order, each with its new token."""
        n_open = chosen.taken.sum(1)
        front = np.argsort(~chosen.taken, axis=1, kind="stable")[:, : max(1, n_open.max())]
        parents = np.take_along_axis(chosen.parents, front, 1)
        tokens = np.take_along_axis(chosen.tokens, front, 1)
        before = np.take_along_axis(self.open.history, parents[:, :, None], 1)
        self.open = Open(
            n_open=n_open,
            tokens=tokens,
            parents=parents,
            log_p=np.take_along_axis(chosen.log_p, front, 1),
            history=np.concatenate([before, tokens[:, :, None]], axis=2),
            sample=np.take_along_axis(self.open.sample, parents, 1),
        )
        if self.attention is not None:
            self.attention.follow(parents)

    def _cut(self) -> None:
        """At the length limit of its source, an open hypothesis is over and unfinished."""
        now = self.open
        for b in np.flatnonzero((self.most <= self.n_tokens) & (now.n_open > 0)).tolist():
            for i in range(now.n_open[b]):
                self.found[b].unfinished.append(
                    self.hypothesis(b, i, now.history[b, i], now.log_p[b, i], False)
                )
            now.n_open[b] = 0

    def stop(self) -> None:
        """End the search of a source whose n_best finished hypotheses cannot be passed any more.

        More tokens cost probability, a coverage penalty costs at least nothing, and the divisor is
        largest at the length limit: the best that an open hypothesis can come to.
        """
        if self.options.sampling:
            return
        kind, alpha = self.options.length_penalty, self.options.exponent
        reachable = self.open.log_p[:, 0] / length_divisor(kind, alpha, self.most)
        for b in np.flatnonzero(self.open.n_open):
            if reachable[b] <= self.found[b].worst_kept(self.options.n_best):
                self.open.n_open[b] = 0


class Chosen(NamedTuple):
    """The best continuations of each source (B,W), best first; `taken`: those that got a place."""

    taken: np.ndarray
    parents: np.ndarray
    tokens: np.ndarray
    log_p: np.ndarray


def pad(lines: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Ids (B,S) padded on the right with 0, and lengths (B,)."""
    lengths = torch.tensor([len(line) for line in lines])
    return pad_rows(lines).to(device), lengths.to(device)
