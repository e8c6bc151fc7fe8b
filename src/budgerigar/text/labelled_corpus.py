"""Labelled texts made ready: split by class without copies on both sides, as tokens, in batches.

Shapes: B texts, T positions.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.text.bucketing import BucketOrder, by_length, cut
from budgerigar.text.labelled import LabelledTexts, class_names, read_labelled
from budgerigar.text.pair_batches import pad_rows
from budgerigar.text.pair_store import TokenLines, encode_lines
from budgerigar.text.plan import hash_files
from budgerigar.text.sampling import draw_sample
from budgerigar.text.tokenizer import MASK
from budgerigar.text.tokenizers import SAMPLE_BYTES, build_tokenizer, choose_kind


class LabelBatch(NamedTuple):
    """tokens (B,T) int64, padded on the right; lengths (B,) int64; targets (B,) int64, classes."""

    tokens: Tensor
    lengths: Tensor
    targets: Tensor

    def inputs(self) -> dict[str, Tensor]:
        """The keyword arguments of a model's `forward`."""
        return {"tokens": self.tokens, "lengths": self.lengths}


@dataclass(frozen=True)
class LabelledStore:
    """One split. lines: ids of each text, without what is put around it. labels: (n,) int64.
    texts: as they were read. start, end: ids put before and after each text."""

    lines: TokenLines
    labels: np.ndarray
    texts: list[str]
    start: tuple[int, ...] = ()
    end: tuple[int, ...] = ()
    end_id: int | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def n_tokens(self) -> int:
        """Of all texts."""
        return int(self.lines.offsets[-1])

    def lengths(self, most: int | None = None) -> np.ndarray:
        """Tokens of each text with what is around it (n,), at most `most`: the rest is cut."""
        found = self.lines.lengths + len(self.start) + len(self.end)
        return found if most is None else np.minimum(found, most)

    def row(self, number: int, most: int | None = None) -> list[int]:
        """The ids of one text as a model reads it, cut to `most`."""
        around = len(self.start) + len(self.end)
        ids = self.lines[number][: None if most is None else max(most - around, 0)]
        return [*self.start, *ids.tolist(), *self.end]

    def pick(self, rows: Sequence[int]) -> LabelledStore:
        """These texts, in this order."""
        chosen = np.asarray(rows, dtype=np.int64)
        texts = [self.texts[row] for row in rows]
        lines = self.lines.subset(chosen)
        return dataclasses.replace(self, lines=lines, labels=self.labels[chosen], texts=texts)

    def batch(self, rows: Sequence[int] | np.ndarray, most: int | None = None) -> LabelBatch:
        """These texts, one a row."""
        ids = [self.row(int(row), most) for row in rows]
        lengths = torch.tensor([len(one) for one in ids])
        return LabelBatch(pad_rows(ids), lengths, torch.from_numpy(self.labels[rows]))


@dataclass
class LabelledCorpus:
    """Fields as of `Corpus`, and the names of the classes."""

    train: LabelledStore
    validation: LabelledStore
    tokenizer: Any
    classes: list[str]
    sources: list[dict[str, Any]]
    fingerprint: str
    notes: list[str] = field(default_factory=list)
    documents: str = "labelled"

    @property
    def n_documents(self) -> int:
        """Texts of both parts."""
        return len(self.train) + len(self.validation)


def prepare_labelled(
    files: Sequence[str | Path],
    *,
    tokenizer: Any = "auto",
    vocab_size: int | None = None,
    columns: tuple[str, str] | None = None,
    validation: str | Path | None = None,
    validation_fraction: float = 0.1,
    encoding: str | None = None,
    seed: int = 0,
    starts: bool | None = None,
) -> LabelledCorpus:
    """Read labelled texts and make them ready.

    tokenizer: a kind, "auto" or one trained already; it is trained on the training part only.
    validation: a file to validate with; None: `validation_fraction` of each class, at random by `seed`,
    with no text (whatever its case and spaces) on both sides. starts: `<end>` opens each text, as the
    model learnt to read documents; None: where the vocabulary has it.
    """
    whole = read_labelled(files, columns, encoding)
    paths = [Path(file) for file in files]
    notes = list(whole.notes)
    if validation is None:
        held_out = hold_out_texts(whole, validation_fraction, seed)
        train = whole.pick(np.flatnonzero(~held_out).tolist())
        other = whole.pick(np.flatnonzero(held_out).tolist())
        notes.append(
            f"validation: {len(other):,} texts, the same share of each class, none of them a copy of "
            f"one of the {len(train):,} to learn from"
        )
    else:
        train, other = whole, read_labelled([validation], columns, encoding)
        paths.append(Path(validation))
        notes += [*other.notes, _copies_in_words(train, other)]
    classes = class_names(train.labels)
    _check_labels(other, classes)
    notes.append(f"classes: {_classes_in_words(train, classes)}")
    chosen, note = _tokenizer(train, tokenizer, vocab_size, seed)
    frame = frame_of(chosen, starts)
    sides = [store_of(part, classes, chosen, *frame) for part in (train, other)]
    if isinstance(tokenizer, str):
        seen = np.bincount(sides[0].lines.tokens, minlength=chosen.vocab_size) > 0
        seen[[*frame[0], *frame[1]]] = True
        chosen = chosen.with_never_seen(~seen)
    sources = hash_files(paths)
    settings = [columns, validation_fraction, encoding, seed, chosen.fingerprint, frame]
    key = repr([[source["sha256"] for source in sources], settings, classes])
    fingerprint = hashlib.sha256(key.encode()).hexdigest()
    return LabelledCorpus(sides[0], sides[1], chosen, classes, sources, fingerprint, [*notes, note])


