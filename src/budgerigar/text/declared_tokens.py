"""What a tokenizer's authors declare beside its vocabulary: special tokens, ends, chat template.

The same thing is said in up to five files (tokenizer_config.json, special_tokens_map.json,
generation_config.json, config.json, the template itself), and they do not always agree. Of a token
that begins or masks, the first file that names one decides; a token that *ends* counts wherever it
is named, because a model stopped by one of them too few never stops.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from budgerigar.errors import UserError

ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
MOST_BYTES = 256_000_000  # of a file of JSON: vocabularies have some 20 MB


@dataclass(frozen=True)
class Declared:
    """Special tokens by what they are for. Ids are checked against the vocabulary.

    names: the authors' name of each role ("bos_token": "<s>"), as chat templates use them.
    start_ids, closing_ids: what belongs before and after a text that the model reads.
    end_ids: every id at which a text ends; end_id is the tokenizer's own.
    opening_id: what a text begins from where nothing else is given.
    """

    names: dict[str, str] = field(default_factory=dict)
    start_ids: tuple[int, ...] = ()
    closing_ids: tuple[int, ...] = ()
    end_ids: frozenset[int] = frozenset()
    end_id: int | None = None
    opening_id: int | None = None
    mask_id: int | None = None
    unk_id: int | None = None
    pad_id: int | None = None
    chat_template: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain values for a JSON file."""
        plain = dict(vars(self))
        return plain | {"end_ids": sorted(self.end_ids)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Declared:
        """What `as_dict` gave."""
        known = {name: values[name] for name in cls.__dataclass_fields__ if name in values}
        for name in ("start_ids", "closing_ids"):
            known[name] = tuple(known.get(name, ()))
        return cls(**known | {"end_ids": frozenset(known.get("end_ids", ()))})


@dataclass(frozen=True)
class Definition:
    """What the readers make of a tokenizer's files.

    document: a whole `tokenizer.json`. source: the files it comes from. vocab_size: ids from there
    on stand for the unknown token (None: there are none such). from_start: texts that are cut out
    before all else where a text begins with one (Marian's ">>fra<<"), by their ids.
    """

    document: dict[str, Any]
    declared: Declared = field(default_factory=Declared)
    source: tuple[str, ...] = ()
    vocab_size: int | None = None
    from_start: dict[str, int] = field(default_factory=dict)
    leading_space: bool = False


class Declarations:
    """The files of a folder that declare something, read once; a missing one is an empty table."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tokenizer = read_json(folder / "tokenizer_config.json")
        self.map = read_json(folder / "special_tokens_map.json")
        self.generation = read_json(folder / "generation_config.json")
        self.model = read_json(folder / "config.json")
        self.added = read_json(folder / "added_tokens.json")
        self.files = tuple(
            name
            for name, value in (
                ("tokenizer_config.json", self.tokenizer),
                ("special_tokens_map.json", self.map),
                ("generation_config.json", self.generation),
                ("added_tokens.json", self.added),
            )
            if value
        )

    @property
    def kind(self) -> str:
        """The authors' name of the tokenizer or model, lower case: "llamatokenizer", "t5"."""
        named = (self.tokenizer.get("tokenizer_class"), self.model.get("model_type"))
        return " ".join(str(name).lower() for name in named if name)

    def token(self, role: str) -> str | None:
        """The content of the token of a role ("bos" …), None where none is named."""
        for place in (self.map, self.tokenizer):
            content = _content(place.get(f"{role}_token"))
            if content:
                return content
        return None

    def flag(self, name: str) -> bool | None:
        """A switch of tokenizer_config.json, None where it is not there."""
        value = self.tokenizer.get(name)
        return value if isinstance(value, bool) else None

    def special_contents(self) -> list[str]:
        """Tokens declared special, in order of first mention."""
        found = [token for role in ROLES if (token := self.token(role))]
        for place in (self.map, self.tokenizer):
            for name in ("additional_special_tokens", "extra_special_tokens"):
                more = place.get(name) or []
                found += [
                    _content(one) for one in (more.values() if isinstance(more, dict) else more)
                ]
        return list(dict.fromkeys(token for token in found if token))

    def added_tokens(self) -> list[dict[str, Any]]:
        """Tokens beside the vocabulary as entries of a tokenizer.json, by id."""
        special = set(self.special_contents())
        found: dict[int, dict[str, Any]] = {}
        for content, number in self.added.items():
            if isinstance(number, int):
                found[number] = added_token(number, content, content in special)
        for number, entry in (self.tokenizer.get("added_tokens_decoder") or {}).items():
            if str(number).isdigit() and _content(entry):
                found[int(number)] = added_token(
                    int(number), _content(entry), bool(entry.get("special")), entry
                )
        return [found[number] for number in sorted(found)]

    def end_numbers(self) -> set[int]:
        """Ids that config.json and generation_config.json call an end."""
        return {
            number
            for place in (self.model, self.generation)
            for number in _numbers(place.get("eos_token_id"))
        }

    def chat_template(self) -> str | None:
        """The template for chats: a file of its own, or that of tokenizer_config.json."""
        path = self.folder / "chat_template.jinja"
        if path.is_file():
            return path.read_text(encoding="utf-8")
        value = self.tokenizer.get("chat_template")
        value = value or read_json(self.folder / "chat_template.json").get("chat_template")
        if isinstance(value, list):  # several, by name
            named = {one.get("name"): one.get("template") for one in value if isinstance(one, dict)}
            value = named.get("default") or next(iter(named.values()), None)
        return value if isinstance(value, str) and value else None


def added_token(
    number: int, content: str, special: bool, like: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """An entry of `added_tokens` in a tokenizer.json; switches that are not given are off."""
    switches = {
        name: bool((like or {}).get(name, False))
        for name in ("single_word", "lstrip", "rstrip", "normalized")
    }
    return {"id": number, "content": content, **switches, "special": special}


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object, {} for a missing file; a `UserError` where it is something else."""
    if not path.is_file():
        return {}
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"it has {path.stat().st_size:,} bytes")
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise UserError(f"{path} should hold a table of names and values and holds something else.")
    return value


def checked(declared: Iterable[int], vocab_size: int, where: str) -> list[int]:
    """Ids, or a `UserError` for one that the vocabulary lacks."""
    ids = list(declared)
    wrong = [number for number in ids if not 0 <= number < vocab_size]
    if wrong:
        raise UserError(
            f"{where} names the token {wrong[0]}, but the vocabulary has {vocab_size:,} tokens "
            f"(0 to {vocab_size - 1:,}): these files do not belong together."
        )
    return ids


def _content(value: object) -> str:
    """A token written as a text, or as a table with its content."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else ""


def _numbers(value: object) -> list[int]:
    values = value if isinstance(value, list) else [value]
    return [number for number in values if isinstance(number, int) and not isinstance(number, bool)]
