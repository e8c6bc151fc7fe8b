"""Models that look both ways: `EncoderModel` fills in words, `ClassifierModel` tells classes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from budgerigar.api.checks import checked_text
from budgerigar.api.evaluation import text_store, validation_corpus
from budgerigar.api.model import Model
from budgerigar.api.score import Score
from budgerigar.errors import UserError

if TYPE_CHECKING:
    from budgerigar.evaluation.classes import ClassEvaluation
    from budgerigar.evaluation.masked import MaskedEvaluation
    from budgerigar.inspection.traces import Trace
    from budgerigar.training.recipe import Recipe


def _refused(verb: str) -> Callable[..., Any]:
    def refuse(self: EncoderModel, *_: Any, **__: Any) -> NoReturn:
        raise UserError(
            f"{self.name} is an encoder: it sees a whole text at once and has no next token, so it "
            f"cannot {verb}. N-grams, recurrent and decoder-only models can. What this one can: "
            f"{self.verbs}."
        )

    return refuse


class EncoderModel(Model):
    """An encoder-only model. Its `score` is a pseudo-log-likelihood, its loss that of hidden words."""

    role = "fill-in"

    @property
    def does(self) -> str:
        """What it is for, in words."""
        return "fills in words" if self._fills else "makes vectors of texts"

    @property
    def verbs(self) -> str:
        """The commands that it can."""
        verbs = "fill, embed, evaluate, look" if self._fills else "embed, look"
        return f"{verbs}; and begin a classifier (train FILE.tsv --classify --from)"

    @property
    def _fills(self) -> bool:
        """It has an output layer over its vocabulary, which models for vectors lack."""
        return bool(self.network.config.token_head)

    generate = _refused("generate a text")
    stream = _refused("generate a text")
    generate_many = _refused("generate a text")
    chat = _refused("answer a message")
    reach = _refused("say how far back it reaches")

    @property
    def frame(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Ids before and after each text that it reads ([CLS] and [SEP] of a BERT)."""
        from budgerigar.text.labelled_corpus import frame_of

        starts = (self.settings.get("text") or {}).get("starts_documents")
        return frame_of(self.tokenizer, starts)

    def encode(self, text: str) -> list[int]:
        """Ids of a text as the model reads it, with what belongs before and after."""
        before, after = self.frame
        return [*before, *self.tokenizer.encode(checked_text(text)), *after]

    def trace(
        self,
        text: str | Sequence[int],
        target: str | Sequence[int] | None = None,
        *,
        prefix: bool = False,
    ) -> Trace:
        """Every intermediate value of one pass over `text`; see `inspection.traces`."""
        read = self.encode(text) if isinstance(text, str) and text and self.frame[1] else text
        found = super().trace(read, target, prefix=prefix)
        if isinstance(text, str):
            found.asked = self, {"text": text}
        return found

    def score(self, text: str, target: str | None = None) -> Score:
        """How well each token of `text` is told from all the others: hidden one at a time.

        The sum is a pseudo-log-likelihood (Salazar et al. 2020): not the probability of the text, and
        not comparable with the score of a model that reads from left to right.
        """
        from budgerigar.evaluation.masked import pseudo_scores
        from budgerigar.text.fill_in_tokens import need_mask

        if target is not None:
            raise UserError(f"{self.name} reads one text: score(text) has no target here")
        ids = list(self.tokenizer.encode(checked_text(text)))
        if not ids:
            raise UserError("there is nothing to score: give at least one character")
        mask_id = need_mask(self.tokenizer)
        nats, ranks = pseudo_scores(self.network, ids, mask_id, self.start_id, self.frame[1])
        raw = b"".join(self.tokenizer.token_bytes(token) for token in ids)
        found = zip(self.tokenizer.pieces(ids), nats.tolist(), ranks.tolist(), strict=True)
        return Score(
            tokens=len(ids),
            characters=len(raw.decode("utf-8", errors="replace")),
            bytes=len(raw),
            nats=float(nats.sum()),
            per_token=list(found),
            pseudo=True,
        )

    def evaluate(  # type: ignore[override]
        self, file: str | Path | None = None, *, encoding: str | None = None, **others: Any
    ) -> MaskedEvaluation:
        """Masked cross-entropy of a text: `file`, or the run's validation text."""
        from budgerigar.training.fill_in import fill_in_loss

        refuse_others(self, others)
        if not self._fills:
            raise UserError(
                f"{self.name} has no output layer over its vocabulary, so it tells no words and there "
                f"is no loss to measure. What this one can: {self.verbs}."
            )
        store = text_store(self, file, encoding)
        found: MaskedEvaluation = fill_in_loss(
            recipe_of(self, "masked-words"), self.network, store, self.tokenizer
        )
        return found


