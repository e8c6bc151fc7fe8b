"""What several views say of a trace: the tokens of each side, and each kind of attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from budgerigar.errors import UserError
from budgerigar.inspection.heads import Head
from budgerigar.inspection.labels import Spelling, spell, visible
from budgerigar.inspection.matrix import MASKED
from budgerigar.inspection.pair_traces import PairTrace
from budgerigar.inspection.places import Place, places
from budgerigar.inspection.sites import Site
from budgerigar.inspection.traces import Trace
from budgerigar.inspection.views.look import Look
from budgerigar.layers.additive_attention import AdditiveAttention

REASONS = ("", *MASKED.values())
"""What a mask's code means in words."""


def title_of(of: str, kind: str) -> str:
    """A kind of attention by name."""
    return f"{of}, {kind}-attention"


# -- tokens ----------------------------------------------------------------------------------------


def spellings(look: Look) -> dict[str, dict[str, Any]]:
    """SPELLING of each side; see `reading.read`."""
    trace = look.trace
    found = {"read": spelling_value(trace.spelling, trace.ids, look.tokenizer)}
    if isinstance(trace, PairTrace):
        sides = (trace.predicted, trace.targets, look.tokenizer)
        found["predicted"] = spelling_value(*sides)
        sides = (trace.source_spelling, trace.source_ids, look.source_tokenizer)
        found["source"] = spelling_value(*sides)
    for name, added in _added(look).items():
        found[name]["added"] = added
    return found


def _added(look: Look) -> dict[str, list[int]]:
    """Positions of the tokens of each side that are not of the text: the model reads them with it."""
    trace, asked = look.trace, look.question
    if isinstance(trace, PairTrace):
        last = len(trace.targets) - 1
        ends = trace.targets[last:] == look.end_ids[:1]
        return {
            "read": [0],
            "predicted": [last] if ends else [],
            "source": [len(trace.source_ids) - 1],
        }
    whole = len(trace.ids)
    if "ids" in asked:
        return {"read": [0] if trace.start_added else []}
    before, own = _inside(look.model.encode(asked["text"]), look.tokenizer.encode(asked["text"]))
    return {"read": [*range(before), *range(before + own, whole)]}


def _inside(framed: list[int], plain: list[int]) -> tuple[int, int]:
    """Where the ids `plain` stand in `framed`, and how many they are."""
    own = len(plain)
    for before in range(len(framed) - own + 1):
        if list(framed[before : before + own]) == list(plain):
            return before, own
    return 0, len(framed)  # the authors' frame changes the text's own tokens: nothing is told apart


def spelling_value(spelling: Spelling, ids: list[int], tokenizer: Any) -> dict[str, Any]:
    """One SPELLING; see `reading.read`."""
    return {
        "labels": list(spelling.labels),
        "pieces": spelling.pieces,
        "ids": np.asarray(ids, dtype=np.int64),
        "groups": [
            _group(spelling, ids, tokenizer, start, length) for start, length in shared(spelling)
        ],
    }


def shared(spelling: Spelling) -> list[tuple[int, int]]:
    """(first token, number of tokens) of each run of tokens that share characters; 1 where none is."""
    groups: list[tuple[int, int]] = []
    reach = -1  # the last character of the run so far
    for token, (start, end) in enumerate(spelling.spans):
        if groups and end > start and start == reach:
            groups[-1] = (groups[-1][0], groups[-1][1] + 1)
        else:
            groups.append((token, 1))
        reach = end - 1 if end > start else -1
    return groups


def _group(
    spelling: Spelling, ids: list[int], tokenizer: Any, start: int, length: int
) -> dict[str, Any]:
    tokens = range(start, start + length)
    if length == 1:
        return {"start": start, "length": 1, "text": spelling.labels[start], "hex": []}
    text = spelling.text[spelling.spans[start][0] : spelling.spans[tokens[-1]][1]]
    raw = [tokenizer.token_bytes(ids[token]).hex(" ").upper() for token in tokens]
    return {"start": start, "length": length, "text": visible(text), "hex": raw}


