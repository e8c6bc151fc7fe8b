"""One tokenizer: text to ids and back, exactly.

Every kind that we train gives back every string of Unicode scalar values, because each has a piece
for each byte. What a user types is text, also `<end>`, `<s>` or `[MASK]`: special tokens are only
ever added as ids. Saved, a tokenizer is a `tokenizer.json` that Hugging Face's `tokenizers` loads,
and a small `tokenizer_extras.json` with what that format has no place for.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer as Backend

from budgerigar.errors import UserError
from budgerigar.text.pieces import CHARACTER_TO_BYTE, readable_pieces
from budgerigar.text.splitting import SafeSplitter
from budgerigar.text.tables import ByteTable, CharacterTable, id_type, scalars

KINDS = ("character", "symbols", "byte", "bpe", "unigram", "wordpiece", "word")
END = "<end>"
MASK = "[MASK]"  # what stands in a text for a token that a model is to fill in
# Marks a piece that goes on inside a word. Not one of the characters that stand for bytes, so that
# no text can be mistaken for it.
CONTINUATION = "↳"

_BYTE_PIECE = re.compile(r"<0x([0-9A-F]{2})>")  # SentencePiece's name of a byte
_BLOCK_CHARACTERS = 1 << 15
_TABLE_CHARACTERS = 1 << 20


class Tokenizer:
    """Text to ids and back. `train_tokenizer` makes one, `Tokenizer.load` reads one.

    kind: one of `KINDS`. vocab_size: V. end_id: the id of `<end>`, or None where there are no
    documents. mask_id: the id of `[MASK]`, or None where nothing is filled in. never_seen: bool (V,),
    pieces that did not occur in training and are not sampled.

    What others made is an `ImportedTokenizer`, which declares more of: start_ids (what stands before
    a text), end_ids (all at which a text ends), opening_id (what a text begins from where nothing is
    given), chat_template, names (of roles: "bos_token"), lossy (what does not come back, in words).
    """

    imported = False
    opening_id: int | None = None
    closing_ids: tuple[int, ...] = ()
    chat_template: str | None = None
    lossy: str | None = None

    def __init__(self, kind: str, backend: Backend, never_seen: np.ndarray | None = None) -> None:
        backend.encode_special_tokens = True  # saving loses it: "<end>" in a text is text
        self.kind = kind
        self.backend = backend
        self.vocab_size: int = backend.get_vocab_size(with_added_tokens=True)
        added = backend.get_added_tokens_decoder()
        self.special_ids = {token.content: i for i, token in added.items() if token.special}
        self.end_id = self.special_ids.get(END)
        self.mask_id = self.special_ids.get(MASK)
        self.start_ids: tuple[int, ...] = () if self.end_id is None else (self.end_id,)
        self.end_ids = frozenset(self.start_ids)
        self.names = dict.fromkeys(("bos_token", "eos_token"), END) if self.start_ids else {}
        if never_seen is None:
            never_seen = np.zeros(self.vocab_size, dtype=bool)
        assert never_seen.shape == (self.vocab_size,)
        self.never_seen = never_seen
        self._splitter = SafeSplitter(None if self._table else kind)

    def __repr__(self) -> str:
        return f"Tokenizer({self.kind}, {self.vocab_size:,} pieces)"

    # --- text to ids -----------------------------------------------------------------------

    def encode(self, text: str) -> list[int]:
        """Ids of `text`. Raises `UserError` for half a surrogate pair (all kinds) and, of kind
        "symbols", for a character that was not in the text it was made from."""
        return self.encode_array(text).tolist()

    def encode_array(self, text: str, block_characters: int = _BLOCK_CHARACTERS) -> np.ndarray:
        """Ids of `text`, uint16 (uint32 above 65,536 pieces); the same for any block size."""
        if self._table is not None:  # blocks that fit in the processor's cache
            size = _TABLE_CHARACTERS
            parts = [text[start : start + size] for start in range(0, len(text), size)]
            return np.concatenate([self.encode_many([part])[0] for part in parts or [""]])
        scalars(text)
        blocks, rest = self.split_safely(text, block_characters)
        return self.encode_many([*blocks, rest])[0]

    def encode_many(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """(ids of all `texts` in a row, number of ids of each text (int64)); each text by itself."""
        if self._table is not None:
            return self._table.encode_many(texts)
        for text in texts:
            scalars(text)
        encoded = [e.ids for e in self.backend.encode_batch_fast(texts, add_special_tokens=False)]
        lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
        ids = np.fromiter(chain.from_iterable(encoded), dtype=self.id_type, count=lengths.sum())
        return ids, lengths

    def encode_parts(self, parts: Iterable[str | int], inside: bool = False) -> list[int]:
        """Ids of a text with special tokens in it, given as texts and ids of special tokens.

        A text part can never become a special token. inside: something stands before the parts, so
        the first of them does not begin a text.
        """
        ids: list[int] = []
        waiting = ""
        for part in [*parts, -1]:
            if isinstance(part, str):
                waiting += part
                continue
            ids += self.encode(waiting) if waiting else []
            ids += [part] if part >= 0 else []
            waiting = ""
        return ids

    def split_safely(
        self, text: str, block_characters: int = _BLOCK_CHARACTERS
    ) -> tuple[list[str], str]:
        """(blocks, rest) of a text that may go on: `encode_many` of the blocks and of the rest with
        whatever follows it gives the ids of the whole. The rest is short."""
        return self._splitter.split(text, block_characters)

    # --- ids to text -----------------------------------------------------------------------

    def decode(self, ids: Iterable[int]) -> str:
        """Text of `ids`; bytes that are not UTF-8 become U+FFFD, special tokens nothing."""
        return self.decode_bytes(ids).decode("utf-8", errors="replace")

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """The bytes that `ids` stand for, in a row."""
        return b"".join(self.token_bytes(token) for token in ids)

    def token_bytes(self, token: int, first: bool = False) -> bytes:
        """The bytes that one id stands for; b"" for a special token.

        first: it is the first of a text, which makes a difference to imported tokenizers only.
        """
        if not 0 <= token < self.vocab_size:
            raise UserError(
                f"{token} is not an id of this vocabulary (0 to {self.vocab_size - 1})."
            )
        return self._bytes[token]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """One readable label for each id: see `pieces.readable_pieces`."""
        names = {token: name for name, token in self.special_ids.items()}
        return readable_pieces([names.get(int(i)) or self.token_bytes(int(i)) for i in ids])

    # --- identity and files ----------------------------------------------------------------

    @property
    def id_type(self) -> type[np.uint16] | type[np.uint32]:
        """The type of the ids in arrays and token stores."""
        return id_type(self.vocab_size)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of what decides ids (not of `never_seen`), hexadecimal."""
        return hashlib.sha256(f"{self.kind}\n{self.backend.to_str()}".encode()).hexdigest()

    def with_never_seen(self, never_seen: np.ndarray) -> Tokenizer:
        """A copy that knows which pieces training has never seen, bool (V,)."""
        return Tokenizer(self.kind, self.backend, never_seen.astype(bool))

    def save(self, folder: str | Path, prefix: str = "") -> None:
        """Write `tokenizer.json` and `tokenizer_extras.json` into `folder`, named with `prefix`."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        extras = {
            "format_version": 1,
            "kind": self.kind,
            "never_seen": _runs(self.never_seen),
        }
        text = self.backend.to_str(pretty=True)
        (folder / f"{prefix}tokenizer.json").write_text(text, encoding="utf-8")
        (folder / f"{prefix}tokenizer_extras.json").write_text(json.dumps(extras), encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path, prefix: str = "") -> Tokenizer:
        """Read what `save` wrote. Raises `UserError` if it is missing or damaged."""
        folder = Path(folder)
        try:
            beside = folder / f"{prefix}tokenizer_extras.json"
            extras = json.loads(beside.read_text(encoding="utf-8"))
            kind, runs = extras["kind"], extras["never_seen"]
            backend = Backend.from_file(str(folder / f"{prefix}tokenizer.json"))
        except Exception as error:  # `tokenizers` raises nothing more special than Exception
            raise UserError(
                f"{folder} holds no tokenizer that can be read ({error}). It needs "
                f"{prefix}tokenizer.json and {prefix}tokenizer_extras.json, as a finished run has "
                "them."
            ) from None
        if kind == "imported":
            return cls._load_imported(folder, prefix, extras)
        never_seen = np.zeros(backend.get_vocab_size(with_added_tokens=True), dtype=bool)
        for start, stop in runs:
            never_seen[start:stop] = True
        return cls(kind, backend, never_seen)

    @staticmethod
    def _load_imported(folder: Path, prefix: str, extras: dict[str, Any]) -> Tokenizer:
        from budgerigar.text.imported_tokenizer import ImportedTokenizer

        document = json.loads((folder / f"{prefix}tokenizer.json").read_text(encoding="utf-8"))
        return ImportedTokenizer.from_files(document, extras)

    # --- tables ----------------------------------------------------------------------------

    @cached_property
    def _vocabulary(self) -> list[str]:
        by_id = sorted(self.backend.get_vocab(with_added_tokens=True).items(), key=lambda x: x[1])
        return [piece for piece, _ in by_id]

    @cached_property
    def _bytes(self) -> list[bytes]:
        """The bytes of every piece."""
        special = set(self.special_ids.values())
        if self.kind in ("character", "symbols"):
            found = [_character_bytes(piece) for piece in self._vocabulary]
        else:
            found = [_byte_level_bytes(piece) for piece in self._vocabulary]
        return [b"" if i in special else data for i, data in enumerate(found)]

    @cached_property
    def _table(self) -> ByteTable | CharacterTable | None:
        if self.kind == "byte":
            return ByteTable(self.vocab_size)
        if self.kind not in ("character", "symbols"):
            return None
        characters = {piece: i for i, piece in enumerate(self._vocabulary) if len(piece) == 1}
        byte_ids = None
        if self.kind == "character":
            ids = self.backend.get_vocab(with_added_tokens=False)
            byte_ids = np.array([ids[f"<0x{byte:02X}>"] for byte in range(256)])
        return CharacterTable(characters, byte_ids, self.vocab_size)


def _character_bytes(piece: str) -> bytes:
    match = _BYTE_PIECE.fullmatch(piece)
    return bytes.fromhex(match[1]) if match else piece.encode()


def _byte_level_bytes(piece: str) -> bytes:
    characters = piece.removeprefix(CONTINUATION)
    return bytes(CHARACTER_TO_BYTE.get(character, 0) for character in characters)


def _runs(mask: np.ndarray) -> list[list[int]]:
    """[start, stop) of each run of True: a short way to write a mask down."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(np.int8), [0]])))
    return edges.reshape(-1, 2).tolist()
