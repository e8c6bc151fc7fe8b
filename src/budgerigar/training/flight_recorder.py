"""What went wrong when the loss became NaN or shot up: step, layer, tensor and text of the batch.

The network still has the weights of before the bad update; the recorder runs the batch again with
taps on every value, in the order in which they are computed, and reports the first one that is not
finite, or, for a spike, those that are largest.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from budgerigar.errors import UserError
from budgerigar.formats.atomic import write_text
from budgerigar.formats.tensors import plain_name
from budgerigar.training.objective import IGNORED, MicroBatch, cross_entropy


class TrainingFailedError(UserError):
    """Training stopped itself because its numbers went wrong; `.report` says where."""

    def __init__(self, message: str, report: FlightReport) -> None:
        super().__init__(message)
        self.report = report


@dataclass
class FlightReport:
    """What the recorder found."""

    step: int
    reason: str
    loss: float
    recent_loss: float
    gradient_norm: float
    first_bad: str | None = None  # the first value, weight or gradient that is not finite
    largest: list[tuple[str, float]] = field(default_factory=list)  # (name, largest magnitude)
    batch_text: str = ""

    def message(self, folder: Path, checkpoint: int | None) -> str:
        """The words for the user."""
        lines = [f"Training stopped at step {self.step}: {self.reason}."]
        if self.first_bad:
            lines.append(f"The first number that is not finite: {self.first_bad}.")
        if self.largest:
            shown = ", ".join(f"{name} {value:.3g}" for name, value in self.largest[:3])
            lines.append(f"Largest values in that pass: {shown}.")
        lines.append(f"The batch's worst row reads: {self.batch_text!r}")
        if checkpoint is not None:
            lines.append(
                f"The checkpoint of step {checkpoint} is good and kept in {folder}. Go on from it "
                f"with lower rates (those of this run are in {folder / 'recipe.toml'}): budgie "
                f"train --resume {folder} --learning-rate … --muon-learning-rate …"
            )
        lines.append(f"Details: {folder / 'flight-recorder.json'}")
        return "\n".join(lines)

    def error(self, folder: Path, checkpoint: int | None) -> TrainingFailedError:
        """What to raise; the report is written into the run's folder."""
        self.save(folder)
        return TrainingFailedError(self.message(folder, checkpoint), self)

    def save(self, folder: Path) -> None:
        """Write flight-recorder.json."""
        plain = {
            k: str(v) if isinstance(v, float) and not math.isfinite(v) else v
            for k, v in asdict(self).items()
        }
        text = json.dumps(plain, ensure_ascii=False, indent=1)
        write_text(folder / "flight-recorder.json", text + "\n")


class SpikeWatch:
    """Notices NaN at once, and a loss far above its recent mean when it stays there.

    One strange batch may cost many nats, so a spike is three steps in a row that exceed the moving
    mean by `nats` and are worse than knowing nothing (ln V).
    """

    def __init__(self, nats: float, vocab_size: int) -> None:
        self.nats, self.uniform = nats, math.log(max(vocab_size, 2))
        self.mean: float | None = None
        self.in_a_row = 0

    def check(self, loss: float, gradient_norm: float) -> str | None:
        """The reason to stop, or None."""
        if not math.isfinite(loss):
            return f"the loss is {loss}"
        if not math.isfinite(gradient_norm):
            return f"the norm of the gradient is {gradient_norm}"
        if self.mean is None:
            self.mean = loss
        high = self.nats > 0 and loss > self.mean + self.nats and loss > self.uniform
        if not high:
            self.in_a_row = 0
            self.mean = 0.95 * self.mean + 0.05 * loss
            return None
        self.in_a_row += 1
        if self.in_a_row < 3:
            return None
        return f"the loss shot up to {loss:.2f} from about {self.mean:.2f} and stayed there"

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"mean": self.mean, "in_a_row": self.in_a_row}

    def load_state(self, state: dict[str, Any]) -> None:
        """The reverse of `state`."""
        self.mean, self.in_a_row = state["mean"], state["in_a_row"]


def spoilt(network: nn.Module, validation_loss: float | None) -> str | None:
    """Why the weights after an update are of no use, though no loss of training has shown it yet."""
    if _bad_weight(network):
        return "its update left weights that are not finite"
    if validation_loss is not None and not math.isfinite(validation_loss):
        return f"after its update the loss on the validation text is {validation_loss}"
    return None


