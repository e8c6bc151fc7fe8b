"""Which tokens may follow a hypothesis, and what each costs.

Shapes: N open hypotheses, c candidates each, t tokens so far, V vocab_size.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.generation.options import SamplingOptions
from budgerigar.generation.sampling import Draws, choose_at_random, process_logits, processors
from budgerigar.generation.top import top
from budgerigar.generation.translation_options import TranslationOptions

IMPOSSIBLE = -1e9  # log-probability of a forced token that the model holds for impossible


class Candidates(NamedTuple):
    """What may follow each open hypothesis (N,c), likeliest first; log_p -inf: nothing."""

    ids: np.ndarray
    log_p: np.ndarray  # float64, of the token alone


class Step(NamedTuple):
    """Where the search stands: token number n (from 1) is to be chosen."""

    n: int
    is_open: np.ndarray  # (B,W) bool
    history: np.ndarray  # (N,t) tokens so far
    sample: np.ndarray  # (N,) number of the sample


class Chooser:
    """Candidates of each step: the likeliest tokens, or one that is drawn; or what is forced."""

    def __init__(
        self,
        options: TranslationOptions,
        end_id: int,
        banned: Tensor | None,
        prefixes: list[list[int]],
        width: int,
    ) -> None:
        self.options, self.end_id, self.banned, self.prefixes = options, end_id, banned, prefixes
        self.width = width
        self.longest_prefix = max(map(len, prefixes))
        self.draws: dict[tuple[int, int], Draws] = {}
        if options.sampling:
            assert options.temperature is not None
            plain = SamplingOptions(
                temperature=options.temperature, top_k=options.top_k, top_p=options.top_p
            )
            self.chain = processors(plain, None)

    def choose(self, logits: Tensor, step: Step) -> Candidates:
        """Candidates from logits (N,V). Log-probabilities are the model's own, before any ban.

        CTranslate2 bans first, so that the probabilities of what is left sum to 1.
        """
        if self.options.like_ctranslate2:
            logits = logits.clone()
            self._forbid(logits, step)
        costs = logits.log_softmax(-1)
        forced = self._forced(step)
        places = [place for place, _ in forced]
        given = costs[places, [token for _, token in forced]] if forced else None
        self._forbid(costs, step)
        values, chosen = (
            self._draw(costs, step) if self.options.sampling else self._likeliest(costs)
        )
        log_p, ids = values.double().cpu().numpy(), chosen.cpu().numpy()
        if np.isnan(log_p).any():
            raise _damaged(step.n)
        if given is not None:
            log_p[places] = -np.inf
            log_p[places, 0] = given.double().clamp(min=IMPOSSIBLE).cpu().numpy()
            ids[places, 0] = [token for _, token in forced]
        return Candidates(ids, log_p)

    def _likeliest(self, costs: Tensor) -> tuple[Tensor, Tensor]:
        return top(costs, self.width)

    def _draw(self, costs: Tensor, step: Step) -> tuple[Tensor, Tensor]:
        """One token per hypothesis, drawn with the generator of its (source, sample)."""
        uniforms = []
        sources = np.nonzero(step.is_open)[0]
        for source, sample in zip(sources.tolist(), step.sample.tolist(), strict=True):
            if (source, sample) not in self.draws:
                self.draws[source, sample] = Draws(self.options.seed, sample)
            uniforms.append(self.draws[source, sample].next())
        ids = choose_at_random(process_logits(costs, self.chain), uniforms)[:, None]
        ids = ids.clamp(max=costs.shape[1] - 1)  # NaN draws it off the end
        return costs.gather(1, ids), ids

    def _forced(self, step: Step) -> list[tuple[int, int]]:
        """(hypothesis, token) for the hypotheses whose prefix goes on at this step."""
        if step.n > self.longest_prefix:
            return []
        sources = np.nonzero(step.is_open)[0].tolist()
        return [
            (row, self.prefixes[source][step.n - 1])
            for row, source in enumerate(sources)
            if step.n <= len(self.prefixes[source])
        ]

    def _forbid(self, costs: Tensor, step: Step) -> None:
        """Set what may not follow to minus infinity."""
        if self.banned is not None:
            costs.index_fill_(1, self.banned, -math.inf)
        if step.n <= self.options.least:
            costs[:, self.end_id] = -math.inf
        if self.options.no_repeat_ngram:
            rows, tokens = repeated(step.history, self.options.no_repeat_ngram)
            if len(rows):
                device = costs.device
                where = (torch.from_numpy(rows).to(device), torch.from_numpy(tokens).to(device))
                costs[where] = -math.inf


def repeated(history: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """(rows, tokens): each token that would complete an n-gram which its row (N,t) has already."""
    length = history.shape[1]
    if length < n:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    same = np.ones((len(history), length - n + 1), dtype=bool)
    for i in range(n - 1):  # the n - 1 newest tokens against those at every place
        same &= history[:, i : i + length - n + 1] == history[:, [length - n + 1 + i]]
    rows, places = np.nonzero(same)
    return rows, history[rows, places + n - 1]


def _damaged(n: int) -> UserError:
    return UserError(
        f"the model's logits are not numbers (NaN or infinite) at token {n} of a translation: its "
        "weights are damaged. Use an earlier checkpoint."
    )
