"""Evaluating a model on its own validation text or pairs, or on other files."""

from __future__ import annotations

import dataclasses
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from budgerigar.api.filling import fills_spans
from budgerigar.api.translation import need_translator, translations
from budgerigar.errors import UserError

if TYPE_CHECKING:
    from budgerigar.api.model import Model
    from budgerigar.evaluation import Evaluation
    from budgerigar.evaluation.translation_scores import TranslationScores
    from budgerigar.generation.translation_options import TranslationOptions
    from budgerigar.text.pair_files import PairFiles


def evaluate(
    run: Model | str | Path, file: str | Path | None = None, **settings: Any
) -> Evaluation | TranslationEvaluation:
    """How good a model (or the run of that name) is: losses, and a translator's scores too.

    Settings: those of `Model.evaluate_translations` where the model translates, else those of
    `Model.evaluate`.
    """
    from budgerigar.api.loading import load
    from budgerigar.api.model import Model

    model = run if isinstance(run, Model) else load(run)
    pairs = any(settings.get(name) for name in ("source", "target", "pairs"))
    if file is None and model.translates and (pairs or not fills_spans(model)):
        return model.evaluate_translations(**settings)
    return model.evaluate(file, **settings)


def test_split(model: Model, corpus: str) -> dict[str, list[Path]]:
    """The test pairs of a catalogue's corpus, in the direction in which the model translates.

    Raises:
        UserError: the corpus has none, or not in these languages.
    """
    from budgerigar.text.pair_catalogue import fetch_pairs

    need_translator(model)
    text = model.settings.get("text") or {}
    found = fetch_pairs(corpus, text.get("source_language"), text.get("target_language"))[2]
    if found is None:
        raise UserError(
            f"{corpus} has no test split for these languages; name files with --source and --target"
        )
    return {"source": list(found.source), "target": list(found.target)}


def evaluate_model(
    model: Model,
    file: str | Path | None,
    files: PairFiles | None = None,
    *,
    streaming: bool = False,
    encoding: str | None = None,
) -> Evaluation:
    """Score every token of a text but its first; of pairs every token of the targets and `<end>`.

    `encoding` is the files', if not UTF-8.

    Raises:
        UserError: the run's own text is no longer what it was trained on, or a file is unusable.
    """
    if fills_spans(model) and not files:
        return _span_losses(model, file, encoding)
    if not model.translates:
        if files:
            need_translator(model, "be evaluated on sentence pairs")
        from budgerigar.evaluation import evaluate

        return evaluate(model.network, text_store(model, file, encoding), streaming=streaming)
    if file:
        raise UserError(
            f"{model.name} translates: it is evaluated on a source and its translation "
            f"(--source FILE --target FILE, or --pairs FILE), not on the text {file}"
        )
    if streaming:
        raise UserError("streaming is for running text; sentence pairs are read one by one")
    return _pair_losses(model, list(_sentences(model, files, encoding)[0]))


def _span_losses(model: Model, file: str | Path | None, encoding: str | None) -> Any:
    """Losses of the spans of a text, each hidden once."""
    from budgerigar.api.encoders import recipe_of
    from budgerigar.training.fill_in import fill_in_loss

    store = text_store(model, file, encoding)
    recipe = recipe_of(model, "span-corruption")
    return fill_in_loss(recipe, model.network, store, model.tokenizer)


def text_store(model: Model, file: str | Path | None, encoding: str | None = None) -> Any:
    """The tokens of a text: `file`, or the run's validation text."""
    return _file_store(model, Path(file), encoding) if file else validation_corpus(model).validation


def _pair_losses(model: Model, pairs: list[tuple[str, str]]) -> Evaluation:
    """Losses over the pairs without a blank side."""
    from budgerigar.evaluation.pairs import evaluate_pairs
    from budgerigar.text.pair_store import store_from_pairs

    whole = [pair for pair in pairs if not _is_blank(pair)]
    if model.lowercase:
        whole = [(source.lower(), target.lower()) for source, target in whole]
    store = store_from_pairs(whole, model.tokenizer, model.source_tokenizer)
    return evaluate_pairs(model.network, store)


def _is_blank(pair: tuple[str, str]) -> bool:
    return not (pair[0].strip() and pair[1].strip())


def _sentences(
    model: Model, files: PairFiles | None, encoding: str | None
) -> tuple[list[tuple[str, str]], str]:
    """The pairs to evaluate on, blank ones too, and their name in words."""
    if files:
        from budgerigar.text.pair_files import iter_file_pairs

        return list(iter_file_pairs(files, encoding, keep_blanks=True)), str(files)
    held_out = validation_corpus(model).validation
    reader = model.source_tokenizer or model.tokenizer
    pairs = [
        (reader.decode(source.tolist()), model.tokenizer.decode(target.tolist()))
        for source, target in zip(held_out.source, held_out.target, strict=True)
    ]
    return pairs, "its validation pairs"


