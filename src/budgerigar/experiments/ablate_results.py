"""What an ablation found: each run, each cell, differences to the base, the effect of each dial."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from budgerigar.experiments.ablate_dials import Dial, in_words, label
from budgerigar.experiments.ablate_statistics import Difference, holm, paired
from budgerigar.formats.metrics import read_metrics


@dataclass(frozen=True)
class RunResult:
    """One run, as its folder tells: its best weights on the whole validation split."""

    seed: int
    folder: Path
    diverged: str | None
    """when and how its numbers went wrong; None: they did not, and the scores are there"""
    loss: float | None = None
    """nats per token"""
    bits_per_byte: float | None = None
    bleu: float | None = None
    best_step: int = 0
    training_seconds: float = 0.0


@dataclass(frozen=True)
class CellResult:
    """One cell: a value for each dial, and its runs, one for each seed."""

    values: tuple[Any, ...]
    label: str
    parameters: int
    steps: int
    runs: tuple[RunResult, ...]

    @property
    def diverged(self) -> tuple[RunResult, ...]:
        """The runs whose numbers went wrong."""
        return tuple(run for run in self.runs if run.diverged is not None)

    def by_seed(self, measure: str) -> dict[int, float]:
        """seed -> the value of "bits_per_byte", "loss" or "bleu", of the runs that have one."""
        found = {run.seed: getattr(run, measure) for run in self.runs}
        return {seed: value for seed, value in found.items() if value is not None}


@dataclass(frozen=True)
class Effect:
    """One value of a dial against its base value, over all settings of the other dials."""

    dial: str
    value: str
    against: str
    settings: int
    """of the other dials, in which both values were measured"""
    difference: Difference
    """for each seed the mean over these settings, then paired by seed"""
    least: tuple[float, str]
    """the smallest mean difference among these settings, and in which"""
    most: tuple[float, str]


@dataclass(frozen=True)
class Ablation:
    """Everything that was measured. `str()` is the table with what it shows, in words."""

    recipe: str
    corpus: str
    dials: tuple[Dial, ...]
    cells: tuple[CellResult, ...]
    """the base first"""
    seeds: tuple[int, ...]
    minutes: float | None
    """of training for each run; None: the same number of steps"""
    one_at_a_time: bool
    equal_parameters: bool
    measure: str
    """what is compared: "bits_per_byte", or "loss" of translations"""
    n_tokens: int
    """scored tokens of the validation split"""
    skipped: tuple[tuple[str, str], ...]
    """combinations that were left out, and why"""
    folder: Path

    @property
    def base(self) -> CellResult:
        """The cell that the others are compared with."""
        return self.cells[0]

    @cached_property
    def differences(self) -> tuple[Difference | None, ...]:
        """Of each cell to the base, paired by seed; None: the base, or no seed in common."""
        base = self.base.by_seed(self.measure)
        found: list[Difference | None] = [None]
        for cell in self.cells[1:]:
            own = cell.by_seed(self.measure)
            common = [own[seed] - base[seed] for seed in own if seed in base]
            made = paired(common) if common else None
            if made is not None and (cell.diverged or self.base.diverged):
                made = dataclasses.replace(made, p=None)  # what is left is a choice of good runs
            found.append(made)
        return tuple(_corrected(found))

    @cached_property
    def effects(self) -> tuple[Effect, ...]:
        """Of each dial over the others; none where one dial was varied at a time."""
        if self.one_at_a_time or len(self.dials) < 2:
            return ()
        found = [
            effect
            for n, dial in enumerate(self.dials)
            for value in dial.values
            if value != dial.base and (effect := self._effect(n, value)) is not None
        ]
        corrected = _corrected([effect.difference for effect in found])
        return tuple(
            dataclasses.replace(effect, difference=difference)
            for effect, difference in zip(found, corrected, strict=True)
            if difference is not None
        )

    def _effect(self, n: int, value: Any) -> Effect | None:
        """Of one value of dial `n`, over the settings whose runs, here and there, went well."""
        dial, cells = self.dials[n], {cell.values: cell for cell in self.cells}
        by_setting: dict[str, dict[int, float]] = {}
        for values, cell in cells.items():
            base = cells.get((*values[:n], dial.base, *values[n + 1 :]))
            if values[n] != value or base is None or cell.diverged or base.diverged:
                continue
            own, there = cell.by_seed(self.measure), base.by_seed(self.measure)
            setting = ", ".join(map(in_words, (*values[:n], *values[n + 1 :])))
            by_setting[setting] = {s: own[s] - there[s] for s in own if s in there}
        seeds = [s for s in self.seeds if all(s in found for found in by_setting.values())]
        if not by_setting or not seeds:
            return None
        means = [statistics.fmean(found[s] for found in by_setting.values()) for s in seeds]
        each = sorted(
            (statistics.fmean(found[s] for s in seeds), setting)
            for setting, found in by_setting.items()
        )
        return Effect(
            dial.name,
            in_words(value),
            in_words(dial.base),
            len(each),
            paired(means),
            each[0],
            each[-1],
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, what they show in words among them."""
        from budgerigar.experiments.ablate_words import findings, verdicts

        found = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        said, base = verdicts(self), label(self.dials, self.base.values)
        cells = zip(self.cells, self.differences, said, strict=True)
        return {
            **found,
            "folder": str(self.folder),
            "base": base,
            "dials": {dial.name: list(dial.values) for dial in self.dials},
            "cells": [
                {
                    **dataclasses.asdict(cell),
                    "values": {
                        dial.name: v for dial, v in zip(self.dials, cell.values, strict=True)
                    },
                    "difference": None if difference is None else dataclasses.asdict(difference),
                    "verdict": verdict,
                }
                for cell, difference, verdict in cells
            ],
            "effects": [dataclasses.asdict(effect) for effect in self.effects],
            "findings": findings(self),
        }

    def __str__(self) -> str:
        from budgerigar.experiments.ablate_words import as_text

        return as_text(self)


def _corrected(differences: Sequence[Difference | None]) -> list[Difference | None]:
    """With p values corrected for the number of them."""
    adjusted = holm([None if d is None else d.p for d in differences])
    return [
        None if d is None else dataclasses.replace(d, adjusted=p)
        for d, p in zip(differences, adjusted, strict=True)
    ]


def read_run(folder: Path, seed: int) -> RunResult | None:
    """How the run in `folder` ended; None where it did not end, or there is none."""
    entries = read_metrics(folder / "metrics.jsonl")
    if not entries or entries[-1]["kind"] not in ("final", "failed"):
        return None
    last = entries[-1]
    seconds = max((e["clock"]["training_seconds"] for e in entries if "clock" in e), default=0.0)
    if last["kind"] == "failed":
        why = f"step {last['step']:,}: {last['reason']}"
        return RunResult(seed, folder, why, training_seconds=seconds)
    return RunResult(
        seed,
        folder,
        None,
        float(last["loss"]),
        None if last.get("bits_per_byte") is None else float(last["bits_per_byte"]),
        last.get("bleu"),
        int(last["step"]),
        seconds,
    )
