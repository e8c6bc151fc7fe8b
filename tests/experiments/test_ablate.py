"""A tiny ablation end to end; cells, statistics and words by hand."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import budgerigar as bg
from budgerigar.errors import UserError
from budgerigar.evaluation import evaluate
from budgerigar.experiments import ablate as ablate_module
from budgerigar.experiments.ablate_dials import Dial, folder_name, label, lay_out
from budgerigar.experiments.ablate_results import Ablation, CellResult, RunResult
from budgerigar.experiments.ablate_statistics import holm, inside, paired, quantile
from budgerigar.experiments.ablate_words import decision, findings, rows, span, verdicts
from budgerigar.experiments.demo_runs import StoppedError
from budgerigar.formats.run import load_model
from budgerigar.text.corpus import prepare
from budgerigar.training.recipe import load_recipe

TEXT = "the cat sat on the mat . the dog sat on the log . a bird sang . " * 30
TINY: dict[str, Any] = {
    "n_layers": 1, "n_heads": 2, "d_model": 16, "d_ff": 16, "context_length": 16, "batch_size": 2,
    "steps": 4, "tokenizer": "character", "threads": 1, "device": "cpu", "precision": "float32",
}  # fmt: skip
DIALS = {"positions": ["rotary", "none"], "norm_place": "pre,post"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ablate")
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def found(place: Path) -> Ablation:
    return bg.ablate("shakespeare", DIALS, place / "text.txt", seeds=2, out=place / "all", **TINY)


# -- statistics ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("freedom", "t"), [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (30, 2.0423)]
)
def test_the_textbooks_table_of_student(freedom: int, t: float) -> None:
    assert quantile(0.95, freedom) == pytest.approx(t, abs=6e-5)


@pytest.mark.parametrize("freedom", [1, 2, 5, 8, 19])
def test_student_is_the_integral_of_its_density(freedom: int) -> None:
    x = np.linspace(-1.7, 1.7, 20_001)
    scale = math.gamma((freedom + 1) / 2) / math.gamma(freedom / 2) / math.sqrt(freedom * math.pi)
    density = scale * (1 + x**2 / freedom) ** (-(freedom + 1) / 2)
    assert inside(1.7, freedom) == pytest.approx(np.trapezoid(density, x), abs=1e-7)


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, None, 0.005]) == pytest.approx([0.03, 0.06, 0.06, None, 0.02])
    assert holm([0.7, 0.9]) == [1.0, 1.0]


def test_a_paired_difference_by_hand() -> None:
    d = paired([0.1, 0.2, 0.3])  # t = 0.2 / (0.1 / sqrt 3) = 3.4641, 2 degrees of freedom
    assert (d.n, d.mean, d.deviation) == (3, pytest.approx(0.2), pytest.approx(0.1))
    assert d.p == pytest.approx(0.0742, abs=1e-4)
    assert (d.low, d.high) == (pytest.approx(-0.0484, abs=1e-4), pytest.approx(0.4484, abs=1e-4))
    assert paired([0.0, 0.0]).p == 1
    assert paired([0.5, 0.5]).p == 0
    assert paired([0.5]).low is None


def test_noise_is_seldom_called_a_difference() -> None:
    """Of 200 families of nine comparisons of pure noise about 5 % may have one that counts."""
    draws = np.random.default_rng(1).normal(size=(200, 9, 3))
    families = [holm([paired(list(cell)).p for cell in family]) for family in draws]
    wrong = sum(any(p is not None and p < 0.05 for p in family) for family in families)
    assert wrong / 200 < 0.08


# -- dials and cells -------------------------------------------------------------------------------


def cells(dials: dict[str, Any], **more: Any) -> list[str]:
    layout = lay_out(load_recipe("shakespeare"), dials, **more)
    return [label(layout.dials, cell.values) for cell in layout.cells]


def test_the_matrix_and_one_at_a_time() -> None:
    dials = {"positions": "alibi,rotary", "training.learning-rate": ["0.01", 0.02]}
    assert cells(dials) == [
        "positions=rotary learning_rate=0.01",  # the recipe's own: the base
        "positions=alibi learning_rate=0.01",
        "positions=alibi learning_rate=0.02",
        "positions=rotary learning_rate=0.02",
    ]
    assert cells({"positions": "alibi,none", "n_layers": "2,6"}, one_at_a_time=True) == [
        "positions=rotary n_layers=4",
        "positions=alibi n_layers=4",
        "positions=none n_layers=4",
        "positions=rotary n_layers=2",
        "positions=rotary n_layers=6",
    ]
    assert cells({"positions": "alibi,none"}) == ["positions=alibi", "positions=none"]


def test_values_are_of_the_settings_type() -> None:
    recipe = load_recipe("shakespeare")
    layout = lay_out(recipe, {"n_kv_heads": "none,1", "residual": "true,off", "clip": "0,1"})
    assert [dial.values for dial in layout.dials] == [(None, 1), (True, False), (0.0, 1.0)]
    assert "n_kv_heads" not in layout.cells[0].recipe.to_dict()["model"]
    assert layout.cells[-1].recipe.model["residual"] is False
    assert [
        type(v) for v in lay_out(recipe, {"muon_learning_rate": [1, 0.06]}).dials[0].values
    ] == [
        float,
        float,
    ]


def test_combinations_without_meaning_are_left_out_with_words() -> None:
    recipe = load_recipe("shakespeare")
    layout = lay_out(recipe, {"d_model": "96,80", "n_heads": "3,5,4"})
    assert len(layout.cells) == 4  # 80 has no 3 heads, 96 has no 5
    assert [words for words, _ in layout.skipped][:2] == [
        "d_model=96 n_heads=5",
        "d_model=80 n_heads=3",
    ]
    assert "not a multiple" in layout.skipped[0][1]
    layout = lay_out(recipe, {"positions": "rotary,none", "rotary_base": "10000,1e5"})
    assert len(layout.cells) == 3
    assert layout.skipped[0][0] == "positions=none rotary_base=100000"
    assert "rotary_base having no effect there" in layout.skipped[0][1]


@pytest.mark.parametrize(
    ("dials", "words"),
    [
        ({}, "no dial is named"),
        ({"positons": "a,b"}, "did you mean 'positions'"),
        ({"foo": "1,2"}, "norm_place"),
        ({"text.positions": "a,b"}, "text's"),
        ({"nets.positions": "rotary,none"}, "model.NAME or training.NAME"),
        ({"positions": "rotary,lerned"}, "did you mean 'learned'"),
        ({"positions": "rotary"}, "nothing to be compared with"),
        ({"positions": "rotary,rotary"}, "twice"),
        ({"positions": "rotary,none", "model.positions": "alibi,none"}, "named twice"),
        ({"seed": "1,2"}, "--seeds"),
        ({"steps": "1,2"}, "budget"),
        ({"threads": "1,2"}, "changes nothing"),
        ({"kind": "recurrent,transformer"}, "budgie compare"),
        ({"tokenizer": "character,bpe"}, "bits per byte"),
        ({"layers": "1,2"}, "list or table"),
        ({"n_layers": "2,1.5"}, "a whole number"),
        ({"learning_rate": "nan,0.1"}, "a number"),
        ({"learning_rate": [math.nan, 0.1]}, "finite"),
        ({"learning_rate": "-1,0.1"}, "at least 0"),
        ({"clip": "none,1"}, "cannot be said"),
        ({"d_model": "96,97"}, "not a multiple"),
        ({"positions": "none,alibi", "rotary_base": "1,2"}, "for positions rotary"),
        ({"assembly": "decoder-only,encoder-only"}, "different tasks"),
    ],
)
def test_what_cannot_be_a_dial(dials: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match="this ablation cannot be run") as error:
        cells(dials)
    assert words in str(error.value)


def test_all_problems_at_once() -> None:
    with pytest.raises(UserError) as error:
        cells({"positons": "a,b", "d_modle": "1,2", "n_layers": "x,1"})
    assert all(name in str(error.value) for name in ("positons", "d_modle", "n_layers=x"))


def test_folders_are_apart_and_stay() -> None:
    one, other = (Dial("training", "embedding_from", ("a/b", "a-b"), "a/b") for _ in range(2))
    names = {folder_name([one], ["a/b"]), folder_name([one], ["a-b"])}
    assert len(names) == 2
    assert folder_name([other], ["a/b"]) in names
    assert not any("/" in name for name in names)


# -- end to end ------------------------------------------------------------------------------------


def test_each_run_is_scored_on_the_whole_split(found: Ablation, place: Path) -> None:
    corpus = prepare(place / "text.txt", tokenizer="character")
    assert found.base.label == "positions=rotary norm_place=pre"
    assert len(found.cells) == 4
    for cell in found.cells:
        assert [run.seed for run in cell.runs] == [1, 2]
        for run in cell.runs:
            again = evaluate(load_model(run.folder).network, corpus.validation)
            assert run.bits_per_byte == pytest.approx(again.bits_per_byte, rel=1e-5)
    assert found.n_tokens == corpus.validation.n_tokens - 1
    for cell, difference in zip(found.cells[1:], found.differences[1:], strict=True):
        own, base = (c.by_seed("bits_per_byte") for c in (cell, found.base))
        assert difference is not None
        assert difference.mean == pytest.approx(np.mean([own[s] - base[s] for s in (1, 2)]))
    assert [effect.settings for effect in found.effects] == [2, 2]


def test_files(found: Ablation) -> None:
    lines = list(csv.DictReader((found.folder / "runs.csv").open()))
    assert len(lines) == 8
    assert {line["positions"] for line in lines} == {"rotary", "none"}
    assert len(list(csv.DictReader((found.folder / "cells.csv").open()))) == 4
    page = (found.folder / "ablate.html").read_text()
    assert page.count("<svg") == 2
    assert "Holm" in page
    for name in ("cells.png", "effects.png", "cells.svg"):
        assert (found.folder / name).stat().st_size > 1000
    values = json.loads(json.dumps(found.as_dict(), default=str))
    assert values["cells"][1]["difference"]["n"] == 2
    assert values["dials"]["norm_place"] == ["pre", "post"]
    assert "●" in str(found)


def test_what_is_finished_is_read(
    found: Ablation,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("budgerigar.training.run.train", None)
    text, out = place / "text.txt", place / "all"
    assert bg.ablate("shakespeare", DIALS, text, seeds=2, out=out, **TINY).cells == found.cells
    assert "8 of 8 runs are finished" in capsys.readouterr().err
    with pytest.raises(UserError, match=r"another steps|another evaluate_every, steps"):
        bg.ablate("shakespeare", DIALS, text, seeds=2, out=out, **{**TINY, "steps": 5})
    with pytest.raises(UserError, match="holds no ablation"):
        bg.ablate("shakespeare", DIALS, text, out=place, **TINY)
    (place / "other.txt").write_text(TEXT + "more of it", encoding="utf-8")
    with pytest.raises(UserError, match="another text"):
        bg.ablate("shakespeare", DIALS, place / "other.txt", out=out, **TINY)


def test_it_goes_on_where_it_stopped(
    found: Ablation, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run stopped after two steps ends as the one that was not; a value more trains that alone."""
    calls: list[int] = []

    def stop(_self: Any, event: Any) -> bool:
        calls.append(event.step)
        return len(calls) == 2

    text, out = place / "text.txt", place / "stopped"
    dials = {"positions": "rotary,none", "norm_place": "post,pre"}
    one_seed = {**TINY, "norm_place": "post", "checkpoint_every": 1}
    with monkeypatch.context() as patch:
        patch.setattr(ablate_module._Counter, "on_step", stop)
        with pytest.raises(StoppedError):
            bg.ablate("shakespeare", dials, text, seeds=1, out=out, one_at_a_time=True, **one_seed)
    done = bg.ablate("shakespeare", dials, text, seeds=1, out=out, one_at_a_time=True, **one_seed)
    scores = {cell.label: cell.runs[0].loss for cell in found.cells}
    assert {cell.label for cell in done.cells} == {
        "positions=rotary norm_place=post",
        "positions=none norm_place=post",
        "positions=rotary norm_place=pre",
    }
    for cell in done.cells:
        assert cell.runs[0].loss == scores[cell.label]
    assert verdicts(done) == ["base", "one seed", "one seed"]
    assert done.effects == ()
    assert "only more seeds can say" in " ".join(findings(done))


