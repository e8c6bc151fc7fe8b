from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import foreign_tokenizers as foreign
import numpy as np
import pytest
from foreign_tokenizers import NASTY
from hypothesis import given, settings
from hypothesis import strategies as st

from budgerigar.errors import UserError
from budgerigar.text.imported_tokenizer import (
    ImportedTokenizer,
    tokenizer_from_folder,
    tokenizers_from_folder,
)
from budgerigar.text.tokenizer import Tokenizer
from budgerigar.text.tokenizer_parts import LLAMA3, QWEN2

TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.text(
    st.sampled_from("aeThe budgr  ▁\n\t轩🦜é\u0301<s>/[]|'1.,")
)


def theirs(folder: Path) -> Any:
    """The same folder by transformers, told that special tokens in a text are text."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, local_files_only=True)


def their_ids(other: Any, text: str) -> list[int]:
    return list(other.encode(text, add_special_tokens=False, split_special_tokens=True))


LAYOUTS: dict[str, Any] = {
    "tokenizer.json, GPT-2": foreign.byte_level,
    "tokenizer.json, Llama 3": lambda folder: foreign.byte_level(folder, LLAMA3),
    "tokenizer.json, Qwen 2": lambda folder: foreign.byte_level(folder, QWEN2),
    "tokenizer.json, Llama 2": foreign.llama_like,
    "vocab.json and merges.txt": foreign.two_files,
    "vocab.txt": foreign.bert_like,
    "vocab.txt, cased": lambda folder: foreign.bert_like(folder, lowercase=False),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_ids_and_texts_are_those_of_transformers(tmp_path: Path, layout: str) -> None:
    LAYOUTS[layout](tmp_path)
    ours, other = tokenizer_from_folder(tmp_path), theirs(tmp_path)
    assert ours.vocab_size == len(other)
    for text in NASTY:
        ids = ours.encode(text)
        assert ids == their_ids(other, text), text
        assert ours.wrapped(ids) == other.encode(text, split_special_tokens=True), text
        whole = other.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        if "\ufffd" not in whole:
            assert ours.decode(ids) == whole, text
        assert not set(ids) & (set(ours.special_ids.values()) - {ours.unk_id}), text
    roles = ("bos", "eos", "mask", "unk", "pad")
    known = {r: getattr(other, f"{r}_token_id", None) for r in roles}
    assert ours.mask_id == known["mask"]
    assert ours.end_id == known["eos"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_saved_and_loaded_it_is_the_same(tmp_path: Path, layout: str) -> None:
    LAYOUTS[layout](tmp_path / "theirs")
    ours = tokenizer_from_folder(tmp_path / "theirs")
    ours.save(tmp_path / "ours", "source_")
    loaded = Tokenizer.load(tmp_path / "ours", "source_")
    assert isinstance(loaded, ImportedTokenizer)
    assert loaded.fingerprint == ours.fingerprint
    assert [loaded.encode(text) for text in NASTY] == [ours.encode(text) for text in NASTY]
    for name in ("start_ids", "closing_ids", "end_ids", "end_id", "mask_id", "unk_id", "names"):
        assert getattr(loaded, name) == getattr(ours, name), name
    assert loaded.source == ours.source


@pytest.mark.parametrize("layout", LAYOUTS)
@given(text=TEXTS, size=st.integers(1, 30))
@settings(deadline=None, max_examples=25)
def test_pieces_one_by_one_and_blocks_change_nothing(
    made: Any, layout: str, text: str, size: int
) -> None:
    tokenizer = made(layout)
    whole = tokenizer.encode(text)
    assert tokenizer.encode_array(text, size).tolist() == whole
    rest = [i for i in whole if i not in tokenizer.special_ids.values()]
    joined = b"".join(tokenizer.token_bytes(i, k == 0) for k, i in enumerate(rest))
    assert joined.decode(errors="replace") == tokenizer.decode(whole)
    if tokenizer.lossy is None:
        assert tokenizer.decode(whole) == text
    assert len(tokenizer.pieces(whole)) == len(whole)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    known: dict[str, ImportedTokenizer] = {}

    def get(layout: str) -> ImportedTokenizer:
        if layout not in known:
            folder = tmp_path_factory.mktemp("tokenizer")
            LAYOUTS[layout](folder)
            known[layout] = tokenizer_from_folder(folder)
        return known[layout]

    return get


# -- SentencePiece ---------------------------------------------------------------------------------
MODELS: dict[str, dict[str, Any]] = {
    "BPE": {"kind": "bpe"},
    "BPE like Llama's": {
        "kind": "bpe",
        "byte_fallback": True,
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "allow_whitespace_only_pieces": True,
        "split_digits": True,
    },
    "BPE with symbols of the user's": {
        "kind": "bpe",
        "byte_fallback": True,
        "vocab_size": 360,
        "user_defined_symbols": ["<tool>", "budger"],
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
    },
    "unigram": {"kind": "unigram"},
    "unigram like T5's": {"kind": "unigram", "pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1},
    "unigram with bytes": {"kind": "unigram", "byte_fallback": True},
    "unigram without a first space": {
        "kind": "unigram",
        "add_dummy_prefix": False,
        "remove_extra_whitespaces": False,
        "normalization_rule_name": "nfkc",
    },
}


@pytest.mark.parametrize("name", MODELS)
def test_ids_are_those_of_sentencepiece(tmp_path: Path, name: str) -> None:
    processor = foreign.sentencepiece_model(tmp_path / "tokenizer.model", **MODELS[name])
    ours = tokenizer_from_folder(tmp_path)
    assert ours.vocab_size == processor.vocab_size()
    for text in [*NASTY, *foreign.LINES[:4], "a <tool> b", "budgerbudger <tool>"]:
        if "\0" in text:
            continue  # its Python end reads C strings
        assert ours.encode(text) == processor.encode(text), text
        ids = processor.encode(text)
        if processor.unk_id() not in ids:  # it writes them as " ⁇ "
            assert ours.decode(ids) == processor.decode(ids), text


@pytest.fixture(scope="module")
def processors(tmp_path_factory: pytest.TempPathFactory) -> Any:
    known: dict[str, Any] = {}

    def get(name: str) -> tuple[Any, ImportedTokenizer]:
        if name not in known:
            folder = tmp_path_factory.mktemp("sentencepiece")
            processor = foreign.sentencepiece_model(folder / "spiece.model", **MODELS[name])
            known[name] = processor, tokenizer_from_folder(folder)
        return known[name]

    return get


@pytest.mark.parametrize("name", MODELS)
@given(text=TEXTS)
@settings(deadline=None, max_examples=60)
def test_any_text_is_cut_as_sentencepiece_cuts_it(processors: Any, name: str, text: str) -> None:
    processor, ours = processors(name)
    text = text.replace("\0", "")
    assert ours.encode(text) == processor.encode(text)


def test_a_damaged_model_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.model"
    foreign.sentencepiece_model(path, "bpe")
    whole = path.read_bytes()
    for data in (
        b"",
        b"hello world",
        whole[: len(whole) // 2],
        b"\x0a\xff\xff\xff\xff\x7f",
        b"\xff" * 20,
    ):
        path.write_bytes(data)
        with pytest.raises(UserError, match="tokenizer\\.model"):
            tokenizer_from_folder(tmp_path)


# -- T5 and Marian ---------------------------------------------------------------------------------
def test_sentinels_of_t5_stand_behind_the_pieces_backwards(tmp_path: Path) -> None:
    processor = foreign.sentencepiece_model(
        tmp_path / "spiece.model", **MODELS["unigram like T5's"]
    )
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "t5", "eos_token_id": 1}))
    ours, n = tokenizer_from_folder(tmp_path), processor.vocab_size()
    assert ours.vocab_size == n + 100
    assert ours.special_ids["<extra_id_0>"] == n + 99
    assert ours.special_ids["<extra_id_99>"] == n
    assert ours.closing_ids == (1,)
    assert ours.end_ids == {1}
    assert ours.start_ids == ()
    for text in NASTY[:11]:
        ids = ours.encode(text)
        assert ids == processor.encode(text)
        assert ours.wrapped(ids) == [*ids, 1]
    expected = [*processor.encode("The"), n + 99, *processor.encode("sings")]
    assert ours.encode_parts(["The ", n + 99, " sings"]) == expected
    assert ours.decode(expected) == "The sings"


def test_marian_cuts_by_two_models_and_numbers_by_one_table(tmp_path: Path) -> None:
    pytest.importorskip("sentencepiece")
    foreign.sentencepiece_model(tmp_path / "source.spm", "unigram")
    processor = foreign.sentencepiece_model(tmp_path / "target.spm", "unigram", vocab_size=90)
    pieces = [processor.id_to_piece(i) for i in range(processor.vocab_size())]
    kept = [p for p in pieces if p not in ("<s>", "<unk>", "</s>")][:-5]  # five that it lacks
    names = ["</s>", "<unk>", *reversed(kept), ">>fra<<", "<pad>"]
    (tmp_path / "vocab.json").write_text(json.dumps({p: i for i, p in enumerate(names)}))
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "MarianTokenizer", "source_lang": "en", "target_lang": "fr"})
    )
    target, source = tokenizers_from_folder(tmp_path)
    other = theirs(tmp_path)
    assert source.vocab_size == target.vocab_size == len(names)
    for text in [*foreign.LINES[:4], *NASTY[:11], ">>fra<< The budgerigar", ">>fra<<"]:
        assert source.wrapped(source.encode(text)) == other(text)["input_ids"], text
        assert target.wrapped(target.encode(text)) == other(text_target=text)["input_ids"], text
    assert source.end_id == 0
    assert source.pad_id == len(names) - 1
    saved = tmp_path / "saved"
    source.save(saved)
    text = foreign.LINES[1]
    assert Tokenizer.load(saved).encode(text) == source.encode(text)


# -- what is declared ------------------------------------------------------------------------------
def test_a_text_ends_at_every_token_that_any_file_calls_an_end(tmp_path: Path) -> None:
    foreign.byte_level(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": 0}))
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 5, 10**6]}))
    tokenizer = tokenizer_from_folder(tmp_path)
    assert tokenizer.end_ids == {0, 2, 5}
    assert tokenizer.end_id == 2  # the tokenizer's own: <|im_end|>


def test_what_is_added_before_a_text_is_added_once(tmp_path: Path) -> None:
    foreign.llama_like(tmp_path)
    tokenizer = tokenizer_from_folder(tmp_path)
    assert tokenizer.start_ids == (1,)
    path = tmp_path / "tokenizer_config.json"
    settings = json.loads(path.read_text())
    for switch, expected in ((True, (1,)), (False, ())):
        path.write_text(json.dumps(settings | {"add_bos_token": switch}))
        assert tokenizer_from_folder(tmp_path).start_ids == expected
        assert tokenizer_from_folder(tmp_path).opening_id == 1


def test_special_tokens_of_any_file_are_special(tmp_path: Path) -> None:
    foreign.byte_level(tmp_path)
    (tmp_path / "special_tokens_map.json").write_text(
        json.dumps({"additional_special_tokens": ["<tool>"], "mask_token": {"content": "<mask>"}})
    )
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<mask>": 421}))
    tokenizer = tokenizer_from_folder(tmp_path)
    assert tokenizer.special_ids["<tool>"] == 420
    assert tokenizer.mask_id == 421
    assert not {420, 421} & set(tokenizer.encode("a <tool> b <mask>"))
    assert tokenizer.decode([*tokenizer.encode("a"), 421, 420]) == "a"
    assert tokenizer.pieces([421]) == ["<mask>"]


def test_what_is_lost_is_said(tmp_path: Path) -> None:
    foreign.byte_level(tmp_path / "bytes")
    assert tokenizer_from_folder(tmp_path / "bytes").lossy is None
    foreign.bert_like(tmp_path / "bert")
    lossy = tokenizer_from_folder(tmp_path / "bert").lossy
    assert lossy is not None
    assert lossy.startswith("loses upper case, accents, runs of spaces, line ends")


def test_errors_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no tokenizer that can be read"):
        tokenizer_from_folder(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(UserError, match="tokenizer\\.json cannot be read"):
        tokenizer_from_folder(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(UserError, match="lacks a model with a vocabulary"):
        tokenizer_from_folder(tmp_path)
    foreign.byte_level(tmp_path, eos_token="<|im_end|>")
    (tmp_path / "tokenizer_config.json").write_text("[]")
    with pytest.raises(UserError, match="tokenizer_config\\.json should hold a table"):
        tokenizer_from_folder(tmp_path)


# -- the first space -------------------------------------------------------------------------------
def test_the_first_space_is_the_cutters_and_every_other_the_authors(tmp_path: Path) -> None:
    foreign.llama_like(tmp_path)
    tokenizer = tokenizer_from_folder(tmp_path)
    ids = tokenizer.encode("The budgerigar has")
    assert tokenizer.decode([1, *ids]) == "The budgerigar has"
    assert tokenizer.token_bytes(ids[0]) == b" " + tokenizer.token_bytes(ids[0], first=True)
    assert tokenizer.decode_bytes(ids[1:]) == b"".join(tokenizer.token_bytes(i) for i in ids[1:])


# -- files that mean harm --------------------------------------------------------------------------
@pytest.mark.parametrize("layout", ["tokenizer.json, GPT-2", "tokenizer.json, Llama 2"])
@pytest.mark.parametrize(
    "n", [pytest.param(150, id="few"), pytest.param(2000, id="many", marks=pytest.mark.slow)]
)
def test_damaged_files_are_read_or_refused(tmp_path: Path, layout: str, n: int) -> None:
    LAYOUTS[layout](tmp_path)
    names = ("tokenizer.json", "tokenizer_config.json")
    whole = {name: json.loads((tmp_path / name).read_text()) for name in names}
    random = np.random.Generator(np.random.PCG64(3))
    refused = 0
    for k in range(n):
        name = names[k % 5 == 0]
        (tmp_path / name).write_text(json.dumps(foreign.damaged(whole[name], random)))
        try:
            tokenizer = tokenizer_from_folder(tmp_path)
            tokenizer.decode(tokenizer.encode("The <s> budgerigar 虎"))
        except UserError:
            refused += 1
        (tmp_path / name).write_text(json.dumps(whole[name]))
    assert 0 < refused < n
