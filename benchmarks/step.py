"""Training speed of `nanogpt-char-cpu`'s arithmetic, against what one would write with torch.nn.

    python benchmarks/step.py                  # about two minutes
    python benchmarks/step.py --threads 1 --rounds 5

The rival is a plain loop at the same sizes: `torch.nn.TransformerEncoderLayer` with a causal mask,
learned positions, a tied output layer, clipping, and `torch.optim.AdamW`, as it comes and fused. Each
contender lives in a process of its own (this project raises the allocator's thresholds, which would
help a rival in the same process) and sleeps while another runs. Blocks of steps alternate A B C A B
C …, the order turning each round; medians over blocks are printed, and the whole again beside one
process that keeps a core busy. Where the processor multiplies in bfloat16, which `--precision auto`
then uses, both sides are measured in it as well. Exits with 1 if our quicker precision is not at
least 1.3 times as fast as plain AdamW in float32 at the same number of threads, alone.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

BATCH, LENGTH, WIDTH, HEADS, LAYERS, VOCABULARY = 12, 64, 128, 4, 4, 65
TARGET = 1.3
OURS, PLAIN = "budgerigar", "torch.nn + AdamW"
CONTENDERS = (OURS, PLAIN, "torch.nn + fused AdamW")
ROUGH = (f"{OURS}, bfloat16", "torch.nn + fused, bfloat16")


def main() -> int:
    """Measure, print a table; 1 if the target is missed."""
    options = _options()
    context = multiprocessing.get_context("spawn")
    names = CONTENDERS + (ROUGH if _multiplies_bfloat16() else ())
    workers = {name: Worker(context, name) for name in names}
    fine = True
    try:
        for busy in (False, True):
            with Neighbour(context, busy):
                for threads in options.threads:
                    fine &= measure(workers, threads, busy, options)
    finally:
        for worker in workers.values():
            worker.close()
    return 0 if fine else 1


def _multiplies_bfloat16() -> bool:
    import torch

    from budgerigar.training.device import computes_bfloat16

    return computes_bfloat16(torch.device("cpu"))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    cores = os.cpu_count() or 1
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, cores}))
    parser.add_argument("--rounds", type=int, default=15, help="blocks per contender")
    parser.add_argument("--steps", type=int, default=10, help="steps per block")
    return parser.parse_args()


def measure(
    workers: dict[str, Worker], threads: int, busy: bool, options: argparse.Namespace
) -> bool:
    """Alternate blocks of all contenders; print tokens per second; whether the target is met."""
    for worker in workers.values():
        worker.run(threads, 3)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in workers}
    names = list(workers)
    for turn in range(options.rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            times[name].append(workers[name].run(threads, options.steps))
    wall = {name: statistics.median(w for w, _ in values) for name, values in times.items()}
    work = {name: statistics.median(p for _, p in values) for name, values in times.items()}
    ours = OURS
    print(f"\n{threads} thread(s), {'beside one busy process' if busy else 'alone'}")
    print(f"{'':30}{'ms a step':>10}{'tokens/s':>10}{'':>8}{'processor ms':>14}")
    for name in names:
        print(
            f"  {name:28}{1000 * wall[name]:10.1f}{BATCH * LENGTH / wall[name]:10,.0f}"
            f"{wall[name] / wall[ours]:6.2f} x{1000 * work[name]:12.1f}"
            f"{work[name] / work[ours]:6.2f} x",
            flush=True,
        )
    quicker = min(seconds for name, seconds in wall.items() if name.startswith(OURS))
    return busy or wall[PLAIN] / quicker >= TARGET


# -- processes -------------------------------------------------------------------------------------
class Worker:
    """One contender in its own process: `run(threads, steps)` times some steps."""

    def __init__(self, context: Any, name: str) -> None:
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(name, theirs), daemon=True)
        self._process.start()

    def run(self, threads: int, steps: int) -> tuple[float, float]:
        """Wall and processor seconds (over all threads) per step, of `steps` steps."""
        self._ours.send((threads, steps))
        wall, processor = self._ours.recv()
        return wall / steps, processor / steps

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.join()


class Neighbour:
    """`with Neighbour(context, True):` one process spins inside the block."""

    def __init__(self, context: Any, busy: bool) -> None:
        self._process = context.Process(target=_spin, daemon=True) if busy else None

    def __enter__(self) -> None:
        if self._process is not None:
            self._process.start()
            time.sleep(0.5)

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.join()


def _spin() -> None:
    parent = multiprocessing.parent_process()
    while parent is not None and parent.is_alive():  # not for ever, should the benchmark be killed
        pass


def _serve(name: str, pipe: Connection) -> None:
    import torch

    rough = "bfloat16" in name
    step = our_step(rough) if name.startswith(OURS) else torch_step("fused" in name, rough)
    while True:
        threads, steps = pipe.recv()
        torch.set_num_threads(threads)
        start, worked = time.perf_counter(), time.process_time()
        for _ in range(steps):
            step()
        pipe.send((time.perf_counter() - start, time.process_time() - worked))


# -- contenders ------------------------------------------------------------------------------------
def our_step(rough: bool) -> Callable[[], float]:
    """What the training loop does in a step, with the recipe as it stands."""
    import numpy as np

    from budgerigar import models
    from budgerigar.text.batches import WindowBatches
    from budgerigar.text.store import TokenStore
    from budgerigar.training.device import choose_compute
    from budgerigar.training.objective import accumulate_gradients, next_micro_batches
    from budgerigar.training.optimizers import Optimizers
    from budgerigar.training.recipe import load_recipe

    recipe = load_recipe("nanogpt-char-cpu")
    recipe = recipe.replace(training={"precision": "bfloat16" if rough else "float32"})
    settings, config = recipe.training, recipe.model_config(VOCABULARY)
    assert (settings.batch_size, config.context_length) == (BATCH, LENGTH)
    compute = choose_compute(settings)
    network = models.build(config, seed=0).train()
    optimizers = Optimizers(network, settings)
    text = np.random.default_rng(0).integers(0, VOCABULARY, 1_000_000).astype(np.uint16)
    counts = np.bincount(text, minlength=VOCABULARY)
    store = TokenStore(text, len(text), len(text), None, counts)
    batches = WindowBatches(store, LENGTH, BATCH, seed=0, order=settings.window_order)
    forward = compute.forward_of(network)

    def step() -> float:
        micro_batches, scored = next_micro_batches(batches, 1, compute.device)
        loss = accumulate_gradients(forward, micro_batches, scored, 0.0, compute.autocast)
        optimizers.clip()
        optimizers.step(1.0)
        optimizers.zero_grad()
        return float(loss)

    return step


def torch_step(fused: bool, rough: bool) -> Callable[[], float]:
    """The plain loop: torch's own layer and optimizer, nanoGPT's sizes."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    torch.manual_seed(0)
    layers = [
        nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True, bias=False
        )
        for _ in range(LAYERS)
    ]
    embedding, positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
    norm = nn.LayerNorm(WIDTH, bias=False)
    network = nn.ModuleList([embedding, positions, *layers, norm])
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=1e-4, betas=(0.9, 0.99), weight_decay=0.1, fused=fused or None
    )
    mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
    text = torch.randint(VOCABULARY, (1_000_000,))
    places = torch.arange(LENGTH)

    def step() -> float:
        starts = torch.randint(len(text) - LENGTH, (BATCH, 1))
        tokens, targets = text[starts + places], text[starts + places + 1]
        with torch.autocast("cpu", torch.bfloat16, enabled=rough):
            x = embedding(tokens) + positions(places)
            for layer in layers:
                x = layer(x, src_mask=mask, is_causal=True)
            logits = F.linear(norm(x), embedding.weight)
        loss = F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return step


if __name__ == "__main__":
    sys.exit(main())
