"""A model in another form, and what is wrong with a model's files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from budgerigar.experiments.doctor import Diagnosis
    from budgerigar.formats.convert import Conversion


def convert(
    path: str | Path, out: str | Path, to: str | None = None, type: str | None = None
) -> Conversion:
    """Write a model as a Hugging Face folder, a GGUF file or a run's folder, and compare the logits.

    to: "hugging-face", "gguf", "run" or (a translator) "ctranslate2"; left out: gguf where `out` ends
    in .gguf, else hugging-face.
    type: "f32", "f16" (left out) or "q8_0", the numbers of a GGUF file.

    Raises:
        UserError: see `formats.convert.convert`.
    """
    from budgerigar.formats import convert as forms

    return forms.convert(path, out, to, type)


def doctor(path: str | Path, text: str | None = None) -> Diagnosis:
    """Try the classic faults on a run's folder, a Hugging Face folder or a GGUF file.

    text: a sentence in the model's language, that its perplexity is measured on.

    Raises:
        UserError: nothing is there that could be examined.
    """
    from budgerigar.experiments.doctor import examine

    return examine(path, text)
