"""Beam search by CTranslate2's rules, for outputs equal to that library's on the same weights.

Where it differs from ours:
- the beam stays full: the likeliest 2W continuations of a source are looked at; of those that chose
  `<end>` only ones among the first W are kept, and the first W of the others go on;
- it ends once it has kept W, whatever the open ones could still come to; without a length penalty as
  soon as the first of a step has ended and n_best are kept;
- at least one token stands before `<end>`, and at most 256 are written; what reaches that limit is
  ranked among what has ended;
- what is banned is banned before the softmax (candidates.py).

Shapes: B sources, W places.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from budgerigar.generation.beam_batch import Chosen, Found, Hypothesis, Search


class FullBeamSearch(Search):
    """One batch of sources through a beam that does not shrink."""

    candidates_per_place = 2

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.first_ended = np.zeros(len(self.found), dtype=bool)  # at any step so far

    def finish(self, chosen: Chosen) -> Chosen:
        """Ends among the first W are kept; the first W of the others go on."""
        self.dead_ends(chosen)
        beam = self.options.beam_size
        ended = chosen.taken & (chosen.tokens == self.end_id)
        self.keep(chosen, ended & (np.arange(ended.shape[1]) < beam))
        self.first_ended |= ended[:, 0]
        goes_on = chosen.taken & ~ended
        goes_on &= np.cumsum(goes_on, axis=1) <= beam
        # at the limit of its length nothing moves up to a place that an end has left
        goes_on[self.most <= self.n_tokens, beam:] = False
        return chosen._replace(taken=goes_on)

    def stop(self) -> None:
        """End the searches of which enough is kept."""
        options = self.options
        penalised = options.length_penalty != "none" and options.exponent > 0
        for b in np.flatnonzero(self.open.n_open):
            kept = len(self.found[b].finished)
            if penalised:
                enough = kept >= options.beam_size
            else:
                enough = self.first_ended[b] and kept >= options.n_best
            if enough:
                self.open.n_open[b] = 0

    def best(self, found: Found) -> list[Hypothesis]:
        """What is given out of a source: the best, ended or cut."""
        both = sorted([*found.finished, *found.unfinished], key=lambda h: -h.score)
        return both[: self.options.n_best]
