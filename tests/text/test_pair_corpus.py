"""From pairs to a corpus: split, tokenizers, stores, notes and cache."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from budgerigar.errors import UserError
from budgerigar.text import pair_corpus as module
from budgerigar.text import pair_tokenizers
from budgerigar.text.pair_corpus import (
    PairCorpus,
    prepare_pair_lists,
    prepare_pairs,
)
from budgerigar.text.pair_files import PairFiles
from budgerigar.text.pair_store import PairStore
from budgerigar.text.pairs import sentence_pairs
from budgerigar.text.tokenizers import train_tokenizer

Pairs = list[tuple[str, str]]


def generated(n: int = 300, split: str = "train") -> Pairs:
    return [(pair.source, pair.target) for pair in sentence_pairs(n, 1, split, unique=True)]


def write(folder: Path, pairs: Pairs, name: str = "a") -> PairFiles:
    folder.mkdir(exist_ok=True)
    paths = folder / f"{name}.zh", folder / f"{name}.en"
    for side, path in enumerate(paths):
        path.write_bytes("".join(pair[side] + "\n" for pair in pairs).encode())
    return PairFiles(*paths)


def text_of(corpus: PairCorpus, store: PairStore) -> Pairs:
    return [
        (corpus.source_tokenizer.decode(a.tolist()), corpus.tokenizer.decode(b.tolist()))
        for a, b in zip(store.source, store.target, strict=True)
    ]


def test_all_pairs_come_back_and_none_is_in_both_parts(tmp_path: Path) -> None:
    pairs = generated()
    corpus = prepare_pairs(write(tmp_path, pairs), cache=tmp_path / "cache")
    train, validation = text_of(corpus, corpus.train), text_of(corpus, corpus.validation)
    assert sorted(train + validation) == sorted(pairs)
    assert train == [pair for pair in pairs if pair in set(train)]  # in their order
    assert len(validation) == 30
    for side in (0, 1):
        assert not {pair[side] for pair in train} & {pair[side] for pair in validation}
    assert corpus.documents == "pairs"
    assert corpus.n_documents == 300
    assert (corpus.source_language, corpus.target_language) == ("zh", "en")
    assert [Path(source["path"]).name for source in corpus.sources] == ["a.zh", "a.en"]
    assert any("no sentence of either side is in both parts" in note for note in corpus.notes)


def test_a_joint_vocabulary_never_writes_what_targets_lack(tmp_path: Path) -> None:
    corpus = prepare_pairs(write(tmp_path, generated()), tokenizer="character")
    assert corpus.source_tokenizer is corpus.tokenizer
    assert corpus.train.end_id == corpus.train.source_end_id == corpus.tokenizer.end_id
    never = corpus.tokenizer.never_seen
    (cat,) = corpus.tokenizer.encode("有")
    (letter,) = corpus.tokenizer.encode("a")
    assert never[cat]
    assert not never[letter]
    assert not never[corpus.tokenizer.end_id]


def test_separate_vocabularies_each_of_its_side(tmp_path: Path) -> None:
    files = write(tmp_path, generated())
    corpus = prepare_pairs(
        files, vocabulary="separate", tokenizer="word", source_tokenizer="character"
    )
    source, target = corpus.source_tokenizer, corpus.tokenizer
    assert (source.kind, target.kind) == ("character", "word")
    assert len(source.encode("有")) == 1
    assert len(target.encode("有")) == 3  # bytes: it never stood in a target
    assert (corpus.train.source_end_id, corpus.train.end_id) == (source.end_id, target.end_id)
    assert len(text_of(corpus, corpus.train)) == 270
    alike = prepare_pairs(files, tokenizer="bpe", vocab_size=400, source_vocab_size=350)
    assert (alike.source_tokenizer.vocab_size, alike.tokenizer.vocab_size) == (350, 400)
    assert (alike.source_tokenizer.kind, alike.tokenizer.kind) == ("bpe", "bpe")


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece", "byte"])
def test_every_kind_gives_back_the_text(kind: str) -> None:
    pairs = [*generated(60), ("odd\u2028 \t é 😀", "  two  spaces ")]
    corpus = prepare_pair_lists(pairs, generated(9, "validation"), tokenizer=kind)
    assert text_of(corpus, corpus.train) == pairs


def test_auto_is_bpe_sized_by_the_text() -> None:
    corpus = prepare_pair_lists(generated(100), generated(9, "validation"))
    assert corpus.tokenizer.kind == "bpe"
    words = f"tokenizer of target: bpe, {corpus.tokenizer.vocab_size} pieces, sized by the text"
    assert corpus.notes[-1] == words


def test_the_tokenizer_sees_the_training_part_only(tmp_path: Path) -> None:
    held_out = [("锟斤拷", "zyzzyva quokka")] * 3
    validation = write(tmp_path, held_out, "v")
    corpus = prepare_pairs(
        write(tmp_path, generated(50)), validation=validation, tokenizer="character"
    )
    assert len(corpus.tokenizer.encode("锟")) == 3
    assert text_of(corpus, corpus.validation) == held_out


def test_validation_files_that_overlap_are_said_and_kept(tmp_path: Path) -> None:
    pairs = generated(100)
    asked = [pairs[3], ("别的", pairs[5][1].upper()), (pairs[8][0], "else"), ("新", "new")]
    corpus = prepare_pairs(write(tmp_path, pairs), validation=write(tmp_path, asked, "v"))
    assert (corpus.train.n_pairs, corpus.validation.n_pairs) == (100, 4)
    (note,) = [note for note in corpus.notes if "in the validation pairs too" in note]
    assert note.startswith("3 training pairs")
    assert "2 on the source side, 2 on the target side" in note


def test_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = write(tmp_path, generated())
    cache = tmp_path / "cache"
    first = prepare_pairs(files, cache=cache)
    monkeypatch.setattr(module, "_write_stores", None)
    monkeypatch.setattr(pair_tokenizers, "train_tokenizers", None)
    again = prepare_pairs(files, cache=cache)
    assert again.fingerprint == first.fingerprint
    assert again.notes == first.notes
    assert text_of(again, again.train) == text_of(first, first.train)
    assert again.tokenizer.never_seen.tolist() == first.tokenizer.never_seen.tolist()
    monkeypatch.undo()
    known = {"tokenizer": first.tokenizer, "source_tokenizer": first.source_tokenizer}
    given = prepare_pairs(files, cache=cache, **known)
    assert given.fingerprint == first.fingerprint  # as a run that resumes must find it
    files.target[0].write_text("changed\n" * 300, "utf-8")
    assert prepare_pairs(files, cache=cache).fingerprint != first.fingerprint
    assert not list(cache.rglob("*.tmp"))


@pytest.mark.parametrize(
    "settings",
    [{"seed": 1}, {"lowercase": True}, {"validation_fraction": 0.2}, {"vocabulary": "joint"}],
)
def test_whatever_changes_the_tokens_changes_the_fingerprint(
    tmp_path: Path, settings: dict
) -> None:
    files = write(tmp_path, generated(80))
    assert prepare_pairs(files).fingerprint != prepare_pairs(files, **settings).fingerprint


def test_lowercase(tmp_path: Path) -> None:
    corpus = prepare_pairs(write(tmp_path, generated(80)), lowercase=True)
    assert all(target == target.lower() for _, target in text_of(corpus, corpus.train))


def test_mixed_in_pairs_are_learnt_from_unless_held_out(tmp_path: Path) -> None:
    train, validation = generated(100), generated(20, "validation")
    real = [("你好", "hello"), ("x", validation[0][1].upper()), (validation[1][0], "y"), ("", "z")]
    mix = write(tmp_path, real, "real")
    corpus = prepare_pair_lists(train, validation, mix=mix)
    assert text_of(corpus, corpus.train) == [*train, real[0]]
    assert text_of(corpus, corpus.validation) == validation
    (note,) = [note for note in corpus.notes if note.startswith("mixed in")]
    assert "1 pairs of" in note
    assert "2 left out" in note
    assert [Path(source["path"]).name for source in corpus.sources] == [
        "generated", "real.zh", "real.en",
    ]  # fmt: skip
    assert corpus.fingerprint != prepare_pair_lists(train, validation).fingerprint
    files = prepare_pairs(write(tmp_path, train), mix=mix)
    assert real[0] in text_of(files, files.train)
    assert files.n_documents == 103


def test_given_tokenizers_say_what_is_new_to_them() -> None:
    first = prepare_pair_lists(generated(60), generated(9, "validation"), tokenizer="character")
    pairs = [("你好", "HELLO"), ("再见", "bye")]
    corpus = prepare_pair_lists(pairs, pairs, tokenizer=first.tokenizer)
    assert corpus.tokenizer.fingerprint == first.tokenizer.fingerprint
    assert "as given; " in corpus.notes[-1]
    assert "% of the tokens are new to it" in corpus.notes[-1]
    seen = corpus.tokenizer.encode("HELLO")
    assert not corpus.tokenizer.never_seen[seen].any()
    with pytest.raises(UserError, match="no <end>"):
        prepare_pair_lists(pairs, pairs, tokenizer=train_tokenizer(["a"], "byte"))


def test_a_single_pair_is_its_own_validation(tmp_path: Path) -> None:
    corpus = prepare_pairs(write(tmp_path, [("猫", "cat")]))
    assert corpus.validation is corpus.train
    assert corpus.n_documents == 1
    assert any("the training pairs themselves" in note for note in corpus.notes)


def test_blank_pairs_are_said(tmp_path: Path) -> None:
    corpus = prepare_pairs(write(tmp_path, [*generated(20), ("猫", " "), ("", ""), ("", "dog")]))
    assert corpus.n_documents == 20
    assert any("blank in the target only" in n and "(line 21)" in n for n in corpus.notes)
    assert any("blank in the source only" in n and "(line 23)" in n for n in corpus.notes)
    made = prepare_pair_lists([("猫", "cat"), (" ", "dog")], generated(5))
    assert made.train.n_pairs == 1
    assert any("blank on a side: dropped as pairs (pair 2)" in note for note in made.notes)


def test_mistakes(tmp_path: Path) -> None:
    files = write(tmp_path, generated(20))
    for settings, words in (
        ({"vocabulary": "both"}, "auto, joint, separate"),
        ({"source_tokenizer": "word", "vocabulary": "joint"}, "needs vocabulary separate"),
        ({"tokenizer": "sentencepiece"}, "no such kind"),
        ({"validation_fraction": 1.0}, "between 0 and 1"),
        ({"vocab_size": 100}, "too small"),
        ({"validation": write(tmp_path, [("", "")], "v")}, "no sentence pair to validate with"),
        ({"mix": write(tmp_path, [], "m")}, "nothing to mix in"),
        ({"encoding": "morse"}, "no such encoding"),
    ):
        with pytest.raises(UserError, match=words):
            prepare_pairs(files, cache=tmp_path / "cache", **settings)
    for pairs, words in (
        ([], "no sentence pair to learn from"),
        ([("", ""), ("x", ""), ("", "y")], r"blank on one side or both \(3\)"),
    ):
        with pytest.raises(UserError, match=words):
            prepare_pairs(write(tmp_path, pairs), cache=tmp_path / "cache")
    with pytest.raises(UserError, match="no such file"):
        prepare_pairs(PairFiles(tmp_path / "no", tmp_path / "no"))
    with pytest.raises(UserError, match="no sentence pair to learn from"):
        prepare_pair_lists([], generated(5))
    assert not list((tmp_path / "cache").rglob("*.tmp"))


def test_a_line_of_10_000_words(tmp_path: Path) -> None:
    pairs = [*generated(30), ("很 " * 10_000, "very " * 10_000)]
    corpus = prepare_pairs(write(tmp_path, pairs))
    found = text_of(corpus, corpus.train) + text_of(corpus, corpus.validation)
    assert pairs[-1] in found


@pytest.mark.slow
@pytest.mark.needs_data
def test_multi30k(data_folder: Path, tmp_path: Path) -> None:
    folder = data_folder / "multi30k"
    train = PairFiles(folder / "train.de", folder / "train.en")
    validation = PairFiles(folder / "val.de", folder / "val.en")
    begun = time.process_time()
    corpus = prepare_pairs(train, validation=validation, cache=tmp_path)
    assert time.process_time() - begun < 30
    assert (corpus.train.n_pairs, corpus.validation.n_pairs) == (29_000, 1014)
    assert corpus.tokenizer.vocab_size == 8192
    assert corpus.train.n_bytes == (folder / "train.en").stat().st_size
    tab = next(i for i, line in enumerate((folder / "train.de").open("rb")) if b"\t" in line)
    assert "\t" in corpus.tokenizer.decode(corpus.train.source[tab].tolist())
    assert np.mean(corpus.train.target.lengths) < 15
