"""How well texts are told apart: accuracy with its interval, F1, a table per class, the confusions.

Shapes: n texts, C classes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.models.modes import without_dropout
from budgerigar.text.labelled_corpus import LabelledStore, evaluation_labels

Z95 = 1.959963984540054  # of a normal distribution: 95 % lie within so many deviations
RESAMPLED = 1000  # test sets for the interval of F1


@dataclass(frozen=True)
class ClassScore:
    """One class. precision: of the texts told to be of it; recall: of those that are."""

    name: str
    precision: float
    recall: float
    f1: float
    n_texts: int


@dataclass(frozen=True)
class ClassEvaluation:
    """Scores of one model's classes on labelled texts."""

    classes: tuple[str, ...]
    n_texts: int
    accuracy: float
    accuracy_low: float
    """of the 95 % interval (Wilson 1927)"""
    accuracy_high: float
    macro_f1: float
    """mean of the classes' F1, each counting the same; of classes that occur"""
    macro_f1_low: float
    """of the 95 % interval, over resampled texts"""
    macro_f1_high: float
    nats_per_text: float
    """-ln p of the right class, mean"""
    standard_error: float | None
    per_class: tuple[ClassScore, ...]
    confusion: tuple[tuple[int, ...], ...]
    """row: the right class, column: the class told"""

    unit: ClassVar[str] = "nats per text"
    explained: ClassVar[str] = "cross-entropy of the right class"

    @property
    def nats_per_token(self) -> float:
        """What the training loop compares: here a text counts as one."""
        return self.nats_per_text

    @property
    def n_tokens(self) -> int:
        """Things scored: texts."""
        return self.n_texts

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)

    def text(self) -> str:
        """Numbers and both tables, to read."""
        return "\n".join(
            [
                f"accuracy   {_percent(self.accuracy)}  (95 % interval {_percent(self.accuracy_low)} "
                f"to {_percent(self.accuracy_high)})",
                f"macro F1   {_percent(self.macro_f1)}  (95 % interval {_percent(self.macro_f1_low)} "
                f"to {_percent(self.macro_f1_high)})",
                f"nats per text  {self.nats_per_text:.4f}",
                f"texts      {self.n_texts:,}",
                "",
                *self._class_lines(),
                "",
                *self._confusion_lines(),
            ]
        )

    def _class_lines(self) -> Iterator[str]:
        width = max(5, *(len(name) for name in self.classes))
        yield f"{'class':<{width}}  precision  recall      F1   texts"
        for one in self.per_class:
            shares = (one.precision, one.recall, one.f1)
            cells = "  ".join(f"{_percent(share):>7}" for share in shares)
            yield f"{one.name:<{width}}    {cells}  {one.n_texts:>6,}"

    def _confusion_lines(self) -> Iterator[str]:
        if len(self.classes) > 20:
            yield "the most frequent confusions:"
            for right, told, times in self.confusions(20):
                yield f"  {right} told as {told}: {times:,}"
            return
        width = max(10, *(len(name) for name in self.classes))
        columns = [max(5, len(name)) for name in self.classes]
        names = "  ".join(f"{n:>{w}}" for n, w in zip(self.classes, columns, strict=True))
        yield f"{'told as →':<{width}}  {names}"
        for name, row in zip(self.classes, self.confusion, strict=True):
            cells = "  ".join(f"{n:>{w},}" for n, w in zip(row, columns, strict=True))
            yield f"{name:<{width}}  {cells}"

    def confusions(self, most: int) -> list[tuple[str, str, int]]:
        """(right class, class told, how often) of the most frequent mistakes."""
        table = np.array(self.confusion)
        np.fill_diagonal(table, 0)
        order = np.argsort(-table, axis=None, kind="stable")[:most]
        rows, columns = np.unravel_index(order, table.shape)
        found = zip(rows.tolist(), columns.tolist(), strict=True)
        return [
            (self.classes[r], self.classes[c], int(table[r, c])) for r, c in found if table[r, c]
        ]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def evaluate_classes(
    network: Any, store: LabelledStore, classes: Sequence[str], *, batch_tokens: int = 4096
) -> ClassEvaluation:
    """Tell the class of every text of `store` and score it; `batch_tokens` changes the speed alone.

    Mode (training or not) and random generators are left as they were.
    """
    return score_classes(class_log_p(network, store, batch_tokens), store.labels, classes)


