from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from budgerigar.errors import UserError
from budgerigar.text import corpus as corpus_module
from budgerigar.text.batches import WindowBatches, evaluation_windows
from budgerigar.text.corpus import Corpus, prepare, prepare_documents
from budgerigar.text.tokenizer import KINDS
from budgerigar.text.tokenizers import train_tokenizer

PROSE = "".join(
    f"The bird number {i} sat on a branch and sang; then it flew.\n" for i in range(200)
)
POEM = "床前明月光，疑是地上霜。\n举头望明月，低头思故乡。"


def file(folder: Path, text: str, name: str = "text.txt") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


def texts_of(corpus: Corpus) -> tuple[str, str]:
    """The two parts' texts; `<end>` shown as |."""
    end = corpus.tokenizer.end_id
    return tuple(  # type: ignore[return-value]
        b"".join(
            b"|" if i == end else corpus.tokenizer.token_bytes(i) for i in store.tokens.tolist()
        ).decode()
        for store in (corpus.train, corpus.validation)
    )


def usable(corpus: Corpus) -> bool:
    """Both parts give batches with something to predict."""
    length = min(8, corpus.train.n_tokens - 1)
    batch = WindowBatches(corpus.train, length, 2, seed=0).next()
    scored = sum(int((b.targets >= 0).sum()) for b in evaluation_windows(corpus.validation, 8, 4))
    return batch.tokens.shape == (2, length) and scored == corpus.validation.n_tokens - 1 >= 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_plain_file(tmp_path: Path, kind: str) -> None:
    corpus = prepare(file(tmp_path, PROSE), tokenizer=kind)
    cut = int(len(PROSE) * 0.9)
    assert texts_of(corpus) == (PROSE[:cut], PROSE[cut:])
    assert corpus.documents == "none"
    assert corpus.tokenizer.kind == kind
    assert corpus.tokenizer.end_id is corpus.train.end_id is None
    assert corpus.train.n_characters == cut
    assert corpus.train.n_bytes + corpus.validation.n_bytes == len(PROSE)
    assert corpus.n_documents == 0
    never_seen = np.bincount(corpus.train.tokens, minlength=corpus.tokenizer.vocab_size) == 0
    assert np.array_equal(corpus.tokenizer.never_seen, never_seen)
    assert usable(corpus)


def test_line_ends_are_normalised_and_counted_so(tmp_path: Path) -> None:
    corpus = prepare(file(tmp_path, PROSE.replace("\n", "\r\n")))
    assert "".join(texts_of(corpus)) == PROSE
    assert corpus.train.n_bytes + corpus.validation.n_bytes == len(PROSE)


def test_poems_are_documents(tmp_path: Path) -> None:
    poems = [f"{POEM}\n第{chr(0x4E00 + i)}首。" for i in range(50)]
    path = file(tmp_path, "\n\n".join(poems) + "\n\n")
    corpus = prepare(path)
    assert corpus.documents == "blank-lines"
    assert corpus.n_documents == 50
    train, held_out = texts_of(corpus)
    assert train == "|" + "|".join(poems[:45]) + "|"
    assert held_out == "|" + "|".join(poems[45:]) + "|"
    assert corpus.train.n_bytes + corpus.validation.n_bytes == path.stat().st_size
    assert corpus.train.end_id == corpus.tokenizer.end_id is not None
    assert not corpus.tokenizer.never_seen[corpus.train.end_id]
    assert usable(corpus)
    # Asked for the stream, the same file is one.
    stream = prepare(path, documents="none")
    assert stream.train.end_id is None
    assert "".join(texts_of(stream)) == "\n\n".join(poems) + "\n\n"


def test_the_tokenizer_knows_the_training_part_only(tmp_path: Path) -> None:
    path = file(tmp_path, "abc " * 100 + "é" * 30)
    corpus = prepare(path, tokenizer="character")
    assert len(corpus.tokenizer.encode("é")) == 2
    assert usable(corpus)
    with pytest.raises(UserError, match=r"'é' \(U\+00E9"):
        prepare(path, tokenizer="symbols")


