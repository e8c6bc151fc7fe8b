"""How long a step takes here: for `--threads auto` and `--minutes`. Nothing of the run is touched.

Steps are timed on a copy of the network with its own optimizer, on a batch drawn from copies of the
batches' state; torch's generators are put back. Measuring therefore changes no number of the run.
"""

from __future__ import annotations

import copy
import os
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from budgerigar import progress
from budgerigar.training.averaging import Averages
from budgerigar.training.device import Compute
from budgerigar.training.events import untouched
from budgerigar.training.objective import accumulate_gradients, next_micro_batches
from budgerigar.training.optimizers import Optimizers
from budgerigar.training.recipe import TrainingRecipe

SHARE_FOR_STEPS = 0.85  # of the minutes asked for; the rest evaluates, samples and saves


class StepTimer:
    """A throw-away twin of a training: `seconds()` runs one of its steps and times it."""

    def __init__(
        self, network: nn.Module, batches: Any, settings: TrainingRecipe, compute: Compute
    ) -> None:
        self._settings, self._compute = settings, compute
        self._network = _twin(network).train()
        self._optimizers = Optimizers(self._network, settings)
        self._averages = Averages(self._network, settings)
        self._turn = 0
        self.draw(batches, 1)

    def draw(self, batches: Any, count: int) -> None:
        """Take `count` steps' batches to go through in turn; the cursor of `batches` is put back."""
        cursor = copy.deepcopy(batches.state_dict())
        self._drawn = [
            next_micro_batches(batches, self._settings.accumulate, self._compute.device)
            for _ in range(count)
        ]
        batches.load_state_dict(cursor)

    @property
    def varies(self) -> bool:
        """Whether batches are of different sizes: those of pairs and of labelled texts are."""
        return not {"source", "lengths"}.isdisjoint(self._drawn[0][0][0].inputs)

    @property
    def tokens(self) -> float:
        """Scored tokens of a step, on average over the batches drawn."""
        return statistics.fmean(scored for _, scored in self._drawn)

    def seconds(self) -> float:
        """Wall time of one step (without drawing the batch)."""
        micro_batches, scored = self._drawn[self._turn % len(self._drawn)]
        self._turn += 1
        start = time.perf_counter()
        accumulate_gradients(
            self._network,
            micro_batches,
            scored,
            self._settings.label_smoothing,
            self._compute.autocast,
        )
        self._optimizers.clip()
        self._optimizers.step(1e-3)
        self._averages.after_step()
        self._optimizers.zero_grad()
        if self._compute.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start


def _twin(network: nn.Module) -> nn.Module:
    """A copy with weights of its own to train; what is frozen is shared."""
    frozen: list[Tensor] = [p for p in network.parameters() if not p.requires_grad]
    if frozen:
        frozen += network.buffers()
    return copy.deepcopy(network, {id(tensor): tensor for tensor in frozen})


def usable_cores() -> int:
    """Cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else (os.cpu_count() or 1)


def thread_candidates(cores: int) -> list[int]:
    """1, 2, 4, … and the number of cores itself."""
    powers = [2**n for n in range(cores.bit_length()) if 2**n <= cores]
    return sorted({*powers, cores})


def choose_threads(
    timer: StepTimer, candidates: list[int] | None = None, budget: float = 0.4
) -> tuple[int, dict[int, float]]:
    """The number of threads with the quickest step, and seconds per step for each one tried.

    Each is timed for about `budget` seconds, at least three steps, and judged by the median: with
    a busy neighbour the quickest step of two threads flatters them. Ties go to fewer threads.
    The process's own number of threads is put back.
    """
    before = torch.get_num_threads()
    measured: dict[int, float] = {}
    try:
        for threads in candidates or thread_candidates(usable_cores()):
            torch.set_num_threads(threads)
            timer.seconds()  # the first builds buffers and wakes the workers
            measured[threads] = _median_seconds(timer.seconds, budget)
            slower = measured[threads] > 1.5 * min(measured.values())
            if slower:  # more threads will not be quicker again
                break
    finally:
        torch.set_num_threads(before)
    best = min(measured, key=lambda n: measured[n] * (1 + 0.03 * n.bit_length()))
    return best, measured


def _median_seconds(run: Callable[[], float], budget: float, least: int = 3) -> float:
    times = [run() for _ in range(least)]
    while sum(times) < budget and len(times) < 200:
        times.append(run())
    return statistics.median(times)


def settle_threads(
    network: nn.Module, batches: Any, settings: TrainingRecipe, compute: Compute
) -> int:
    """Set torch's number of threads as the recipe asks; "auto" measures. Returns the number."""
    if settings.threads != "auto":
        threads = int(settings.threads)
    elif compute.device.type == "cuda" or usable_cores() == 1:
        threads = torch.get_num_threads()
    else:
        with untouched(network):
            threads, measured = choose_threads(StepTimer(network, batches, settings, compute))
        shown = ", ".join(f"{n}: {1000 * s:.0f} ms" for n, s in measured.items())
        progress.note(f"threads: {threads} (one step takes {shown})")
    torch.set_num_threads(threads)
    return threads


class MeasuredStep(NamedTuple):
    """What one optimizer step takes here, on average."""

    seconds: float
    tokens: float
    """scored"""


DIFFERENT_BATCHES = 8  # pairs: batches differ in shape, so that a single one would mislead


def measure_steps(
    network: nn.Module,
    batches: Any,
    settings: TrainingRecipe,
    compute: Compute,
    seconds: float = 2.0,
) -> MeasuredStep:
    """Time steps for about `seconds`, on several batches where these are of different sizes.

    Equal ones: the median, so that a moment of other work does not count; different ones: the mean.
    """
    with untouched(network):
        timer = StepTimer(network, batches, settings, compute)
        timer.seconds()
        if not timer.varies:
            return MeasuredStep(_median_seconds(timer.seconds, seconds), timer.tokens)
        timer.draw(batches, DIFFERENT_BATCHES)
        times = [timer.seconds() for _ in range(DIFFERENT_BATCHES)]
        while sum(times) < seconds and len(times) < 200:
            times += [timer.seconds() for _ in range(DIFFERENT_BATCHES)]
        return MeasuredStep(statistics.fmean(times), timer.tokens)


def steps_for_minutes(
    minutes: float,
    network: nn.Module,
    batches: Any,
    settings: TrainingRecipe,
    compute: Compute,
    seconds: float = 2.0,
) -> int:
    """How many steps fit into `minutes`, measured on this machine for about `seconds`."""
    step = measure_steps(network, batches, settings, compute, seconds)
    return max(1, int(60 * minutes / step.seconds))
