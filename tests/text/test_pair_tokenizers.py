"""Which tokenizers sentence pairs get."""

from pathlib import Path

import pytest

from budgerigar.errors import UserError
from budgerigar.text.pair_corpus import PairCorpus, PairFiles, prepare_pair_lists, prepare_pairs
from budgerigar.text.pair_tokenizers import pair_vocab_size

CHINESE = [
    "我不知道。",
    "你好吗？",
    "他有一只 Tom 猫。",
    "我不知道你是谁。",
    "她不知道。",
    "你是谁？",
]
ENGLISH = [
    "I do not know.",
    "How are you?",
    "He has a cat.",
    "I do not know who you are.",
    "She does not know.",
    "Who are you?",
]
KOREAN = [
    "나는 모른다 .",
    "너는 누구 야 ?",
    "그는 고양이 가 있다 .",
    "나는 너를 안다 .",
    "아니 요 .",
    "네 .",
]


def made(source: list[str], target: list[str], **settings: object) -> PairCorpus:
    pairs = list(zip(source, target, strict=True)) * 20
    return prepare_pair_lists(pairs, pairs[:3], **settings)  # type: ignore[arg-type]


def test_a_side_without_spaces_gets_characters_of_its_own() -> None:
    there, back = made(CHINESE, ENGLISH), made(ENGLISH, CHINESE)
    assert (there.source_tokenizer.kind, there.tokenizer.kind) == ("character", "bpe")
    assert (back.source_tokenizer.kind, back.tokenizer.kind) == ("bpe", "character")
    ids = there.source_tokenizer.encode("我不知道")
    assert [there.source_tokenizer.decode([i]) for i in ids] == list("我不知道")
    assert "tokenizer of source: character" in "\n".join(there.notes)
    assert "because it is written without spaces" in "\n".join(there.notes)


@pytest.mark.parametrize(
    ("source", "target", "settings", "kind"),
    [
        (ENGLISH, ENGLISH, {}, "bpe"),
        (KOREAN, ENGLISH, {}, "bpe"),  # its words stand between spaces
        (CHINESE, CHINESE, {}, "character"),
        (CHINESE, ENGLISH, {"vocabulary": "joint"}, "bpe"),
        (CHINESE, ENGLISH, {"tokenizer": "bpe"}, "bpe"),
    ],
)
def test_else_one_serves_both(
    source: list[str], target: list[str], settings: dict[str, object], kind: str
) -> None:
    corpus = made(source, target, **settings)
    assert corpus.source_tokenizer is corpus.tokenizer
    assert corpus.tokenizer.kind == kind


def test_naming_the_sources_asks_for_two() -> None:
    corpus = made(ENGLISH, ENGLISH, tokenizer="word", source_tokenizer="character")
    assert (corpus.source_tokenizer.kind, corpus.tokenizer.kind) == ("character", "word")
    with pytest.raises(UserError, match="needs vocabulary separate"):
        made(ENGLISH, ENGLISH, vocabulary="joint", source_tokenizer="character")


def test_two_come_back_from_the_cache(tmp_path: Path) -> None:
    for name, lines in (("a.zh", CHINESE), ("a.en", ENGLISH)):
        (tmp_path / name).write_text("\n".join(lines * 5) + "\n", encoding="utf-8")
    files = PairFiles((tmp_path / "a.zh",), (tmp_path / "a.en",))
    first, again = (prepare_pairs(files, cache=tmp_path / "cache") for _ in range(2))
    assert first.source_tokenizer.kind == again.source_tokenizer.kind == "character"
    assert first.fingerprint == again.fingerprint
    assert first.notes == again.notes


def test_pieces_grow_with_the_text() -> None:
    assert [pair_vocab_size(n) for n in (0, 3_911_636, 30_000_000, 10**9)] == [
        512, 8192, 16384, 32768
    ]  # fmt: skip
