"""A copy of a tokenizer in which no text can spell a special token.

What a user types is text, also `<s>`, `<|im_end|>` or `<0x0A>`. The library's own switch
(`encode_special_tokens`) does not look into the vocabulary: a unigram model finds "<s>" among its
pieces like any other word, and WordLevel does too. So the copy that cuts texts has its special
tokens under names drawn at random for this process, which no text can hold; ids stay the same.
"""

from __future__ import annotations

import copy
import re
import secrets
from typing import Any

_BYTE_PIECE = re.compile(r"<0x([0-9A-F]{2})>")
_NONCE = secrets.token_hex(8)


def sealed_name(number: int) -> str:
    """What the special token of that id is called in the copy. (Not a character of any text.)"""
    return f"\ufdd0{_NONCE} {number}\ufdd1"


def sealed(document: dict[str, Any]) -> tuple[dict[str, Any], dict[int, int]]:
    """(the copy of a `tokenizer.json`, the id of each byte where a unigram model falls back to bytes).

    The byte pieces of such a model are sealed too, because it would find them in a text; what it
    does not know comes out as the unknown token, and its bytes are put in by `ImportedTokenizer`.
    """
    model = copy.copy(document["model"])
    numbers = piece_numbers(document)
    names = {
        token["content"]: sealed_name(numbers[token["content"]])
        for token in document.get("added_tokens") or ()
        if token.get("special")
    }
    byte_ids: dict[int, int] = {}
    if model.get("type") == "Unigram" and model.get("byte_fallback"):
        for text, number in numbers.items():
            match = _BYTE_PIECE.fullmatch(text)
            if match:
                byte_ids[int(match[1], 16)] = number
                names[text] = sealed_name(number)
        model["byte_fallback"] = False
    vocabulary = model.get("vocab")
    if isinstance(vocabulary, dict):
        model["vocab"] = {names.get(text, text): number for text, number in vocabulary.items()}
    elif vocabulary is not None:
        model["vocab"] = [[names.get(text, text), score] for text, score in vocabulary]
    if model.get("unk_token") in names:
        model["unk_token"] = names[model["unk_token"]]
    added = [
        token | {"content": names[token["content"]], "normalized": False}
        if token.get("special")
        else token
        for token in document.get("added_tokens") or ()
    ]
    copied = document | {"model": model, "added_tokens": added, "post_processor": None}
    return copied | {"truncation": None, "padding": None}, byte_ids


def piece_numbers(document: dict[str, Any]) -> dict[str, int]:
    """The id of every piece and added token of a `tokenizer.json`."""
    vocabulary = document["model"].get("vocab") or {}
    if isinstance(vocabulary, dict):
        numbers = dict(vocabulary)
    else:
        numbers = {text: number for number, (text, _) in enumerate(vocabulary)}
    for token in document.get("added_tokens") or ():
        numbers[token["content"]] = token["id"]
    return numbers
