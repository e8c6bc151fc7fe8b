"""`budgie ablate`: settings of a recipe varied, each cell over several seeds. Read top to bottom.

All cells read the same tokens in the same budget; each run is an ordinary run folder,
OUT/<cell>/seed-<n>. Seeds are gone through one by one, so that what is stopped early is balanced.
The same call goes on where it stopped; what is finished is read from its folder.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.experiments.ablate_budget import (
    Asked,
    Planned,
    Planner,
    check_disk,
    estimate,
    other_settings,
)
from budgerigar.experiments.ablate_dials import Layout, Listed, in_words, lay_out
from budgerigar.experiments.ablate_results import Ablation, CellResult, RunResult, read_run
from budgerigar.experiments.compare_words import duration
from budgerigar.experiments.demo_runs import trained
from budgerigar.experiments.folders import read_kept, refuse_strangers
from budgerigar.formats.atomic import write_text
from budgerigar.training.corpora import gather_corpus
from budgerigar.training.flight_recorder import TrainingFailedError
from budgerigar.training.given import Given
from budgerigar.training.recipe import Recipe, to_toml

SETTINGS = "ablation.json"


def ablate(
    recipe: Recipe,
    listed: Listed,
    given: Mapping[str, Any] | None = None,
    asked: Asked | None = None,
    *,
    name: str = "recipe",
    out: Path | None = None,
    typed: frozenset[str] = frozenset(),
) -> Ablation:
    """Train each cell with each seed; write table, pictures and page into the folder `out`.

    given: the files, as `train` takes them; none: the corpus that the recipe names. name: what to
    call the recipe. typed: settings that were asked for by name, which no default here changes.
    out: default runs/ablate-<text>-<dials>.

    Raises:
        UserError: all that is wrong with dials, values, combinations, sizes, disk and folder,
            before anything is trained.
        StoppedError: the user stopped a training; the same call goes on there.
    """
    from budgerigar.experiments.ablate_page import write_files

    asked = (asked or Asked()).validate(recipe)
    layout = lay_out(recipe, listed, asked.one_at_a_time)
    files = Given(**(given or {}))
    text = files.stem or recipe.text.corpus or "text"
    dials = "-".join(dial.name for dial in layout.dials)
    folder = out or Path("runs") / f"ablate-{text}-{dials}"
    refuse_strangers(folder, SETTINGS, "ablation")
    corpus = gather_corpus(recipe.text, files, objective=recipe.objective)
    for remark in corpus.notes:
        progress.note(remark)
    known = _known(folder, corpus, asked.budget(recipe))
    first = recipe.training.seed
    seeds = tuple(range(first, first + asked.seeds))

    def finished(cell: str) -> bool:
        return all(read_run(place(folder, cell, seed), seed) is not None for seed in seeds)

    plans = Planner(layout, corpus, asked, typed, known, finished).plan()
    work = _Work(plans, seeds, corpus, given or {}, folder)
    work.check()
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / SETTINGS, json.dumps(known, indent=2))
    write_text(folder / "base.toml", to_toml(plans[0].recipe))
    _say_what_comes(layout, work)
    work.run()
    found = _collected(recipe, name, text, asked, layout, work)
    write_files(found)
    return found


def _collected(
    recipe: Recipe, name: str, text: str, asked: Asked, layout: Layout, work: _Work
) -> Ablation:
    """All that the runs of `work` tell."""
    in_order = recipe.objective == "next-token"
    return Ablation(
        name,
        text,
        layout.dials,
        tuple(work.cell(planned) for planned in work.plans),
        work.seeds,
        asked.budget(recipe),
        asked.one_at_a_time,
        asked.equal_parameters,
        "bits_per_byte" if in_order else "loss",
        work.corpus.validation.n_tokens - in_order,  # of a text the first one is given
        layout.skipped,
        work.folder,
    )


def _known(folder: Path, corpus: Any, minutes: float | None) -> dict[str, Any]:
    """What an earlier call settled: threads, and the steps that fit into the same minutes."""
    path = folder / SETTINGS
    now = {"fingerprint": corpus.fingerprint, "minutes": minutes}
    if not path.is_file():
        return now
    before = read_kept(path, mark=True)
    if before["fingerprint"] != now["fingerprint"]:
        raise UserError(
            f"{folder} holds an ablation on another text, and numbers of both would not compare. "
            "Choose another --out, or remove that folder."
        )
    if before["minutes"] != minutes:
        before.pop("steps", None)
    return {**before, **now}


def _say_what_comes(layout: Layout, work: _Work) -> None:
    for words, why in layout.skipped:
        progress.note(f"left out: {words}: {why}")
    cells, seeds = len(work.plans), len(work.seeds)
    done = cells * seeds - len(work.open_runs)
    words = f"{cells} cells, {seeds} seed{'s' * (seeds > 1)} each"
    words += f"; {done} of {cells * seeds} runs are finished" if done else ""
    words += f"; {estimate(work.plans, work.open_runs)}" if work.open_runs else ""
    progress.note(words)


# -- the runs ------------------------------------------------------------------------------------


def place(folder: Path, cell: str, seed: int) -> Path:
    """The folder of a run."""
    return folder / cell / f"seed-{seed}"


class _Counter:
    """Counts the steps of a run as part of the whole."""

    def __init__(self, job: progress.Tracker) -> None:
        self.job = job

    def on_step(self, _event: Any) -> None:
        self.job.advance(1)


@dataclass
class _Work:
    plans: Sequence[Planned]
    seeds: tuple[int, ...]
    corpus: Any
    given: Mapping[str, Any]
    folder: Path

    def __post_init__(self) -> None:
        self.open_runs = [
            (planned, seed)
            for seed in self.seeds
            for planned in self.plans
            if read_run(place(self.folder, planned.name, seed), seed) is None
        ]

    def check(self) -> None:
        """Refuse runs of other settings, and a disk without room, before anything is trained."""
        wrong = []
        for planned in self.plans:
            for seed in self.seeds:
                run = place(self.folder, planned.name, seed)
                if not (run / "config.json").is_file():
                    continue
                recipe = planned.recipe.replace(training={"seed": seed})
                others = other_settings(run, recipe)
                if others:
                    wrong.append(f"{run} was trained with another {', '.join(others)}")
        if wrong:
            raise UserError(
                "numbers of different settings would not compare. Choose another --out, or remove "
                "what is there:\n" + "\n".join(f"  - {line}" for line in wrong)
            )
        check_disk(self.folder, sum(planned.n_bytes for planned, _ in self.open_runs))

    def run(self) -> None:
        """Train what is not finished, seed by seed."""
        total, spent, hoped = len(self.open_runs), 0.0, 0.0
        left = sum(planned.seconds for planned, _ in self.open_runs)
        steps = sum(planned.steps for planned, _ in self.open_runs)
        with progress.track("ablation", steps, "steps") as job:
            for n, (planned, seed) in enumerate(self.open_runs, 1):
                what = f"run {n} of {total}: {planned.label}, seed {seed}"
                values = " ".join(map(in_words, planned.cell.values))  # a bar has little room
                job.describe(f"run {n} of {total}: {values}, seed {seed}")
                before, start = job.done, time.perf_counter()
                found = self._trained(planned, seed, job)
                job.advance(before + planned.steps - job.done)
                spent += time.perf_counter() - start
                hoped, left = hoped + planned.seconds, left - planned.seconds
                pace = f"; about {duration(left * spent / hoped)} left" if n < total else ""
                progress.note(f"{what}: {_score(found)}{pace}")

    def _trained(self, planned: Planned, seed: int, job: progress.Tracker) -> RunResult:
        run = place(self.folder, planned.name, seed)
        recipe = planned.recipe.replace(training={"seed": seed})
        try:
            with progress.without_notes():
                trained(recipe, self.corpus, run, [_Counter(job)], given=self.given)
        except TrainingFailedError:
            pass  # a result as well: its folder says when and how
        found = read_run(run, seed)
        assert found is not None, run
        return found

    def cell(self, planned: Planned) -> CellResult:
        """All runs of a cell."""
        runs = [read_run(place(self.folder, planned.name, seed), seed) for seed in self.seeds]
        return CellResult(
            planned.cell.values,
            planned.label,
            planned.parameters,
            planned.steps,
            tuple(run for run in runs if run is not None),
        )


def _score(found: RunResult) -> str:
    if found.diverged is not None:
        return f"diverged at {found.diverged}"
    bleu = "" if found.bleu is None else f", BLEU {found.bleu:.2f}"
    bits = found.bits_per_byte
    return (
        f"{'' if bits is None else f'{bits:.4f} bits per byte, '}{found.loss:.4f} nats{bleu} "
        f"after {duration(found.training_seconds)}"
    )
