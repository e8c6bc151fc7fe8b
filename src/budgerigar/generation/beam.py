"""Beam search, greedy search and sampling for models that read a source: one loop, small parts.

Each source has `width` places. A step reads one token per open hypothesis, takes the likeliest
continuations of all hypotheses of a source for its places, and those that chose `<end>` leave with
theirs (the shrinking beam of Bahdanau et al. 2014). So a beam of 1 is greedy search, a beam as wide
as the space is exhaustive, and a search ends by itself once each place has ended. It ends earlier
where nothing can change any more: when the best open hypothesis, if it went on at no cost to the
length limit, would not pass the n_best-th finished one. (`search = ctranslate2` has other rules:
beam_ctranslate2.py.)

Equals are ordered by the hypothesis's rank before the step, then by id. Nothing depends on the batch:
limits are per source. Sums of log-probabilities are float64.

Shapes: B sources, W places, N open hypotheses in all, V vocab_size, S source positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.generation.beam_batch import Hypothesis, Limits, Search
from budgerigar.generation.beam_ctranslate2 import FullBeamSearch
from budgerigar.generation.translation_options import THEIR_LIMIT, TranslationOptions
from budgerigar.models.base import check_ids
from budgerigar.models.modes import without_dropout, without_source

__all__ = ["Hypothesis", "search"]


@torch.inference_mode()
def search(
    network: Any,
    sources: Sequence[Sequence[int]] | None,
    options: TranslationOptions | None = None,
    *,
    start_id: int,
    end_id: int,
    forbidden: np.ndarray | Tensor | None = None,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """The best targets of each source (lists of ids, as the encoder reads them), best first.

    Exactly n_best where that many exist; finished ones come before unfinished ones, which reached
    their length limit without `end_id`. `start_id` begins every target. `forbidden` (V,) bool: ids
    never chosen. `prefixes`: ids that each target must begin with (its log-probability counts).
    A model without a source takes `sources=None` and continues the prefixes.
    """
    options = (options or TranslationOptions()).validate()
    if options.like_ctranslate2 and any(prefixes or ()):
        raise UserError(
            "search = ctranslate2 takes no prefix: that library gives a prefix's tokens for nothing, "
            "and its rules for one are not imitated. Leave the prefix out, or the search"
        )
    if sources is None and prefixes is None:
        raise UserError("nothing to search for: give sources, or prefixes to a model without one")
    n = len(sources) if sources is not None else len(prefixes or ())
    starts = [list(p) for p in prefixes] if prefixes is not None else [[] for _ in range(n)]
    _check(network, sources, starts, n, (start_id, end_id))
    if options.no_source:
        network = without_source(network)
    limits = [
        _limit(network, options, len(sources[i]) if sources is not None else 0, len(starts[i]))
        for i in range(n)
    ]
    banned = _forbidden_ids(network, forbidden)
    # sources of like length share a batch; the longest, which need most memory, come first
    order = sorted(range(n), key=lambda i: (-len(sources[i]) if sources else 0, -limits[i]))
    found: list[list[Hypothesis]] = [[] for _ in range(n)]
    kind = FullBeamSearch if options.like_ctranslate2 else Search
    with without_dropout(network):
        for first in range(0, n, options.batch_size):
            rows = order[first : first + options.batch_size]
            results = kind(
                network,
                None if sources is None else [sources[i] for i in rows],
                options,
                Limits([limits[i] for i in rows], [starts[i] for i in rows]),
                start_id,
                end_id,
                banned,
            ).run()
            for i, result in zip(rows, results, strict=True):
                found[i] = result
    return found


def _check(
    network: Any,
    sources: Sequence[Sequence[int]] | None,
    prefixes: list[list[int]],
    n: int,
    special: tuple[int, int],
) -> None:
    """Refuse what cannot be run, before anything runs."""
    if len(prefixes) != n:
        raise UserError(f"{len(prefixes)} prefixes for {n} sources: give one for each")
    check_ids(special, network.vocab_size)
    known = getattr(network.config, "source_vocab_size", None) or network.vocab_size
    for i, source in enumerate(sources or ()):
        if not len(source):
            raise UserError(f"source {i} has no tokens: give at least the one that ends it")
        check_ids(source, known, f"source {i}")
    for i, prefix in enumerate(prefixes):
        check_ids(prefix, network.vocab_size, f"prefix {i}")
        if special[1] in prefix:
            raise UserError(f"prefix {i} holds the token that ends a target; nothing can follow it")


def _limit(network: Any, options: TranslationOptions, source: int, prefix: int) -> int:
    """Most tokens of a target, its end included."""
    limit = options.max_length
    if limit is None:
        allowed = THEIR_LIMIT if options.like_ctranslate2 else source + options.max_extra
        limit = max(allowed, options.least + 1)
    limit = max(limit, prefix + 1)
    context = network.context_length
    if context is not None and limit > context:
        if prefix >= context:
            raise UserError(
                f"a prefix of {prefix} tokens leaves no room in this model's context of {context} "
                "tokens; give a shorter one"
            )
        limit = context
    return max(1, limit)


def _forbidden_ids(network: Any, forbidden: np.ndarray | Tensor | None) -> Tensor | None:
    """Ids never chosen, on the model's device; a shorter mask is for a vocabulary padded beyond."""
    if forbidden is None:
        return None
    mask = torch.ones(network.vocab_size, dtype=torch.bool)
    given = torch.as_tensor(forbidden, dtype=torch.bool)[: network.vocab_size]
    mask[: len(given)] = given
    if bool(mask.all()):
        raise UserError("every token is forbidden: this model has nothing it may generate")
    ids = mask.nonzero()[:, 0].to(network.device)
    return ids if len(ids) else None
