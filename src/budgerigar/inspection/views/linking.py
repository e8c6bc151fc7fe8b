"""Which heads link two words, and which source word each word of a translation came from."""

from __future__ import annotations

from typing import Any

import numpy as np

from budgerigar.inspection.alignments import align, token_weights
from budgerigar.inspection.labels import Word
from budgerigar.inspection.links import Link, rank
from budgerigar.inspection.names import parse_head
from budgerigar.inspection.pair_traces import PairTrace
from budgerigar.inspection.sites import Site
from budgerigar.inspection.views.cards import bare
from budgerigar.inspection.views.look import Look
from budgerigar.inspection.views.payload import Stored
from budgerigar.inspection.views.sides import which
from budgerigar.layers.packed_linear import n_weights

LARGEST_COPY = 50_000_000
"""weights of a model that an untrained copy is made of, to compare with"""


def links(
    look: Look,
    query: Word,
    key: Word,
    of: str | None = None,
    kind: str | None = None,
    untrained: bool = True,
) -> dict[str, Any]:
    """Every head by the weight with which `query` looks at `key`, strongest first.

    query, key: positions, lists of positions (a word's tokens: rows are averaged, columns summed) or
    words ("it", "it#2"); of a pair without of and kind: from a word of the
    translation to one of the source.

    {"of", "kind", "title", "query_axis", "key_axis", "queries", "keys",
     "query": str ("“it” (position 7)"), "key": str, "query_positions": [int], "key_positions": [int],
     "why_no_untrained": str (it was asked for, but the model is too large to be copied; else ""),
     "links": [{"name": "L2.H3", "layer", "head", "weight": float, "distance": float|null (mean weight
       of the same head between other tokens as far apart; null: there are none),
       "distance_pairs": int, "untrained": float|null (the same head of a fresh copy; null: there
       is none), "uniform": float (all visible keys alike), "rank": int (1: no other token
       gets more of the row)}]}
    """
    trace = look.trace
    if of is None and kind is None and any(site.kind == "cross" for site in trace.sites):
        kind = "cross"
    site = trace.site(of, kind)
    why = why_no_copy(look) if untrained else ""
    copy = look.untrained if untrained and not why else False
    found = rank(trace, query, key, of=site.of, kind=site.kind, untrained=copy)
    return {
        **which(trace, site),
        "why_no_untrained": why,
        "query": found.query,
        "key": found.key,
        "query_positions": list(found.rows),
        "key_positions": list(found.columns),
        "links": [_link(one, site) for one in found.links],
    }


def why_no_copy(look: Look) -> str:
    """Why an untrained copy is not made: "" for a model that is small enough."""
    weights = n_weights(bare(look.network))
    if weights <= LARGEST_COPY:
        return ""
    return (
        f"an untrained copy of a model of {weights / 1e6:,.0f} million weights would take too much "
        "memory beside it"
    )


def _link(link: Link, site: Site) -> dict[str, Any]:
    layer, head = parse_head(link.name, len(site.modules), site.modules[0].n_heads)
    return {
        "name": link.name,
        "layer": layer,
        "head": head,
        "weight": link.weight,
        "distance": link.distance,
        "distance_pairs": link.distance_pairs,
        "untrained": link.untrained,
        "uniform": link.uniform,
        "rank": link.rank,
    }


def alignment(look: Look, head: str | None = None) -> dict[str, Any]:
    """Which source word each word of a translation looks at. T target, S source tokens; G, F words.

    head: "L1.H2", a layer's mean "L1", "all", or null: the mean over the heads of the last layer but
    one, which aligns best (Garg et al. 2019).

    {"of", "kind", "title", "query_axis", "key_axis", "queries": "predicted", "keys": "source",
     "head": str (what was read, in words),
     "tokens": f4 (T,S) (rows: the predicted tokens), "coverage": f4 (S) (column sums: near 0 is left
     untranslated), "target_words": [G], "source_words": [F], "target_of": i4 (T) (the word that each
     token is part of, -1: none), "source_of": i4 (S), "weights": f4 (G,F+1) (last column: on no
     word), "best": [int|null] (G), "word_coverage": f4 (F), "pharaoh": "0-0 1-2", "blank": bool}
    """
    trace = look.trace
    assert isinstance(trace, PairTrace)
    words, tokens = align(trace, head), token_weights(trace, head)
    return {
        **which(trace, trace.site(kind="cross")),
        "head": words.head,
        "tokens": Stored(tokens, "f4"),
        "coverage": tokens.sum(axis=0),
        "target_words": list(words.target.texts),
        "source_words": list(words.source.texts),
        "target_of": np.array(words.target.of_token, dtype=np.int32),
        "source_of": np.array(words.source.of_token, dtype=np.int32),
        "weights": Stored(words.weights, "f4"),
        "best": words.best,
        "word_coverage": np.array(words.coverage, dtype=np.float64),
        "pharaoh": words.pharaoh,
        "blank": trace.site(kind="cross").blank,
    }
