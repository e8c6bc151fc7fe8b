"""The card of a model that others made: from config.json and the headers of its files alone."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from budgerigar.errors import UserError
from budgerigar.models.card import Card
from budgerigar.models.card import card as card_of

_BITS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16}


def hugging_face_card(folder: Path) -> Card:
    """Sizes, parameters and costs of a Hugging Face folder; no weight is read.

    Raises:
        UserError: it is of no family that is known, or damaged.
    """
    from budgerigar.formats.hugging_face import describe, problems

    found = describe(folder)
    stored = {kind: f"{number:,} values" for kind, number in found.stored.items()}
    size = sum(number * _BITS.get(kind, 8) for kind, number in found.stored.items()) // 8
    facts: dict[str, Any] = {
        "family": found.family.name,
        "architecture": found.architecture,
        **{f"stored_as_{kind}": words for kind, words in stored.items()},
        "weights_in_the_files_bytes": size,
    }
    notes = [f"weights: {problem}" for problem in problems(found)]
    facts |= _tokenizer(folder, notes)
    card = card_of(found.config, str(folder), notes=tuple(notes))
    return dataclasses.replace(card, facts={"imported": facts, **card.facts})


def _tokenizer(folder: Path, notes: list[str]) -> dict[str, Any]:
    """Facts of its tokenizer; what is wrong with it goes into `notes`."""
    from budgerigar.formats.hugging_face import tokenizers_of

    try:
        tokenizer = tokenizers_of(folder)[0]
    except UserError as error:
        notes.append(f"tokenizer: {error}")
        return {}
    if tokenizer.lossy:
        notes.append(f"tokenizer: {tokenizer.lossy}")
    names = {number: name for name, number in tokenizer.special_ids.items()}

    def shown(numbers: Any) -> str:
        return ", ".join(f"{names.get(i, '')} ({i})".strip() for i in numbers) or "none"

    return {
        "pieces_of_the_tokenizer": tokenizer.vocab_size,
        "put_before_a_text": shown(tokenizer.start_ids),
        "ends_of_a_text": shown(sorted(tokenizer.end_ids)),
        "chat_template": "yes" if tokenizer.chat_template else "no",
    }
