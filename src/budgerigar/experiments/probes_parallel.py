"""`--probe parallel`: the LSTM's other trouble. No step of a recurrent network can begin before the
one before it has ended, so a longer text is not quicker to train on however many cores there are;
attention treats all positions at once. In writing it is the other way round: a recurrent step costs
the same at any position, attention reads a cache that grows.

B rows, T positions, V vocab_size.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from budgerigar import progress
from budgerigar.experiments.compare_models import count_parameters
from budgerigar.experiments.probes import Chart, Probe, keep, kept, probe_folder
from budgerigar.layers.config import TransformerConfig
from budgerigar.models import build
from budgerigar.models.ancestor_configs import RecurrentConfig

NAMES = ("rnn", "lstm", "transformer")


@dataclass(frozen=True)
class Sizes:
    """How large the probe is."""

    lengths: tuple[int, ...] = (16, 32, 64, 128, 256, 512, 1024)
    """sequence lengths of training, with as many rows as fill `tokens`"""
    tokens: int = 4096
    """per training step, at every length"""
    alone: bool = True
    """also one row of each length: nothing else to do at the same time"""
    positions: tuple[int, ...] = (16, 64, 256, 1024, 2048)
    """positions at which a step of writing is timed"""
    width: int = 128
    vocab_size: int = 256
    repeats: int = 5


QUICK = Sizes(lengths=(16, 64, 256), tokens=1024, positions=(16, 128, 512), width=64, repeats=3)


def parallel(
    *,
    seed: int = 1,
    sizes: Sizes | None = None,
    quick: bool = False,
    threads: str | int = "auto",
    out: Path | None = None,
) -> Probe:
    """Time training steps by sequence length, and writing steps by position."""
    sizes = sizes or (QUICK if quick else Sizes())
    if threads != "auto":
        torch.set_num_threads(int(threads))
    settings = {**asdict(sizes), "seed": seed, "threads": torch.get_num_threads()}
    folder = probe_folder(out, "parallel", settings)
    found = {name: kept(folder, name) or _timed(name, sizes, seed, folder) for name in NAMES}
    return _probe(found, sizes, seed, folder).write()


def configs(sizes: Sizes) -> dict[str, Any]:
    """Networks of one width, the Transformer with as many layers as an LSTM has weights for."""
    longest = max(*sizes.lengths, *sizes.positions) + 1
    width, vocab_size = sizes.width, sizes.vocab_size
    return {
        "rnn": RecurrentConfig(vocab_size, "elman", 1, width, 2 * width),
        "lstm": RecurrentConfig(vocab_size, "lstm", 1, width, 2 * width),
        "transformer": TransformerConfig(
            vocab_size=vocab_size,
            context_length=longest,
            n_layers=2,
            n_heads=4,
            d_model=width,
            positions="rotary",
        ),
    }


def _timed(name: str, sizes: Sizes, seed: int, folder: Path) -> dict[str, Any]:
    network = build(configs(sizes)[name].validate(), seed=seed)
    full = {n: _training(network, n, max(sizes.tokens // n, 1), sizes) for n in sizes.lengths}
    alone = {n: _training(network, n, 1, sizes) for n in sizes.lengths} if sizes.alone else {}
    found: dict[str, Any] = {"training": list(full.values()), "alone": list(alone.values())}
    found["writing"], found["carried"] = _writing(network, sizes)
    keep(folder, name, found)
    progress.note(f"{name}: timed")
    return found


def best_seconds(run: Callable[[], object], repeats: int) -> float:
    """The quickest of some runs after a first one: what the work takes undisturbed."""
    run()
    times = []
    for _ in range(repeats):
        before = time.perf_counter()
        run()
        times.append(time.perf_counter() - before)
    return max(min(times), 1e-9)


def _training(network: Any, length: int, rows: int, sizes: Sizes) -> float:
    """Tokens a second of forward and backward passes."""
    draws = torch.Generator().manual_seed(length)
    tokens = torch.randint(sizes.vocab_size, (rows, length + 1), generator=draws)

    def step() -> None:
        logits = network(tokens[:, :-1])
        cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
        network.zero_grad(set_to_none=True)

    network.train()
    return rows * length / best_seconds(step, sizes.repeats)


@torch.inference_mode()
def _writing(network: Any, sizes: Sizes) -> tuple[list[float], list[int]]:
    """(seconds of a step of one token at each position, bytes carried there)."""
    network.eval()
    seconds, carried = [], []
    for position in sizes.positions:
        tokens = torch.arange(position)[None] % sizes.vocab_size
        _, state = network.step(tokens, network.start(1))
        carried.append(int(state.nbytes))
        row, one = torch.tensor([0]), tokens[:, :1]
        states = [state.select(row) for _ in range(2 * sizes.repeats + 1)]

        def step(left: list[Any] = states, token: Any = one) -> None:
            network.step(token, left.pop())  # the state is consumed

        seconds.append(best_seconds(step, 2 * sizes.repeats))
    return seconds, carried


def _probe(found: dict[str, Any], sizes: Sizes, seed: int, folder: Path) -> Probe:
    lengths = [float(n) for n in sizes.lengths]
    positions = [float(n) for n in sizes.positions]

    def by(part: str, xs: list[float], factor: float = 1.0) -> dict[str, list[tuple[float, float]]]:
        return {
            name: [(x, factor * y) for x, y in zip(xs, one[part], strict=True)]
            for name, one in found.items()
        }

    charts = [
        Chart("training", f"training, {sizes.tokens:,} tokens a step", "tokens of a sequence",
              "tokens/s", by("training", lengths), log_y=True),
        Chart("alone", "training, one sequence a step", "tokens of a sequence", "tokens/s",
              by("alone", lengths), log_y=True),
        Chart("writing", "writing one token", "position", "ms", by("writing", positions, 1e3)),
    ]  # fmt: skip
    counted = {name: count_parameters(config) for name, config in configs(sizes).items()}
    rows = [
        (
            name,
            f"{counted[name]:,}",
            *(f"{v:,.0f}" for v in one["training"]),
            *(f"{1e3 * v:.2f}" for v in one["writing"]),
            *(f"{one['carried'][n]:,}" for n in (0, -1)),
        )
        for name, one in found.items()
    ]
    ends = sizes.positions[0], sizes.positions[-1]
    return Probe(
        name="parallel",
        title="What can be done at the same time",
        about=f"Training tokens/s at each sequence length ({sizes.tokens:,} tokens a step, as many "
        "sequences as that takes); milliseconds to write one token at each position; bytes carried. "
        f"{torch.get_num_threads()} threads, the best of {sizes.repeats} runs, seed {seed}.",
        seed=seed,
        head=(
            "model",
            "weights",
            *(f"T={n:,}" for n in sizes.lengths),
            *(f"ms at {n:,}" for n in sizes.positions),
            *(f"bytes at {n:,}" for n in ends),
        ),
        rows=tuple(rows),
        charts=tuple(c for c in charts if c.name != "alone" or sizes.alone),
        says=tuple(_says(found, sizes)),
        numbers={"sizes": asdict(sizes), "parameters": counted, "models": found},
        folder=folder,
    )


def _says(found: dict[str, Any], sizes: Sizes) -> list[str]:
    short, long = sizes.lengths[0], sizes.lengths[-1]
    first, last = sizes.positions[0], sizes.positions[-1]
    said = []
    for name, one in found.items():
        times = {part: values[-1] / values[0] for part, values in one.items() if values}
        words = f"{name}: with sequences of {long:,} tokens it trains at {times['training']:.2f} "
        words += f"times the speed of {short}"
        if "alone" in times:
            words += f" (one sequence at a time: {times['alone']:.1f} times)"
        said.append(
            f"{words}; to write at position {last:,} takes {times['writing']:.1f} times what it takes "
            f"at {first}, and {times['carried']:.0f} times the bytes are carried."
        )
    return said
