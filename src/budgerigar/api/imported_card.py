"""The card of a model that others made: from config.json and the headers of its files alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from budgerigar.errors import UserError
from budgerigar.models.card import Card
from budgerigar.models.card import card as card_of
from budgerigar.text.model_catalogue import called

_BITS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16}


def imported_card(path: Path) -> Card | None:
    """The card of a Hugging Face folder, a GGUF file or one of llama2.c's; None: it is none of them.
    No weight is read.

    Raises:
        UserError: it is of no family that is known, or damaged.
    """
    from budgerigar.formats.gguf_file import is_gguf
    from budgerigar.formats.hugging_face import is_hugging_face

    if path.is_dir():
        return _folder_card(path) if is_hugging_face(path) else None
    if is_gguf(path) or path.suffix == ".gguf":
        return _gguf_card(path)
    from budgerigar.formats.llama2c import read_header

    header = read_header(path)
    return None if header is None else _llama2c_card(path, header)


def remote_card(name: str) -> Card:
    """The card of a model on Hugging Face's hub: its small files and the headers of its weights are
    fetched, not the weights.

    Raises:
        UserError: it cannot be fetched, or as of `imported_card`.
    """
    from budgerigar.formats.names import RemoteHeaders, fetch_from_hub

    folder = fetch_from_hub(name, headers_only=True)
    if folder.is_file():
        return _gguf_card(folder)
    return _folder_card(folder, RemoteHeaders(name), name)


def _folder_card(folder: Path, tensors: Any = None, name: str = "") -> Card:
    from budgerigar.formats.hugging_face import describe, problems, tokenizers_of

    found = describe(folder, tensors)
    size = sum(number * _BITS.get(kind, 8) for kind, number in found.stored.items()) // 8
    notes = [f"weights: {problem}" for problem in problems(found)]
    facts = {
        "form": "Hugging Face folder",
        "family": found.family.name,
        "architecture": found.architecture,
        **_stored(found.stored, size),
        **_tokenizer(lambda: tokenizers_of(folder)[0], notes),
        **_pooling(folder, notes),
    }
    return _card(found.config, name or called(folder), facts, notes)


def _gguf_card(path: Path) -> Card:
    from budgerigar.formats.gguf_model import describe_gguf, memory_bytes, problems
    from budgerigar.text.imported_tokenizer import tokenizer_from_gguf

    found = describe_gguf(path)
    file, said = found.file, found.file.metadata
    notes = [f"weights: {problem}" for problem in problems(found)]
    unread = sorted(found.architecture.unread(file))
    notes += [f"metadata that nothing here knows: {', '.join(unread)}"] if unread else []
    facts: dict[str, Any] = {"form": f"GGUF file, version {file.version}"}
    facts |= {"family": found.architecture.name, "architecture": found.architecture.name}
    for key in ("name", "license"):
        if isinstance(said.get(f"general.{key}"), str):
            facts["model_name" if key == "name" else "licence"] = said[f"general.{key}"]
    entries = file.entries.values()
    facts |= _stored(found.stored, sum(entry.n_bytes for entry in entries))
    if any(entry.kind.quantised for entry in entries):
        facts["weights_in_memory_bytes"] = memory_bytes(found)
        notes.append(
            "weights: quantised ones stay packed, so less memory is taken than float32 would"
        )
    facts |= _tokenizer(lambda: tokenizer_from_gguf(said, str(path)), notes)
    return _card(found.config, called(path), facts, notes)


def _llama2c_card(path: Path, header: Any) -> Card:
    from budgerigar.formats.llama2c import tokenizer_beside

    config = header.config.validate()
    notes = ["the format does not say the rotary base; 10,000 is taken, as llama2.c does"]
    facts = {
        "form": f"llama2.c file, version {header.version}",
        "family": "llama",
        **_stored({"F32": header.n_bytes // 4}, header.n_bytes),
        **_tokenizer(lambda: tokenizer_beside(path, header), notes),
    }
    return _card(config, str(path), facts, notes)


def _card(config: Any, name: str, facts: dict[str, Any], notes: list[str]) -> Card:
    tied = "yes" if config.tied_embeddings else "no"
    facts |= {"output_layer_tied": tied} if config.token_head else {}
    card = card_of(config, name, notes=tuple(notes))
    return dataclasses.replace(card, facts={"imported": facts, **card.facts})


def _stored(stored: dict[str, int], size: int) -> dict[str, Any]:
    """Numbers of values by the type in the files."""
    kinds = ", ".join(f"{number:,} as {kind}" for kind, number in stored.items())
    return {"values_stored": kinds, "weights_in_the_files_bytes": size}


def _tokenizer(read: Callable[[], Any], notes: list[str]) -> dict[str, Any]:
    """Facts of its tokenizer; what is wrong with it goes into `notes`."""
    try:
        tokenizer = read()
    except UserError as error:
        notes.append(f"tokenizer: {error}")
        return {}
    if tokenizer.lossy:
        notes.append(f"tokenizer: {tokenizer.lossy}")
    names = {number: name for name, number in tokenizer.special_ids.items()}

    def shown(numbers: Any) -> str:
        return ", ".join(f"{names.get(i, '')} ({i})".strip() for i in numbers) or "none"

    definition = getattr(tokenizer, "definition", None)
    kind = definition.document.get("model", {}).get("type") if definition else tokenizer.kind
    source = definition.source if definition else ("tokenizer.json",)
    files = ", ".join(Path(one).name if "/" in one else one for one in map(str, source))
    return {
        "tokenizer": f"{kind}, from {files}",
        "pieces_of_the_tokenizer": tokenizer.vocab_size,
        "put_before_a_text": shown(tokenizer.start_ids),
        "ends_of_a_text": shown(sorted(tokenizer.end_ids)),
        "chat_template": "yes" if tokenizer.chat_template else "no",
    }


def _pooling(folder: Path, notes: list[str]) -> dict[str, Any]:
    """How its authors make one vector of a text."""
    from budgerigar.formats.pooling import declared_pooling

    try:
        found = declared_pooling(folder)
    except UserError as error:
        notes.append(f"pooling: {error}")
        return {}
    if found is None:
        return {}
    cut = f", texts cut after {found.most} tokens" if found.most else ""
    return {
        "vector_of_a_text": f"{found.pooling} of its tokens"
        f"{', of length 1' if found.normalise else ''}{cut}"
    }