class Names:
    """Labels of single tokens by id, each spelled once: what `words` of a payload holds."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.words: dict[str, str] = {}

    def add(self, ids: Any) -> None:
        """Note every id of a list or an array."""
        for token in map(int, np.unique(np.asarray(ids, dtype=np.int64))):
            if str(token) not in self.words:
                self.words[str(token)] = self._label(token)

    def _label(self, token: int) -> str:
        known = getattr(self.tokenizer, "vocab_size", None)
        if known is not None and token >= known:
            return f"id {token}"  # a head that is padded beyond the vocabulary
        return spell(self.tokenizer, [token]).labels[0]


# -- attention -------------------------------------------------------------------------------------


def place_facts(place: Place | Site) -> dict[str, Any]:
    """What does not depend on a text of a kind of attention; see SITE in `reading.read`."""
    module = place.modules[0]
    return {
        "of": place.of,
        "kind": place.kind,
        "title": title_of(place.of, place.kind),
        "layers": len(place.modules),
        "heads": module.n_heads,
        "kv_heads": module.n_kv_heads,
        "d_head": module.d_head,
        "windows": [one.window for one in place.modules],
        "causal": place.of == "decoder" and place.kind == "self",
        "additive": isinstance(module, AdditiveAttention),
    }


def places_of(look: Look) -> list[dict[str, Any]]:
    """The same of each kind of attention of the model, without a text."""
    return [place_facts(place) for place in places(look.network)]


def site_facts(trace: Trace, site: Site) -> dict[str, Any]:
    """A whole SITE; see `reading.read`."""
    return {
        **place_facts(site),
        **axes(trace, site),
        "predicts": site.predicts,
        "blank": site.blank,
    }


def axes(trace: Trace, site: Site) -> dict[str, str]:
    """What rows and columns are, in words, and which spellings name them."""
    return {
        "query_axis": site.query_axis,
        "key_axis": site.key_axis,
        "queries": _side(trace, site.query_spelling),
        "keys": _side(trace, site.key_spelling),
    }


def _side(trace: Trace, spelling: Spelling) -> str:
    if isinstance(trace, PairTrace):
        if spelling is trace.predicted:
            return "predicted"
        if spelling is trace.source_spelling:
            return "source"
    return "read"


def key_tokens(look: Look, site: Site) -> tuple[set[int], list[int]]:
    """Ids of the special tokens of the side that the keys are on, and the ids of the keys."""
    trace = look.trace
    source = isinstance(trace, PairTrace) and site.key_spelling is trace.source_spelling
    reader = look.source_tokenizer if source else look.tokenizer
    ids = trace.source_ids if isinstance(trace, PairTrace) and source else trace.ids
    return {int(token) for token in reader.special_ids.values()}, ids


def which(trace: Trace, site: Site) -> dict[str, Any]:
    """The beginning of every view of a kind of attention."""
    return {
        "of": site.of,
        "kind": site.kind,
        "title": title_of(site.of, site.kind),
        **axes(trace, site),
    }


def head_at(look: Look, layer: int, head: int, of: str | None, kind: str | None) -> Head:
    """One head by number. `UserError` when there is none, or several kinds of attention to choose."""
    return look.trace.attention(f"L{layer}.H{head}", of, kind)


def named(head: Head) -> dict[str, Any]:
    """Name and place of a head."""
    return {
        "name": head.name,
        "layer": head.layer,
        "head": head.head,
        "kv_head": head.kv_head,
        "of": head.site.of,
        "kind": head.site.kind,
        "title": title_of(head.site.of, head.site.kind),
    }


def is_off(look: Look, head: Head) -> bool:
    """Whether the question switched this head off."""
    from budgerigar.inspection.names import parse_heads
    from budgerigar.inspection.places import choose

    edits = look.edits
    if edits is None:
        return False
    place = choose(places(look.network), look.network, edits["of"], edits["kind"], "heads")
    if (place.of, place.kind) != (head.site.of, head.site.kind):
        return False
    shape = (len(place.modules), place.modules[0].n_heads)
    switched = [parse_heads(name, *shape) for name in edits["off"]]
    return any(head.layer == layer and head.head in heads for layer, heads in switched)


def row_at(head: Head, query: int) -> int:
    """A row that is there, or `UserError`."""
    count = len(head.site.query_spelling)
    if query >= count:
        raise UserError(f"there is no query {query}: this attention has rows 0 to {count - 1}")
    return query
