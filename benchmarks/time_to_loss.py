"""Training time to a loss: recipe `shakespeare` against `nanogpt-char-cpu`, beside each other.

    python benchmarks/time_to_loss.py ../shared/data/tinyshakespeare.txt       # half an hour
    python benchmarks/time_to_loss.py FILE --seeds 1 --minutes 0               # one pair only

For each seed the two runs advance in turns, a slice of the one and a slice of the other, through the
same training room, so that whatever else the machine does falls on both. `shakespeare` gets as many
steps as fill the other's training time, judged by timing both first. The clocks count training steps
alone, not evaluation or data preparation. Losses are windowed, over the whole validation split, nats
per character. After the pairs one longer run of `shakespeare` shows when it passes the best n-gram.

Everything can be stopped and started again: runs live in `--work`, finished ones are lines of its
`finished.jsonl`. Exits with 1 if a target is missed (5 times less time to the other's final loss,
median over seeds; 1.60 in its whole time; 1.517 passed).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

from budgerigar.formats.metrics import read_metrics
from budgerigar.progress import note
from budgerigar.training.corpora import gather_corpus
from budgerigar.training.recipe import Recipe, load_recipe, override
from budgerigar.training.run import TrainedRun, train

YARDSTICK, OURS = "nanogpt-char-cpu", "shakespeare"
TIMES_LESS, SAME_TIME_LOSS, NGRAM_LOSS = 5.0, 1.60, 1.517
SLICES = 20  # turns in which a pair of runs advances
EVALUATIONS = 80  # of our run; a crossing is known to that share of its time


def main() -> int:
    """Continue what is unfinished, then print the table; 1 if a target is missed."""
    options = _options()
    options.work.mkdir(parents=True, exist_ok=True)
    log = options.work / "finished.jsonl"
    done = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    corpus = gather_corpus(load_recipe(OURS).text, [options.file])
    for seed in options.seeds:
        if not any(run["kind"] == "pair" and run["seed"] == seed for run in done):
            done.append(_finish(log, pair(corpus, seed, options)))
    if options.minutes and not any(run["kind"] == "long" for run in done):
        done.append(_finish(log, long_run(corpus, options)))
    return report(done)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("file", type=Path, help="tinyshakespeare.txt")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--minutes", type=float, default=6.0, help="length of the long run; 0: none"
    )
    parser.add_argument(
        "--precision",
        choices=("float32", "bfloat16", "auto"),
        default="float32",
        help="of our runs; the yardstick computes in float32, as nanoGPT does on a CPU",
    )
    parser.add_argument("--work", type=Path, default=Path("runs/time-to-loss"))
    return parser.parse_args()


def _finish(log: Path, run: dict[str, Any]) -> dict[str, Any]:
    with log.open("a") as file:
        file.write(json.dumps(run) + "\n")
    return run


# -- training --------------------------------------------------------------------------------------
class PauseAt:
    """Asks a run to stop, with its state saved, after a given step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, event: Any) -> bool:
        """True at the step."""
        return bool(event.step >= self.step)


def advance(recipe: Recipe, corpus: Any, folder: Path, until: int) -> TrainedRun:
    """Start or go on with the run in `folder`, up to a step."""
    callbacks = [PauseAt(until)]
    if folder.exists():
        return train(resume=folder, corpus=corpus, callbacks=callbacks)
    return train(recipe, corpus=corpus, out=folder, callbacks=callbacks)


def common(seed: int, threads: int) -> dict[str, Any]:
    """Settings that both recipes get; none changes what is learnt but the seed."""
    quiet = {"baselines": False, "sample_every": 0, "checkpoint_every": 10**9}
    return {"seed": seed, "threads": str(threads), **quiet}


