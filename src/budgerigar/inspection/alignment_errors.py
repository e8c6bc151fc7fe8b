"""Which head aligns: the alignment error rate of every cross-attention head against gold links.

The generated pairs bring their gold alignment; a user's pairs may bring a Pharaoh file. Gold words
that share a token count as one, and how many did is said: no attention can tell them apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from budgerigar.errors import UserError
from budgerigar.evaluation.alignment import (
    AlignmentScore,
    GoldAlignment,
    format_pharaoh,
    parse_pharaoh,
    score_alignments,
)
from budgerigar.inspection.alignments import (
    ALL,
    Link,
    Span,
    Words,
    cross_weights,
    default_layer,
    pool,
    word_spans,
    words_of,
)
from budgerigar.inspection.labels import spell
from budgerigar.inspection.pair_traces import encoded, source_side, start_of
from budgerigar.text.pairs import SentencePair
from budgerigar.text.story_grammar import spans_of


@dataclass(frozen=True)
class GoldPair:
    """A sentence pair, where its words stand, and its gold links between them (from 0)."""

    source: str
    target: str
    source_spans: tuple[Span, ...]
    target_spans: tuple[Span, ...]
    gold: GoldAlignment


@dataclass(frozen=True)
class HeadAlignments(Sequence[tuple[str, AlignmentScore]]):
    """(name, score) of every head and every layer's mean, the lowest error rate first.

    default: the name of what alignments are read from unless another head is asked for. diagonal:
    what linking by place alone would get. merged: words of both sides that stand together with
    another because they share a token, of `words`. `str()` is a table.
    """

    rows: tuple[tuple[str, AlignmentScore], ...]
    default: str
    diagonal: AlignmentScore
    merged: int
    words: int

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def best(self) -> tuple[str, AlignmentScore]:
        """The head (not a mean) with the lowest error rate."""
        return next(row for row in self.rows if ".H" in row[0])

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "heads": [{"head": name, **score.as_dict()} for name, score in self.rows],
            "default": self.default,
            "diagonal": self.diagonal.as_dict(),
            "merged_words": self.merged,
            "words": self.words,
        }

    def table(self, top: int | None = 12) -> str:
        """The best `top` as text."""
        lines = [
            f"alignment error rate by head, {self.diagonal.sentences:,} sentences:",
            f"{'head':<12}{'error rate':>11}{'precision':>11}{'recall':>9}",
        ]
        shown = list(self.rows[:top])
        shown += [row for row in self.rows[len(shown) :] if row[0] == self.default]
        for name, score in [*shown, ("(diagonal)", self.diagonal)]:
            mean = name if ".H" in name or "(" in name else f"{name} mean"
            mark = "  used unless another is asked for" if name == self.default else ""
            lines.append(
                f"{mean:<12}{score.error_rate:>11.3f}{score.precision:>11.3f}{score.recall:>9.3f}"
                f"{mark}"
            )
        if len(self.rows) > len(shown):
            lines.append(f"… and {len(self.rows) - len(shown)} more")
        lines.append("(diagonal): each word linked to the one at the same place, for comparison")
        if self.merged:
            lines.append(
                f"{self.merged:,} of {self.words:,} words share a token with another and count as "
                "one with it"
            )
        return "\n".join(lines)

    __str__ = table
    __repr__ = table


def gold_of(pair: SentencePair, reverse: bool = False) -> GoldPair:
    """A generated pair (Chinese to English; reverse: English to Chinese) with its gold words."""
    sources = tuple(spans_of(pair.source_words, ""))
    targets = tuple(spans_of(pair.target_words, " "))
    if reverse:
        links = frozenset((j, i) for i, j in pair.word_alignment)
        return GoldPair(pair.target, pair.source, targets, sources, GoldAlignment(links, links))
    links = frozenset(pair.word_alignment)
    return GoldPair(pair.source, pair.target, sources, targets, GoldAlignment(links, links))


def gold_lines(
    sources: Sequence[str], targets: Sequence[str], alignments: Sequence[GoldAlignment]
) -> list[GoldPair]:
    """A user's pairs; words are those of `word_spans`. `UserError` for links beyond the words."""
    if not len(sources) == len(targets) == len(alignments):
        raise UserError(
            f"{len(sources)} sources, {len(targets)} translations and {len(alignments)} gold "
            "alignments: each sentence pair needs one line of each"
        )
    found = []
    for n, (source, target, gold) in enumerate(zip(sources, targets, alignments, strict=True), 1):
        spans = tuple(word_spans(source)), tuple(word_spans(target))
        line = format_pharaoh(gold.sure, gold.possible)
        parse_pharaoh(line, len(spans[0]), len(spans[1]), where=f"gold alignment, line {n}")
        found.append(GoldPair(source, target, *spans, gold))
    return found


