"""Tokenizers that others made, behind the same methods as our own.

Whatever files they come in, they become one `tokenizer.json`, which the `tokenizers` library runs,
beside what their authors declare: special tokens, ends, a template for chats. They are as lossy as
their authors made them; `lossy` says in words what does not come back.

Three things hold here that the files do not promise. What a user types is text, also `<s>` (see
`sealing`). What a text begins with is put before it once. And tokens become text one by one, never
half a character, with the same spaces as all at once (see `piece_bytes`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer as Backend

from budgerigar.errors import UserError
from budgerigar.text.charsmap import without_charsmap
from budgerigar.text.declared_tokens import Declared, Definition, checked
from budgerigar.text.lossiness import losses
from budgerigar.text.piece_bytes import piece_reader
from budgerigar.text.sealing import piece_numbers, sealed, sealed_name
from budgerigar.text.splitting import SpaceSplitter
from budgerigar.text.tables import scalars
from budgerigar.text.tokenizer import Tokenizer
from budgerigar.text.tokenizer_folder import has_two_sides, read_folder
from budgerigar.text.tokenizer_gguf import read_gguf
from budgerigar.text.tokenizer_parts import CUT_AT_SPACES

KIND = "imported"
MOST_IDS = 4_000_000


class ImportedTokenizer(Tokenizer):
    """Text to ids and back, as the authors' own; made by `tokenizer_from_folder` and its like.

    Beside what every `Tokenizer` has: closing_ids (what follows a text that is read whole), unk_id,
    pad_id, names (the authors' name of each role), source (the files).
    """

    imported = True

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.kind = KIND
        document = definition.document
        numbers = _checked_numbers(document)
        plain, self._charsmap = without_charsmap(document)
        sealed_document, self._byte_ids = sealed(plain)
        self._sealed = json.dumps(sealed_document)
        self._cutter = _backend(sealed_document)
        self._cutter.encode_special_tokens = True
        self.vocab_size = definition.vocab_size or max(numbers.values(), default=-1) + 1
        self._texts = {number: text for text, number in numbers.items() if number < self.vocab_size}
        added = document.get("added_tokens") or ()
        self.special_ids = {t["content"]: t["id"] for t in added if t.get("special")}
        self._check_added(added)
        self._literal = {t["id"]: t["content"].encode() for t in added if not t.get("special")}
        self.never_seen = np.zeros(self.vocab_size, dtype=bool)
        self._take_declared(definition.declared)
        self._read_piece = piece_reader(document)
        self._known_bytes: dict[tuple[int, bool], bytes] = {}
        self._special = frozenset(self.special_ids.values())
        self._cuts = SpaceSplitter() if _cuts_at_spaces(document) else None

    def _check_added(self, added: Iterable[dict[str, Any]]) -> None:
        """The library numbers tokens beside the vocabulary in a row; a file may say otherwise."""
        for token in added:
            name = sealed_name(token["id"]) if token.get("special") else token["content"]
            if (actual := self._cutter.token_to_id(name)) != token["id"]:
                raise UserError(
                    f"the tokenizer says that {token['content']!r} is number {token['id']}, but its "
                    f"vocabulary makes it {actual}: these files do not belong together"
                )

    def _take_declared(self, declared: Declared) -> None:
        where = " and ".join(self.definition.source) or "the tokenizer"
        single = (declared.end_id, declared.opening_id, declared.mask_id, declared.unk_id)
        named = [*declared.start_ids, *declared.closing_ids, *(i for i in single if i is not None)]
        checked(named, self.vocab_size, where)
        self.start_ids, self.closing_ids = declared.start_ids, declared.closing_ids
        # an end beyond the vocabulary can never be written; `doctor` speaks of it
        self.end_ids = frozenset(i for i in declared.end_ids if 0 <= i < self.vocab_size)
        self.end_id, self.opening_id = declared.end_id, declared.opening_id
        self.mask_id, self.unk_id, self.pad_id = declared.mask_id, declared.unk_id, declared.pad_id
        self.chat_template, self.names = declared.chat_template, dict(declared.names)
        self.source = self.definition.source

    # --- text to ids -----------------------------------------------------------------------

    def encode_many(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """(ids of all `texts` in a row, number of ids of each text (int64)); each text by itself."""
        for text in texts:
            scalars(text)
        openings = [self._opening(text) for text in texts]
        rests = [
            self._spaced(self._normalised(text[length:]))
            for text, (_, length) in zip(texts, openings, strict=True)
        ]
        try:
            batch = self._cutter.encode_batch(rests, add_special_tokens=False)
        except Exception as error:  # a vocabulary without an unknown token
            raise UserError(f"this tokenizer cannot cut the text: {error}") from None
        encoded = [
            first + self._known(one) for (first, _), one in zip(openings, batch, strict=True)
        ]
        lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
        ids = np.fromiter(chain.from_iterable(encoded), dtype=self.id_type, count=lengths.sum())
        return ids, lengths

    def encode_parts(self, parts: Iterable[str | int], inside: bool = False) -> list[int]:
        """As `Tokenizer.encode_parts`: cut as one text, as the authors' own library does it."""
        anchor = self._anchor if inside else None
        text = "" if anchor is None else sealed_name(anchor)
        for part in parts:
            if isinstance(part, str):
                normalised = self._normalised(part)
                text += normalised if text else self._spaced(normalised)
            else:
                text += sealed_name(part)
        scalars(text)
        ids = self._known(self._chat_cutter.encode(text, add_special_tokens=False))
        return ids if anchor is None else ids[1:]

    def split_safely(self, text: str, block_characters: int = 1 << 15) -> tuple[list[str], str]:
        """As `Tokenizer.split_safely`; a text that cannot be cut safely is all rest."""
        return ([], text) if self._cuts is None else self._cuts.split(text, block_characters)

    def wrapped(self, ids: Iterable[int]) -> list[int]:
        """Ids of a text with what its authors put around it: start_ids once, closing_ids."""
        return [*self.start_ids, *ids, *self.closing_ids]

    # --- ids to text -----------------------------------------------------------------------

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """The bytes that `ids` stand for, in a row, as a text of their own."""
        parts: list[bytes] = []
        first = True
        for token in ids:
            parts.append(self.token_bytes(token, first))
            first = first and token in self._special
        return b"".join(parts)

    def token_bytes(self, token: int, first: bool = False) -> bytes:
        """The bytes that one id stands for within a text, or as its `first`; b"" for a special one."""
        key = (int(token), first)
        if key not in self._known_bytes:
            if not 0 <= token < self.vocab_size:
                raise UserError(
                    f"{token} is not an id of this vocabulary (0 to {self.vocab_size - 1})."
                )
            self._known_bytes[key] = self._bytes_of(*key)
        return self._known_bytes[key]

    def _bytes_of(self, token: int, first: bool) -> bytes:
        if token in self._special or token not in self._texts:
            return b""
        if token in self._literal:
            return self._literal[token]
        return self._read_piece(self._texts[token], first)

    @cached_property
    def lossy(self) -> str | None:  # type: ignore[override]
        """What does not come back from this tokenizer, in words; None where everything does."""
        return losses(lambda text: self.decode(self.encode(text)))

    # --- identity and files ----------------------------------------------------------------

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of what decides ids, hexadecimal."""
        definition = self.definition
        told = json.dumps([self.vocab_size, definition.from_start, definition.leading_space])
        text = f"{KIND}\n{told}\n{json.dumps(definition.document, sort_keys=True)}"
        return hashlib.sha256(text.encode()).hexdigest()

    def with_never_seen(self, never_seen: np.ndarray) -> ImportedTokenizer:
        """Itself: what an imported model has seen in its training is not known."""
        return self

    def with_template(self, template: str | None) -> ImportedTokenizer:
        """A copy with another template for chats."""
        declared = replace(self.definition.declared, chat_template=template)
        return ImportedTokenizer(replace(self.definition, declared=declared))

    def save(self, folder: str | Path, prefix: str = "") -> None:
        """Write `tokenizer.json` and `tokenizer_extras.json` into `folder`, named with `prefix`."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        definition = self.definition
        extras = {
            "format_version": 1,
            "kind": KIND,
            "never_seen": [],
            "declared": definition.declared.as_dict(),
            "source": list(definition.source),
            "vocab_size": definition.vocab_size,
            "from_start": definition.from_start,
            "leading_space": definition.leading_space,
        }
        for name, value in (("tokenizer", definition.document), ("tokenizer_extras", extras)):
            text = json.dumps(value, ensure_ascii=False, indent=1)
            (folder / f"{prefix}{name}.json").write_text(text, encoding="utf-8")

    @classmethod
    def from_files(cls, document: dict[str, Any], extras: dict[str, Any]) -> ImportedTokenizer:
        """Read what `save` wrote."""
        with _damage("the tokenizer of this run"):
            return cls(
                Definition(
                    document,
                    Declared.from_dict(extras["declared"]),
                    tuple(extras["source"]),
                    extras["vocab_size"],
                    extras["from_start"],
                    extras["leading_space"],
                )
            )

    @cached_property
    def backend(self) -> Backend:  # type: ignore[override]
        """The authors' own pipeline, unsealed: what `tokenizer.json` says, for other tools."""
        return _backend(self.definition.document)

    # --- parts -----------------------------------------------------------------------------

    def _normalised(self, text: str) -> str:
        return text if self._charsmap is None else self._charsmap(text)

    def _spaced(self, text: str) -> str:
        return f" {text}" if text and self.definition.leading_space else text

    def _opening(self, text: str) -> tuple[list[int], int]:
        """Ids of what is cut out where a text begins with it, and its length."""
        for start, number in self.definition.from_start.items():
            if text.startswith(start):
                return [number], len(start)
        return [], 0

    def _known(self, encoding: Any) -> list[int]:
        """Ids of an encoding; what the vocabulary lacks as its bytes, or as the unknown token."""
        ids: list[int] = encoding.ids
        if self._byte_ids and self.unk_id in ids:
            spelled = zip(ids, encoding.tokens, strict=True)
            ids = list(chain.from_iterable(self._spell(i, text) for i, text in spelled))
        if self.definition.vocab_size is not None:
            assert self.unk_id is not None
            ids = [i if i < self.vocab_size else self.unk_id for i in ids]
        return ids

    def _spell(self, number: int, text: str) -> list[int]:
        if number != self.unk_id:
            return [number]
        return [self._byte_ids.get(byte, number) for byte in text.encode()]

    @cached_property
    def _chat_cutter(self) -> Backend:
        """The sealed copy with its special tokens found again, by the names that no text has."""
        return Backend.from_str(self._sealed)

    @property
    def _anchor(self) -> int | None:
        """A special token that leaves the text behind it as it is."""
        added = self.definition.document.get("added_tokens") or ()
        return next((t["id"] for t in added if t.get("special") and not t.get("rstrip")), None)


def tokenizer_from_folder(folder: str | Path, side: str = "target") -> ImportedTokenizer:
    """The tokenizer of a Hugging Face folder; `side` where the source is cut in another way.

    Reads tokenizer.json, vocab.txt, vocab.json with merges.txt, SentencePiece's .model, or Marian's
    source.spm and target.spm, and what the folder's other files declare.

    Raises:
        UserError: there is none, or it is damaged; it names the file.
    """
    with _damage(f"the tokenizer of {folder}"):
        return ImportedTokenizer(read_folder(Path(folder), side))


def tokenizers_from_folder(folder: str | Path) -> tuple[ImportedTokenizer, ImportedTokenizer]:
    """(tokenizer, source's tokenizer) of a folder; the same object where there is only one."""
    target = tokenizer_from_folder(folder)
    return target, tokenizer_from_folder(folder, "source") if has_two_sides(folder) else target


def tokenizer_from_gguf(
    metadata: dict[str, Any], where: str = "the GGUF file"
) -> ImportedTokenizer:
    """The tokenizer in the metadata of a GGUF file, values as Python's own or arrays.

    Raises:
        UserError: it is of a kind, or cuts words in a way, that is not known; it names which.
    """
    with _damage(f"the tokenizer of {where}"):
        return ImportedTokenizer(read_gguf(metadata, where))


@contextmanager
def _damage(what: str) -> Iterator[None]:
    """What a file of the wrong shape leads to is the file's fault."""
    try:
        yield
    except UserError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError, OverflowError) as error:
        raise UserError(f"{what} is damaged ({type(error).__name__}: {error})") from None


