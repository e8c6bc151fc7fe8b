"""What each cell of an ablation costs, settled before any of them is trained.

The same number of steps for all, or the same minutes (steps are then measured once for a cell, and
all of its seeds take as many). How long the whole takes and what it needs of the disk is known first.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.experiments.ablate_dials import Cell, Layout, folder_name, label
from budgerigar.experiments.compare_models import widest
from budgerigar.experiments.compare_words import duration
from budgerigar.training.corpora import make_batches, model_config
from budgerigar.training.device import choose_compute
from budgerigar.training.memory import check_memory
from budgerigar.training.recipe import Recipe, TrainingRecipe
from budgerigar.training.run import fit_context
from budgerigar.training.timing import SHARE_FOR_STEPS, measure_steps, settle_threads

EVALUATIONS = 4  # in a run; the best weights of them are scored on the whole validation split
EVALUATION_TOKENS = 20_000  # of the validation split along the way
TIMING_SECONDS = 0.3  # of steps, where they only foretell the duration
CLOSE = 0.02  # weights of equal_parameters may differ by so much


@dataclass(frozen=True)
class Asked:
    """How an ablation is made, beside its dials."""

    seeds: int = 3
    """runs of each cell; the first seed is the recipe's"""
    minutes: float | None = None
    """of training for each run; None: the recipe's steps, or its minutes"""
    one_at_a_time: bool = False
    """vary each dial alone, the others as in the recipe, instead of all combinations"""
    equal_parameters: bool = False
    """give each cell the inner width with which it has as many weights as the base"""

    def validate(self, recipe: Recipe) -> Asked:
        """Return self, or raise one `UserError` that lists all that is wrong."""
        wrong = []
        if self.seeds < 1:
            wrong.append(f"seeds = {self.seeds} must be at least 1")
        if self.minutes is not None and not self.minutes > 0:
            wrong.append(f"minutes = {self.minutes} must be more than 0")
        if recipe.training.steps is None and self.budget(recipe) is None:
            wrong.append("the recipe says neither steps nor minutes; give --steps or --minutes")
        if recipe.kind == "ngram":
            wrong.append("an n-gram is counted, and no seed changes it; train one for each setting")
        if recipe.kind == "word-vectors":
            wrong.append("word vectors predict no text; choose a recipe of a model that does")
        if wrong:
            raise UserError("this ablation cannot be run:\n" + "\n".join(f"  - {w}" for w in wrong))
        return self

    def budget(self, recipe: Recipe) -> float | None:
        """Minutes of each run; None where the number of steps is given."""
        if self.minutes is not None:
            return self.minutes
        return None if recipe.training.steps is not None else recipe.training.minutes


@dataclass(frozen=True)
class Planned:
    """A cell that is ready to be trained."""

    cell: Cell
    name: str
    """of its folder, which holds seed-1, seed-2, …"""
    label: str
    recipe: Recipe
    """everything settled but the seed"""
    parameters: int
    seconds: float
    """about, of one run"""

    @property
    def steps(self) -> int:
        """Of each run."""
        assert self.recipe.training.steps is not None
        return self.recipe.training.steps

    @property
    def n_bytes(self) -> int:
        """About, on the disk: the best weights, one checkpoint with optimizer and averages, a page."""
        copies = 4 + (self.recipe.training.average != "none")
        return 4 * self.parameters * copies + 300_000