@dataclass(frozen=True)
class TranslationEvaluation:
    """A translator's losses on given targets, and the scores of its own translations."""

    on: str
    """what it was evaluated on, in words"""
    loss: Evaluation
    """of every token of the targets and of `<end>`: the true cross-entropy, not the smoothed one"""
    scores: TranslationScores
    """of the pairs without a blank side"""
    translations: list[str] = field(repr=False)
    """one for each line of the source, blank for blank"""
    n_pairs: int
    """pairs that were scored"""
    n_blank: int
    """pairs with a blank side: translated, and left out of scores and losses"""
    n_exact: int
    """scored pairs whose translation is the target, to the letter"""
    seconds: float
    """time of translating, reading and scoring not counted"""
    options: TranslationOptions

    @property
    def sentences_per_second(self) -> float:
        """Speed of translating."""
        return len(self.translations) / self.seconds if self.seconds else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; without the translations."""
        return {
            "on": self.on,
            "n_pairs": self.n_pairs,
            "n_blank": self.n_blank,
            "n_exact": self.n_exact,
            "loss": self.loss.as_dict(),
            "scores": self.scores.as_dict(),
            "seconds": self.seconds,
            "sentences_per_second": self.sentences_per_second,
            "options": dataclasses.asdict(self.options),
        }


def evaluate_translations(
    model: Model,
    files: PairFiles | None = None,
    *,
    encoding: str | None = None,
    tokenize: str | None = None,
    lowercase: bool = False,
    bootstrap: int = 1000,
    options: TranslationOptions,
) -> TranslationEvaluation:
    """Translate a source and score it against its target: BLEU, chrF, TER, and the losses.

    `files` None: the run's validation pairs. tokenize, lowercase: of the scores, see
    `score_translations`; lower-cased anyway where the model was trained so.

    Raises:
        UserError: the model does not translate, or the files are no pairs.
    """
    from budgerigar.evaluation.translation_scores import check_target_language, score_translations

    need_translator(model)
    language = (model.settings.get("text") or {}).get("target_language")
    check_target_language(language, tokenize)  # before the long work
    pairs, on = _sentences(model, files, encoding)
    scored = [number for number, pair in enumerate(pairs) if not _is_blank(pair)]
    if not scored:
        raise UserError(f"{on}: there is no pair with text on both sides to evaluate on")
    loss = _pair_losses(model, pairs)
    began = time.perf_counter()
    sources = [source for source, _ in pairs]
    made = translations(model, [sources], options=options, total=len(sources))
    texts = [one.text for one in made]
    seconds = time.perf_counter() - began
    scores = score_translations(
        [texts[number] for number in scored],
        [pairs[number][1] for number in scored],
        target_language=language,
        tokenize=tokenize,
        lowercase=lowercase or model.lowercase,
        bootstrap=bootstrap,
    )
    n_exact = sum(texts[number] == pairs[number][1] for number in scored)
    counts = (len(scored), len(pairs) - len(scored), n_exact)
    return TranslationEvaluation(on, loss, scores, texts, *counts, seconds, options)


def validation_corpus(model: Model) -> Any:
    """The run's corpus, checked to be the one it was trained on."""
    from budgerigar.training.corpora import corpus_of_run, what_changed
    from budgerigar.training.recipe import recipe_from_dict

    if model.recipe is None or model.folder is None:
        what = "pairs (--source FILE --target FILE)" if model.translates else "a text file"
        raise UserError(f"this model came without a recipe: give {what} to evaluate it on")
    text = model.settings.get("text", {})
    recipe = recipe_from_dict(model.recipe, str(model.folder / "recipe.toml"))
    corpus = corpus_of_run(
        recipe, text, model.folder, model.tokenizer, model.source_tokenizer or model.tokenizer
    )
    changed = what_changed(corpus, text)
    if changed:
        other = "--source FILE --target FILE" if model.translates else "FILE"
        raise UserError(
            f"{changed} since {model.folder} was trained, so the text that it was validated on is "
            f"not to be had. Put the old text back, or name one: budgie evaluate {model.folder} "
            f"{other}"
        )
    return corpus


def _file_store(model: Model, file: Path, encoding: str | None) -> Any:
    """Another text as tokens, cut into documents as the model learnt to read them."""
    from budgerigar.text.documents import read_documents
    from budgerigar.text.store import StoreWriter, TokenStore

    how = (model.settings.get("text") or {}).get("documents", "none")
    if not file.is_file():
        raise UserError(f"there is no text file {file}")
    with TemporaryDirectory(prefix="budgie-") as folder:
        path = Path(folder) / "text.tokens"
        with closing(StoreWriter(path, model.tokenizer, how != "none")) as writer:
            for piece in read_documents([file], how, encoding):
                writer.add(piece)
            writer.finish()
        store = TokenStore.open(path)
        # The mapped file goes away with its folder.
        return dataclasses.replace(store, tokens=np.array(store.tokens), path=None)