def head_alignment_errors(
    network: Any,
    tokenizer: Any,
    source_tokenizer: Any,
    pairs: Sequence[SentencePair | GoldPair],
    *,
    reverse: bool = False,
) -> HeadAlignments:
    """The error rate of every head on `pairs`, whose gold translations the model is made to write.

    reverse: of generated pairs, for a model that translates English to Chinese.
    """
    examples = [gold_of(p, reverse) if isinstance(p, SentencePair) else p for p in pairs]
    if not examples:
        raise UserError("there are no sentence pairs with a gold alignment")
    reader = source_tokenizer or tokenizer
    sides = [
        (
            source_side(network, reader, one.source),
            [*encoded(tokenizer, one.target), tokenizer.end_id],
        )
        for one in examples
    ]
    tally = _Tally()
    for index, weights in cross_weights(network, start_of(network, tokenizer), sides):
        one, (source_ids, targets) = examples[index], sides[index]
        source = _gold_words(reader, source_ids, one.source, one.source_spans)
        target = _gold_words(tokenizer, targets, one.target, one.target_spans)
        tally.add(one.gold, source, target, weights)
    return tally.table()


def _gold_words(tokenizer: Any, ids: list[int], text: str, spans: tuple[Span, ...]) -> Words:
    spelling = spell(tokenizer, ids)
    if spelling.text != text:
        raise UserError(
            f"this tokenizer does not give back {text!r} (but {spelling.text!r}), so gold words "
            "cannot be found among its tokens"
        )
    return words_of(spelling, spans)


class _Tally:
    """Predicted links of every head and gold links, sentence by sentence."""

    def __init__(self) -> None:
        self.sure: list[set[Link]] = []
        self.possible: list[set[Link]] = []
        self.diagonal: list[set[Link]] = []
        self.found: dict[str, list[set[Link]]] = {}
        self.words = self.merged = self.n_layers = 0

    def add(self, gold: GoldAlignment, source: Words, target: Words, weights: np.ndarray) -> None:
        """weights (L,H,T,S) of one sentence pair."""
        self.sure.append(_grouped(gold.sure, source, target))
        self.possible.append(_grouped(gold.possible, source, target))
        self.words += source.plain + target.plain
        self.merged += sum(len(m) for side in (source, target) for m in side.members if len(m) > 1)
        n, across = len(source), len(target)
        self.diagonal.append(
            {(min(n - 1, (2 * j + 1) * n // (2 * across)), j) for j in range(across)}
        )
        self.n_layers = weights.shape[0]
        tables = {ALL: weights.mean(axis=(0, 1))}
        for layer, heads in enumerate(weights):
            tables[f"L{layer}"] = heads.mean(axis=0)
            tables |= {f"L{layer}.H{head}": table for head, table in enumerate(heads)}
        chosen = pool(np.stack(list(tables.values())), target, source).argmax(axis=-1)
        for name, row in zip(tables, chosen, strict=True):
            links = {(int(s), t) for t, s in enumerate(row) if s < n}
            self.found.setdefault(name, []).append(links)

    def table(self) -> HeadAlignments:
        """All scores, best first; neither a layer of one head nor one layer needs a mean."""
        several = "L0.H1" in self.found, "L1" in self.found
        names = [name for name in self.found if ".H" in name or several[1 if name == ALL else 0]]
        rows = [(n, score_alignments(self.found[n], self.sure, self.possible)) for n in names]
        rows.sort(key=lambda row: row[1].error_rate)
        default = f"L{default_layer(self.n_layers)}"
        return HeadAlignments(
            tuple(rows),
            default if default in names else f"{default}.H0",
            score_alignments(self.diagonal, self.sure, self.possible),
            self.merged,
            self.words,
        )


def _grouped(links: frozenset[Link], source: Words, target: Words) -> set[Link]:
    """Links between plain words as links between what tokens tell apart."""
    sources = {w: g for g, members in enumerate(source.members) for w in members}
    targets = {w: g for g, members in enumerate(target.members) for w in members}
    return {(sources[i], targets[j]) for i, j in links}
