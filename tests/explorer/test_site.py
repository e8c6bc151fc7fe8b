"""`budgie explore --site`: the page of a run as files."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import budgerigar as bg
from budgerigar.cli import main
from budgerigar.errors import UserError
from budgerigar.explorer.site import SENTENCES, looks_at, stories
from budgerigar.inspection.besides import WRITINGS, Besides
from budgerigar.inspection.records import Recorded, key_of, payload_of, record
from budgerigar.inspection.site_folder import SitePage, checked_folder, write_site
from budgerigar.inspection.views import ask, look_at, unpack, value_of


def test_a_run_becomes_a_site(
    little_run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("budgerigar.explorer.site.SitePage", partial(SitePage, besides=False))
    out = tmp_path / "deep" / "site"
    texts = ["--text", "the cat sat", "--text", "the dog </script>"]
    assert main(["explore", str(little_run), "--site", str(out), *texts]) == 0
    assert capsys.readouterr().out.strip() == str(out / "index.html")
    page = (out / "index.html").read_text("utf-8")
    found = re.search(r'id="recorded">(.*?)</script>', page, re.DOTALL)
    assert found
    looks = json.loads(found[1])["looks"]
    questions = [look["question"] for look in looks if "beside" not in look]
    assert [question["text"] for question in questions] == ["the cat sat", "the dog </script>"]
    assert {question["model"] for question in questions} == {"little"}
    assert all((out / look["file"]).is_file() for look in looks)
    assert str(little_run.parent) not in page  # no folder of the machine it was made on
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear reader", encoding="utf-8")
    assert main(["explore", str(little_run), "--site", str(tmp_path / "mine")]) == 2
    assert "no site that was written here" in capsys.readouterr().err
    assert main(["explore", str(little_run), "--text", "the cat"]) == 2
    assert "--text is for --site" in capsys.readouterr().err


@pytest.fixture(scope="module")
def besides(little: bg.Model) -> dict[str, Recorded]:
    """What a site holds of a sentence, by what its question says more than the text."""
    looks = [
        look_at(little, {"model": "little", "text": text})
        for text in ("the cat sat on the mat .", "the dog sat on the log .")
    ]
    adding = Besides(looks, measured=False)
    found = record(looks[0], limit=0)
    adding.add_to(found, looks[0], limit=8e6)
    more = {json.dumps(_more(one.question)): one for one in adding.beside(looks[0])}
    return {"": found, **more}


def _more(question: dict[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in question.items() if name not in ("model", "text")}


def _told(found: Recorded, name: str, params: dict[str, Any]) -> Any:
    return unpack(payload_of(found.records[key_of(name, params)]))


def test_a_site_has_writing_and_comparisons(besides: dict[str, Recorded], little: bg.Model) -> None:
    found = besides[""]
    assert {"generate", "compare", "off"} <= set(found.views)
    look = look_at(little, {"model": "little", "text": "the cat sat on the mat ."})
    for params in WRITINGS:
        told, wanted = _told(found, "generate", dict(params)), value_of(look, "generate", params)
        assert told["text"] == wanted["text"]
        assert [one["id"] for one in told["tokens"]] == [one["id"] for one in wanted["tokens"]]
    other = {"model": "little", "text": "the dog sat on the log ."}
    told = _told(found, "compare", {"other": other, "of": "decoder", "kind": "self"})
    wanted = unpack(ask(look, "compare", {"other": other}))
    assert set(told["maps"]) == {"L0.H0", "L0.H1", "L1.H0", "L1.H1"}
    assert all(np.array_equal(told["maps"][name], wanted["maps"][name]) for name in told["maps"])


@pytest.mark.slow
def test_roles_and_training_are_measured_once_a_model(little: bg.Model) -> None:
    looks = [look_at(little, {"model": "little", "text": text}) for text in ("the cat", "the dog")]
    adding = Besides(looks)
    first, second = (Recorded(look.question) for look in looks)
    adding.add_to(first, looks[0], limit=0)
    adding.add_to(second, looks[1], limit=0)
    for key in ('["roles",{}]', '["born",{"most":12}]'):
        assert second.records[key] is first.records[key]
    born = _told(second, "born", {"most": 12})
    assert born["checkpoints"] == little.checkpoints
    assert [one["of"] for one in _told(second, "roles", {})["sites"]] == ["decoder"]
    off = next(one for one in adding.beside(looks[1]) if "off" in one.question)
    assert _told(off, "off", {"measure": True})["abilities"]


def test_a_site_has_each_head_off_and_each_checkpoint(
    besides: dict[str, Recorded], little: bg.Model
) -> None:
    text = {"model": "little", "text": "the cat sat on the mat ."}
    asked = [json.loads(key) for key in besides if key]
    assert [one["checkpoint"] for one in asked if "checkpoint" in one] == little.checkpoints
    off = [one for one in asked if "off" in one]
    heads = [["L0.H0"], ["L0.H1"], ["L1.H0"], ["L1.H1"]]
    assert [one["off"] for one in off] == heads * 3
    assert [one["how"] for one in off] == [*["mean"] * 4, *["zero"] * 4, *["resample"] * 4]
    (key,) = (key for key in besides if '["L1.H0"], "how": "zero"' in key)
    edited = look_at(little, {**text, **json.loads(key)})
    told, wanted = _told(besides[key], "off", {}), value_of(edited, "off")
    assert told["guesses"] == wanted["guesses"]
    assert told["loss"] == wanted["loss"]
    early = little.checkpoints[0]
    place = {"layer": 1, "head": 1, "of": "decoder", "kind": "self"}
    then = look_at(little, {**text, "checkpoint": early}, little.at_checkpoint)
    told = _told(besides[json.dumps({"checkpoint": early})], "head", place)
    np.testing.assert_allclose(
        told["weights"], then.trace.attention("L1.H1").weights, rtol=0, atol=1e-4
    )


def test_an_older_site_is_replaced_and_nothing_else(tmp_path: Path, little: bg.Model) -> None:
    def write(text: str) -> Path:
        look = look_at(little, {"model": "little", "text": text})
        return write_site(folder, [SitePage("index", "It", [look], besides=False)])

    folder = tmp_path / "site"
    folder.mkdir()  # empty: nothing can be lost
    write("the cat")
    (folder / ".DS_Store").touch()
    write("the dog")
    shown = (folder / "index.html").read_text("utf-8")
    assert "the dog" in shown
    assert "the cat" not in shown
    assert len(list((folder / "records").iterdir())) == 1
    assert list(tmp_path.iterdir()) == [folder]

    (folder / "CNAME").write_text("example.org", encoding="utf-8")
    with pytest.raises(UserError, match="holds CNAME, which the site did not write"):
        write("the mat")
    (folder / "CNAME").unlink()
    page = SitePage("index", "It", [look_at(little, {"model": "little"})], besides=False)
    with pytest.raises(UserError, match="there is no text"):  # in the middle of it
        write_site(folder, [page])
    assert "the dog" in (folder / "index.html").read_text("utf-8")
    assert list(tmp_path.iterdir()) == [folder]

    folder.rename(tmp_path / ".site.7.old.partial")  # as a kill between two renames leaves it
    (tmp_path / ".site.7.partial").mkdir()
    assert checked_folder(folder) == folder
    assert "the dog" in (folder / "index.html").read_text("utf-8")
    assert list(tmp_path.iterdir()) == [folder]
    with pytest.raises(UserError, match="is a file"):
        checked_folder(folder / "index.html")


def test_shorter_stories() -> None:
    told = "It was so . He said: no! Years went by . And then"
    assert stories(told) == [
        told,
        "It was so . He said: no! And then",
        "It was so . And then",
    ]
    assert stories("one. two") == ["one. two"]
    assert stories("一。二。三") == ["一。二。三", "一。三"]


def test_each_kind_reads_a_sentence_of_the_lesson(models: dict[str, object]) -> None:
    looks = looks_at(models)  # type: ignore[arg-type]
    asked: dict[str, list[str]] = {}
    for look in looks:
        told = look.question.get("text", look.question.get("source"))
        asked.setdefault(str(look.question["model"]), []).append(str(told))
    assert "Xuanyuan has a budgerigar ; it has green feathers ." in asked["gpt"]
    assert asked["translator"][0] == SENTENCES["pair"][0]