def test_a_run_that_diverges_is_shown_and_one_that_is_the_same_too(place: Path) -> None:
    dials = {"muon_learning_rate": "0.06,1e30", "patience": "none,50"}
    tiny = {**TINY, "out": place / "diverged", "one_at_a_time": True}
    found = bg.ablate("shakespeare", dials, place / "text.txt", seeds=2, **tiny)
    assert verdicts(found) == ["base", "diverged in 2 of 2", "identical"]
    said = str(found)
    assert "Diverged: muon_learning_rate=1e+30 patience=none in 2 of 2 runs (seed 1 at step" in said
    assert rows(found)[-1][-1] == "diverged in 2 of 2"
    assert "The same numbers as the base: muon_learning_rate=0.06 patience=50" in said
    again = bg.ablate("shakespeare", dials, place / "text.txt", seeds=2, **tiny)
    assert verdicts(again) == verdicts(found)


def test_equal_parameters_and_minutes(place: Path) -> None:
    tiny = {name: value for name, value in TINY.items() if name not in ("steps", "d_ff")}
    tiny |= {"d_model": 32, "out": place / "minutes", "equal_parameters": True, "minutes": 0.002}
    dials = {"activation": "gelu,swiglu"}
    found = bg.ablate("shakespeare", dials, place / "text.txt", seeds=1, **tiny)
    counts = [cell.parameters for cell in found.cells]
    assert counts[1] == pytest.approx(counts[0], rel=0.02)
    assert counts[0] == sum(
        p.numel() for p in load_model(found.base.runs[0].folder).network.parameters()
    )
    known = json.loads((found.folder / "ablation.json").read_text())["steps"]
    assert {cell.steps for cell in found.cells} == set(known.values())
    with pytest.raises(UserError, match="cannot be a dial too"):
        bg.ablate(
            "shakespeare",
            {"d_ff": "32,64"},
            place / "text.txt",
            **{**tiny, "out": place / "none"},
        )
    assert not (place / "none").exists()


