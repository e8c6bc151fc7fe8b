"""Tokenizers as GGUF's metadata, so that llama.cpp gives the ids that the model was trained on.

Byte-level BPE becomes kind gpt2 (pieces, merges, how words are cut by name); characters, and BPE on
characters with bytes for the rest, become kind llama (SentencePiece: pieces with scores, a space
written "▁").
"""

from __future__ import annotations

import json
import re
from typing import Any

from budgerigar.errors import UserError
from budgerigar.text.tokenizer_parts import GPT2, PATTERNS

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _BYTE = 1, 2, 3, 4, 6
_BYTE_PIECE = re.compile(r"<0x[0-9A-F]{2}>")
_SPACE = "▁"
_OURS = ("bpe", "byte", "character", "symbols")
_NUMBERS_NOTE = (
    "llama.cpp has no name for how this vocabulary cuts words; the nearest, gpt-2, may cut numbers of "
    "more than three digits and letters with combining marks otherwise."
)


def tokenizer_metadata(tokenizer: Any, starts_documents: bool) -> tuple[dict[str, Any], list[str]]:
    """(metadata, remarks). `starts_documents`: a text begins with the token that ends one.

    Raises:
        UserError: no kind of the format cuts text as this tokenizer does.
    """
    if not tokenizer.imported and tokenizer.kind not in _OURS:
        raise UserError(
            f"A tokenizer of kind {tokenizer.kind} has no counterpart in a GGUF file; kinds "
            f"{', '.join(_OURS)} have one."
        )
    document = json.loads(tokenizer.backend.to_str())
    model = document["model"]
    notes: list[str] = []
    if model["type"] != "BPE":
        raise UserError(f"A tokenizer of kind {model['type']} has no counterpart in a GGUF file.")
    if model.get("byte_fallback") or tokenizer.kind in ("character", "symbols"):
        values = _characters(document, tokenizer, notes)
    else:
        values = _bytes(document, tokenizer, notes)
    values |= _special(tokenizer, starts_documents)
    return {f"tokenizer.{key}": value for key, value in values.items()}, notes


def _pieces(document: dict[str, Any], n: int) -> tuple[list[str], list[int]]:
    """(texts, kinds) of all ids; one that no piece has is a name of its own."""
    texts, kinds = [f"[PAD{i}]" for i in range(n)], [_USER_DEFINED] * n
    for text, number in document["model"]["vocab"].items():
        if number < n:
            texts[number], kinds[number] = text, _NORMAL
    for token in document.get("added_tokens") or ():
        if token["id"] < n:
            texts[token["id"]] = token["content"]
            kinds[token["id"]] = _CONTROL if token["special"] else _USER_DEFINED
    return texts, kinds


def _merges(document: dict[str, Any]) -> list[list[str]]:
    """Pairs; older files have them as one string each."""
    merges = document["model"]["merges"]
    return [merge.split(" ") if isinstance(merge, str) else list(merge) for merge in merges]


# -- byte-level BPE --------------------------------------------------------------------------------
def _bytes(document: dict[str, Any], tokenizer: Any, notes: list[str]) -> dict[str, Any]:
    if tokenizer.imported:
        pre = _name_of(document)
    else:
        pre = "gpt-2"
        notes += [_NUMBERS_NOTE] * (tokenizer.kind == "bpe")
    texts, kinds = _pieces(document, tokenizer.vocab_size)
    return {
        "ggml.model": "gpt2",
        "ggml.pre": pre,
        "ggml.tokens": texts,
        "ggml.token_type": kinds,
        "ggml.merges": [" ".join(merge) for merge in _merges(document)],
    }


def _name_of(document: dict[str, Any]) -> str:
    """llama.cpp's name of the way in which words are cut."""
    step = document.get("pre_tokenizer") or {}
    patterns: list[str] = []
    for one in step.get("pretokenizers") or [step]:
        if one.get("type") == "Split":
            patterns.append((one.get("pattern") or {}).get("Regex", ""))
        elif one.get("type") == "Digits" and one.get("individual_digits"):
            patterns.append(r"\p{N}")
        elif one.get("type") == "ByteLevel":
            if one.get("add_prefix_space"):
                patterns.append("a space before the text")
            patterns += [GPT2] * bool(one.get("use_regex", True))
        else:
            patterns.append(str(one.get("type")))
    for name, known in PATTERNS.items():
        if tuple(patterns) == known:
            return name
    raise UserError(
        "This tokenizer cuts words in a way that llama.cpp has no name for "
        f"({', '.join(patterns)[:120]})."
    )


# -- characters ------------------------------------------------------------------------------------
def _characters(document: dict[str, Any], tokenizer: Any, notes: list[str]) -> dict[str, Any]:
    texts, kinds = _pieces(document, tokenizer.vocab_size)
    if not tokenizer.imported:
        if _SPACE in texts and " " in texts:
            raise UserError(
                f"This vocabulary has {_SPACE!r}, which stands for a space in GGUF files."
            )
        texts = [text.replace(" ", _SPACE) for text in texts]
    for i, text in enumerate(texts):
        if kinds[i] == _NORMAL and _BYTE_PIECE.fullmatch(text):
            kinds[i] = _BYTE
    if _BYTE not in kinds:
        notes.append(
            "This vocabulary has no bytes: llama.cpp stops with an error at a character that is not in "
            "it."
        )
    if tokenizer.imported and tokenizer.unk_id is not None:
        kinds[tokenizer.unk_id] = _UNKNOWN
    scores = [0.0] * len(texts)
    numbers = {text: i for i, text in enumerate(texts)}
    for rank, merge in reversed(list(enumerate(_merges(document)))):
        scores[numbers["".join(merge)]] = -float(rank)  # what is merged first has the best score
    return {
        "ggml.model": "llama",
        "ggml.tokens": texts,
        "ggml.scores": scores,
        "ggml.token_type": kinds,
        "ggml.add_space_prefix": bool(tokenizer.imported and _prefixes_space(document)),
    }


def _prefixes_space(document: dict[str, Any]) -> bool:
    """Whether a space is put before a text, by either of the two ways to say so."""
    said = json.dumps([document.get("normalizer"), document.get("pre_tokenizer")])
    return '"Prepend"' in said or re.search(r'"prepend_scheme": "(first|always)"', said) is not None


# -- special tokens --------------------------------------------------------------------------------
def _special(tokenizer: Any, starts_documents: bool) -> dict[str, Any]:
    if not tokenizer.imported:
        end = tokenizer.end_id
        if end is None:
            raise UserError(
                "This vocabulary has no token that ends a text, and llama.cpp needs one. Train with "
                "documents (--documents), so that there is one."
            )
        ids = {"bos": end, "eos": end, "unknown": end, "padding": end}
        return {**_ids(ids), "ggml.add_bos_token": starts_documents, "ggml.add_eos_token": False}
    first = next(iter(tokenizer.start_ids), tokenizer.opening_id)
    others = sorted(tokenizer.end_ids - {tokenizer.end_id})
    ids = {
        "bos": first,
        "eos": tokenizer.end_id,
        "unknown": tokenizer.unk_id,
        "padding": tokenizer.pad_id,
        "eot": others[0] if others else None,
    }
    values = {
        **_ids(ids),
        "ggml.add_bos_token": bool(tokenizer.start_ids),
        "ggml.add_eos_token": bool(tokenizer.closing_ids),
    }
    if tokenizer.chat_template is not None:
        values["chat_template"] = tokenizer.chat_template
    return values


def _ids(ids: dict[str, int | None]) -> dict[str, Any]:
    return {f"ggml.{role}_token_id": number for role, number in ids.items() if number is not None}
