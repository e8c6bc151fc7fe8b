"""What a head is for: what becomes of the model's abilities and guesses when it is switched off.

Attention weights show where a head looks, not whether anything depends on it. Three ways to switch it
off (`editing`): "mean", its mean over a reference text, which keeps what does not depend on the text;
"resample", its output on that text; "zero", which takes the model where it never was in training
(Michel et al. 2019 and Voita et al. 2019 measure so; Wang et al. 2022 prefer means). Several heads may
do the same: one alone switched off then changes little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from budgerigar.errors import UserError
from budgerigar.inspection.behaviours import Ability, Behaviours, story_ids
from budgerigar.inspection.editing import EditedNetwork, How, Reference, plan_edit
from budgerigar.inspection.labels import pad
from budgerigar.inspection.places import choose, places, predicts_words
from budgerigar.inspection.references import usual
from budgerigar.inspection.role_probes import Reader
from budgerigar.inspection.traces import Trace
from budgerigar.progress import track
from budgerigar.said import said


@dataclass(frozen=True)
class Change:
    """One ability with all heads and without some."""

    before: Ability
    after: Ability

    @property
    def difference(self) -> float:
        """after - before: below 0 is worse for a share, above 0 for nats."""
        return self.after.value - self.before.value

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "ability": self.before.key,
            "name": self.before.name,
            "unit": self.before.unit,
            "before": self.before.value,
            "after": self.after.value,
            "tokens": self.before.n,
            "on": self.before.on,
        }


@dataclass(frozen=True)
class Switched:
    """The effect of switching heads off. `str()` is a table."""

    off: tuple[str, ...]
    how: str
    of: str
    kind: str
    changes: tuple[Change, ...]

    def change(self, key: str, unit: str = "share") -> Change:
        """Of one ability: "copy", "gap", "loss" or "fill", in "share" right or "nats" per token."""
        for change in self.changes:
            if (change.before.key, change.before.unit) == (key, unit):
                return change
        known = ", ".join(dict.fromkeys(change.before.key for change in self.changes))
        raise UserError(f"{key!r} in {unit!r} was not measured of this model; measured: {known}")

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "off": list(self.off),
            "how": self.how,
            "of": self.of,
            "kind": self.kind,
            "changes": [change.as_dict() for change in self.changes],
        }

    def __str__(self) -> str:
        lines = [f"without {', '.join(self.off)} ({self.how} instead)"]
        lines.append(f"{pad('', 28)}{'all heads':>11}{'without':>10}   of")
        for change in self.changes:
            before, share = change.before, change.before.unit == "share"
            name = before.name if share else "  nats per token"
            values = [
                f"{v:.1%}" if share else f"{v:.3f}" for v in (before.value, change.after.value)
            ]
            of = f"{before.n:,} tokens, {before.on}" if share else ""
            lines.append(f"{pad(name, 28)}{values[0]:>11}{values[1]:>10}   {of}".rstrip())
        return "\n".join(lines)

    __repr__ = __str__


class Switches:
    """Switches heads of one model off and measures; texts and reference are made once.

    Raises:
        UserError: there are no such heads, or the model cannot be measured (no task fits it).
    """

    def __init__(
        self,
        network: Any,
        tokenizer: Any,
        *,
        source_tokenizer: Any = None,
        start_id: int | None = None,
        how: How = "mean",
        of: str | None = None,
        kind: str | None = None,
        reference: Sequence[int] | Reference | None = None,
    ) -> None:
        """reference: what "mean" and "resample" take from; None: generated stories, as far as the
        tokenizer holds them, else what the model writes itself; of an encoder or an encoder-decoder
        see `references.usual`.
        """
        self.place = choose(places(network), network, of, kind, "heads that could be switched off")
        self.reader = Reader(network, tokenizer, source_tokenizer, start_id)
        self.behaviours, self.how = Behaviours(self.reader), how
        if not predicts_words(network.config):
            raise UserError(
                said(
                    "there is nothing to measure this model by: it has no output layer over its "
                    "words, so it tells none"
                )
            )
        if not self.behaviours.tasks:
            raise UserError(
                said(
                    "there is nothing to measure this model by: its tokenizer does not hold the words "
                    "of the generated texts"
                )
            )
        self.reference = reference
        if reference is None and how != "zero":
            writes = self.reader.assembly == "decoder-only"
            self.reference = (self._stories() or None) if writes else usual(self.reader)
        with self._track() as job:
            self.before = self.behaviours.measure(job=job)

    def _stories(self) -> list[int]:
        """Stories, each opened as in training, as many as fit."""
        start, limit = self.reader.start_id, self.reader.network.context_length or 256
        ids: list[int] = []
        for story in story_ids(self.reader, seed=2):
            ids += [*([] if start is None else [start]), *story]
            if len(ids) >= limit:
                break
        return ids[:limit]

    def network(self, off: str | Sequence[str]) -> EditedNetwork:
        """A view of the model without these heads."""
        edit = plan_edit(
            self.reader.network,
            off,
            self.how,
            of=self.place.of,
            kind=self.place.kind,
            reference=self.reference,
            start_id=self.reader.start_id,
        )
        return EditedNetwork(self.reader.network, edit)

    def _track(self) -> Any:
        return track("measuring what it can do", self.behaviours.batches, unit="batches")

    def switch(self, off: str | Sequence[str]) -> Switched:
        """The effect of switching these heads (or whole layers) off together."""
        names = (off,) if isinstance(off, str) else tuple(off)
        with self._track() as job:
            return self._switch(names, job)

    def _switch(self, names: tuple[str, ...], job: Any = None, share: float = 1.0) -> Switched:
        after = self.behaviours.measure(self.network(names), job, share)
        changes = tuple(Change(*both) for both in zip(self.before, after, strict=True))
        return Switched(names, self.how, self.place.of, self.place.kind, changes)

    def each(self, heads: Sequence[str] | None = None) -> list[Switched]:
        """Every head alone (or those named), in order."""
        names = heads or [
            f"L{layer}.H{head}"
            for layer, module in enumerate(self.place.modules)
            for head in range(module.n_heads)
        ]
        found = []
        with track("switching heads off", len(names), unit="heads") as job:
            for name in names:
                found.append(self._switch((name,), job, 1 / max(1, self.behaviours.batches)))
        return found


def switch_off(
    network: Any, tokenizer: Any, off: str | Sequence[str], how: How = "mean", **settings: Any
) -> Switched:
    """The effect of switching heads off: loss, copy of repeats, the gap of stories, translation.

    settings: as of `Switches`.
    """
    return Switches(network, tokenizer, how=how, **settings).switch(off)


def moved_guesses(
    before: Trace, after: Trace, position: int = -1, top: int = 8
) -> list[tuple[int, float, float]]:
    """(token id, probability before, after) of the likeliest `top` of either, at one position.

    The likeliest before come first.
    """
    chances = [torch.softmax(trace.logits[position].double(), -1) for trace in (before, after)]
    top = min(top, len(chances[0]))
    ids = dict.fromkeys(int(i) for one in chances for i in one.topk(top).indices.tolist())
    found = [(token, float(chances[0][token]), float(chances[1][token])) for token in ids]
    return sorted(found, key=lambda row: (-row[1], -row[2]))