def _checked_numbers(document: dict[str, Any]) -> dict[str, int]:
    """The id of every piece, if there are not too many and none is out of all proportion."""
    numbers = piece_numbers(document)
    wrong = next((n for n in numbers.values() if type(n) is not int or not 0 <= n < MOST_IDS), None)
    if wrong is not None or not numbers:
        raise UserError(f"the tokenizer numbers its pieces wrongly ({wrong!r}); it is damaged")
    return numbers


def _backend(document: dict[str, Any]) -> Backend:
    try:
        return Backend.from_str(json.dumps(document))
    except BaseException as error:  # the library raises nothing special, and sometimes panics
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        raise UserError(f"this tokenizer cannot be run: {str(error)[:300]}") from None


def _cuts_at_spaces(document: dict[str, Any]) -> bool:
    """Whether a text may be cut before a space that follows something else: see `CUT_AT_SPACES`."""
    normalizer = document.get("normalizer") or {}
    if normalizer.get("type", "NFC") != "NFC":
        return False
    step = document.get("pre_tokenizer") or {}
    steps = step.get("pretokenizers") or [step]
    if steps[-1].get("type") != "ByteLevel" or any(
        " " in token["content"] for token in document.get("added_tokens") or ()
    ):
        return False
    patterns = [one.get("pattern", {}).get("Regex") for one in steps if one.get("type") == "Split"]
    known = {"Split", "ByteLevel", "Digits"}
    if any(one.get("type") not in known for one in steps):
        return False
    return bool(patterns or steps[-1].get("use_regex")) and CUT_AT_SPACES.issuperset(patterns)