@dataclass(frozen=True)
class Classification:
    """A text, and the classes by their probability, the likeliest first."""

    text: str
    classes: tuple[tuple[str, float], ...]

    @property
    def label(self) -> str:
        """The likeliest class."""
        return self.classes[0][0]

    @property
    def probability(self) -> float:
        """Of the likeliest class."""
        return self.classes[0][1]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"text": self.text, "label": self.label, "classes": dict(self.classes)}


class ClassifierModel(EncoderModel):
    """An encoder with a layer that tells which class a text is of."""

    role = "classes"
    does = "tells classes of texts"
    verbs = "classify, embed, evaluate, look"

    score = _refused("score a text")

    def fill(self, text: str, top_k: int = 5) -> NoReturn:
        """Its output layer tells classes, not words."""
        raise UserError(
            f"{self.name} tells classes and fills in no words. What it can: {self.verbs}. The encoder "
            "that it began with may still be there to fill."
        )

    @property
    def classes(self) -> list[str]:
        """The classes' names, in the order of the logits."""
        names = (self.settings.get("text") or {}).get("classes")
        return list(names or map(str, range(self.config.n_classes)))

    def classify(self, texts: str | Iterable[str]) -> list[Classification]:
        """The class of each text, with the probabilities of all; a single one is a list of one."""
        from budgerigar.evaluation.classes import class_log_p
        from budgerigar.text.labelled import LabelledTexts

        given = [texts] if isinstance(texts, str) else list(texts)
        tidy = [" ".join(checked_text(text).split()) for text in given]
        if not all(tidy):
            raise UserError("an empty text is of no class; leave it out")
        if not given:
            return []
        store = self._store(LabelledTexts([self.classes[0]] * len(tidy), tidy))
        made = []
        for text, row in zip(given, class_log_p(self.network, store), strict=True):
            order = (-row).argsort(kind="stable").tolist()
            shares = tuple((self.classes[i], math.exp(row[i])) for i in order)
            made.append(Classification(text, shares))
        return made

    def evaluate(  # type: ignore[override]
        self,
        file: str | Path | None = None,
        *,
        columns: str | Sequence[str] | None = None,
        encoding: str | None = None,
        **others: Any,
    ) -> ClassEvaluation:
        """Accuracy, F1 and confusions on labelled texts: `file`, or those held out of training."""
        from budgerigar.evaluation.classes import evaluate_classes

        refuse_others(self, others)
        return evaluate_classes(self.network, self._texts(file, columns, encoding), self.classes)

    def beside(
        self,
        file: str | Path | None = None,
        *,
        columns: str | Sequence[str] | None = None,
        encoding: str | None = None,
    ) -> dict[str, ClassEvaluation]:
        """The same of what needs no network, fitted to the texts that this model learnt from."""
        from budgerigar.training.classifying import class_scores

        corpus = validation_corpus(self)
        return class_scores(corpus, self._texts(file, columns, encoding))

    def _texts(
        self, file: str | Path | None, columns: str | Sequence[str] | None, encoding: str | None
    ) -> Any:
        """Labelled texts as this model reads them."""
        from budgerigar.text.labelled import read_labelled

        if file is None:
            return validation_corpus(self).validation
        asked = columns or (self.recipe or {}).get("text", {}).get("columns")
        names = asked.split(",") if isinstance(asked, str) else list(asked or ())
        if names and len(names) != 2:
            raise UserError(f"columns {','.join(names)}: name two, the label's first, as in 1,2")
        two = (names[0].strip(), names[1].strip()) if names else None
        return self._store(read_labelled([file], two, encoding))

    def _store(self, texts: Any) -> Any:
        from budgerigar.text.labelled_corpus import store_of

        return store_of(texts, self.classes, self.tokenizer, *self.frame)


def need_classifier(model: Model) -> ClassifierModel:
    """The model, or a `UserError` where it tells no classes."""
    if not isinstance(model, ClassifierModel):
        raise UserError(
            f"{model.name} tells no classes. `budgie train FILE.tsv --classify` makes a model that "
            "does, from labelled texts; --from RUN lets it begin with an encoder that fills in words."
        )
    return model


def refuse_others(model: Model, others: dict[str, Any]) -> None:
    """`UserError` for a way of evaluating that fits other models."""
    asked = [name for name, value in others.items() if value]
    if asked:
        raise UserError(f"{model.name} is not evaluated with {', '.join(asked)}: give a text file")


def recipe_of(model: Model, objective: str) -> Recipe:
    """The recipe of a run, or of an imported model the usual one of its objective."""
    from budgerigar.training.recipe import recipe_from_dict

    if model.recipe is not None:
        return recipe_from_dict(model.recipe, "recipe.toml")
    assembly = "encoder-only" if objective == "masked-words" else "encoder-decoder"
    return recipe_from_dict(
        {"model": {"assembly": assembly}, "training": {"objective": objective}}, "recipe"
    )
