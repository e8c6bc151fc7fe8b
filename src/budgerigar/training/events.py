"""What a running training tells those who watch it.

A callback is any object with some of `on_step(event)`, `on_evaluation(event)`, `on_sample(event)`.
Returning `True` from one asks the run to stop as if it had been interrupted: its state is saved.
Looking at `event.network` never changes training: generators and mode are put back afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

SAMPLE_SHOWN = 150  # characters of a sample in the running log


@dataclass(frozen=True)
class StepEvent:
    """After each update. `loss` is the true cross-entropy of the batch, nats per token."""

    step: int
    total_steps: int
    loss: float
    learning_rate: float
    gradient_norm: float
    tokens: int
    tokens_per_second: float
    training_seconds: float
    seconds_left: float
    network: Any
    tokenizer: Any


@dataclass(frozen=True)
class EvaluationEvent:
    """After each evaluation. `evaluation` is what `budgerigar.evaluation.evaluate` returns."""

    step: int
    total_steps: int
    loss: float
    bits_per_byte: float | None
    is_best: bool
    baselines: dict[str, float]
    training_seconds: float
    evaluation: Any
    network: Any
    tokenizer: Any
    bleu: float | None = None
    """of greedy translations of the first validation sentences; None: nothing was translated"""


@dataclass(frozen=True)
class Translated:
    """A validation sentence, its reference, and what the network made of it."""

    source: str
    reference: str
    hypothesis: str

    def as_dict(self) -> dict[str, str]:
        """Plain values for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Written:
    """A sample: text that the network wrote by itself, or translations with their text together."""

    text: str
    translations: tuple[Translated, ...] = ()


@dataclass(frozen=True)
class SampleEvent:
    """A piece of text the network wrote by itself, or some translations."""

    step: int
    text: str
    translations: tuple[Translated, ...] = ()


class Watchers:
    """Calls callbacks without letting them touch dropout's generator or the network's mode."""

    def __init__(self, callbacks: Iterable[Any], network: torch.nn.Module) -> None:
        self._network = network
        callbacks = list(callbacks)
        self._methods = {
            name: [getattr(c, name) for c in callbacks if hasattr(c, name)]
            for name in ("on_step", "on_evaluation", "on_sample")
        }

    def wants(self, name: str) -> bool:
        """Whether anybody listens, so that an event need not be made in vain."""
        return bool(self._methods[name])

    def tell(self, name: str, event: Any) -> bool:
        """Call all; True when one of them asks to stop."""
        if not self._methods[name]:
            return False
        with untouched(self._network):
            answers = [method(event) for method in self._methods[name]]  # all of them, always
        return any(answer is True for answer in answers)


class untouched:  # noqa: N801  reads as a phrase: `with untouched(network):`
    """Put torch's default generators and the network's mode back at the end of a block.

    Torch's default generator belongs to dropout alone; whatever else happens between two steps
    (evaluating, sampling, looking) must leave it as it was, or looking would change the training.
    """

    def __init__(self, network: torch.nn.Module) -> None:
        self._network = network

    def __enter__(self) -> None:
        self._modes = [(module, module.training) for module in self._network.modules()]
        self._state = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []

    def __exit__(self, *_: object) -> None:
        torch.set_rng_state(self._state)
        if self._cuda:
            torch.cuda.set_rng_state_all(self._cuda)
        for module, mode in self._modes:  # each its own: a frozen part stays frozen
            module.training = mode


def beside(loss: float, baselines: Mapping[str, float]) -> str:
    """In words, the nearest simple model that is still better, or the best one that is beaten."""
    if not baselines:
        return ""
    better = {name: value for name, value in baselines.items() if value < loss}
    if better:
        name = max(better, key=lambda n: better[n])
        return f"; not yet below the {name}'s {better[name]:.3f}"
    name = min(baselines, key=lambda n: baselines[n])
    return f"; below the {name}'s {baselines[name]:.3f}"


def on_one_line(sample: str) -> str:
    """The beginning of a sample for the running log; metrics.jsonl has all of it."""
    line = " ↵ ".join(part for part in sample.split("\n") if part)
    return line if len(line) <= SAMPLE_SHOWN else f"{line[:SAMPLE_SHOWN]}…"
