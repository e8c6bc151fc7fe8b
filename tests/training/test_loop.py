"""The loop: it learns, it stops and goes on exactly, and looking at it changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from budgerigar.errors import UserError
from budgerigar.formats.checkpoints import read_latest_checkpoint
from budgerigar.formats.metrics import cut_metrics, read_metrics
from budgerigar.formats.tensors import read_tensors
from budgerigar.layers.config import TransformerConfig
from budgerigar.training.flight_recorder import TrainingFailedError
from budgerigar.training.loop import Loop
from budgerigar.training.signals import StopRequest


def run(loop: Loop) -> Any:
    return loop.run(StopRequest())


def weights(loop: Loop) -> dict[str, torch.Tensor]:
    return {n: p.detach().clone() for n, p in loop.network.named_parameters()}


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    different = [name for name in one if not torch.equal(one[name], other[name])]
    assert not different


def without_clock(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in e.items() if k != "clock"} for e in entries]


class StopAt:
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, event: Any) -> bool:
        return bool(event.step == self.step)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_it_learns(make_loop: Any, optimizer: str) -> None:
    loop = make_loop(
        steps=40, evaluate_every=40, optimizer=optimizer, learning_rate=0.01, warmup_steps=5
    )
    run(loop)
    losses = [e["loss"] for e in read_metrics(loop.folder.metrics_path, "step")]
    assert losses[0] > 2.5
    assert losses[-1] < 2.0


@pytest.mark.parametrize(
    ("at", "changes"),
    [
        (1, {}),
        (4, {}),
        (7, {"optimizer": "muon", "accumulate": 2, "muon_momentum_warmup": 6}),
        (7, {"average": "ema", "log_every": 5}),
        (7, {"average": "last", "average_count": 2, "label_smoothing": 0.1}),
    ],
)
def test_stopped_and_resumed_is_bit_identical(make_loop: Any, at: int, changes: Any) -> None:
    whole = make_loop("whole", **changes)
    run(whole)
    first = make_loop("parts", callbacks=[StopAt(at)], **changes)
    standing = run(first)
    assert standing.step == at
    torch.rand(3)  # what happens elsewhere in the process must not matter
    second = make_loop("parts", opened=True, **changes)
    checkpoint = read_latest_checkpoint(second.folder.path)
    assert checkpoint is not None
    cut_metrics(second.folder.metrics_path, checkpoint.state["metrics_bytes"])
    second.restore(checkpoint)
    run(second)
    assert_same(weights(whole), weights(second))
    metrics = [read_metrics(loop.folder.metrics_path) for loop in (whole, second)]
    assert without_clock(metrics[0]) == without_clock(metrics[1])
    files = [read_tensors(loop.folder.weights_path) for loop in (whole, second)]
    assert_same(*files)
    assert whole.standing.best_loss == second.standing.best_loss


def test_evaluating_sampling_and_watching_change_nothing(make_loop: Any) -> None:
    class Nosy:
        def on_step(self, event: Any) -> None:
            event.network.eval()
            torch.rand(7)

        def on_evaluation(self, event: Any) -> None:
            torch.rand(7)

    def sample(network: torch.nn.Module, step: int) -> str:
        torch.rand(5)
        return "x"

    quiet = make_loop("quiet", evaluate_every=100)
    run(quiet)
    noisy = make_loop("noisy", evaluate_every=1, sample=sample, callbacks=[Nosy()])
    run(noisy)
    assert_same(weights(quiet), weights(noisy))


def test_patience_ends_the_run_and_keeps_the_best(make_loop: Any) -> None:
    losses = iter([3.0, 2.0, 2.5, 2.6, 2.7, 1.0])

    def evaluate(network: Any, whole: bool) -> Any:
        from types import SimpleNamespace

        loss = next(losses)
        return SimpleNamespace(nats_per_token=loss, bits_per_byte=loss, n_tokens=1)

    loop = make_loop(steps=60, evaluate_every=2, patience=3)
    loop.around.evaluate = evaluate
    standing = run(loop)
    assert (standing.step, standing.best_step, standing.best_loss) == (10, 4, 2.0)
    assert standing.finished
    assert read_latest_checkpoint(loop.folder.path).step == 10  # type: ignore[union-attr]


@pytest.mark.parametrize(("best_by", "kept"), [("bleu", 6), ("loss", 4)])
def test_the_best_and_patience_go_by_loss_or_bleu(
    make_loop: Any, best_by: str, kept: int, capsys: pytest.CaptureFixture[str]
) -> None:
    from types import SimpleNamespace

    losses, scores = iter([3.0, 2.0, 2.5, 2.6, 2.7, 9.0]), iter([1.0, 5.0, 7.0, 7.0, 6.0, 99.0])

    def evaluate(network: Any, whole: bool) -> Any:
        loss = next(losses)
        return SimpleNamespace(
            nats_per_token=loss, bits_per_byte=loss, n_tokens=1, bleu=next(scores)
        )

    loop = make_loop(steps=60, evaluate_every=2, patience=2, best_by=best_by)
    loop.around.evaluate = evaluate
    standing = run(loop)
    assert standing.best_step == kept
    assert standing.step == kept + 4
    best = {4: (2.0, 5.0), 6: (2.5, 7.0)}[kept]  # equal BLEU with a higher loss is no better
    assert (standing.best_loss, standing.best_bleu) == best
    said = capsys.readouterr().err
    assert f"no better {'BLEU' if best_by == 'bleu' else 'loss'} in 2 evaluations" in said
    entries = read_metrics(loop.folder.metrics_path, "evaluation")
    assert [e["bleu"] for e in entries][:3] == [1.0, 5.0, 7.0]


def test_nan_is_named_and_the_last_checkpoint_stays_good(make_loop: Any) -> None:
    loop = make_loop(steps=12)

    class Poison:
        def on_step(self, event: Any) -> None:
            if event.step == 6:
                with torch.no_grad():
                    event.network.decoder.get_submodule("1.feed_forward.up").weight[0, 0] = float(
                        "nan"
                    )

    loop = make_loop("poisoned", callbacks=[Poison()])
    with pytest.raises(TrainingFailedError) as caught:
        run(loop)
    message = str(caught.value)
    assert "step 7" in message
    assert "decoder.1.feed_forward.up.weight" in message
    assert "cat" in message or "dog" in message or "the" in message
    checkpoint = read_latest_checkpoint(loop.folder.path)
    assert checkpoint is not None
    assert checkpoint.step == 4
    assert all(torch.isfinite(t).all() for t in checkpoint.weights.values())


@pytest.mark.parametrize("poison", ["evaluation", "checkpoint", "logits"])
def test_damaged_weights_are_neither_measured_nor_saved(make_loop: Any, poison: str) -> None:
    """The last update before an evaluation or a checkpoint went wrong: no loss has shown it yet."""

    class Poison:
        def on_step(self, event: Any) -> None:
            if event.step == 6:
                weight = event.network.decoder.get_submodule("1.feed_forward.up").weight
                with torch.no_grad():
                    if poison == "logits":  # finite weights, values that are not
                        weight.mul_(1e25)
                        event.network.decoder.get_submodule("1.feed_forward.down").weight.mul_(1e25)
                    else:
                        weight[0, 0] = float("nan")

    every = {"evaluate_every": 3, "checkpoint_every": 12}
    if poison == "checkpoint":
        every = {"evaluate_every": 12, "checkpoint_every": 3}
    loop = make_loop("poisoned", steps=12, callbacks=[Poison()], **every)
    with pytest.raises(TrainingFailedError) as caught:
        run(loop)
    assert caught.value.report.step == 6
    assert "decoder.1.feed_forward" in str(caught.value)
    saved = read_tensors(loop.folder.weights_path) if loop.folder.weights_path.exists() else {}
    kept = read_latest_checkpoint(loop.folder.path)
    for tensors in (saved, kept.weights if kept else {}):
        assert all(torch.isfinite(t).all() and t.abs().max() < 1e20 for t in tensors.values())


def test_an_overflowing_value_is_named_by_layer(make_loop: Any) -> None:
    class Blow:
        def on_step(self, event: Any) -> None:
            if event.step == 3:
                part = event.network.decoder.get_submodule("0.feed_forward")
                with torch.no_grad():  # finite weights and hidden values whose product is not
                    part.up.weight.mul_(1e25)
                    part.down.weight.mul_(1e25)

    loop = make_loop(callbacks=[Blow()])
    with pytest.raises(TrainingFailedError) as caught:
        run(loop)
    assert caught.value.report.first_bad == "the value decoder.0.feed_forward.down"


def test_a_loss_that_shoots_up_stops_the_run(make_loop: Any) -> None:
    class Scale:
        def on_step(self, event: Any) -> None:
            if event.step == 5:
                with torch.no_grad():
                    event.network.embedding.tokens.weight.mul_(1000)

    loop = make_loop(steps=40, callbacks=[Scale()], learning_rate=1e-5)
    with pytest.raises(TrainingFailedError, match="shot up") as caught:
        run(loop)
    assert caught.value.report.step == 8  # the third step in a row
    assert caught.value.report.largest


def test_full_disk_during_a_checkpoint_keeps_the_one_before(
    make_loop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno

    from budgerigar.formats import atomic

    class FillDisk:
        def on_step(self, event: Any) -> None:
            if event.step == 6:
                full = OSError(errno.ENOSPC, "No space left on device")
                monkeypatch.setattr(atomic, "fsync_file", lambda path: (_ for _ in ()).throw(full))

    loop = make_loop(callbacks=[FillDisk()])
    with pytest.raises(UserError, match="disk is full"):
        run(loop)
    monkeypatch.undo()
    checkpoint = read_latest_checkpoint(loop.folder.path)
    assert checkpoint is not None
    assert checkpoint.step == 4
    names = [p.name for p in Path(loop.folder.path / "checkpoints").iterdir()]
    assert not [n for n in names if n.endswith(".partial")]


def test_bfloat16_trains_close_to_float32(make_loop: Any) -> None:
    exact, rough = make_loop("exact"), make_loop("rough", precision="bfloat16")
    torch.manual_seed(1)
    run(exact)
    torch.manual_seed(1)
    run(rough)
    losses = [
        [e["loss"] for e in read_metrics(x.folder.metrics_path, "step")] for x in (exact, rough)
    ]
    assert losses[0] == pytest.approx(losses[1], rel=0.02)
    assert losses[0] != losses[1]
    assert all(t.dtype == torch.float32 for t in read_tensors(rough.folder.weights_path).values())


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_compiling_changes_no_name_and_little_else(make_loop: Any) -> None:
    model = TransformerConfig(
        vocab_size=17, context_length=16, d_model=16, n_layers=1, n_heads=2, norm="rms",
        norm_bias=False, qk_norm="head", activation="squared-relu",
    )  # fmt: skip
    plain = make_loop("plain", model=model)
    run(plain)
    compiled = make_loop("compiled", model=model, compile=True)
    run(compiled)
    files = [read_tensors(x.folder.weights_path) for x in (plain, compiled)]
    assert files[0].keys() == files[1].keys()
    for name, tensor in files[0].items():
        torch.testing.assert_close(files[1][name], tensor, rtol=1e-3, atol=1e-4)