def pair(corpus: Any, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Both recipes in turns; what each reached and when."""
    yardstick = override(load_recipe(YARDSTICK), common(seed, options.threads))
    settings = common(seed, options.threads) | {"precision": options.precision}
    ours = override(load_recipe(OURS), settings)
    places = {name: options.work / f"{name}-seed{seed}" for name in (YARDSTICK, OURS)}
    total = yardstick.training.steps
    assert total is not None
    if places[OURS].exists():
        steps = int(_stored_steps(places[OURS]))
    else:
        steps = round(total * relative_speed(yardstick, ours, corpus, options.threads))
    ours = ours.replace(
        training={"steps": steps, "minutes": None, "evaluate_every": max(1, steps // EVALUATIONS)}
    )
    note(f"seed {seed}: {total} steps of {YARDSTICK}, {steps} of {OURS}")
    for part in range(1, SLICES + 1):
        base = advance(yardstick, corpus, places[YARDSTICK], total * part // SLICES)
        mine = advance(ours, corpus, places[OURS], steps * part // SLICES)
    return {
        "kind": "pair",
        "seed": seed,
        "threads": options.threads,
        "yardstick": {
            "seconds": base.report["training_seconds"],
            "loss": curve(base.folder)[-1][1],
            "steps": total,
        },
        "seconds": mine.report["training_seconds"],
        "steps": steps,
        "curve": curve(mine.folder),
    }


def long_run(corpus: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Our recipe with a longer budget."""
    seed, folder = options.seeds[0], options.work / f"{OURS}-long"
    settings = common(seed, options.threads)
    settings |= {"checkpoint_every": None, "precision": options.precision}
    recipe = override(load_recipe(OURS), settings)
    recipe = recipe.replace(training={"evaluate_every": 50})
    if folder.exists():
        run = train(resume=folder, corpus=corpus)
    else:
        run = train(recipe, corpus=corpus, out=folder, minutes=options.minutes)
    return {
        "kind": "long",
        "seed": seed,
        "threads": options.threads,
        "seconds": run.report["training_seconds"],
        "steps": run.report["total_steps"],
        "curve": curve(run.folder),
    }


def relative_speed(yardstick: Recipe, ours: Recipe, corpus: Any, threads: int) -> float:
    """Steps of ours in the time of one of the yardstick's; steps alternate, medians decide."""
    import torch

    from budgerigar import models
    from budgerigar.training.device import choose_compute
    from budgerigar.training.run import make_batches
    from budgerigar.training.timing import StepTimer

    timers = []
    for recipe in (yardstick, ours):
        network = models.build(recipe.model_config(corpus.tokenizer.vocab_size), seed=0)
        batches = make_batches(recipe, corpus, network)
        compute = choose_compute(recipe.training)
        timers.append(StepTimer(network, batches, recipe.training, compute))
    torch.set_num_threads(threads)
    times = [[timer.seconds() for timer in timers] for _ in range(80)][10:]
    medians = [statistics.median(column) for column in zip(*times, strict=True)]
    return medians[0] / medians[1]


def _stored_steps(folder: Path) -> int:
    steps = load_recipe(folder / "recipe.toml").training.steps
    assert steps is not None
    return steps


def curve(folder: Path) -> list[tuple[float, float]]:
    """(training seconds, loss) of every evaluation."""
    entries = read_metrics(folder / "metrics.jsonl", "evaluation")
    return [(e["clock"]["training_seconds"], round(e["loss"], 5)) for e in entries]


# -- report ----------------------------------------------------------------------------------------
def crossing(points: list[tuple[float, float]], loss: float) -> float | None:
    """Training seconds of the first evaluation at or below `loss`."""
    return next((seconds for seconds, reached in points if reached <= loss), None)


def within(points: list[tuple[float, float]], seconds: float) -> float:
    """Best loss evaluated within a training time."""
    return min((loss for at, loss in points if at <= seconds), default=float("inf"))


def report(done: list[dict[str, Any]]) -> int:
    """Print all runs and the medians; 1 if a target is missed."""
    pairs = [run for run in done if run["kind"] == "pair"]
    ratios, same_time = [], []
    print(f"{'seed':>6}{YARDSTICK:>28}{OURS + ': to that loss':>30}{'in that time':>16}")
    for run in pairs:
        seconds, loss = run["yardstick"]["seconds"], run["yardstick"]["loss"]
        reached = crossing(run["curve"], loss)
        ratios.append(seconds / reached if reached else 0.0)
        # our step count was an estimate: a run that ended 1 % late is judged where it ended
        same_time.append(
            within(run["curve"], max(seconds, min(run["seconds"] + 0.001, 1.01 * seconds)))
        )
        print(
            f"{run['seed']:6}{loss:18.4f} in {seconds:5.1f} s"
            f"{reached or float('nan'):20.1f} s, {ratios[-1]:4.1f} x{same_time[-1]:16.4f}"
        )
    fine = True
    if pairs:
        ratio, loss = statistics.median(ratios), statistics.median(same_time)
        print(f"median: {ratio:.1f} times less (target {TIMES_LESS}); {loss:.4f} in the same time")
        fine = ratio >= TIMES_LESS and loss <= SAME_TIME_LOSS
    for run in done:
        if run["kind"] == "long":
            passed = crossing(run["curve"], NGRAM_LOSS)
            best = min(loss for _, loss in run["curve"])
            when = f"after {passed / 60:.2f} minutes" if passed else "not"
            print(f"{NGRAM_LOSS} passed {when}; {best:.4f} in {run['seconds'] / 60:.1f} minutes")
            fine &= passed is not None
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
