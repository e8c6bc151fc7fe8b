"""`WordVectorModel`: a `Model` of role "vectors", which has neighbours and predicts no text."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from budgerigar.api.model import Model
from budgerigar.errors import UserError

if TYPE_CHECKING:
    from budgerigar.evaluation.word_vectors import VectorEvaluation


def model_of(loaded: Any, settings: dict[str, Any], recipe: dict[str, Any] | None) -> Model:
    """The `Model` of a loaded folder or of a run that ended, by the role of its kind."""
    kind = _kind_of(loaded.network, settings)
    source = getattr(loaded, "source_tokenizer", None)
    return kind(loaded.network, loaded.tokenizer, settings, recipe, loaded.folder, source)


def _kind_of(network: Any, settings: dict[str, Any]) -> type[Model]:
    if settings.get("kind") == "word-vectors":
        return WordVectorModel
    if getattr(network.config, "assembly", None) != "encoder-only":
        return Model
    from budgerigar.api.encoders import ClassifierModel, EncoderModel

    return ClassifierModel if network.config.n_classes else EncoderModel


def _refused(verb: str) -> Callable[..., Any]:
    def refuse(self: WordVectorModel, *_: Any, **__: Any) -> NoReturn:
        raise UserError(
            f"{self.name} holds word vectors: they say which words are alike and predict no text, so "
            f"they cannot {verb}. N-grams, feed-forward, recurrent and decoder-only models can. "
            "What these can: neighbours, analogy and map (`budgie look RUN WORD`), evaluate."
        )

    return refuse


class WordVectorModel(Model):
    """Word vectors and their words. A word is typed as in the text; case counts if it did there."""

    role = "vectors"

    generate = _refused("generate a text")
    stream = _refused("generate a text")
    generate_many = _refused("generate a text")
    chat = _refused("answer a message")
    score = _refused("score a text")
    logits = _refused("give logits")
    trace = _refused("be traced")
    reach = _refused("say how far back they reach")
    edited = _refused("be edited")
    translate = _refused("translate")
    translations = _refused("translate")
    fill = _refused("fill in words")
    evaluate_translations = _refused("translate")
    alignment_errors = _refused("align words")
    without_source = _refused("translate")

    def __repr__(self) -> str:
        """What it is, on one line."""
        place = "in memory" if self.folder is None else str(self.folder)
        return f"Model({place}: vectors of {self.network.n_words:,} words, {self.config.method})"

    @cached_property
    def words(self) -> list[str]:
        """The words that have a vector, the most frequent first (R,)."""
        from budgerigar.text.words import row_words, word_keys

        return row_words(word_keys(self.tokenizer, self.config.lowercase), self.network.rows)

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {word: row for row, word in enumerate(self.words)}

    def row(self, word: str) -> int:
        """The row of a word.

        Raises:
            UserError: it has no vector; names the nearest in spelling.
        """
        from budgerigar.api.checks import checked_text
        from budgerigar.text.words import as_key

        typed = checked_text(word)
        of_words = self.tokenizer.kind == "word"
        forms = [as_key(typed, self.config.lowercase)] if of_words else [typed, f" {typed}"]
        for form in forms:
            if form in self._row_of:
                return self._row_of[form]
        near = [w.strip() for w in difflib.get_close_matches(forms[0], self.words, n=3)]
        hint = f" Near it in spelling: {', '.join(near)}." if near else ""
        raise UserError(
            f"{typed!r} has no vector: only words that occur at least {self.config.min_count} times "
            f"in the training text have one, {len(self.words):,} of them.{hint}"
        )

    def neighbours(self, word: str, k: int = 10) -> list[tuple[str, float]]:
        """The `k` words whose vectors are nearest to that of `word`: (word, cosine)."""
        return self._named(self.network.neighbours(self.row(word), _many(k)))

    def analogy(self, a: str, b: str, c: str, k: int = 10) -> list[tuple[str, float]]:
        """What is to `c` as `b` is to `a`: (word, cosine), best first; never one of the three."""
        rows = (self.row(word) for word in (a, b, c))
        return self._named(self.network.analogy(*rows, _many(k)))

    def _named(self, found: Sequence[tuple[int, float]]) -> list[tuple[str, float]]:
        return [(self.words[row].strip(), cosine) for row, cosine in found]

    def vector(self, word: str) -> Any:
        """The vector of a word, float32 (D,)."""
        return self.network.inputs[self.row(word)].clone()

    def map(self, path: str | Path, words: int | Sequence[str] = 300) -> Path:
        """Draw the most frequent `words` (or those named) in two dimensions: PNG, SVG or PDF."""
        from budgerigar.inspection.word_map import draw_word_map

        rows = (
            list(range(min(_many(words), len(self.words))))
            if isinstance(words, int)
            else [self.row(word) for word in words]
        )
        labels = [self.words[row].strip() for row in rows]
        return draw_word_map(Path(path), self.network.unit_vectors()[rows].numpy(), labels)

    def evaluate(  # type: ignore[override]
        self, file: str | Path | None = None, *, encoding: str | None = None, **others: Any
    ) -> VectorEvaluation:
        """The held-out loss on a text: `file`, or the run's validation text."""
        from budgerigar.api.evaluation import text_store
        from budgerigar.evaluation.word_vectors import evaluate_vectors
        from budgerigar.text.word_text import word_text

        asked = [name for name, value in others.items() if value]
        if asked:
            raise UserError(f"word vectors are not evaluated with {', '.join(asked)}: give a text")
        store = text_store(self, file, encoding)
        text = word_text(store.tokens, self.network.rows, self.tokenizer, store.end_id)
        return evaluate_vectors(self.network, text)


def _many(k: object) -> int:
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        raise UserError(f"{k!r} words cannot be shown; give a whole number of at least 1")
    return k
