"""Averages of the weights: what is evaluated and saved when a recipe asks for it.

`ema`: average <- d average + (1 - d) weights, with d = min(decay, (1 + n) / (10 + n)) after n
updates, so that the first values do not linger (as in TensorFlow's moving averages).
`last`: the plain mean of the snapshots at the last k evaluations (Izmailov et al. 2018).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from budgerigar.formats.tensors import plain_name
from budgerigar.training.recipe import TrainingRecipe


class Averages:
    """The running average of a network's weights; with `average = "none"` it does nothing."""

    def __init__(self, network: nn.Module, settings: TrainingRecipe) -> None:
        self.kind, self.decay, self.count = (
            settings.average,
            settings.average_decay,
            settings.average_count,
        )
        self._named = {plain_name(n): p for n, p in network.named_parameters() if p.requires_grad}
        self._weights = [p.detach() for p in self._named.values()]
        self.updates = 0
        self._ema = [w.clone() for w in self._weights] if self.kind == "ema" else []
        self._snapshots: list[list[Tensor]] = []

    @torch.no_grad()
    def after_step(self) -> None:
        """Take the weights of one more update into the moving average."""
        self.updates += 1
        if self.kind == "ema":
            decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
            torch._foreach_lerp_(self._ema, self._weights, 1.0 - decay)

    def before_evaluation(self) -> None:
        """Take a snapshot for the mean of the last k."""
        if self.kind == "last":
            self._snapshots.append([w.clone() for w in self._weights])
            del self._snapshots[: -self.count]

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside the block the network has the averaged weights; after it, its own, bit for bit."""
        averaged = self._average()
        if averaged is None:
            yield
            return
        own = [w.clone() for w in self._weights]
        try:
            for weight, value in zip(self._weights, averaged, strict=True):
                weight.copy_(value)
            yield
        finally:
            for weight, value in zip(self._weights, own, strict=True):
                weight.copy_(value)

    def _average(self) -> list[Tensor] | None:
        if self.kind == "ema":
            return self._ema
        if self.kind == "last" and self._snapshots:
            columns = zip(*self._snapshots, strict=True)
            return [torch.stack(column).mean(0) for column in columns]
        return None

    def state_tensors(self) -> dict[str, Tensor]:
        """What a checkpoint keeps."""
        found = {"updates": torch.tensor(self.updates)}
        for name, average in zip(self._named, self._ema, strict=False):
            found[f"ema/{name}"] = average
        for number, snapshot in enumerate(self._snapshots):
            for name, value in zip(self._named, snapshot, strict=True):
                found[f"snapshot-{number:04d}/{name}"] = value
        return found

    def load_state_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """The reverse of `state_tensors`."""
        self.updates = int(tensors["updates"])
        for name, average in zip(self._named, self._ema, strict=False):
            average.copy_(tensors[f"ema/{name}"])
        numbers = sorted({name.split("/")[0] for name in tensors if name.startswith("snapshot-")})
        self._snapshots = [
            [tensors[f"{number}/{name}"].to(w.device) for name, w in self._named.items()]
            for number in numbers
        ]