def frame_of(tokenizer: Any, starts: bool | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(ids before a text, ids after it): what the authors of an imported vocabulary put around a text;
    with ours `<end>` before it where documents are so opened."""
    if tokenizer.imported:
        return tuple(tokenizer.start_ids), tuple(tokenizer.closing_ids)
    opens = tokenizer.end_id is not None and starts is not False
    return ((tokenizer.end_id,) if opens else ()), ()


def hold_out_texts(texts: LabelledTexts, fraction: float, seed: int) -> np.ndarray:
    """bool (n,): about `fraction` of each class, at least one text of it; copies go together.

    A text that occurs with several labels counts for the label that it has first.
    """
    groups: dict[str, list[int]] = {}
    for row, text in enumerate(texts.texts):
        groups.setdefault(_key(text), []).append(row)
    by_class: dict[str, list[list[int]]] = {}
    for rows in groups.values():
        by_class.setdefault(texts.labels[rows[0]], []).append(rows)
    held_out = np.zeros(len(texts), dtype=bool)
    random = np.random.default_rng(seed)
    for label in sorted(by_class):
        own = by_class[label]
        if len(own) < 2:
            raise UserError(
                f"the label {label!r} has a single text (or copies of one): with one to learn from, "
                "none is left to validate with. Leave it out, or give more of it."
            )
        wanted = max(1, round(fraction * sum(map(len, own))))
        taken = 0
        for place in random.permutation(len(own))[: len(own) - 1]:
            if taken >= wanted:
                break
            held_out[own[place]] = True
            taken += len(own[place])
    return held_out


def _key(text: str) -> str:
    return " ".join(text.split()).casefold()


def _copies_in_words(train: LabelledTexts, other: LabelledTexts) -> str:
    known = {_key(text) for text in train.texts}
    copies = sum(_key(text) in known for text in other.texts)
    said = f"validation: the {len(other):,} texts of the given file"
    return f"{said}; {copies:,} of them are among those to learn from" if copies else said


def _check_labels(other: LabelledTexts, classes: Sequence[str]) -> None:
    new = sorted(set(other.labels) - set(classes))
    if new:
        raise UserError(
            f"the texts to validate with have labels that none to learn from has: {', '.join(new[:5])}"
        )


def _classes_in_words(train: LabelledTexts, classes: Sequence[str]) -> str:
    counts = {name: train.labels.count(name) for name in classes[:12]}
    more = f", … ({len(classes)} in all)" if len(classes) > 12 else ""
    return ", ".join(f"{name} {n:,}" for name, n in counts.items()) + more


def _tokenizer(
    train: LabelledTexts, asked: Any, vocab_size: int | None, seed: int
) -> tuple[Any, str]:
    if not isinstance(asked, str):
        return asked, f"tokenizer: {asked.kind}, as given"
    sample = draw_sample((text + "\n" for text in train.texts), SAMPLE_BYTES, seed)
    kind, why = (asked, "as asked") if asked != "auto" else _kind_for(sample)
    made = build_tokenizer(sample, kind, vocab_size, end=True, specials=(MASK,))
    return made, f"tokenizer: {kind}, {made.vocab_size:,} pieces, {why}"


def _kind_for(sample: Any) -> tuple[str, str]:
    """Words are what classes are told by; where there are no spaces, characters."""
    if sample.mostly_cjk:
        return choose_kind(sample)
    return "word", "classes are told by words"


def store_of(
    texts: LabelledTexts,
    classes: Sequence[str],
    tokenizer: Any,
    start: tuple[int, ...] = (),
    end: tuple[int, ...] = (),
) -> LabelledStore:
    """The texts of a split as ids.

    Raises:
        UserError: a label is none of `classes`.
    """
    number = {name: i for i, name in enumerate(classes)}
    unknown = next((label for label in texts.labels if label not in number), None)
    if unknown is not None:
        raise UserError(
            f"the label {unknown!r} is none of this model's classes: {', '.join(classes[:12])}"
        )
    ids, lengths = encode_lines(tokenizer, texts.texts)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    labels = np.array([number[label] for label in texts.labels], dtype=np.int64)
    end_id = tokenizer.end_id if start else None
    return LabelledStore(TokenLines(ids, offsets), labels, texts.texts, start, end, end_id)


class LabelBatches:
    """An endless row of batches of `batch_rows` labelled texts of about equal length, by `seed`."""

    def __init__(
        self, store: LabelledStore, batch_rows: int, seed: int, most: int | None = None
    ) -> None:
        self._store, self._most, self._rows, self._seed = store, most, batch_rows, seed
        lengths = store.lengths(most)
        self._order = BucketOrder(lengths, lengths, None, seed, batch_rows)

    def next(self) -> LabelBatch:
        """The next batch."""
        return self._store.batch(self._order.next(), self._most)

    def state_dict(self) -> dict[str, Any]:
        """Where it stands, as JSON-able values."""
        own = {"n_texts": len(self._store), "batch_rows": self._rows, "seed": self._seed}
        return {**own, **self._order.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`, which must come from the same texts and settings."""
        mine = self.state_dict()
        for name in ("n_texts", "batch_rows", "seed"):
            if state[name] != mine[name]:
                raise UserError(
                    f"these batches were saved with {name} {state[name]}, here it is {mine[name]}: "
                    "the run cannot go on where it stopped."
                )
        self._order.load_state_dict(state)


def evaluation_labels(
    store: LabelledStore, batch_tokens: int, most: int | None = None
) -> Iterator[tuple[LabelBatch, np.ndarray]]:
    """(batch, the numbers of its texts): every text once, sorted by length for speed."""
    lengths = store.lengths(most)
    order = by_length(lengths, lengths)
    for first, last in cut(lengths[order], batch_tokens):
        rows = order[first:last]
        yield store.batch(rows, most), rows