def class_log_p(
    network: Any, store: LabelledStore, batch_tokens: int = 4096
) -> NDArray[np.float64]:
    """ln p of each class for each text (n,C)."""
    if not len(store):
        raise UserError("there is no text to classify")
    found = np.zeros((len(store), network.config.n_classes))
    with (
        without_dropout(network),
        torch.no_grad(),
        progress.track("evaluating", len(store), "texts") as job,
    ):
        for batch, rows in evaluation_labels(store, batch_tokens, network.context_length):
            inputs = {name: value.to(network.device) for name, value in batch.inputs().items()}
            found[rows] = network(**inputs).double().log_softmax(-1).cpu().numpy()
            job.advance(len(rows))
    return found


def score_classes(
    log_p: NDArray[np.float64], labels: NDArray[np.int64], classes: Sequence[str], seed: int = 0
) -> ClassEvaluation:
    """Scores of ln p (n,C) of the classes against `labels` (n,)."""
    n, count = log_p.shape
    told = log_p.argmax(1)
    confusion = np.bincount(labels * count + told, minlength=count * count).reshape(count, count)
    nats = -log_p[np.arange(n), labels]
    right = int((told == labels).sum())
    low, high = wilson_interval(right, n)
    f1_low, f1_high = _f1_interval(labels * count + told, count, seed)
    return ClassEvaluation(
        classes=tuple(classes),
        n_texts=n,
        accuracy=right / n,
        accuracy_low=low,
        accuracy_high=high,
        macro_f1=macro_f1(confusion),
        macro_f1_low=f1_low,
        macro_f1_high=f1_high,
        nats_per_text=float(nats.mean()),
        standard_error=float(nats.std(ddof=1) / math.sqrt(n)) if n > 1 else None,
        per_class=tuple(_per_class(confusion, classes)),
        confusion=tuple(tuple(row) for row in confusion.tolist()),
    )


def _per_class(confusion: NDArray[np.int64], classes: Sequence[str]) -> Iterator[ClassScore]:
    precision, recall, f1 = _shares(confusion)
    for number, name in enumerate(classes):
        p, r, both = (float(share[number]) for share in (precision, recall, f1))
        yield ClassScore(name, p, r, both, int(confusion[number].sum()))


def _shares(confusion: NDArray[np.int64]) -> tuple[NDArray[np.float64], ...]:
    """(precision, recall, F1) of each class; nothing by nothing is 0. confusion (...,C,C)."""
    right = np.diagonal(confusion, axis1=-2, axis2=-1).astype(np.float64)
    told, there = confusion.sum(-2), confusion.sum(-1)
    precision = right / np.maximum(told, 1)
    recall = right / np.maximum(there, 1)
    return precision, recall, 2 * right / np.maximum(told + there, 1)


def macro_f1(confusion: NDArray[np.int64]) -> float:
    """Mean F1 over the classes that occur or were told."""
    used = (confusion.sum(-2) + confusion.sum(-1)) > 0
    return float((_shares(confusion)[2] * used).sum(-1) / max(used.sum(-1), 1))


def wilson_interval(right: int, n: int) -> tuple[float, float]:
    """95 % interval of a share of `right` in `n` (Wilson 1927): honest near 0 and 1, too."""
    share, z2 = right / n, Z95 * Z95
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z95 * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def _f1_interval(cells: NDArray[np.int64], count: int, seed: int) -> tuple[float, float]:
    """The middle 95 % of macro F1 over resampled texts; cells (n,): right class * C + told one."""
    random = np.random.default_rng(seed)
    found = np.bincount(cells, minlength=count * count)
    draws = random.multinomial(len(cells), found / len(cells), size=RESAMPLED)
    scores = [macro_f1(draw.reshape(count, count)) for draw in draws]
    return float(np.quantile(scores, 0.025)), float(np.quantile(scores, 0.975))
