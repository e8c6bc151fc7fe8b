"""Measuring steps touches nothing of the run; choosing threads follows the numbers."""

from __future__ import annotations

from typing import Any

import torch

from budgerigar.training.device import choose_compute
from budgerigar.training.pace import Pace
from budgerigar.training.timing import StepTimer, choose_threads, thread_candidates


class Clock:
    """A timer whose steps take what the table says for torch's current number of threads."""

    def __init__(self, seconds: dict[int, float]) -> None:
        self.table = seconds

    def seconds(self) -> float:
        return self.table[torch.get_num_threads()]


def test_candidates() -> None:
    assert thread_candidates(1) == [1]
    assert thread_candidates(2) == [1, 2]
    assert thread_candidates(6) == [1, 2, 4, 6]


def test_the_quickest_wins_and_nearly_equal_goes_to_fewer() -> None:
    before = torch.get_num_threads()
    assert choose_threads(Clock({1: 1.0, 2: 0.55, 4: 0.9}), [1, 2, 4])[0] == 2  # type: ignore[arg-type]
    assert choose_threads(Clock({1: 1.0, 2: 0.99}), [1, 2])[0] == 1  # type: ignore[arg-type]
    best, measured = choose_threads(Clock({1: 1.0, 2: 3.0}), [1, 2, 4])  # type: ignore[arg-type]
    assert best == 1
    assert 4 not in measured  # two being far slower, four are not tried
    assert torch.get_num_threads() == before


def test_measuring_leaves_weights_cursor_and_generators(make_loop: Any) -> None:
    loop = make_loop(optimizer="muon")
    weights = {n: p.detach().clone() for n, p in loop.network.named_parameters()}
    cursor, state = loop.batches.state_dict(), torch.get_rng_state()
    from budgerigar.training.events import untouched

    with untouched(loop.network):
        timer = StepTimer(loop.network, loop.batches, loop.settings, choose_compute(loop.settings))
        assert timer.seconds() > 0
    assert all(torch.equal(weights[n], p) for n, p in loop.network.named_parameters())
    assert loop.batches.state_dict() == cursor
    assert torch.equal(torch.get_rng_state(), state)


def test_pace_notices_that_throughput_halved() -> None:
    pace = Pace()
    for _ in range(60):
        pace.add(100, 0.01)
    assert not pace.halved()
    for _ in range(30):
        pace.add(100, 0.03)
    assert pace.halved()


def test_threads_are_timed_again_when_the_pace_halves(make_loop: Any, monkeypatch: Any) -> None:
    from budgerigar.formats.metrics import read_metrics
    from budgerigar.training import loop as module
    from budgerigar.training.signals import StopRequest

    monkeypatch.setattr(module, "usable_cores", lambda: 2)
    monkeypatch.setattr(module, "choose_threads", lambda timer: (2, {1: 2.0, 2: 1.0}))
    loop = make_loop(threads="auto")
    monkeypatch.setattr(loop.pace, "halved", lambda: loop.standing.step == 5)
    loop.run(StopRequest())
    torch.set_num_threads(1)
    changes = read_metrics(loop.folder.metrics_path, "threads")
    assert [(e["step"], e["from"], e["to"]) for e in changes] == [(5, 1, 2)]


def test_batches_of_different_sizes_are_measured_together(make_loop: Any, monkeypatch: Any) -> None:
    """Pairs: the mean over several batches, and the cursor is where it was."""
    from budgerigar.training import timing

    class Varied:
        """Batches 1 to 4 tokens long, as pairs give them."""

        def __init__(self) -> None:
            self.count = 0

        def next(self) -> Any:
            self.count += 1
            tokens = torch.zeros(1, 1 + self.count % 4, dtype=torch.long)
            inputs = {"tokens": tokens, "source": tokens}
            return type("Batch", (), {"targets": tokens, "inputs": lambda _self: inputs})()

        def state_dict(self) -> dict[str, Any]:
            return {"count": self.count}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            self.count = state["count"]

    loop = make_loop()
    seen: list[int] = []

    def arithmetic(forward: Any, micro_batches: Any, scored: int, *rest: Any) -> None:
        seen.append(scored)

    monkeypatch.setattr(timing, "accumulate_gradients", arithmetic)
    monkeypatch.setattr(timing.Optimizers, "clip", lambda self: None)
    monkeypatch.setattr(timing.Optimizers, "step", lambda self, factor: None)
    batches = Varied()
    compute = choose_compute(loop.settings)
    step = timing.measure_steps(loop.network, batches, loop.settings, compute, seconds=0.0)
    assert step.tokens == 2.5
    assert sorted(seen[1:]) == [1, 1, 2, 2, 3, 3, 4, 4]  # after the first, which warms up
    assert batches.count == 0
