"""The bytes that one token stands for, whatever its authors' decoder does.

A decoder of the `tokenizers` library turns a whole list of pieces into a text; streaming needs the
bytes of one. They depend on what stands before only in one way: the first piece of a text loses the
space that was put there when it was cut (SentencePiece, Metaspace), or never had one (WordPiece).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from tokenizers import Tokenizer as Backend

from budgerigar.errors import UserError
from budgerigar.text.pieces import CHARACTER_TO_BYTE

_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_ANCHOR = "a"  # stands before a piece to see what it is in the middle of a text
_KNOWN = {"ByteLevel", "ByteFallback", "Metaspace", "WordPiece", "Replace", "Fuse", "Strip"}


def piece_reader(document: dict[str, Any]) -> Callable[[str, bool], bytes]:
    """A function (piece, whether it is the first of a text) -> bytes, for a `tokenizer.json`.

    Raises:
        UserError: it has a decoder whose pieces have no bytes of their own.
    """
    steps = _steps(document.get("decoder"))
    kinds = {step.get("type") for step in steps}
    strange = sorted(str(kind) for kind in kinds - _KNOWN)
    if strange:
        raise UserError(
            f"this tokenizer joins its pieces by {', '.join(strange)}, which cannot be read here; "
            f"known are {', '.join(sorted(_KNOWN))}"
        )
    if "ByteLevel" in kinds:
        return lambda piece, first: _byte_level(piece, steps)
    join = _joiner(document.get("decoder"))
    falls_back = "ByteFallback" in kinds

    def read(piece: str, first: bool) -> bytes:
        match = _BYTE_PIECE.fullmatch(piece) if falls_back else None
        if match:
            return bytes.fromhex(match[1])
        if first:
            return join([piece]).encode()
        return join([_ANCHOR, piece]).removeprefix(join([_ANCHOR])).encode()

    return read


def _joiner(decoder: dict[str, Any] | None) -> Callable[[list[str]], str]:
    """The library's own decoder: a list of pieces as a text."""
    if not decoder:
        return " ".join
    empty = {"type": "BPE", "vocab": {}, "merges": []}
    backend = Backend.from_str(json.dumps({"version": "1.0", "model": empty, "decoder": decoder}))
    join: Callable[[list[str]], str] = backend.decoder.decode
    return join


def _steps(decoder: dict[str, Any] | None) -> list[dict[str, Any]]:
    """A decoder's steps, sequences within sequences laid flat."""
    if not decoder:
        return []
    if decoder.get("type") == "Sequence":
        return [step for one in decoder.get("decoders") or () for step in _steps(one)]
    return [decoder]


def _byte_level(piece: str, steps: list[dict[str, Any]]) -> bytes:
    for step in steps:
        if step.get("type") == "Replace" and "String" in step.get("pattern", {}):
            piece = piece.replace(step["pattern"]["String"], step["content"])
    if all(character in CHARACTER_TO_BYTE for character in piece):
        return bytes(CHARACTER_TO_BYTE[character] for character in piece)
    return piece.encode()