def test_translators(tmp_path: Path) -> None:
    tiny: dict[str, Any] = {
        "n_encoder_layers": 1, "n_decoder_layers": 1, "d_model": 16, "n_heads": 2, "d_ff": 16,
        "steps": 2, "batch_tokens": 256, "n_pairs": 200, "bleu_sentences": 4, "threads": 1,
    }  # fmt: skip
    dials = {"norm_place": "pre,post"}
    found = bg.ablate("stories-zh-en", dials, seeds=1, out=tmp_path / "pairs", **tiny)
    assert found.measure == "loss"
    assert all(cell.runs[0].bleu is not None for cell in found.cells)
    assert "nats per token" in str(found)
    assert "BLEU" in str(found)


@pytest.mark.parametrize(
    ("recipe", "settings", "words"),
    [
        ("shakespeare", {"seeds": 0}, "seeds = 0"),
        ("shakespeare", {"minutes": -1}, "minutes = -1"),
        ("shakespeare", {"minutes": 1, "steps": 5}, "steps and minutes"),
        ("ngram", {}, "counted"),
        ("word-vectors", {}, "predict no text"),
    ],
)
def test_wishes_that_cannot_be(
    recipe: str, settings: dict[str, Any], words: str, place: Path
) -> None:
    with pytest.raises(UserError, match=words):
        bg.ablate(recipe, {"n_layers": "1,2"}, place / "text.txt", **settings)