@dataclass
class Planner:
    """Settles size, threads and steps of all cells; `known` is what an earlier call settled."""

    layout: Layout
    corpus: Any
    asked: Asked
    typed: frozenset[str]
    """settings that were asked for by name: these stay as they are"""
    known: dict[str, Any]
    finished: Callable[[str], bool]
    """whether all runs in the folder of this name are there already: nothing is timed for them"""

    def plan(self) -> list[Planned]:
        """All cells, the base first.

        Raises:
            UserError: every cell that cannot be built or does not fit into the memory.
        """
        built, problems = [], []
        for cell in self.layout.cells:
            try:
                built.append(self._sized(cell))
            except UserError as error:
                problems.append(f"{label(self.layout.dials, cell.values)}: {error}")
        if problems:
            raise UserError("this ablation cannot be run:\n  - " + "\n  - ".join(problems))
        self._settle_threads(built[0][1])
        with progress.track("timing a step of each cell", len(built), "cells") as job:
            plans = []
            for cell, recipe, parameters in built:
                plans.append(self._timed(cell, recipe, parameters))
                job.advance()
        return plans

    def _sized(self, cell: Cell) -> tuple[Cell, Recipe, int]:
        """With the width of equal parameters, and the context that the text fills."""
        recipe = cell.recipe
        if not recipe.reads_pairs:
            recipe = fit_context(recipe, self.corpus)
        if self.asked.equal_parameters and cell is not self.layout.cells[0]:
            recipe = recipe.replace(model=self._width(recipe))
        compute = choose_compute(recipe.training)
        config = model_config(recipe, self.corpus)
        check_memory(config, recipe.training, compute.device)
        recipe = recipe.replace(training=self._training(recipe, compute.precision))
        return cell, recipe, count(config)

    def _width(self, recipe: Recipe) -> dict[str, Any]:
        """The inner width with which this cell has as many weights as the base."""
        name = "d_ff" if recipe.kind == "transformer" else "d_hidden"
        if any(dial.name == name for dial in self.layout.dials):
            raise UserError(f"{name} is what equal_parameters chooses, and cannot be a dial too")
        wanted = count(model_config(self.layout.cells[0].recipe, self.corpus))

        def counted(changes: dict[str, Any]) -> int:
            return count(model_config(recipe.replace(model=changes), self.corpus))

        found = widest(name, 4, wanted, counted)
        if abs(counted(found) - wanted) > CLOSE * wanted:
            raise UserError(
                f"no {name} gives it the {wanted:,} weights of the base: the nearest has "
                f"{counted(found):,}"
            )
        return found

    def _training(self, recipe: Recipe, precision: str) -> dict[str, Any]:
        """What is the same for all cells beside what was asked for."""
        changes: dict[str, Any] = {"sample_every": 0, "baselines": False, "keep_checkpoints": 1}
        changes |= {"precision": precision, "seed": recipe.training.seed}
        if "evaluation_tokens" not in self.typed and not recipe.reads_pairs:
            changes["evaluation_tokens"] = EVALUATION_TOKENS
        if self.asked.budget(recipe) is None:
            changes |= self._for_steps(recipe.training, recipe.training.steps or 1)
        return changes

    def _for_steps(self, training: TrainingRecipe, steps: int) -> dict[str, Any]:
        """Steps, with evaluations and a warm-up that fit into them."""
        changes: dict[str, Any] = {"steps": steps, "minutes": None}
        if "evaluate_every" not in self.typed:
            changes["evaluate_every"] = -(-steps // EVALUATIONS)
        own = self.typed | {dial.name for dial in self.layout.dials}
        if "warmup_steps" not in own and training.schedule != "vaswani":
            changes["warmup_steps"] = min(training.warmup_steps, -(-steps // 10))
        return changes

    def _settle_threads(self, recipe: Recipe) -> None:
        """One number of threads for all runs; "auto" is measured once, with the base."""
        asked = recipe.training.threads
        if asked != "auto":
            self.known["threads"] = int(asked)
        elif "threads" not in self.known:
            compute = choose_compute(recipe.training)
            network, batches = self._made(recipe, compute)
            self.known["threads"] = settle_threads(network, batches, recipe.training, compute)

    def _made(self, recipe: Recipe, compute: Any) -> tuple[Any, Any]:
        from budgerigar import models

        config = model_config(recipe, self.corpus)
        network = models.build(config, seed=recipe.training.seed).to(compute.device)
        with progress.without_notes():
            return network, make_batches(recipe, self.corpus, network)

    def _timed(self, cell: Cell, recipe: Recipe, parameters: int) -> Planned:
        """With its steps, and how long they take here."""
        name, minutes = folder_name(self.layout.dials, cell.values), self.asked.budget(recipe)
        recipe = recipe.replace(training={"threads": self.known["threads"]})
        torch.set_num_threads(self.known["threads"])
        compute = choose_compute(recipe.training)
        steps: dict[str, int] = self.known.setdefault("steps", {})
        if minutes is not None and name in steps:
            seconds = 60 * minutes
        elif minutes is None and self.finished(name):
            seconds = 0.0
        else:
            network, batches = self._made(recipe, compute)
            spent = TIMING_SECONDS if minutes is None else min(1.5, 6 * minutes)
            step = measure_steps(network, batches, recipe.training, compute, spent).seconds
            if minutes is None:
                seconds = step * (recipe.training.steps or 1) / SHARE_FOR_STEPS
            else:
                seconds = 60 * minutes
                steps[name] = max(2, int(SHARE_FOR_STEPS * seconds / step))
        if minutes is not None:
            recipe = recipe.replace(training=self._for_steps(recipe.training, steps[name]))
        words = label(self.layout.dials, cell.values)
        return Planned(cell, name, words, recipe, parameters, seconds)


def count(config: Any) -> int:
    """Weights of a network of this configuration."""
    from budgerigar import models

    with torch.device("meta"):
        return sum(p.numel() for p in models.build(config).parameters())


# -- what is there already -----------------------------------------------------------------------

FREE = ("threads", "device", "compile")  # may differ between runs of one ablation


def other_settings(run: Path, recipe: Recipe) -> list[str]:
    """Settings in which the run in this folder is not the one that `recipe` asks for."""
    from budgerigar.formats.run import RunFolder
    from budgerigar.training.recipe import recipe_from_dict

    stored = RunFolder.open(run).recipe()
    if stored is None:
        return ["recipe"]
    before, now = recipe_from_dict(stored, str(run)), recipe
    found = [n for n in {*before.model, *now.model} if not _same(before.model, now.model, n)]
    was, is_ = (dataclasses.asdict(one.training) for one in (before, now))
    return sorted(found + [n for n in is_ if n not in FREE and not _same(was, is_, n)])


def _same(one: Any, other: Any, name: str) -> bool:
    return json.dumps(one.get(name)) == json.dumps(other.get(name))  # lists equal tuples


def check_disk(folder: Path, needed: int) -> None:
    """Raise where the disk of `folder` has not so many bytes left."""
    place = next(p for p in (folder, *folder.resolve().parents) if p.exists())
    free = shutil.disk_usage(place).free
    if needed > free:
        raise UserError(
            f"the runs need about {needed / 1e6:,.0f} MB in {folder}, and there are "
            f"{free / 1e6:,.0f} MB left there; free some, or choose another --out"
        )


def estimate(plans: Sequence[Planned], open_runs: Sequence[tuple[Planned, int]]) -> str:
    """In words, how much there is to do."""
    total = sum(planned.seconds for planned, _ in open_runs)
    n_bytes = sum(planned.n_bytes for planned, _ in open_runs)
    steps = sorted({planned.steps for planned in plans})
    words = f"{steps[0]:,}" + (f" to {steps[-1]:,}" if len(steps) > 1 else "")
    return (
        f"{len(open_runs)} runs of {words} steps, about {duration(total)} and "
        f"{n_bytes / 1e6:,.0f} MB on the disk"
    )
