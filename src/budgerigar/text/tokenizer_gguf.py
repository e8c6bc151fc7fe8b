"""The tokenizer that a GGUF file carries in its metadata (`tokenizer.ggml.…`).

Two kinds: "gpt2", byte-level BPE with merges and a pre-tokenizer by name, and "llama",
SentencePiece's BPE with scores. Ends: all the places of the metadata that name one, and control
tokens whose name is that of an end, because the format has one place for what is often two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.text.declared_tokens import Declared, Definition, added_token
from budgerigar.text.sentencepiece import (
    BPE,
    BYTE,
    CONTROL,
    NORMAL,
    UNKNOWN,
    USER_DEFINED,
    Piece,
    SentencePieceModel,
    needs_space,
    sentencepiece_document,
)
from budgerigar.text.tokenizer_parts import SAME_AS, byte_level_bpe, pre_tokenizer

MOST_TOKENS = 4_000_000
# Control tokens that end a text or a turn in the families that have them.
END_NAMES = frozenset(
    (
        "<|im_end|>", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<|eom_id|>", "<|end|>",
        "<end_of_turn>", "<|endofturn|>", "<EOT>", "_<EOT>", "<｜end▁of▁sentence｜>", "</s>",
    )
)  # fmt: skip
_ENDS = ("eos_token_id", "eot_token_id", "eom_token_id", "eog_token_id", "eos_token_ids")
_ROLES = {
    "bos": "bos_token_id",
    "eos": "eos_token_id",
    "unk": "unknown_token_id",
    "sep": "seperator_token_id",  # the format's own spelling
    "pad": "padding_token_id",
    "cls": "cls_token_id",
    "mask": "mask_token_id",
}


def read_gguf(metadata: Mapping[str, Any], where: str) -> Definition:
    """What the metadata define; see `imported_tokenizer.tokenizer_from_gguf`."""
    said = _Metadata(metadata, where)
    kind = said.text("model")
    if kind not in ("gpt2", "llama"):
        named = "no tokenizer" if kind is None else f"a tokenizer of kind {kind!r}"
        raise UserError(f"{where} holds {named}; read are kinds gpt2 (byte-level BPE) and llama.")
    pieces = said.pieces()
    spaced = False
    if kind == "gpt2":
        document = _gpt2(said, pieces)
    else:
        model = _llama(said, pieces)
        document, spaced = sentencepiece_document(model), needs_space(model)
    ids = _roles(said, kind, len(pieces))
    _mark_special(document, pieces, ids.values())
    return Definition(document, _declared(said, kind, pieces, ids), (where,), leading_space=spaced)


def _roles(said: _Metadata, kind: str, n_tokens: int) -> dict[str, int]:
    """The id of each role that has one."""
    usual = {"bos": 1, "eos": 2, "unk": 0} if kind == "llama" else {}
    found = {role: said.number(key) for role, key in _ROLES.items()}
    ids = {role: usual.get(role) if number is None else number for role, number in found.items()}
    return {role: i for role, i in ids.items() if i is not None and 0 <= i < n_tokens}


def _declared(said: _Metadata, kind: str, pieces: list[Piece], ids: dict[str, int]) -> Declared:
    # Where the file does not say, llama.cpp adds <s> before these two and nothing before others.
    name = said.text("pre") or ""
    begins = kind == "llama" or SAME_AS.get(name, name) == "llama-bpe"
    start = [ids["bos"]] if "bos" in ids and said.flag("add_bos_token", begins) else []
    closing = [ids["eos"]] if "eos" in ids and said.flag("add_eos_token", False) else []
    by_name = [
        i for i, piece in enumerate(pieces) if piece.kind == CONTROL and piece.text in END_NAMES
    ]
    own = [ids["eos"]] if "eos" in ids else []
    return Declared(
        names={f"{role}_token": pieces[i].text for role, i in ids.items()},
        start_ids=tuple(start),
        closing_ids=tuple(closing),
        end_ids=frozenset([*said.ends(), *by_name, *own]),
        end_id=ids.get("eos"),
        opening_id=ids.get("bos", ids.get("eos")),
        mask_id=ids.get("mask"),
        unk_id=ids.get("unk"),
        pad_id=ids.get("pad"),
        chat_template=said.template(),
    )


class _Metadata:
    """Looks up `tokenizer.ggml.` keys and checks what kind of value is there."""

    def __init__(self, metadata: Mapping[str, Any], where: str) -> None:
        self._metadata, self.where = metadata, where

    def get(self, key: str) -> Any:
        return self._metadata.get(f"tokenizer.ggml.{key}")

    def text(self, key: str) -> str | None:
        value = self.get(key)
        return value if isinstance(value, str) else None

    def number(self, key: str) -> int | None:
        value = self.get(key)
        return None if value is None or isinstance(value, str | bool) else int(value)

    def flag(self, key: str, usual: bool) -> bool:
        value = self.get(key)
        return usual if value is None else bool(value)

    def values(self, key: str) -> list[Any]:
        value = self.get(key)
        if value is None or isinstance(value, str | int | float):
            return []
        return value.tolist() if hasattr(value, "tolist") else list(value)

    def template(self) -> str | None:
        value = self._metadata.get("tokenizer.chat_template")
        return value if isinstance(value, str) and value else None

    def ends(self) -> list[int]:
        """Ids at all keys that name an end."""
        found = [number for key in _ENDS[:-1] if (number := self.number(key)) is not None]
        return found + [int(number) for number in self.values(_ENDS[-1])]

    def pieces(self) -> list[Piece]:
        """Every token with its score and kind."""
        tokens, scores, kinds = (
            self.values("tokens"),
            self.values("scores"),
            self.values("token_type"),
        )
        if not tokens or not all(isinstance(token, str) for token in tokens):
            raise UserError(f"{self.where} holds no list of tokens.")
        if len(tokens) > MOST_TOKENS:
            raise UserError(
                f"{self.where} claims {len(tokens):,} tokens, more than any vocabulary."
            )
        for name, values in (("scores", scores), ("token_type", kinds)):
            if values and len(values) != len(tokens):
                raise UserError(
                    f"{self.where}: {len(tokens):,} tokens but {len(values):,} {name}; it is damaged."
                )
        texts = _distinct(tokens)
        return [
            Piece(text, float(score), int(kind))
            for text, score, kind in zip(
                texts, scores or [0.0] * len(tokens), kinds or [NORMAL] * len(tokens), strict=True
            )
        ]


def _distinct(tokens: list[str]) -> list[str]:
    """A token that occurs again (padding mostly) gets a name of its own, which no text has."""
    seen: set[str] = set()
    texts = []
    for number, token in enumerate(tokens):
        texts.append(f"{token}\ufdd0 {number}" if token in seen else token)
        seen.add(token)
    return texts


def _gpt2(said: _Metadata, pieces: list[Piece]) -> dict[str, Any]:
    name = said.text("pre")
    if name is None or name == "default":
        progress.note(
            f"note: {said.where} names no pre-tokenizer; words are cut in llama.cpp's default way, "
            "which may not be how the model was trained"
        )
    merges = [str(merge).split(" ") for merge in said.values("merges")]
    odd = next((merge for merge in merges if len(merge) != 2), None)
    if odd is not None:
        raise UserError(f"{said.where} has a merge that is no pair: {' '.join(odd)!r}")
    words = pre_tokenizer(name or "default", said.where)
    same = SAME_AS.get(name or "", name)
    return byte_level_bpe(
        {piece.text: i for i, piece in enumerate(pieces)},
        merges,
        words=words,
        normalizer={"type": "NFC"} if same == "qwen2" else None,
        added=[
            added_token(i, piece.text, piece.kind != USER_DEFINED)
            for i, piece in enumerate(pieces)
            if piece.kind in (UNKNOWN, CONTROL, USER_DEFINED)
        ],
        whole_words_first=same == "llama-bpe",
    )


def _llama(said: _Metadata, pieces: list[Piece]) -> SentencePieceModel:
    return SentencePieceModel(
        pieces=pieces,
        model_type=BPE,
        byte_fallback=any(piece.kind == BYTE for piece in pieces),
        add_space=said.flag("add_space_prefix", True),
        join_spaces=said.flag("remove_extra_whitespaces", False),
    )


def _mark_special(document: dict[str, Any], pieces: list[Piece], ids: Iterable[int]) -> None:
    """Tokens with a role are special, whatever kind the file says they are."""
    added = {token["id"]: token for token in document["added_tokens"]}
    for number in ids:
        entry = added.setdefault(number, added_token(number, pieces[number].text, True))
        entry["special"] = True
    document["added_tokens"] = [added[number] for number in sorted(added)]