def examine(
    network: nn.Module, micro_batches: list[MicroBatch], tokenizer: Any, report: FlightReport
) -> FlightReport:
    """Fill in `report` by running the batch again; the network's weights are not changed."""
    report.first_bad = _bad_weight(network)
    worst: tuple[float, MicroBatch, int] | None = None
    for batch in micro_batches:
        names, values = _forward_values(network, batch)
        if report.first_bad is None:
            bad = next((n for n in names if not _finite(values[n])), None)
            report.first_bad = bad and f"the value {bad}"
        sizes = [(n, _largest(values[n])) for n in names]
        report.largest = sorted(sizes, key=lambda pair: -pair[1])[:10]
        loss, row = _worst_row(values["logits"], batch)
        if worst is None or not loss <= worst[0]:
            worst = (loss, batch, row)
    if report.first_bad is None:
        bad_gradient = _bad_gradient(network, micro_batches)
        report.first_bad = bad_gradient and f"the gradient of {bad_gradient}"
    if worst is not None:
        report.batch_text = _row_text(_tokens_of(worst[1], worst[2]), tokenizer)
    return report


def _tokens_of(batch: MicroBatch, row: int) -> Tensor:
    """The tokens of one row, without padding; of a pair, those of its target."""
    tokens, lengths = batch.inputs["tokens"], batch.inputs.get("lengths")
    assert tokens is not None
    if batch.targets.dim() == 2:
        return tokens[row][batch.targets[row] != IGNORED]
    return tokens[row] if lengths is None else tokens[row][: int(lengths[row])]


def _forward_values(network: nn.Module, batch: MicroBatch) -> tuple[list[str], dict[str, Tensor]]:
    """Every module's output by the module's name, in the order of computation, and the logits."""
    values: dict[str, Tensor] = {}

    def keep(name: str) -> Any:
        def hook(_module: nn.Module, _inputs: Any, output: Any) -> None:
            if isinstance(output, Tensor):
                values.setdefault(name, output.detach())

        return hook

    hooks = [m.register_forward_hook(keep(plain_name(n))) for n, m in network.named_modules() if n]
    try:
        with torch.no_grad():
            logits = network(**batch.inputs)
    finally:
        for hook in hooks:
            hook.remove()
    values["logits"] = logits
    return list(values), values


def _finite(value: Tensor) -> bool:
    return bool(torch.isfinite(value).all())


def _largest(value: Tensor) -> float:
    return float(value.abs().max()) if value.numel() and value.is_floating_point() else 0.0


def _bad_weight(network: nn.Module) -> str | None:
    for name, weight in network.named_parameters():
        if not _finite(weight):
            return f"the weight {plain_name(name)}"
    return None


def _bad_gradient(network: nn.Module, micro_batches: list[MicroBatch]) -> str | None:
    """The weight nearest to the output whose gradient is not finite: it came to be there."""
    network.zero_grad(set_to_none=True)
    for batch in micro_batches:
        logits = network(**batch.inputs)
        cross_entropy(logits.float(), batch.targets)[0].backward()
    bad = [
        plain_name(n)
        for n, p in network.named_parameters()
        if p.grad is not None and not _finite(p.grad)
    ]
    network.zero_grad(set_to_none=True)
    return bad[-1] if bad else None


def _worst_row(logits: Tensor, batch: MicroBatch) -> tuple[float, int]:
    """(highest loss, row) of a batch; a NaN counts as the highest."""
    targets = batch.targets
    losses = torch.nn.functional.cross_entropy(
        logits.flatten(0, -2), targets.flatten(), ignore_index=IGNORED, reduction="none"
    )
    rows = torch.zeros(_n_rows(batch), device=losses.device)
    rows = rows.index_add(0, _row_of_each(batch), losses).nan_to_num(nan=float("inf"))
    row = int(rows.argmax())
    return float(rows[row]), row


def _n_rows(batch: MicroBatch) -> int:
    tokens = batch.inputs["tokens"]
    assert tokens is not None
    return len(tokens)


def _row_of_each(batch: MicroBatch) -> Tensor:
    """The row of each target: some of a row (masked words), one of it (a class), or one a token."""
    only, targets = batch.inputs.get("only"), batch.targets
    if only is not None:
        return only.nonzero()[:, 0]
    rows = torch.arange(_n_rows(batch), device=targets.device)
    return rows.repeat_interleave(targets.numel() // len(rows))


def _row_text(tokens: Tensor, tokenizer: Any) -> str:
    text = tokenizer.decode(tokens.tolist())
    return text if len(text) <= 200 else text[:200] + "…"
