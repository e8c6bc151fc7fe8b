"""SentencePiece's `.model` files (Kudo & Richardson 2018), read without its library.

The file is one protobuf message: the pieces with their scores, how they were trained, and how a
text is normalised first. Here it becomes a `tokenizer.json`, whose library then does the cutting:

    normalise (a table of characters), join runs of spaces, put one before the text, write it as ▁
    BPE: merge the neighbours whose joined piece has the best score, until none is a piece
    unigram: the cutting whose pieces have the best sum of scores
    a character that is no piece: its bytes as pieces <0x00> to <0xFF>, or the unknown token
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from budgerigar.errors import UserError
from budgerigar.text.declared_tokens import added_token

SPACE = "▁"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
UNIGRAM, BPE = 1, 2
_MODELS = {UNIGRAM: "unigram", BPE: "BPE", 3: "word", 4: "character"}
MOST_PIECES = 2_000_000
MOST_BYTES = 256_000_000


class Piece(NamedTuple):
    """One entry of the vocabulary; its id is its place."""

    text: str
    score: float
    kind: int = NORMAL


@dataclass
class SentencePieceModel:
    """What a `.model` file holds, as far as cutting a text needs it."""

    pieces: list[Piece] = field(default_factory=list)
    model_type: int = UNIGRAM
    byte_fallback: bool = False
    charsmap: bytes = b""
    add_space: bool = True
    join_spaces: bool = True
    escape_spaces: bool = True
    space_behind: bool = False
    bos_id: int = 1
    eos_id: int = 2
    pad_id: int = -1

    @property
    def unk_id(self) -> int | None:
        """The id of what is no piece."""
        return next((i for i, piece in enumerate(self.pieces) if piece.kind == UNKNOWN), None)


# -- the file --------------------------------------------------------------------------------------
def read_sentencepiece(path: Path) -> SentencePieceModel:
    """Read a `.model` or `.spm` file. Raises `UserError` for what is damaged or something else."""
    if path.stat().st_size > MOST_BYTES:
        raise UserError(f"{path} is too large to be a SentencePiece model.")
    try:
        model = _parse(path.read_bytes())
    except (ValueError, struct.error, IndexError) as error:
        raise UserError(f"{path} is no SentencePiece model, or is damaged ({error}).") from None
    if not model.pieces or model.model_type not in _MODELS:
        raise UserError(f"{path} is no SentencePiece model: it has no pieces.")
    if model.model_type not in (UNIGRAM, BPE):
        raise UserError(
            f"{path} is a SentencePiece model of type {_MODELS[model.model_type]}; unigram and BPE "
            "are read."
        )
    return model


def _parse(data: bytes) -> SentencePieceModel:
    model = SentencePieceModel()
    for number, value in _fields(data):
        if number == 1:
            model.pieces.append(_piece(_bytes(value)))
            if len(model.pieces) > MOST_PIECES:
                raise ValueError("too many pieces")
        elif number == 2:
            _training(model, _bytes(value))
        elif number == 3:
            _normalizing(model, _bytes(value))
    return model


def _piece(data: bytes) -> Piece:
    text, score, kind = "", 0.0, NORMAL
    for number, value in _fields(data):
        if number == 1:
            text = _bytes(value).decode("utf-8")
        elif number == 2:
            score = struct.unpack("<f", _bytes(value))[0]
        elif number == 3:
            kind = _int(value)
    return Piece(text, score, kind)


def _training(model: SentencePieceModel, data: bytes) -> None:
    names = {3: "model_type", 41: "bos_id", 42: "eos_id", 43: "pad_id"}
    for number, value in _fields(data):
        if number in names:
            setattr(model, names[number], _int(value))
        elif number == 35:
            model.byte_fallback = bool(_int(value))
        elif number == 24:
            model.space_behind = bool(_int(value))


def _normalizing(model: SentencePieceModel, data: bytes) -> None:
    names = {3: "add_space", 4: "join_spaces", 5: "escape_spaces"}
    for number, value in _fields(data):
        if number == 2:
            model.charsmap = _bytes(value)
        elif number in names:
            setattr(model, names[number], bool(_int(value)))


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(field number, value) of a protobuf message: a number, or the bytes of anything else."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if wire == 2:
            size, at = _varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise ValueError(f"field of unknown type {wire}")
        if at + size > len(data):
            raise ValueError("it ends in the middle")
        yield key >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("a number without end")


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where text belongs")
    return value


def _int(value: int | bytes) -> int:
    """An int32 as protobuf writes it: negative ones as 64 bits."""
    if not isinstance(value, int):
        raise ValueError("text where a number belongs")
    return value - (1 << 64) if value >= 1 << 63 else value


# -- as a tokenizer.json ---------------------------------------------------------------------------
def sentencepiece_document(
    model: SentencePieceModel, vocabulary: dict[str, int] | None = None
) -> dict[str, Any]:
    """A `tokenizer.json` that cuts as the model does.

    vocabulary: ids of the pieces where they are not those of the model (Marian's vocab.json); a
    piece of the model without one gets an id behind them all, to be read as the unknown token.
    """
    if not model.escape_spaces or model.space_behind:
        raise UserError(
            "this SentencePiece model keeps spaces as they are or behind a word, which no model "
            "that can be read here does"
        )
    pieces = model.pieces if vocabulary is None else _renumbered(model.pieces, vocabulary)
    texts = [piece.text for piece in pieces]
    if len(set(texts)) < len(texts):
        raise UserError("this SentencePiece model has the same piece twice; it is damaged")
    unknown = next((i for i, piece in enumerate(pieces) if piece.kind == UNKNOWN), None)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            added_token(i, piece.text, piece.kind != USER_DEFINED)
            for i, piece in enumerate(pieces)
            if piece.kind in (UNKNOWN, CONTROL, USER_DEFINED)
        ],
        "normalizer": _normalizer(model),
        "pre_tokenizer": _pre_tokenizer(model, pieces),
        "post_processor": None,
        "decoder": _decoder(model),
        "model": _unigram(model, pieces, unknown)
        if model.model_type == UNIGRAM
        else _bpe(model, pieces, unknown),
    }


def _renumbered(pieces: list[Piece], vocabulary: dict[str, int]) -> list[Piece]:
    known = {piece.text: piece for piece in pieces}
    listed = sorted(vocabulary, key=vocabulary.__getitem__)
    if [vocabulary[text] for text in listed] != list(range(len(listed))):
        raise UserError("vocab.json does not number its pieces from 0 without a gap")
    first = [known.get(text, Piece(text, 0.0, CONTROL)) for text in listed]
    return [*first, *(piece for piece in pieces if piece.text not in vocabulary)]


def _unigram(model: SentencePieceModel, pieces: list[Piece], unknown: int | None) -> dict[str, Any]:
    return {
        "type": "Unigram",
        "unk_id": unknown,
        "vocab": [[piece.text, piece.score] for piece in pieces],
        "byte_fallback": model.byte_fallback,
    }


def _bpe(model: SentencePieceModel, pieces: list[Piece], unknown: int | None) -> dict[str, Any]:
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None if unknown is None else pieces[unknown].text,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": True,
        "byte_fallback": model.byte_fallback,
        "ignore_merges": False,
        "vocab": {piece.text: i for i, piece in enumerate(pieces)},
        "merges": merges_by_score(pieces),
    }


def merges_by_score(pieces: list[Piece]) -> list[list[str]]:
    """Every pair of pieces whose joined text is a piece, the best score of that piece first."""
    usable = {piece.text: i for i, piece in enumerate(pieces) if piece.kind in (NORMAL, UNUSED)}
    ranked = sorted(usable.values(), key=lambda i: (-pieces[i].score, i))
    merges = []
    for i in ranked:
        text = pieces[i].text
        pairs = [(text[:cut], text[cut:]) for cut in range(1, len(text))]
        found = [pair for pair in pairs if pair[0] in usable and pair[1] in usable]
        merges += [list(p) for p in sorted(found, key=lambda p: (usable[p[0]], usable[p[1]]))]
    return merges


def _normalizer(model: SentencePieceModel) -> dict[str, Any]:
    steps: list[dict[str, Any]] = []
    if model.charsmap:
        table = base64.b64encode(model.charsmap).decode()
        steps.append({"type": "Precompiled", "precompiled_charsmap": table})
    if model.join_spaces:
        steps += [_replace({"Regex": " +"}, " "), _replace({"Regex": r"\A | \z"}, "")]
    if model.add_space and not needs_space(model):
        steps.append({"type": "Prepend", "prepend": SPACE})
    steps.append(_replace({"String": " "}, SPACE))
    return {"type": "Sequence", "normalizers": steps}


def _replace(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def needs_space(model: SentencePieceModel) -> bool:
    """Whether the space before a text must be put there before anything is cut out of the text.

    User-defined pieces are cut out first, and each part between them is normalised by itself; the
    library would put a space before every one.
    """
    return model.add_space and any(piece.kind == USER_DEFINED for piece in model.pieces)


def _pre_tokenizer(model: SentencePieceModel, pieces: list[Piece]) -> dict[str, Any] | None:
    """Cut before each ▁ where no piece has one inside: the ids are the same, and found sooner."""
    if any(SPACE in piece.text[1:] for piece in pieces):
        return None
    return {
        "type": "Split",
        "pattern": {"String": SPACE},
        "behavior": "MergedWithNext",
        "invert": False,
    }


def _decoder(model: SentencePieceModel) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [_replace({"String": SPACE}, " ")]
    if model.byte_fallback:
        steps.append({"type": "ByteFallback"})
    steps.append({"type": "Fuse"})
    if model.add_space:
        steps.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return {"type": "Sequence", "decoders": steps}