# -- words by hand ---------------------------------------------------------------------------------


def cell(values: tuple[str, str], bits: list[float | None]) -> CellResult:
    runs = tuple(
        RunResult(n, Path("x"), None, b, b)
        if b is not None
        else RunResult(n, Path("x"), "step 3: NaN")
        for n, b in enumerate(bits, 1)
    )
    return CellResult(values, " ".join(values), 10, 5, runs)


def by_hand(last: list[float | None]) -> Ablation:
    dials = (Dial("model", "a", ("x", "y"), "x"), Dial("model", "b", ("p", "q"), "p"))
    made = (
        cell(("x", "p"), [2.0, 2.1, 2.2]),
        cell(("x", "q"), [2.01, 2.09, 2.21]),
        cell(("y", "p"), [2.5, 2.601, 2.699]),
        cell(("y", "q"), last),
    )
    return Ablation(
        "r", "c", dials, made, (1, 2, 3), None, False, False, "bits_per_byte", 9, (), Path("x")
    )


def test_verdicts_and_effects_by_hand() -> None:
    found = by_hand([2.6, 2.699, 2.801])
    assert verdicts(found) == ["base", "within noise", "worse", "worse"]
    effect_a, effect_b = found.effects
    assert (effect_a.value, effect_a.against, effect_a.settings) == ("y", "x", 2)
    each = [(0.5 + 0.59) / 2, (0.501 + 0.609) / 2, (0.499 + 0.591) / 2]
    assert effect_a.difference.mean == pytest.approx(np.mean(each))
    assert effect_a.difference.deviation == pytest.approx(np.std(each, ddof=1))
    assert effect_a.least == (pytest.approx(0.5), "p")
    assert decision(effect_a.difference) == "worse"
    assert effect_b.least[1] == "x"
    assert effect_b.most == (pytest.approx(0.1), "y")
    assert "No difference to the base that 3 seeds could show: x q" in str(found)
    assert rows(found)[0][:2] == ("x", "p")


def test_with_a_diverged_run_nothing_is_tested() -> None:
    found = by_hand([2.6, None, 2.801])
    assert verdicts(found)[3] == "diverged in 1 of 3"
    assert found.differences[3] is not None
    assert found.differences[3].n == 2
    assert found.differences[3].adjusted is None
    assert [effect.settings for effect in found.effects] == [1, 1]  # without that cell
    assert span([d for d in found.differences if d is not None])[0] < 0
