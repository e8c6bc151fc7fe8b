"""Pair stores: what is stored is what was encoded, in memory, in files and in subsets."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from budgerigar.errors import UserError
from budgerigar.text.pair_store import (
    PairStore,
    PairWriter,
    TokenLines,
    encode_lines,
    encode_source,
    encode_target,
    store_from_pairs,
)
from budgerigar.text.tokenizers import Tokenizer, train_tokenizer

PAIRS = [
    ("轩辕有一只猫", "Xuanyuan has a cat"),
    ("ein\tTab\u2028hier", "a tab\there"),
    ("x", "ä" * 700),
    ("<end>", "it says <end> in the text"),
    ("lang " * 9000, "long"),
]


@pytest.fixture(scope="module")
def bpe() -> Tokenizer:
    return train_tokenizer([line for pair in PAIRS[:4] for line in pair], "bpe", 300, end=True)


@pytest.fixture(scope="module")
def word() -> Tokenizer:
    return train_tokenizer(["ein Hund läuft", "a dog runs"], "word", end=True)


def check(store: PairStore, source: Tokenizer, target: Tokenizer) -> None:
    """Everything about `store` is what a plain count over PAIRS gives."""
    assert store.n_pairs == len(store) == len(store.source) == len(PAIRS)
    assert store.end_id == target.end_id
    assert store.source_end_id == source.end_id
    for i, (one, other) in enumerate(PAIRS):
        assert source.decode(store.source[i].tolist()) == one
        assert target.decode(store.target[i].tolist()) == other
        assert store.source[i].tolist() == source.encode(one)
        assert store.target.lengths[i] == len(target.encode(other))
    assert store.n_tokens == sum(len(encode_target(target, other)) for _, other in PAIRS)
    assert store.n_source_tokens == sum(len(encode_source(source, one)) for one, _ in PAIRS)
    text = "".join(other + "\n" for _, other in PAIRS)
    assert (store.n_bytes, store.n_characters) == (len(text.encode()), len(text))


def test_in_memory(bpe: Tokenizer, word: Tokenizer) -> None:
    check(store_from_pairs(PAIRS, bpe), bpe, bpe)
    check(store_from_pairs(PAIRS, bpe, word), word, bpe)


@pytest.mark.parametrize("batch", [1, 50, 1 << 20])
def test_in_files(
    tmp_path: Path, bpe: Tokenizer, word: Tokenizer, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("budgerigar.text.pair_store._BATCH_CHARACTERS", batch)
    with closing(PairWriter(tmp_path / "store", word, bpe)) as writer:
        for pair in PAIRS:
            writer.add(*pair)
        writer.finish()
    store = PairStore.open(tmp_path / "store")
    check(store, word, bpe)
    assert store.path == tmp_path / "store"
    assert not store.target.tokens.flags.writeable
    counts = np.load(tmp_path / "store" / "target.counts.npy")
    assert counts.tolist() == np.bincount(store.target.tokens, minlength=bpe.vocab_size).tolist()
    (tmp_path / "store" / "source.tokens").write_bytes(b"12")
    with pytest.raises(UserError, match="damaged"):
        PairStore.open(tmp_path / "store")


def test_an_empty_store(tmp_path: Path, bpe: Tokenizer) -> None:
    with closing(PairWriter(tmp_path / "store", bpe, bpe)) as writer:
        writer.finish()
    for store in (PairStore.open(tmp_path / "store"), store_from_pairs([], bpe)):
        assert (store.n_pairs, store.n_tokens, store.n_bytes) == (0, 0, 0)


def test_subset(bpe: Tokenizer) -> None:
    store = store_from_pairs(PAIRS, bpe)
    chosen = [3, 0, 3]
    part, made = store.subset(chosen), store_from_pairs([PAIRS[i] for i in chosen], bpe)
    for name in ("n_pairs", "n_tokens", "n_source_tokens", "n_bytes", "n_characters"):
        assert getattr(part, name) == getattr(made, name)
    for mine, theirs in ((part.source, made.source), (part.target, made.target)):
        assert mine.tokens.tolist() == theirs.tokens.tolist()
        assert mine.offsets.tolist() == theirs.offsets.tolist()
    assert store.subset([]).n_tokens == 0
    twice = store.subset([1, 2, 3]).subset([2])
    assert bpe.decode(twice.target[0].tolist()) == PAIRS[3][1]


def test_within_counts_end(bpe: Tokenizer) -> None:
    store = store_from_pairs([("a b", "c"), ("a", "c d e")], bpe)
    most = int(store.source.lengths[0])
    assert store.within(most + 1, None).tolist() == [True, True]
    assert store.within(most, None).tolist() == [False, True]
    assert store.within(None, int(store.target.lengths[0]) + 1).tolist() == [True, False]


def test_lines_out_of_range() -> None:
    lines = TokenLines(np.arange(3), np.array([0, 1, 3]))
    assert lines[1].tolist() == [1, 2]
    for line in (2, -1):
        with pytest.raises(IndexError):
            lines[line]


def test_long_lines_are_encoded_in_blocks(bpe: Tokenizer) -> None:
    lines = ["kurz", "ein langer Satz ohne Ende " * 4000, "", "床" * 50_000]
    ids, lengths = encode_lines(bpe, lines)
    assert lengths.tolist() == [len(bpe.encode(line)) for line in lines]
    assert ids.tolist() == [token for line in lines for token in bpe.encode(line)]


def test_a_tokenizer_without_end() -> None:
    with pytest.raises(UserError, match="no <end>"):
        store_from_pairs(PAIRS, train_tokenizer(["a"], "byte"))
