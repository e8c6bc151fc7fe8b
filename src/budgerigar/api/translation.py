"""Translating with a `Model`: who can, with which options; lines in, lines out."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgerigar.errors import UserError
from budgerigar.progress import note

if TYPE_CHECKING:
    from budgerigar.api.model import Model
    from budgerigar.generation.translation import Translation
    from budgerigar.generation.translation_options import TranslationOptions
    from budgerigar.text.pair_files import PairFiles

Files = str | Path | Sequence[str | Path]


def translates(network: Any) -> bool:
    """Whether a network (or a view of one) is an encoder-decoder: it reads a source, and translates."""
    return getattr(network.config, "assembly", None) == "encoder-decoder"


def need_translator(model: Model, verb: str = "translate") -> None:
    """`UserError` unless the model translates; `verb` is what was asked for."""
    if getattr(model, "role", "text") == "vectors":
        model.translate("")  # says what word vectors can
    if not translates(model.network):
        does = getattr(model, "does", "continues a text")
        raise UserError(
            f"{model.name} is {_role(model)}: it {does} and reads no source, so it cannot "
            f"{verb}. Encoder-decoders (Transformer or RNN) translate; `budgie train --source a.de "
            "--target a.en` makes one. What this one can: "
            f"{getattr(model, 'verbs', 'generate, evaluate, look')}."
        )


def refuse_translator(model: Model, verb: str) -> None:
    """`UserError` where the model translates: without a source it has nothing to say."""
    if translates(model.network):
        raise UserError(
            f"{model.name} is an encoder-decoder: it writes the translation of a source, so it "
            f"cannot {verb}. Use translate: `budgie translate {model.name}`, or "
            "model.translate(line) from Python. N-grams and decoder-only models generate."
        )


def _role(model: Model) -> str:
    from budgerigar.models.configs import kind_of

    kind = kind_of(model.config)
    if kind == "transformer":
        article = "a" if model.config.assembly == "decoder-only" else "an"
        return f"{article} {model.config.assembly} Transformer"
    return "an n-gram" if kind == "ngram" else f"a {kind} model"


def translation_options(options: Mapping[str, Any]) -> TranslationOptions:
    """Checked options; an unknown name is an error that lists the known ones.

    An option that has no effect beside the others is said.
    """
    from budgerigar.generation.translation_options import TranslationOptions

    known = [f.name for f in dataclasses.fields(TranslationOptions)]
    unknown = [name for name in options if name not in known]
    if unknown:
        raise UserError(
            f"translate has no option {unknown[0]!r}; its options are {', '.join(known)}"
        )
    chosen = TranslationOptions(**options).validate()
    if options.get("alpha") is not None and chosen.length_penalty == "none":
        note("note: --alpha has no effect here: it is for a length penalty")
    if "max_extra" in options and chosen.like_ctranslate2:
        note("note: --max-extra has no effect here: with --search ctranslate2 --max-length limits")
    return chosen


def pair_files(
    source: Files, target: Files, pairs: Files, columns: str | Sequence[str] | None
) -> PairFiles | None:
    """Files of sentence pairs, checked to be such; None where none is named."""
    from budgerigar.text.pair_files import PairFiles

    names = columns.split(",") if isinstance(columns, str) else list(columns or ())
    if names and len(names) not in (2, 3):
        raise UserError(
            f"columns {','.join(names)}: name two, the source's first, as in 1,2; or three, the task's "
            "before them"
        )
    sides = [tuple(map(Path, several(files))) for files in (source, target, pairs)]
    if not any(sides) and not names:
        return None
    two = (names[-2].strip(), names[-1].strip()) if names else None
    task = names[0].strip() if len(names) == 3 else None
    found = PairFiles(sides[0], sides[1], sides[2], two, task)
    found.validate()
    return found


def several(files: Files) -> Sequence[str | Path]:
    """One file or many, as many."""
    return [files] if isinstance(files, str | PathLike) else list(files)


def translations(
    model: Model,
    blocks: Iterable[list[str]],
    *,
    prefix: str | None = None,
    options: TranslationOptions,
    total: int | None = None,
    show_progress: bool = True,
) -> Iterator[Translation]:
    """One `Translation` for each line, in order; a block of lines is done before the next is read.

    prefix: words with which every translation begins. total: lines, for progress.
    """
    from budgerigar.generation.translation import translate_blocks

    need_translator(model)
    given: deque[str] = deque()

    def read() -> Iterator[list[str]]:
        for lines in blocks:
            given.extend(lines)
            yield [line.lower() for line in lines] if model.lowercase else lines

    made = translate_blocks(
        model.network,
        model.tokenizer,
        model.source_tokenizer,
        read(),
        options,
        prefixes=prefix and prefix.lower() if model.lowercase else prefix,
        progress_total=total,
        show_progress=show_progress,
    )
    return (dataclasses.replace(one, source=given.popleft()) for one in made)


def aligned_translations(
    model: Model, blocks: Iterable[list[str]], **settings: Any
) -> Iterator[tuple[Translation, list[str]]]:
    """The same, each with the word alignment of each of its hypotheses as "0-0 1-2"."""
    from budgerigar.api.pairs import pharaoh

    sizes: deque[int] = deque()

    def read() -> Iterator[list[str]]:
        for lines in filter(None, blocks):
            sizes.append(len(lines))
            yield lines

    made = translations(model, read(), **settings)
    for first in made:
        block = [first, *islice(made, sizes.popleft() - 1)]
        pairs = [(one.source, found.ids) for one in block for found in one.hypotheses]
        links = iter(pharaoh(model, pairs))
        for one in block:
            yield one, list(islice(links, len(one.hypotheses)))
