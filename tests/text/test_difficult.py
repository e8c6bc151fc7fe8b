"""All the files that people really have: their text is exact, or the error says where and what."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from budgerigar.errors import UserError
from budgerigar.text.corpus import prepare
from budgerigar.text.reading import detect_encoding, read_text

pytestmark = pytest.mark.needs_data

# Read with no option: an error that names the file, what is wrong and what to do.
ERRORS = {
    "gbk.txt": r"byte 0 \(C7\).*--encoding gb18030",
    "gb18030.txt": r"byte 0 \(C7\).*--encoding gb18030",
    "big5.txt": r"byte 0 \(AB\).*--encoding big5",
    "cp1252.txt": r"byte 4 \(9C\).*--encoding cp1252",
    "latin1.txt": r"byte 10 \(E9\).*--encoding cp1252",
    "utf16le_nobom.txt": r"--encoding utf-16-le",
    "invalid_utf8.txt": r"byte 500 \(FF\).*damaged UTF-8",
    "cut_in_character.txt": r"byte 3 .*ends in the middle of a character",
}
NOT_ENOUGH = {"empty.txt": "is empty", "one_char.txt": "single character"}


@pytest.fixture(scope="module")
def manifest(data_folder: Path) -> dict[str, dict]:
    found = json.loads((data_folder / "difficult/manifest.json").read_text(encoding="utf-8"))
    assert len(found) >= 40
    return found


def test_every_file_is_read_exactly_or_refused_clearly(
    data_folder: Path, manifest: dict[str, dict]
) -> None:
    for name, about in manifest.items():
        path = data_folder / "difficult" / name
        if name in ERRORS:
            with pytest.raises(UserError, match=rf"{name}: .*{ERRORS[name]}"):
                read_text(path)
        else:
            assert detect_encoding(path).encoding
            assert sha256(read_text(path)) == about["text_sha256"], name
        if about["encoding"]:
            assert sha256(read_text(path, about["encoding"])) == about["text_sha256"], name


def test_every_file_is_prepared_or_refused_clearly(
    data_folder: Path, manifest: dict[str, dict], tmp_path: Path
) -> None:
    others = {path.name for path in (data_folder / "difficult").iterdir()} - {"manifest.json"}
    assert others - set(manifest) == {"name with spaces 诗 😀.txt"}
    for name in sorted(others):
        path = data_folder / "difficult" / name
        encoding = manifest.get(name, {}).get("encoding")
        if name in NOT_ENOUGH or (name in ERRORS and encoding is None):
            with pytest.raises(UserError, match=f"{name}.*{NOT_ENOUGH.get(name) or ERRORS[name]}"):
                prepare(path, cache=tmp_path)
            continue
        corpus = prepare(path, cache=tmp_path, encoding=encoding)
        assert corpus.train.n_tokens >= 2, name
        assert corpus.validation.n_tokens >= 2, name
        text = read_text(path, encoding)
        assert corpus.train.n_characters + corpus.validation.n_characters == len(text), name
        if corpus.documents == "none":
            ids = [*corpus.train.tokens.tolist(), *corpus.validation.tokens.tolist()]
            assert corpus.tokenizer.decode(ids) == text, name


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
