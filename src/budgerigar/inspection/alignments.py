"""Which word of the source each word of a translation came from, read off the cross-attention.

Attention is between tokens, an alignment between words: the weights on a word's tokens are summed,
the rows of a word's tokens averaged (Clark et al. 2019, section 5). A word of the translation is
linked to the source word with the largest weight, or to nothing when the largest weight is on no
word: on `<end>`, where a head parks what has no counterpart. Row t is the one that predicts token t.

Words stand between blanks; in Chinese and Japanese each character is one. Words that share a token
cannot be told apart by any attention: they are aligned as one.

Shapes: T target tokens, S source tokens (`<end>` the last of either), L layers, H heads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from budgerigar.inspection.labels import Spelling, is_wide, spell
from budgerigar.inspection.names import parse_heads
from budgerigar.inspection.pair_traces import (
    PairTrace,
    Text,
    encoded,
    is_blanked,
    source_side,
    start_of,
)
from budgerigar.inspection.passes import run
from budgerigar.inspection.places import Place, choose, places
from budgerigar.layers.additive_attention import AdditiveAttention
from budgerigar.layers.visibility import View
from budgerigar.progress import track

Span = tuple[int, int]
Link = tuple[int, int]
ALL = "all"  # the mean over every head of every layer
_BATCH_NUMBERS = 1 << 22  # that computing the weights of a batch takes, all heads together


@dataclass(frozen=True)
class Words:
    """The words of one side, as far as tokens tell them apart.

    texts: G of them, in order. members: the numbers of the plain words in each (several where they
    share a token). of_token: which one each token belongs to, -1 for none (`<end>`, blanks).
    """

    texts: tuple[str, ...]
    members: tuple[tuple[int, ...], ...]
    of_token: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def plain(self) -> int:
        """How many plain words there are."""
        return sum(map(len, self.members))

    def number(self, word: int) -> int:
        """Which of these plain word `word` is part of."""
        return next(g for g, members in enumerate(self.members) if word in members)

    def pooling(self) -> np.ndarray:
        """(tokens, G) of 0 and 1: which tokens are whose."""
        return np.asarray(self.of_token)[:, None] == np.arange(len(self.texts))[None, :]


def word_spans(text: str) -> list[Span]:
    """Where the words of `text` stand: between blanks; each wide character (Chinese) by itself."""
    spans = []
    for run_of in re.finditer(r"\S+", text):
        start = run_of.start()
        for at in range(run_of.start(), run_of.end()):
            if _stands_alone(text[at]):
                if start < at:
                    spans.append((start, at))
                spans.append((at, at + 1))
                start = at + 1
        if start < run_of.end():
            spans.append((start, run_of.end()))
    return spans


def _stands_alone(character: str) -> bool:
    """Of a script without blanks. Hangul has them, and U+FFFD may be part of any word."""
    return is_wide(character) and not 0xAC00 <= ord(character) <= 0xD7AF


def words_of(spelling: Spelling, spans: Sequence[Span] | None = None) -> Words:
    """Group the tokens of `spelling` into words. spans: characters of each word; None: `word_spans`."""
    spans = word_spans(spelling.text) if spans is None else spans
    touched = [
        [w for w, (a, b) in enumerate(spans) if a < end and b > start]
        for start, end in spelling.spans
    ]
    first = list(range(len(spans)))  # the first word of the group that each word is in
    for words in touched:
        for word in words[1:]:
            old, new = first[word], first[words[0]]
            first = [new if f == old else f for f in first]
    groups = sorted(set(first))
    members = tuple(tuple(w for w, f in enumerate(first) if f == g) for g in groups)
    texts = tuple(spelling.text[spans[m[0]][0] : spans[m[-1]][1]] for m in members)
    of_token = tuple(groups.index(first[words[0]]) if words else -1 for words in touched)
    return Words(texts, members, of_token)


@dataclass(frozen=True)
class WordAlignment:
    """Source and target words, the weights between them, and the links.

    weights: (target words, source words + 1); a row sums to 1, its last column is on no word. head:
    what they were read from. about: for titles. `str()` draws it.
    """

    source: Words
    target: Words
    weights: np.ndarray
    head: str
    about: str = ""

    @property
    def best(self) -> list[int | None]:
        """For each target word (as in `target.texts`) its source word, or None."""
        if not len(self.target):
            return []
        chosen = self.weights.argmax(axis=1)
        return [None if c == len(self.source) else int(c) for c in chosen]

    @property
    def links(self) -> frozenset[Link]:
        """(plain source word, plain target word), from 0: words that share a token have all links."""
        return frozenset(
            (i, j)
            for t, s in enumerate(self.best)
            if s is not None
            for i in self.source.members[s]
            for j in self.target.members[t]
        )

    @property
    def pharaoh(self) -> str:
        """ "0-0 1-2": source word - target word."""
        from budgerigar.evaluation.alignment import format_pharaoh

        return format_pharaoh(self.links)

    @property
    def coverage(self) -> list[float]:
        """How much each source word was looked at: the sum of its column. Near 0: left untranslated."""
        return [float(c) for c in self.weights[:, : len(self.source)].sum(axis=0)]

    def pairs(self) -> list[tuple[str, str | None, float]]:
        """(target word, its source word or None, the weight) in order of the translation."""
        found = []
        for t, s in enumerate(self.best):
            name = None if s is None else self.source.texts[s]
            weight = self.weights[t, -1 if s is None else s]
            found.append((self.target.texts[t], name, float(weight)))
        return found

    def __str__(self) -> str:
        from budgerigar.inspection.alignment_drawing import drawing

        return drawing(self)

    __repr__ = __str__

    def picture(self, path: Any) -> Any:
        """Write the two rows of words and the lines between them as PNG, SVG or PDF."""
        from budgerigar.inspection.alignment_drawing import write_picture

        return write_picture(self, path)


# -- one translation -----------------------------------------------------------------------------


def align(
    trace: PairTrace,
    head: str | None = None,
    *,
    source_spans: Sequence[Span] | None = None,
    target_spans: Sequence[Span] | None = None,
) -> WordAlignment:
    """The alignment of one trace. head: as in `PairTrace.alignment`; spans: where the words are."""
    site = trace.site(kind="cross")
    rows, chosen = token_weights(trace, head), _chosen(head, site)
    source, target = (
        words_of(trace.source_spelling, source_spans),
        words_of(trace.predicted, target_spans),
    )
    pooled = _blank(pool(rows, target, source), site.blank)
    return WordAlignment(source, target, pooled, _said(chosen, site), trace.about)


def token_weights(trace: PairTrace, head: str | None = None) -> np.ndarray:
    """(T,S) float64: the weights that `align` reads, between tokens; rows are those predicted."""
    site = trace.site(kind="cross")
    chosen = _chosen(head, site)
    parts = [trace.steps(site, layer).weights[0, heads] for layer, heads in chosen.items()]
    mean: np.ndarray = torch.cat(parts).mean(dim=0).detach().double().cpu().numpy()
    return mean


def pool(weights: np.ndarray, target: Words, source: Words) -> np.ndarray:
    """(…,T,S) between tokens -> (…,target words, source words + 1); see `WordAlignment`."""
    rows, columns = target.pooling().astype(float), source.pooling().astype(float)
    means = (rows / np.maximum(rows.sum(axis=0), 1)).T @ weights  # (…,target words, S)
    on_words = means @ columns
    rest = means.sum(axis=-1, keepdims=True) - on_words.sum(axis=-1, keepdims=True)
    return np.concatenate([on_words, np.maximum(rest, 0.0)], axis=-1)


def _blank(pooled: np.ndarray, blank: bool) -> np.ndarray:
    """The same, or (the source is switched off) all of each row on nothing."""
    if blank:
        pooled[:, :-1], pooled[:, -1] = 0.0, 1.0
    return pooled


def default_layer(n_layers: int) -> int:
    """The last layer but one (Garg et al. 2019: the last one aligns worse), or the only one."""
    return max(0, n_layers - 2)


def _chosen(head: str | None, place: Any) -> dict[int, list[int]]:
    """layer -> heads to average."""
    depth, n_heads = len(place.modules), place.modules[0].n_heads
    if head is not None and head.strip().lower() == ALL:
        return {layer: list(range(n_heads)) for layer in range(depth)}
    if head is None:
        return {default_layer(depth): list(range(n_heads))}
    return dict([parse_heads(head, depth, n_heads)])


def _said(chosen: dict[int, list[int]], place: Any) -> str:
    total = sum(map(len, chosen.values()))
    layer, heads = next(iter(chosen.items()))
    if total == 1:
        return f"L{layer}.H{heads[0]}"
    return f"{f'L{layer}' if len(chosen) == 1 else 'of all layers'}, mean of {total} heads"


# -- many translations -----------------------------------------------------------------------------


def align_pairs(
    network: Any,
    tokenizer: Any,
    pairs: Sequence[tuple[Text, Text]],
    *,
    source_tokenizer: Any = None,
    head: str | None = None,
) -> list[WordAlignment]:
    """The alignment of each (source, translation), in batches; text, or ids without start and end.

    A side without words gives an alignment without links. A side beyond the context is cut.
    """
    reader = source_tokenizer or tokenizer
    place = choose(places(network), network, None, "cross", "attention to a source")
    chosen = _chosen(head, place)
    sides = [_sides(network, tokenizer, reader, source, target) for source, target in pairs]
    found: list[WordAlignment | None] = [None] * len(pairs)
    said, blank = _said(chosen, place), is_blanked(network)
    for index, weights in cross_weights(network, start_of(network, tokenizer), sides):
        source_ids, targets = sides[index]
        source, target = (
            words_of(spell(reader, source_ids)),
            words_of(spell(tokenizer, targets)),
        )
        parts = [weights[layer, heads] for layer, heads in chosen.items()]
        mean = np.concatenate(parts).mean(axis=0)
        pooled = _blank(pool(mean, target, source), blank)
        found[index] = WordAlignment(source, target, pooled, said)
    return [one for one in found if one is not None]


def _sides(
    network: Any, tokenizer: Any, reader: Any, source: Text, target: Text
) -> tuple[list[int], list[int]]:
    """Ids of both sides, each with its `<end>`."""
    ids, limit = encoded(tokenizer, target), network.context_length
    if ids and ids[-1] == tokenizer.end_id and not isinstance(target, str):
        ids = ids[:-1]
    if limit is not None:
        ids = ids[: limit - 1]
    return source_side(network, reader, source, cut=True), [*ids, tokenizer.end_id]


def cross_weights(
    network: Any, start_id: int, sides: Sequence[tuple[list[int], list[int]]]
) -> Iterator[tuple[int, np.ndarray]]:
    """(index, weights (L,H,T,S)) of each (source ids, target ids), both with their `<end>`.

    In batches of similar length, so not in order.
    """
    place = choose(places(network), network, None, "cross", "attention to a source")
    cost = sum(_numbers_per_cell(module) for module in place.modules)
    order = sorted(range(len(sides)), key=lambda n: (len(sides[n][1]), len(sides[n][0])))
    with track("aligning", len(sides), unit="sentences") as job:
        while order:
            batch, order = _fitting(order, sides, cost)
            weights = _batch_weights(network, place, start_id, [sides[n] for n in batch])
            yield from zip(batch, weights, strict=True)
            job.advance(len(batch))


def _numbers_per_cell(module: Any) -> int:
    """What one weight of each head takes: additive attention makes a vector for it."""
    additive = isinstance(module, AdditiveAttention)
    return int(module.query.out_features if additive else module.n_heads)


def _fitting(
    order: list[int], sides: Sequence[tuple[list[int], list[int]]], cost: int
) -> tuple[list[int], list[int]]:
    """The first sentences of `order` that make a batch, and the rest."""
    sources = targets = taken = 0
    for index in order:
        sources, targets = (
            max(longest, len(side))
            for longest, side in zip((sources, targets), sides[index], strict=True)
        )
        if taken and (taken + 1) * sources * targets * cost > _BATCH_NUMBERS:
            break
        taken += 1
    return order[:taken], order[taken:]


def _batch_weights(
    network: Any, place: Place, start_id: int, sides: Sequence[tuple[list[int], list[int]]]
) -> Iterator[np.ndarray]:
    """Weights (L,H,T,S) of each sentence of one batch."""
    sources = _padded([source for source, _ in sides], network.device)
    tokens = _padded([[start_id, *target[:-1]] for _, target in sides], network.device)
    lengths = torch.tensor([len(source) for source, _ in sides], device=network.device)
    inputs = {"tokens": tokens, "source": sources, "source_lengths": lengths}
    parts = tuple(f"*cross_attention.{part}" for part in ("query", "key", "value"))
    _, values = run(network, inputs, parts)
    columns = torch.arange(sources.shape[1], device=network.device)[None]
    rows = torch.arange(tokens.shape[1], device=network.device)[None]
    view = View(rows, columns, causal=False, key_valid=columns < lengths[:, None])
    layers = []
    for module in place.modules:
        query, key, value = (
            values[f"{module.name}.{part}"].float() for part in ("query", "key", "value")
        )
        with torch.no_grad():
            layers.append(module.steps_from_taps(query, key, value, view).weights)
    weights = torch.stack(layers, dim=1).double().cpu().numpy()  # (B,L,H,T,S)
    for row, (source, target) in enumerate(sides):
        yield weights[row, :, :, : len(target), : len(source)]


def _padded(rows: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """(B,longest), right-padded with 0."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows], device=device)
