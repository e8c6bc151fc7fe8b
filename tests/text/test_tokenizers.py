from __future__ import annotations

import json
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend

from budgerigar.errors import UserError
from budgerigar.text import tokenizers
from budgerigar.text.sampling import draw_sample
from budgerigar.text.tokenizer import END, KINDS, Tokenizer
from budgerigar.text.tokenizers import choose_kind, train_tokenizer

TEXT = (
    "The budgerigar has green feathers; it doesn't sing, but the budgerigar likes 1234 seeds.\n"
    "轩辕有一只虎皮鹦鹉，它有绿色的羽毛。\n\n  if x == 1:\n    return\tx  # ¿qué?\n"
) * 4
FALLBACK = [kind for kind in KINDS if kind != "symbols"]  # these encode every string
ALL_SCALARS = st.text(st.characters(exclude_categories=["Cs"]))
# Strings that lie near the edges of pieces: blanks of all kinds, letters, marks, signs.
EDGES = st.text(st.sampled_from("aab诗é\u0301 \n\t\u3000\u2028\x1c\x85\u180e\r1'.#↳Ġ<end>"))


@lru_cache
def trained(kind: str) -> Tokenizer:
    return train_tokenizer([TEXT], kind, None, end=True)


@pytest.mark.parametrize("kind", FALLBACK)
@given(text=ALL_SCALARS | EDGES)
@example(text="<end> <s> </s> [MASK] <|endoftext|> <0x41> <unk> ##ing ▁a ↳a Ġ Ċ")
@example(text="\ufeff\0\ufffd\U0010ffff\ud7ff\ue000\r\n")
@example(text="é" * 3000 + " " * 3000 + "\n" * 2500 + "!" * 1500)
@settings(deadline=None, max_examples=40)
def test_every_string_comes_back(kind: str, text: str) -> None:
    tokenizer = trained(kind)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode_bytes(ids) == text.encode()
    assert tokenizer.end_id not in ids
    # The file that others load says the same.
    outside = tokenizer.backend.encode(text, add_special_tokens=False).ids
    assert ids == outside
    assert tokenizer.backend.decode(ids, skip_special_tokens=False) == text
    assert len(tokenizer.pieces(ids)) == len(ids)


@pytest.mark.parametrize("kind", FALLBACK)
@given(parts=st.lists(EDGES, max_size=6), size=st.integers(1, 40))
@settings(deadline=None, max_examples=60)
def test_ids_do_not_depend_on_blocks(kind: str, parts: list[str], size: int) -> None:
    tokenizer = trained(kind)
    text = "".join(parts)
    whole = tokenizer.encode_many([text])[0]
    assert np.array_equal(tokenizer.encode_array(text, size), whole)
    # A text that arrives in parts, as from a file.
    ids: list[int] = []
    rest = ""
    for part in parts:
        blocks, rest = tokenizer.split_safely(rest + part, size)
        ids += tokenizer.encode_many(blocks)[0].tolist()
    assert ids + tokenizer.encode(rest) == whole.tolist()


@pytest.mark.parametrize("kind", ["bpe", "word"])
@pytest.mark.parametrize("text", ["a" * 9000, " " * 9000, "诗" * 9000, "a" * 2999 + " \n" * 3000])
def test_blocks_of_endless_words(kind: str, text: str) -> None:
    tokenizer = trained(kind)
    whole = tokenizer.backend.encode(text, add_special_tokens=False).ids
    blocks, rest = tokenizer.split_safely(text, 500)
    assert max(map(len, [*blocks, rest])) < 5000  # constant memory: the rest stays short
    assert tokenizer.encode_many([*blocks, rest])[0].tolist() == whole


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_loaded_it_is_the_same(tmp_path: Path, kind: str) -> None:
    tokenizer = train_tokenizer([TEXT.replace("<", "")], kind, end=True)
    tokenizer.save(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "tokenizer.json",
        "tokenizer_extras.json",
    ]
    loaded = Tokenizer.load(tmp_path)
    text = TEXT + ("" if kind == "symbols" else f"{END} new: 𠮷")
    assert loaded.encode(text) == tokenizer.encode(text)
    assert loaded.decode(loaded.encode(text)) == text
    assert loaded.kind == kind
    assert loaded.end_id == tokenizer.end_id == tokenizer.vocab_size - 1
    assert np.array_equal(loaded.never_seen, tokenizer.never_seen)
    assert loaded.fingerprint == tokenizer.fingerprint
    outside = Backend.from_file(str(tmp_path / "tokenizer.json"))
    assert outside.encode(TEXT, add_special_tokens=False).ids == loaded.encode(TEXT)
    assert outside.decode(loaded.encode(TEXT)) == TEXT
    assert outside.get_vocab_size() == loaded.vocab_size


