"""Where a run stands: the plain numbers of a checkpoint, and torch's generators."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor


@dataclass
class Standing:
    """Numbers that change as a run goes on; all of them are in every checkpoint."""

    step: int = 0
    total_steps: int = 0
    tokens: int = 0
    best_loss: float | None = None
    best_bleu: float | None = None  # of the weights of best_step, as best_loss is
    best_accuracy: float | None = None
    best_step: int | None = None
    evaluations_since_best: int = 0
    logged_loss: float = 0.0  # sum over the steps since the last line of metrics.jsonl
    logged_smoothed: float = 0.0
    logged_steps: int = 0
    training_seconds: float = 0.0  # clock: steps only, without evaluating and saving
    seconds: float = 0.0  # clock: everything
    finished: bool = False
    spike: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Standing:
        """The reverse; keys that this version does not know are ignored."""
        known = {k: v for k, v in values.items() if k in cls.__dataclass_fields__}
        return cls(**known)


def generator_tensors() -> dict[str, Tensor]:
    """Torch's default generators (dropout's), as tensors."""
    found = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_initialized():
        for number, state in enumerate(torch.cuda.get_rng_state_all()):
            found[f"cuda-{number}"] = state
    return found


def restore_generators(tensors: dict[str, Tensor]) -> None:
    """The reverse of `generator_tensors`."""
    torch.set_rng_state(tensors["cpu"])
    if torch.cuda.is_initialized():
        for name, state in tensors.items():
            number = name.removeprefix("cuda-")
            if number.isdecimal() and int(number) < torch.cuda.device_count():
                torch.cuda.set_rng_state(state, int(number))


def plain(value: Any) -> Any:
    """Make a data cursor fit for JSON: numpy numbers and arrays become Python's."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray | Tensor):
        return value.tolist()
    return value


def prefixed(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors with `prefix/` before each name."""
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with `prefix/`, without it."""
    start = f"{prefix}/"
    return {n.removeprefix(start): t for n, t in tensors.items() if n.startswith(start)}