def test_folders_are_documents_and_hidden_files_are_not(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    (folder / "more").mkdir(parents=True)
    for i in range(20):
        file(folder if i % 2 else folder / "more", f"text {i:02d}\n\nand its end\n", f"{i:02d}.txt")
    file(folder, "not this", ".hidden")
    corpus = prepare(folder)
    assert corpus.documents == "files"
    assert corpus.n_documents == len(corpus.sources) == 20
    train, held_out = texts_of(corpus)
    assert train.startswith("|text 01\n\nand its end\n|text 03")
    assert held_out.count("text") == 2
    assert corpus.train.n_bytes + corpus.validation.n_bytes == 20 * 21


def test_records(tmp_path: Path) -> None:
    lines = [json.dumps({"text": f"record {i:02d}"}) for i in range(20)]
    corpus = prepare(file(tmp_path, "\n".join(lines)))
    assert corpus.documents == "json-lines"
    assert texts_of(corpus)[1] == "|record 18|record 19|"
    # Bytes of the texts, and of the line end that parts them.
    assert corpus.validation.n_bytes == 2 * len("record 18\n")


def test_a_given_file_validates(tmp_path: Path) -> None:
    other = file(tmp_path, "Another text.\n", "other.txt")
    corpus = prepare(file(tmp_path, PROSE), validation=other)
    assert texts_of(corpus) == (PROSE, "Another text.\n")
    assert [Path(source["path"]).name for source in corpus.sources] == ["text.txt", "other.txt"]
    assert corpus.validation.n_bytes == 14


@pytest.mark.parametrize("kind", ["auto", "byte", "bpe", "character", "unigram", "wordpiece"])
@pytest.mark.parametrize(
    "text", ["ab", "诗人", "\n\n", " \n ", "abc", "abcd", "a\n\nb\n", "x" * 25, "ab" * 10 + "th"]
)
def test_the_shortest_texts(tmp_path: Path, text: str, kind: str) -> None:
    corpus = prepare(file(tmp_path, text), tokenizer=kind)
    assert usable(corpus)
    if len(text) < 4:
        assert corpus.validation is corpus.train
        assert any("too short to hold a part out" in note for note in corpus.notes)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", {}, "is empty"),
        ("\ufeff", {}, "is empty"),
        ("a", {}, "a single character"),
        ("\n \n\n", {"documents": "blank-lines"}, "only blank lines"),
        ("wo", {"tokenizer": "word"}, "a single token"),
        ("text", {"tokenizer": "sentencepiece"}, "no such kind"),
        ("text", {"documents": "paragraphs"}, "no such way"),
        ("text", {"validation_fraction": 1.5}, "between 0 and 1"),
        ("text", {"encoding": "klingon"}, "no such encoding"),
    ],
)
def test_what_cannot_be_learnt_from(tmp_path: Path, text: str, options: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        prepare(file(tmp_path, text), cache=tmp_path / "cache", **options)
    left = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert not [path for path in left if "tokens" in path.parts]


def test_an_only_document_is_cut(tmp_path: Path) -> None:
    corpus = prepare(file(tmp_path, "abcdefghij" * 10), documents="files")
    assert texts_of(corpus) == (f"|{'abcdefghij' * 9}|", "|abcdefghij|")


def test_prepared_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = file(tmp_path, PROSE)
    first = prepare(path, tokenizer="bpe")
    copy = tmp_path / "elsewhere"
    copy.mkdir()
    monkeypatch.setattr(corpus_module, "StoreWriter", None)  # would fail if it were needed
    again = prepare(file(copy, PROSE), tokenizer="bpe")
    assert again.train.path == first.train.path
    assert again.fingerprint == first.fingerprint
    assert again.notes[1:] == first.notes[1:]
    assert np.array_equal(again.tokenizer.never_seen, first.tokenizer.never_seen)
    # With its tokenizer given, as a run that is resumed does.
    given = prepare(path, tokenizer=first.tokenizer)
    assert given.fingerprint == first.fingerprint
    monkeypatch.undo()
    changed = prepare(file(tmp_path, PROSE + "More."), tokenizer="bpe")
    assert changed.fingerprint != first.fingerprint
    assert prepare(path, validation_fraction=0.2).train.n_tokens < changed.train.n_characters


def test_a_given_tokenizer(tmp_path: Path) -> None:
    poems = "\n\n".join(f"{POEM}\n第{chr(0x4E00 + i)}首。" for i in range(50))
    path = file(tmp_path, poems)
    without_end = train_tokenizer([POEM * 9, "xyz"], "character")
    corpus = prepare(path, tokenizer=without_end)
    assert corpus.documents == "none"  # there is no <end> to learn
    with pytest.raises(UserError, match="--documents none"):
        prepare(path, tokenizer=without_end, documents="blank-lines")
    # Pieces seen in either text count as seen.
    assert not corpus.tokenizer.never_seen[without_end.encode("x")].any()
    assert corpus.tokenizer.never_seen.sum() < without_end.never_seen.sum()
    with_end = train_tokenizer([POEM * 9], "character", end=True)
    assert prepare(path, tokenizer=with_end).documents == "blank-lines"


def test_unwritable_cache(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        place = Path("/proc/none")  # nobody can write here
    else:
        place = tmp_path / "cache"
        place.mkdir(mode=0o500)
    if not Path("/proc").is_dir():
        pytest.skip("no place that root cannot write to")
    with pytest.raises(UserError, match="BUDGIE_CACHE"):
        prepare(file(tmp_path, PROSE), cache=place)


def test_documents_at_hand() -> None:
    train = [f"story {i} of a bird" for i in range(30)]
    corpus = prepare_documents(train, ["story 99 of a cat"], tokenizer="word")
    assert texts_of(corpus) == ("|" + "|".join(train) + "|", "|story 99 of a cat|")
    assert corpus.n_documents == 31
    assert corpus.tokenizer.end_id == corpus.train.end_id
    assert corpus.sources[0]["path"] == "generated"
    assert usable(corpus)
    other = prepare_documents(train[:-1], ["story 99 of a cat"], tokenizer=corpus.tokenizer)
    assert other.fingerprint != corpus.fingerprint
    with pytest.raises(UserError, match="no text"):
        prepare_documents([], ["a"])
    with pytest.raises(UserError, match="no <end>"):
        prepare_documents(train, train, tokenizer=train_tokenizer(train, "byte"))


@pytest.mark.needs_data
def test_the_classic_split(data_folder: Path) -> None:
    corpus = prepare(data_folder / "tinyshakespeare.txt", tokenizer="symbols")
    assert corpus.tokenizer.vocab_size == 65
    assert corpus.train.n_tokens == 1_003_854
    assert corpus.validation.n_tokens == corpus.validation.n_bytes == 111_540
    assert corpus.documents == "none"


@pytest.mark.needs_data
@pytest.mark.parametrize("name", ["chinese_poems.txt", "tang300_simplified.txt"])
def test_chinese_poems(data_folder: Path, name: str) -> None:
    path = data_folder / name
    corpus = prepare(path)
    assert corpus.documents == "blank-lines"
    assert corpus.tokenizer.kind == "character"
    assert corpus.tokenizer.vocab_size < 8000
    assert corpus.train.n_bytes + corpus.validation.n_bytes == path.stat().st_size
    poems = [p for p in path.read_text(encoding="utf-8").split("\n\n") if p.strip()]
    train, held_out = (
        [corpus.tokenizer.decode(ids) for ids in np.split(store.tokens, places)[1:-1]]
        for store in (corpus.train, corpus.validation)
        for places in [np.flatnonzero(store.tokens == store.end_id)]
    )
    assert train + held_out == poems
    assert not set(train) & set(held_out)
