"""Pairs by name: directions, splits, and what a file is called."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from budgerigar.errors import UserError
from budgerigar.text import catalogue as module
from budgerigar.text import pair_catalogue
from budgerigar.text.catalogue import Entry, Source
from budgerigar.text.pair_catalogue import (
    fetch_pairs,
    find_pairs,
    generated_pairs,
    guess_languages,
    language_code,
    pair_corpora,
)
from budgerigar.text.pair_files import PairFiles, iter_file_pairs


@pytest.fixture
def captions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A corpus of three languages with a validation split, and one of two; both on this disk."""
    texts = {
        "source": "eins\nzwei\n",
        "target": "one\ntwo\n",
        "french": "un\ndeux\n",
        "validation.source": "drei\n",
        "validation.target": "three\n",
    }
    sources = []
    for role, text in texts.items():
        (tmp_path / f"{role}.gz").write_bytes(gzip.compress(text.encode()))
        sources.append(Source(f"{role}.gz", ((tmp_path / f"{role}.gz").as_uri(),), role))
    about = ("captions", "pairs", "none", "https://example.org", "", "gzip-lines", 1)
    files = {role: f"{role}.txt" for role in texts}
    languages = {"source": "de", "target": "en", "french": "fr"}
    entries = {
        "captions": Entry("captions", *about, files, tuple(sources), languages=languages),
        "novel": Entry("novel", "", "text", *about[2:], {"text": "x"}, ()),
    }
    for place in (module, pair_catalogue):
        monkeypatch.setattr(place, "catalogue", lambda: entries)


def lines(files: PairFiles | None) -> list[tuple[str, str]]:
    assert files is not None
    return list(iter_file_pairs(files))


@pytest.mark.usefixtures("captions")
def test_every_direction() -> None:
    train, validation, test = fetch_pairs("captions")
    assert lines(train) == [("eins", "one"), ("zwei", "two")]
    assert lines(validation) == [("drei", "three")]
    assert test is None
    train, validation, _ = fetch_pairs("captions", "en", "de")
    assert (lines(train)[0], lines(validation)[0]) == (("one", "eins"), ("three", "drei"))
    train, validation, _ = fetch_pairs("captions", "fr", "EN")
    assert (lines(train)[1], validation) == (("deux", "two"), None)
    assert lines(fetch_pairs("captions", source_language="en")[0])[0] == ("one", "eins")
    assert lines(fetch_pairs("captions", target_language="de")[0])[0] == ("one", "eins")
    assert lines(fetch_pairs("captions", target_language="fr")[0])[0] == ("eins", "un")


@pytest.mark.usefixtures("captions")
def test_wrong_names_and_directions() -> None:
    for arguments, words in (
        (("captions", "zh", "en"), "has no 'zh'. It has: de, en, fr"),
        (("captions", "de", "de"), "two languages"),
        (("novel",), "running text, not sentence pairs. Corpora of pairs: captions, stories"),
        (("caption",), "Did you mean captions"),
    ):
        with pytest.raises(UserError) as caught:
            fetch_pairs(*arguments)
        assert words in str(caught.value)


@pytest.mark.usefixtures("captions")
def test_a_mixture_by_name_or_by_file(tmp_path: Path) -> None:
    assert lines(find_pairs("captions", "en", "fr"))[0] == ("one", "un")
    file = tmp_path / "own.tsv"
    file.write_text("ja\tyes\n", "utf-8")
    assert lines(find_pairs(file)) == [("ja", "yes")]
    assert lines(find_pairs(str(file), columns=("2", "1"))) == [("yes", "ja")]
    with pytest.raises(UserError, match="no such file, and the catalogue has no such corpus"):
        find_pairs("caption")


def test_the_catalogue_knows_its_languages() -> None:
    assert pair_corpora() == ["multi30k", "hsk-zh-en", "tatoeba-cmn-eng"]
    for name in pair_corpora():
        one = module.entry(name)
        assert {"source", "target"} <= set(one.languages)
        assert set(one.languages) <= set(one.files)


def test_generated_pairs() -> None:
    train, validation = generated_pairs(50, seed=3, n_validation=20)
    assert (len(train), len(validation)) == (50, 20)
    assert all(any("\u4e00" <= c <= "\u9fff" for c in source) for source, _ in train)
    assert not {s for s, _ in train} & {s for s, _ in validation}
    turned = generated_pairs(50, 3, "en", "zh", n_validation=20)
    assert turned[0] == [(target, source) for source, target in train]
    with pytest.raises(UserError, match="stories has no 'de'"):
        generated_pairs(5, 0, "de", "en")


def test_languages_by_name() -> None:
    assert [language_code(name) for name in ("zh-CN", "cmn", "EN", "pt_BR", "tlh", None)] == [
        "zh", "zh", "en", "pt", "tlh", None,
    ]  # fmt: skip
    assert guess_languages(PairFiles("a/train.de", "a/train.en")) == ("de", "en")
    assert guess_languages(PairFiles("train.zh.txt", "train.eng.txt")) == ("zh", "en")
    assert guess_languages(PairFiles("source.txt", "target")) == (None, None)
    assert guess_languages(PairFiles(pairs="a.jsonl", columns=("de", "en"))) == ("de", "en")
    assert guess_languages(PairFiles(pairs="a.tsv")) == (None, None)
