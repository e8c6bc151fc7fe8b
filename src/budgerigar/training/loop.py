"""The training loop: steps, measurements, evaluations, checkpoints; and stopping at any moment.

A step, in order: draw the micro-batches, forward and backward over each, clip, set the rates,
update. What happens between steps never changes them: torch's default generator belongs to
dropout, data order has its own, and both are put back after every evaluation and sample.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from budgerigar import progress
from budgerigar.formats.checkpoints import Checkpoint, write_checkpoint
from budgerigar.formats.metrics import MetricsFile
from budgerigar.formats.run import RunFolder, save_weights
from budgerigar.formats.tensors import load_network_tensors, network_tensors
from budgerigar.training.averaging import Averages
from budgerigar.training.device import Compute
from budgerigar.training.events import (
    EvaluationEvent,
    SampleEvent,
    StepEvent,
    Watchers,
    beside,
    on_one_line,
    untouched,
)
from budgerigar.training.flight_recorder import FlightReport, SpikeWatch, examine, spoilt
from budgerigar.training.objective import accumulate_gradients, next_micro_batches
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
from budgerigar.training.schedules import rate_factor
from budgerigar.training.signals import StopRequest
from budgerigar.training.timing import StepTimer, choose_threads, usable_cores


@dataclass
class Surroundings:
    """What the loop needs from outside; `evaluate` and `sample` leave the network as it was."""

    evaluate: Callable[[nn.Module, bool], Any]  # (network, whole split?) -> Evaluation
    sample: Callable[[nn.Module, int], str] | None  # (network, step) -> text
    tokenizer: Any
    vocab_size: int
    baselines: dict[str, float] = field(default_factory=dict)
    evaluated_on: str = ""  # which part of the validation split, in words; empty: all of it
    weights_metadata: dict[str, str] = field(default_factory=dict)


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
        self._forward = compute.forward_of(network)
        # Reading a number off a GPU waits for it, so there losses are read only once per line.
        self._read_every = 1 if compute.device.type == "cpu" else settings.log_every
        self._unread: list[tuple[int, Tensor, Tensor, list[dict[str, Any]], float]] = []
        self._latest: list[dict[str, Any]] = []  # what the last step read
        self._last_checkpoint: int | None = None
        self._shown_at = 0.0
        self.best_evaluation: Any = None  # of the weights in model.safetensors, where known
        self._metrics: MetricsFile

    # -- the whole run --------------------------------------------------------------------------

    def run(self, stop: StopRequest) -> Standing:
        """Train until the last step, the end of patience or a request to stop; save; return."""
        self._metrics = MetricsFile(self.folder.metrics_path)
        started = time.perf_counter() - self.standing.seconds
        settings, standing = self.settings, self.standing
        try:
            with progress.track("training", total=standing.total_steps, unit="steps") as job:
                job.advance(standing.step)
                if self._last_checkpoint is None:
                    self.save()
                self.network.train()
                while standing.step < standing.total_steps and not standing.finished:
                    self._one_step(stop)
                    standing.seconds = time.perf_counter() - started
                    self._show(job)
                    at = standing.step
                    last = at >= standing.total_steps
                    if last or at % settings.evaluate_every == 0:
                        self._evaluate(stop, last)
                    if self._due(settings.sample_every, at) and self.around.sample:
                        self._sample(stop)
                    standing.seconds = time.perf_counter() - started
                    ends = last or standing.finished
                    if stop.asked or ends or self._due(settings.checkpoint_every, at):
                        self._read()
                        self._check_weights()
                        standing.finished = ends
                        self.save()
                    if stop.asked:
                        break
        finally:
            self._metrics.close()
        return standing

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
        loss = accumulate_gradients(
            self._forward, micro_batches, scored, settings.label_smoothing, self.compute.autocast
        )
        norm = self.optimizers.clip()
        factor = rate_factor(settings, standing.step, standing.total_steps)
        if self._read_every == 1:
            self._guard(standing.step + 1, float(loss), float(norm), micro_batches)
        else:
            self.optimizers.skip_if_not_finite(norm)
        self.optimizers.step(factor)
        self.averages.after_step()
        self.optimizers.zero_grad()
        self._latest = micro_batches
        standing.step += 1
        standing.tokens += scored
        self._unread.append((standing.step, loss, norm, micro_batches, factor))
        standing.training_seconds += time.perf_counter() - start
        self.pace.add(scored, time.perf_counter() - start)
        if standing.step % self._read_every == 0:
            self._read(stop)

    def _guard(self, step: int, loss: float, norm: float, micro_batches: list[Any]) -> None:
        """Stop before an update that would spoil the weights."""
        reason = self.spikes.check(loss, norm)
        if reason is not None:
            self._fail(step, reason, loss, norm, micro_batches)

    def _check_weights(self, loss: float | None = None) -> None:
        """Stop before weights that the last update spoilt are measured, sampled from or saved."""
        reason = spoilt(self.network, loss)
        if reason is not None:
            self._fail(self.standing.step, reason, loss or math.nan, math.nan, self._latest)

    def _fail(
        self, step: int, reason: str, loss: float, norm: float, micro_batches: list[Any]
    ) -> NoReturn:
        self._metrics.append({"kind": "failed", "step": step, "reason": reason})
        self._metrics.flush()
        report = FlightReport(step, reason, loss, self.spikes.mean or loss, norm)
        examine(self.network, micro_batches, self.around.tokenizer, report)
        raise report.error(self.folder.path, self._last_checkpoint)

    def _read(self, stop: StopRequest | None = None) -> None:
        """Take in the losses of the steps since the last look; log, tell those who watch."""
        unread, self._unread = self._unread, []
        for step, loss_tensor, norm_tensor, micro_batches, factor in unread:
            loss, norm = float(loss_tensor), float(norm_tensor)
            if self._read_every > 1:
                self._guard(step, loss, norm, micro_batches)
            self.standing.logged_loss += loss
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
        standing.logged_loss, standing.logged_steps = 0.0, 0
        clock = {
            "tokens_per_second": round(self.pace.tokens_per_second(), 1),
            "training_seconds": round(standing.training_seconds, 3),
            "seconds": round(standing.seconds, 3),
        }
        self._metrics.append(
            {
                "kind": "step",
                "step": step,
                "loss": loss,
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
            fields["best"] = f"{standing.best_loss:.3f}"
        speed = f"{self.pace.tokens_per_second():,.0f} tokens/s"
        job.advance(standing.step - job.done, **fields, speed=speed)

    # -- between steps --------------------------------------------------------------------------

    def _evaluate(self, stop: StopRequest, last: bool) -> None:
        self._read(stop)
        self._check_weights()
        standing = self.standing
        self.averages.before_evaluation()
        with untouched(self.network), self.averages.in_place():
            self.network.eval()
            found = self.around.evaluate(self.network, False)
            loss = found.nats_per_token
            self._check_weights(loss)
            is_best = standing.best_loss is None or loss < standing.best_loss
            if is_best:
                standing.best_loss, standing.best_step = loss, standing.step
                standing.evaluations_since_best = 0
                self.best_evaluation = found
                self._save_best()
            else:
                standing.evaluations_since_best += 1
            event = self._evaluation_event(found, is_best)
            told = self.watchers.tell("on_evaluation", event)
        self._log_evaluation(found, is_best)
        if told:
            stop.ask("a callback")
        patience = self.settings.patience
        if patience is not None and standing.evaluations_since_best >= patience and not last:
            progress.note(
                f"no better loss in {patience} evaluations: stopped at step {standing.step}; the "
                f"best was {standing.best_loss:.4f} at step {standing.best_step}"
            )
            standing.finished = True

    def _evaluation_event(self, found: Any, is_best: bool) -> EvaluationEvent:
        return EvaluationEvent(
            step=self.standing.step,
            total_steps=self.standing.total_steps,
            loss=found.nats_per_token,
            bits_per_byte=found.bits_per_byte,
            is_best=is_best,
            baselines=self.around.baselines,
            training_seconds=self.standing.training_seconds,
            evaluation=found,
            network=self.network,
            tokenizer=self.around.tokenizer,
        )

    def _log_evaluation(self, found: Any, is_best: bool) -> None:
        standing = self.standing
        entry = {
            "kind": "evaluation",
            "step": standing.step,
            "loss": found.nats_per_token,
            "bits_per_byte": found.bits_per_byte,
            "n_tokens": found.n_tokens,
            "best": is_best,
            "clock": {"training_seconds": round(standing.training_seconds, 3)},
        }
        self._metrics.append(entry)
        self._metrics.flush()
        progress.note(
            f"step {standing.step:,} of {standing.total_steps:,}: loss {found.nats_per_token:.4f} "
            f"({found.bits_per_byte:.3f} bits per byte){self.around.evaluated_on}"
            f"{beside(found.nats_per_token, self.around.baselines)}"
        )

    def _save_best(self) -> None:
        metadata = {"step": str(self.standing.step), **self.around.weights_metadata}
        save_weights(self.folder.path, self.network, metadata)

    def _sample(self, stop: StopRequest) -> None:
        self._read(stop)
        self._check_weights()
        assert self.around.sample is not None
        with untouched(self.network), self.averages.in_place(), torch.no_grad():
            self.network.eval()
            text = self.around.sample(self.network, self.standing.step)
        self._metrics.append({"kind": "sample", "step": self.standing.step, "text": text})
        progress.note(f"  it writes: {on_one_line(text)}")
        if self.watchers.tell("on_sample", SampleEvent(self.standing.step, text)):
            stop.ask("a callback")

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
            self._metrics.append(entry)
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
            "metrics_bytes": self._metrics.flush(sync=True),
        }
        training = {
            **prefixed("optimizer", self.optimizers.state_tensors()),
            **prefixed("average", self.averages.state_tensors()),
            **prefixed("generator", generator_tensors()),
        }
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
        restore_generators(under("generator", checkpoint.training))
        self._last_checkpoint = checkpoint.step