def test_a_missing_or_damaged_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no tokenizer that can be read"):
        Tokenizer.load(tmp_path)
    trained("byte").save(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(UserError, match="no tokenizer that can be read"):
        Tokenizer.load(tmp_path)


def test_symbols_are_the_characters_in_order_and_no_other() -> None:
    tokenizer = train_tokenizer(["hello\nworld"], "symbols")
    assert tokenizer.vocab_size == len(set("hello\nworld"))
    assert tokenizer.encode("low") == [sorted(set("hello\nworld")).index(c) for c in "low"]
    assert tokenizer.end_id is None
    with pytest.raises(UserError, match=r"'é' \(U\+00E9, LATIN SMALL LETTER E WITH ACUTE\)"):
        tokenizer.encode("hé")


def test_bytes_are_their_own_ids() -> None:
    assert train_tokenizer(["x"], "byte").encode("é\0") == [*"é".encode(), 0]
    for kind in ("bpe", "unigram", "wordpiece", "word"):
        assert [trained(kind).token_bytes(i) for i in range(256)] == [
            bytes([i]) for i in range(256)
        ]


def test_words_are_whole() -> None:
    tokenizer = trained("word")
    ids = tokenizer.encode("The budgerigar likes 轩辕, it")
    assert [tokenizer.decode([i]) for i in ids] == [
        "The", " budgerigar", " likes", " ", "轩", "辕", ",", " it",
    ]  # fmt: skip
    unknown = tokenizer.encode(" zyxw")
    assert [tokenizer.token_bytes(i) for i in unknown] == [b" ", b"z", b"y", b"x", b"w"]


def test_special_tokens_hold_no_text() -> None:
    tokenizer = trained("bpe")
    assert tokenizer.special_ids == {END: tokenizer.end_id}
    assert tokenizer.token_bytes(tokenizer.end_id or 0) == b""
    ids = [tokenizer.end_id or 0, *tokenizer.encode("a b")]
    assert tokenizer.decode(ids) == "a b"
    assert tokenizer.pieces(ids) == [END, "a", "␣b"]
    with pytest.raises(UserError, match="not an id"):
        tokenizer.decode([tokenizer.vocab_size])


def test_cut_characters_become_replacement_characters() -> None:
    tokenizer = trained("byte")
    assert tokenizer.decode(tokenizer.encode("a诗")[:-1]) == "a\ufffd"


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_never_seen(kind: str) -> None:
    tokenizer = train_tokenizer([TEXT], kind, end=True)
    seen = set(tokenizer.encode(TEXT)) | {tokenizer.end_id}
    assert {i for i in range(tokenizer.vocab_size) if not tokenizer.never_seen[i]} == seen


def test_half_a_surrogate_pair_is_an_error() -> None:
    for kind in ("character", "byte", "bpe"):
        with pytest.raises(UserError, match=r"character 1 .*U\+D800"):
            trained(kind).encode("a\ud800")


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece", "word", "character"])
def test_vocabulary_size_is_kept(kind: str) -> None:
    text = " ".join(f"{a}{b}{c}" for a in "stgklm" for b in "aeiou" for c in "nmrlst") * 3
    assert train_tokenizer([text], kind, 600, end=True).vocab_size <= 600
    with pytest.raises(UserError, match=r"too small.*at least \d+"):
        train_tokenizer([text], kind, 100)


def test_unknown_kind() -> None:
    with pytest.raises(UserError, match="no such kind"):
        train_tokenizer(["a"], "morfessor")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["a", "\n\n", "a" * 30, "诗"])
def test_tiny_texts_train(kind: str, text: str) -> None:
    tokenizer = train_tokenizer([text], kind)
    assert tokenizer.decode(tokenizer.encode(text)) == text


def many_characters(n: int, start: int) -> str:
    return "".join(chr(start + i) for i in range(n))


def test_what_auto_chooses() -> None:
    def kind(text: str) -> str:
        return choose_kind(draw_sample([text], 10**6, 0))[0]

    assert kind("plain English text") == "character"
    assert kind(many_characters(512, 0x400)) == "character"
    assert kind(many_characters(513, 0x400)) == "bpe"
    assert kind(many_characters(8000, 0x4E00)) == "character"
    assert kind(many_characters(8001, 0x4E00)) == "bpe"
    assert kind(many_characters(800, 0x4E00) + many_characters(801, 0x400)) == "bpe"


def test_rare_characters_of_many_are_left_to_the_bytes() -> None:
    text = many_characters(600, 0x4E00) * 2 + "鹦"
    tokenizer = train_tokenizer([text], "character")
    assert tokenizer.vocab_size == 600 + 256
    assert len(tokenizer.encode("鹦")) == 3
    assert not tokenizer.never_seen[tokenizer.encode("鹦")].any()


def test_training_is_the_same_in_every_process(tmp_path: Path) -> None:
    """Hash seeds change from process to process, in Python and in the library."""
    code = (
        "import sys\n"
        "from budgerigar.text.tokenizers import KINDS, train_tokenizer\n"
        "text = open(sys.argv[1], encoding='utf-8').read()\n"
        "print([train_tokenizer([text], kind, None).fingerprint for kind in KINDS])\n"
    )
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    runs = [
        subprocess.run([sys.executable, "-c", code, path], capture_output=True, check=True).stdout
        for _ in range(2)
    ]
    assert runs[0] == runs[1]


def test_long_words_train_quickly() -> None:
    tokenizer = train_tokenizer(["诗人" * 20_000 + "a" * 20_000], "bpe")
    assert tokenizer.decode(tokenizer.encode("诗人a" * 5000)) == "诗人a" * 5000


def test_extras_are_small_json(tmp_path: Path) -> None:
    trained("bpe").save(tmp_path)
    extras = json.loads((tmp_path / "tokenizer_extras.json").read_text(encoding="utf-8"))
    assert extras.keys() == {"format_version", "kind", "never_seen"}


def test_texts_of_distinct_words_are_thinned_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizers, "_DISTINCT_BYTES", {"bpe": 3000})
    letters = "abcdefghij"
    distinct = [f"word{a}{b}{c}xx\n" for a in letters for b in letters for c in letters]  # 10 kB
    kept = tokenizers._affordable("bpe", distinct)
    assert 250 < len(kept) < 350
    assert kept == sorted(kept)
    repeated = ["same\n"] * 1000
    assert tokenizers._affordable("bpe", repeated) == repeated
    assert tokenizers._affordable("word", distinct) == distinct
    assert tokenizers._affordable("bpe", [""]) == [""]
