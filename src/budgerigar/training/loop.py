"""The training loop: steps, measurements, evaluations, checkpoints; and stopping at any moment.

A step, in order: draw the micro-batches, forward and backward over each, clip, set the rates,
update. What happens between steps never changes them: torch's default generator belongs to
dropout, data order has its own, and both are put back after every evaluation and sample.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from budgerigar import progress
from budgerigar.formats.checkpoints import (
    Checkpoint,
    keep_trunk,
    trunk_checkpoint,
    write_checkpoint,
)
from budgerigar.formats.metrics import MetricsFile
from budgerigar.formats.run import RunFolder
from budgerigar.formats.tensors import load_network_tensors, network_tensors
from budgerigar.training.averaging import Averages
from budgerigar.training.device import Compute
from budgerigar.training.events import StepEvent, Watchers, untouched
from budgerigar.training.flight_recorder import FlightReport, SpikeWatch, examine, spoilt
from budgerigar.training.measuring import Surroundings, best_in_words, evaluate, sample
from budgerigar.training.objective import (
    Losses,
    MicroBatch,
    accumulate_gradients,
    next_micro_batches,
    start_carrying,
)
from budgerigar.training.optimizers import Optimizers
from budgerigar.training.pace import Pace
from budgerigar.training.progress_state import (
    Standing,
    generator_tensors,
    plain,
    prefixed,
    restore_generators,
    under,
)
from budgerigar.training.recipe import TrainingRecipe
from budgerigar.training.schedules import decay_start, rate_factor
from budgerigar.training.signals import StopRequest
from budgerigar.training.timing import StepTimer, choose_threads, usable_cores


def width_of(network: nn.Module) -> int:
    """D of the paper's schedule: the width of the model's stream."""
    config: Any = network.config
    return int(getattr(config, "d_model", getattr(config, "d_hidden", 1)))


class Loop:
    """One run of a network over batches. `run()` trains to the end, or to a request to stop."""

    def __init__(
        self,
        network: nn.Module,
        batches: Any,
        settings: TrainingRecipe,
        compute: Compute,
        folder: RunFolder,
        surroundings: Surroundings,
        total_steps: int,
        threads: int,
        callbacks: Iterable[Any] = (),
    ) -> None:
        self.network, self.batches, self.settings = network, batches, settings
        self.compute, self.folder, self.around = compute, folder, surroundings
        self.optimizers = Optimizers(network, settings)
        self.averages = Averages(network, settings)
        self.watchers = Watchers(callbacks, network)
        self.standing = Standing(total_steps=total_steps)
        self.threads = threads
        self.spikes = SpikeWatch(settings.spike, surroundings.vocab_size)
        self.pace = Pace()
        # what the model carries from batch to batch, where these are streams that go on
        self.carried: Any = start_carrying(network, batches)
        self._forward = compute.forward_of(network)
        self._width = width_of(network)
        # Reading a number off a GPU waits for it, so there losses are read only once per line.
        self._read_every = 1 if compute.device.type == "cpu" else settings.log_every
        self._unread: list[tuple[int, Losses, Tensor, list[MicroBatch], float]] = []
        self._latest: list[MicroBatch] = []  # what the last step read
        self._last_checkpoint: int | None = None
        self._shown_at = 0.0
        self.best_evaluation: Any = None  # of the weights in model.safetensors, where known
        self.metrics: MetricsFile

    # -- the whole run --------------------------------------------------------------------------

    def run(self, stop: StopRequest) -> Standing:
        """Train until the last step, the end of patience or a request to stop; save; return."""
        self.metrics = MetricsFile(self.folder.metrics_path)
        started = time.perf_counter() - self.standing.seconds
        settings, standing = self.settings, self.standing
        try:
            with progress.track("training", total=standing.total_steps, unit="steps") as job:
                job.advance(standing.step)
                if self._last_checkpoint is None:
                    self.save()
                elif standing.step == self.trunk_step and not trunk_checkpoint(self.folder.path):
                    keep_trunk(self.folder.path, standing.step)  # killed before that was done
                self.network.train()
                while standing.step < standing.total_steps and not standing.finished:
                    self._one_step(stop)
                    standing.seconds = time.perf_counter() - started
                    self._show(job)
                    at = standing.step
                    last = at >= standing.total_steps
                    if last or at % settings.evaluate_every == 0:
                        evaluate(self, stop, last)
                    if self._due(settings.sample_every, at) and self.around.sample:
                        sample(self, stop)
                    standing.seconds = time.perf_counter() - started
                    ends = last or standing.finished
                    trunk = at == self.trunk_step
                    if stop.asked or ends or trunk or self._due(settings.checkpoint_every, at):
                        self.read()
                        self.check_weights()
                        standing.finished = ends
                        self.save()
                        if trunk:
                            keep_trunk(self.folder.path, at)
                    if stop.asked:
                        break
        finally:
            self.metrics.close()
        return standing

    @property
    def trunk_step(self) -> int | None:
        """After how many steps the rate begins to fall; longer runs can branch off there."""
        return decay_start(self.settings, self.standing.total_steps)

    def _due(self, every: int | None, step: int) -> bool:
        """Whether something with this interval happens now; None: together with evaluation."""
        every = self.settings.evaluate_every if every is None else every
        last = step >= self.standing.total_steps
        return every > 0 and (last or step % every == 0)

    # -- a step ---------------------------------------------------------------------------------

    def _one_step(self, stop: StopRequest) -> None:
        start = time.perf_counter()
        standing, settings = self.standing, self.settings
        micro_batches, scored = next_micro_batches(
            self.batches, settings.accumulate, self.compute.device
        )
        losses = accumulate_gradients(
            self._forward,
            micro_batches,
            scored,
            settings.label_smoothing,
            self.compute.autocast,
            self.carried,
        )
        norm = self.optimizers.clip()
        factor = rate_factor(settings, standing.step, standing.total_steps, self._width)
        if self._read_every == 1:
            self._guard(standing.step + 1, float(losses.true), float(norm), micro_batches)
        else:
            self.optimizers.skip_if_not_finite(norm)
        self.optimizers.step(factor)
        self.averages.after_step()
        self.optimizers.zero_grad()
        self._latest = micro_batches
        standing.step += 1
        standing.tokens += scored
        self._unread.append((standing.step, losses, norm, micro_batches, factor))
        standing.training_seconds += time.perf_counter() - start
        self.pace.add(scored, time.perf_counter() - start)
        if standing.step % self._read_every == 0:
            self.read(stop)

    def _guard(self, step: int, loss: float, norm: float, micro_batches: list[MicroBatch]) -> None:
        """Stop before an update that would spoil the weights."""
        reason = self.spikes.check(loss, norm)
        if reason is not None:
            self._fail(step, reason, loss, norm, micro_batches)

    def check_weights(self, loss: float | None = None) -> None:
        """Stop before weights that the last update spoilt are measured, sampled from or saved."""
        reason = spoilt(self.network, loss)
        if reason is not None:
            self._fail(self.standing.step, reason, loss or math.nan, math.nan, self._latest)

    def _fail(
        self, step: int, reason: str, loss: float, norm: float, micro_batches: list[MicroBatch]
    ) -> NoReturn:
        self.metrics.append({"kind": "failed", "step": step, "reason": reason})
        self.metrics.flush()
        report = FlightReport(step, reason, loss, self.spikes.mean or loss, norm)
        examine(self.network, micro_batches, self.around.tokenizer, report)
        raise report.error(self.folder.path, self._last_checkpoint)

    def read(self, stop: StopRequest | None = None) -> None:
        """Take in the losses of the steps since the last look; log, tell those who watch."""
        unread, self._unread = self._unread, []
        for step, losses, norm_tensor, micro_batches, factor in unread:
            loss, norm = float(losses.true), float(norm_tensor)
            if self._read_every > 1:
                self._guard(step, loss, norm, micro_batches)
            self.standing.logged_loss += loss
            self.standing.logged_smoothed += float(losses.smoothed)
            self.standing.logged_steps += 1
            rate = factor * self.settings.learning_rate
            if step % self.settings.log_every == 0 or step == self.standing.total_steps:
                self._log_step(step, norm, rate)
            if self.watchers.wants("on_step"):
                event = self._step_event(step, loss, norm, rate)
                if self.watchers.tell("on_step", event) and stop is not None:
                    stop.ask("a callback")
        if self.pace.halved() and self.settings.threads == "auto":
            self._retime_threads()

    def _log_step(self, step: int, norm: float, rate: float) -> None:
        standing = self.standing
        loss = standing.logged_loss / max(standing.logged_steps, 1)
        smoothed = standing.logged_smoothed / max(standing.logged_steps, 1)
        standing.logged_loss, standing.logged_smoothed, standing.logged_steps = 0.0, 0.0, 0
        clock = {
            "tokens_per_second": round(self.pace.tokens_per_second(), 1),
            "training_seconds": round(standing.training_seconds, 3),
            "seconds": round(standing.seconds, 3),
        }
        beside = {"smoothed_loss": smoothed} if self.settings.label_smoothing else {}
        self.metrics.append(
            {
                "kind": "step",
                "step": step,
                "loss": loss,
                **beside,
                "learning_rate": rate,
                "gradient_norm": norm,
                "tokens": standing.tokens,
                "clock": clock,
            }
        )

    def _step_event(self, step: int, loss: float, norm: float, rate: float) -> StepEvent:
        standing = self.standing
        return StepEvent(
            step=step,
            total_steps=standing.total_steps,
            loss=loss,
            learning_rate=rate,
            gradient_norm=norm,
            tokens=standing.tokens,
            tokens_per_second=self.pace.tokens_per_second(),
            training_seconds=standing.training_seconds,
            seconds_left=self.pace.seconds_per_step() * (standing.total_steps - step),
            network=self.network,
            tokenizer=self.around.tokenizer,
        )

    def _show(self, job: Any) -> None:
        """Redraw the live line, at most ten times a second."""
        now = time.perf_counter()
        if not progress.shown() or now - self._shown_at < 0.1:
            return
        self._shown_at = now
        standing = self.standing
        fields = {"step": f"{standing.step:,}/{standing.total_steps:,}"}
        fields["loss"] = f"{self.spikes.mean or 0.0:.3f}"
        if standing.best_loss is not None:
            fields["best"] = best_in_words(standing, self.settings)
        speed = f"{self.pace.tokens_per_second():,.0f} tokens/s"
        job.advance(standing.step - job.done, **fields, speed=speed)

    # -- between steps --------------------------------------------------------------------------

    def _retime_threads(self) -> None:
        """Throughput halved: time a step at each number of threads again and note a change."""
        self.pace.restart()
        if self.compute.device.type != "cpu" or usable_cores() == 1:
            return
        with untouched(self.network):
            timer = StepTimer(self.network, self.batches, self.settings, self.compute)
            best, _ = choose_threads(timer)
        if best != self.threads:
            entry = {
                "kind": "threads",
                "step": self.standing.step,
                "from": self.threads,
                "to": best,
            }
            self.metrics.append(entry)
            progress.note(f"threads: {self.threads} became slow beside other work; now {best}")
            self.threads = best
            torch.set_num_threads(best)

    # -- checkpoints ----------------------------------------------------------------------------

    def save(self) -> None:
        """Write a checkpoint of this moment."""
        self.standing.spike = self.spikes.state()
        state = {
            **self.standing.as_dict(),
            "cursor": plain(self.batches.state_dict()),
            "threads": self.threads,
            "torch_version": torch.__version__,
            "metrics_bytes": self.metrics.flush(sync=True),
        }
        training = {
            **prefixed("optimizer", self.optimizers.state_tensors()),
            **prefixed("average", self.averages.state_tensors()),
            **prefixed("generator", generator_tensors()),
        }
        if self.carried is not None:
            training |= prefixed("carried", self.carried.tensors())
        write_checkpoint(
            self.folder.path,
            self.standing.step,
            state,
            network_tensors(self.network),
            training,
            self.settings.keep_checkpoints,
        )
        self._last_checkpoint = self.standing.step

    def restore(self, checkpoint: Checkpoint) -> None:
        """Put everything back as it was when `checkpoint` was written."""
        load_network_tensors(self.network, checkpoint.weights, self.folder.path)
        self.optimizers.load_state_tensors(under("optimizer", checkpoint.training))
        self.averages.load_state_tensors(under("average", checkpoint.training))
        self.batches.load_state_dict(checkpoint.state["cursor"])
        self.standing = Standing.from_dict(checkpoint.state)
        self.spikes.load_state(self.standing.spike)
        if self.carried is not None:
            self.carried.load_tensors(under("carried", checkpoint.training))
        restore_generators(under("generator", checkpoint.training))
        self._last_checkpoint = checkpoint.step
