"""Lines in, as many lines out: translating text.

A blank line stays blank and is not shown to the model; a line break that a model generates becomes a
space; so output line n always belongs to input line n.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from budgerigar.errors import UserError
from budgerigar.generation.beam import Hypothesis, search
from budgerigar.generation.streaming import forbidden_ids
from budgerigar.generation.translation_options import TranslationOptions
from budgerigar.progress import Tracker, note, track

if TYPE_CHECKING:
    from budgerigar.text.tokenizers import Tokenizer

SHOWN = 3  # lines too long that are named one by one
CHUNK = 16  # batches read ahead, so that lines of like length can share one
_BREAKS = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class TranslatedHypothesis:
    """One translation of a line."""

    text: str
    ids: tuple[int, ...]
    """its tokens, without `<end>`"""
    log_probability: float
    """natural logarithm of the probability that the model gives to it"""
    score: float
    """what the search ranked it by: log_probability with length and coverage penalty"""
    finished: bool
    """False: it reached the length limit without ending"""


@dataclass(frozen=True)
class Translation:
    """A line and its translations, best first: at least one, n_best where there are as many."""

    source: str
    hypotheses: tuple[TranslatedHypothesis, ...]

    @property
    def text(self) -> str:
        """The best translation."""
        return self.hypotheses[0].text


BLANK = TranslatedHypothesis("", (), 0.0, 0.0, True)


def translate_lines(
    network: Any,
    tokenizer: Tokenizer,
    source_tokenizer: Tokenizer | None,
    lines: Iterable[str],
    options: TranslationOptions | None = None,
    *,
    prefixes: str | Sequence[str] | None = None,
    progress_total: int | None = None,
) -> Iterator[Translation]:
    """Translate each line, in order; lines are read and translated in chunks, as they are asked for.

    source_tokenizer: None where both languages share one. `prefixes`: text that every translation
    begins with, or one per line. A source that exceeds the context is cut, and the remark names its
    line. `UserError` for a model that reads no source.
    """
    options = (options or TranslationOptions()).validate()
    translator = _Translator(network, tokenizer, source_tokenizer or tokenizer, options)
    blocks = _chunks(iter(lines), CHUNK * options.batch_size)
    return translator.run(blocks, prefixes, progress_total)


def translate_blocks(
    network: Any,
    tokenizer: Tokenizer,
    source_tokenizer: Tokenizer | None,
    blocks: Iterable[Sequence[str]],
    options: TranslationOptions | None = None,
    *,
    prefixes: str | Sequence[str] | None = None,
    progress_total: int | None = None,
    show_progress: bool = True,
) -> Iterator[Translation]:
    """The same for lines that come in blocks: all of a block is given out before the next is read."""
    options = (options or TranslationOptions()).validate()
    translator = _Translator(network, tokenizer, source_tokenizer or tokenizer, options)
    size = CHUNK * options.batch_size
    chunks = (chunk for block in blocks for chunk in _chunks(iter(block), size))
    return translator.run(chunks, prefixes, progress_total, show_progress)


def _chunks(lines: Iterator[str], size: int) -> Iterator[list[str]]:
    while chunk := list(islice(lines, size)):
        yield chunk


def translate_texts(
    network: Any,
    tokenizer: Tokenizer,
    source_tokenizer: Tokenizer | None,
    lines: Iterable[str],
    options: TranslationOptions | None = None,
) -> list[str]:
    """The best translation of each line; see `translate_lines`."""
    found = translate_lines(network, tokenizer, source_tokenizer, lines, options)
    return [translation.text for translation in found]


class _Translator:
    """A model with its tokenizers and what it must not generate."""

    def __init__(
        self,
        network: Any,
        tokenizer: Tokenizer,
        source_tokenizer: Tokenizer,
        options: TranslationOptions,
    ) -> None:
        self.network, self.options = network, options
        self.tokenizer, self.source_tokenizer = tokenizer, source_tokenizer
        start = getattr(network.config, "decoder_start", None)
        if tokenizer.end_id is None or source_tokenizer.end_id is None:
            raise UserError(
                "this model's tokenizer has no <end>, so no translation of it would ever end; it was "
                "probably not trained on pairs"
            )
        self.end_id, self.source_end = tokenizer.end_id, source_tokenizer.end_id
        self.start_id = self.end_id if start is None else start
        self.forbidden = forbidden_ids(tokenizer)
        self.forbidden[self.end_id] = False
        self.n_cut = 0

    def run(
        self,
        chunks: Iterator[list[str]],
        prefixes: str | Sequence[str] | None,
        total: int | None,
        show_progress: bool = True,
    ) -> Iterator[Translation]:
        """Chunk by chunk."""
        done = 0
        shown = track("translating", total=total, unit="lines") if show_progress else _hidden()
        with shown as job:
            for chunk in chunks:
                starts = _prefixes_of(prefixes, done, len(chunk))
                for translation in self._translated(chunk, starts, done):
                    yield translation
                    job.advance()
                done += len(chunk)
        if self.n_cut > SHOWN:
            note(f"in all, only the beginning of {self.n_cut:,} of {done:,} lines is translated")
        if prefixes is not None and not isinstance(prefixes, str) and done != len(prefixes):
            raise UserError(f"{len(prefixes)} prefixes for {done} lines: give one for each")

    def _translated(self, lines: list[str], starts: list[str], first: int) -> list[Translation]:
        """Translations of a chunk; the number of its first line, from 0, is `first`."""
        full = [i for i, line in enumerate(lines) if line.strip()]
        results: list[tuple[TranslatedHypothesis, ...]] = [(BLANK,)] * len(lines)
        found = search(
            self.network,
            [self._source(lines[i], first + i + 1) for i in full],
            self.options,
            start_id=self.start_id,
            end_id=self.end_id,
            forbidden=self.forbidden,
            prefixes=[self.tokenizer.encode(starts[i]) if starts[i] else [] for i in full],
        )
        for i, hypotheses in zip(full, found, strict=True):
            results[i] = tuple(map(self._text, hypotheses))
        return [
            Translation(line, hypotheses) for line, hypotheses in zip(lines, results, strict=True)
        ]

    def _source(self, line: str, number: int) -> list[int]:
        """What the encoder reads of a line."""
        ids = self.source_tokenizer.encode(line.rstrip("\r\n"))
        most = self.network.context_length
        if most is not None and len(ids) >= most:
            self.n_cut += 1
            if self.n_cut <= SHOWN:
                note(
                    f"line {number:,} has {len(ids):,} tokens, more than the {most - 1:,} that this "
                    "model reads: only its beginning is translated"
                )
            ids = ids[: most - 1]
        return [*ids, self.source_end]

    def _text(self, found: Hypothesis) -> TranslatedHypothesis:
        text = _BREAKS.sub(" ", self.tokenizer.decode(found.ids))
        return TranslatedHypothesis(
            text, found.ids, found.log_probability, found.score, found.finished
        )


def _hidden() -> AbstractContextManager[Tracker]:
    return nullcontext(Tracker())


def _prefixes_of(prefixes: str | Sequence[str] | None, first: int, n: int) -> list[str]:
    if prefixes is None:
        return [""] * n
    if isinstance(prefixes, str):
        return [prefixes] * n
    found = list(prefixes[first : first + n])
    if len(found) < n:
        raise UserError(f"{len(prefixes)} prefixes for more lines than that: give one for each")
    return found
