"""`budgie explore --site`: the page of a run as files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from budgerigar.cli import main
from budgerigar.explorer.site import SENTENCES, looks_at


def test_a_run_becomes_a_site(
    little_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "deep" / "site"
    texts = ["--text", "the cat sat", "--text", "the dog </script>"]
    assert main(["explore", str(little_run), "--site", str(out), *texts]) == 0
    assert capsys.readouterr().out.strip() == str(out / "index.html")
    page = (out / "index.html").read_text("utf-8")
    found = re.search(r'id="recorded">(.*?)</script>', page, re.DOTALL)
    assert found
    looks = json.loads(found[1])["looks"]
    questions = [look["question"] for look in looks]
    assert [question["text"] for question in questions] == ["the cat sat", "the dog </script>"]
    assert {question["model"] for question in questions} == {"little"}
    assert all((out / look["file"]).is_file() for look in looks)
    assert str(little_run.parent) not in page  # no folder of the machine it was made on
    assert main(["explore", str(little_run), "--site", str(out)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["explore", str(little_run), "--text", "the cat"]) == 2
    assert "--text is for --site" in capsys.readouterr().err


def test_each_kind_reads_a_sentence_of_the_lesson(models: dict[str, object]) -> None:
    looks = looks_at(models)  # type: ignore[arg-type]
    asked: dict[str, list[str]] = {}
    for look in looks:
        told = look.question.get("text", look.question.get("source"))
        asked.setdefault(str(look.question["model"]), []).append(str(told))
    assert "Xuanyuan has a budgerigar ; it has green feathers ." in asked["gpt"]
    assert asked["translator"][0] == SENTENCES["pair"][0]
