"""Which heads link two words, and which source word each word of a translation came from."""

from __future__ import annotations

from typing import Any

from budgerigar.inspection.views.look import Look


def links(
    look: Look,
    query: int | str,
    key: int | str,
    of: str | None = None,
    kind: str | None = None,
    untrained: bool = True,
) -> dict[str, Any]:
    """Every head by the weight with which `query` looks at `key`, strongest first.

    query, key: positions or words ("it", "it#2"); of a pair without of and kind: from a word of the
    translation to one of the source.

    {"of", "kind", "title", "query": str ("“it” (position 7)"), "key": str,
     "query_positions": [int], "key_positions": [int],
     "links": [{"name": "L2.H3", "layer", "head", "weight": float, "distance": float|null (mean weight
       of the same head between other tokens as far apart; null: there are none),
       "distance_pairs": int, "untrained": float|null (the same head of a fresh copy; null when
       untrained=false), "uniform": float (all visible keys alike), "rank": int (1: no other token
       gets more of the row)}]}
    """
    raise NotImplementedError


def alignment(look: Look, head: str | None = None) -> dict[str, Any]:
    """Which source word each word of a translation looks at. T target, S source tokens; G, F words.

    head: "L1.H2", a layer's mean "L1", "all", or null: the mean over the heads of the last layer but
    one, which aligns best (Garg et al. 2019).

    {"head": str (what was read, in words), "queries": "predicted", "keys": "source",
     "tokens": f4 (T,S) (rows: the predicted tokens), "coverage": f4 (S) (column sums: near 0 is left
     untranslated), "target_words": [G], "source_words": [F], "target_of": i4 (T) (the word that each
     token is part of, -1: none), "source_of": i4 (S), "weights": f4 (G,F+1) (last column: on no
     word), "best": [int|null] (G), "word_coverage": f4 (F), "pharaoh": "0-0 1-2", "blank": bool}
    """
    raise NotImplementedError
