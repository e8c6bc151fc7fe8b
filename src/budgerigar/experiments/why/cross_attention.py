"""Why cross-attention: without it a translator writes good sentences about nothing.

The recipe `stories-zh-en` in short: Chinese to English, generated pairs. Afterwards the way from the
source into the decoder is closed (every cross-attention gives zeros) and opened again.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import torch

from budgerigar.evaluation.pairs import evaluate_pairs
from budgerigar.experiments.translating import word_probabilities
from budgerigar.experiments.why.frame import Bars, Measured, WhyResult
from budgerigar.experiments.why.learning import from_windows, learn
from budgerigar.generation.translation import translate_texts
from budgerigar.generation.translation_options import TranslationOptions
from budgerigar.models.modes import without_source
from budgerigar.models.transformer import Transformer
from budgerigar.said import Said, said
from budgerigar.text.pair_batches import PairBatches
from budgerigar.text.pairs import SentencePair, lesson_pair, sentence_pairs
from budgerigar.text.story_words import PETS
from budgerigar.training.corpora import gather_corpus
from budgerigar.training.recipe import load_recipe, override

RECIPE = "stories-zh-en"
PREFIX = "Xuanyuan has a"


@dataclass(frozen=True)
class Sizes:
    """How large the experiment is."""

    steps: int = 500
    n_pairs: int = 12_000
    tests: int = 200
    d_model: int = 96
    d_ff: int = 256


@dataclass(frozen=True)
class View:
    """The same network seeing its source, or not."""

    exact: float
    """% of unseen sentences translated exactly as their pairs say"""
    nats: float
    """per token of unseen translations"""
    chances: dict[str, float]
    """of every pet after PREFIX"""
    text: str
    """what it makes of the lesson's sentence"""


def run(seed: int = 1, sizes: Sizes = Sizes()) -> WhyResult:
    """Train once, then score with the source seen and blanked."""
    corpus, network = train(seed, sizes)
    tests, lesson = sentence_pairs(sizes.tests, seed=seed + 6, split="test"), lesson_pair()
    seeing = look(network, corpus, tests, lesson)
    blind = look(without_source(network), corpus, tests, lesson)
    answer = lesson.target_words[-1]
    held = seeing.exact > 80 and blind.exact < 5 and blind.nats > 2 * seeing.nats
    return WhyResult(
        part="cross-attention",
        seed=seed,
        problem=said(
            "A decoder knows its language but not what to say: what the source says has to reach it, "
            "word by word."
        ),
        without=Measured(
            said("source blanked: translated exactly"), blind.exact, said("% of unseen"), 1
        ),
        with_part=Measured(said("source seen"), seeing.exact, said("% of unseen"), 1),
        panels=_panels(seeing, blind, answer),
        shows=_shows(seeing, blind, lesson, len(tests)),
        held=held,
        verdict=said("It holds: the network translates through cross-attention and nothing else.")
        if held
        else said("It does not hold this time: it translated too badly seeing, or too well blind."),
        next_problem=said(
            "Word after word is written, and for each the whole network runs over everything once "
            "more."
        ),
        samples=(
            (said("“{source}”, source blanked", source=lesson.source), blind.text),
            (said("“{source}”, source seen", source=lesson.source), seeing.text),
        ),
        numbers={"seen": seeing, "blanked": blind, "answer": answer},
    )


def _panels(seeing: View, blind: View, answer: str) -> tuple[Bars, Bars]:
    others = [item for item in _favourites(seeing) if item[0] != answer]
    blanked = said("“{prefix} …”, the source blanked", prefix=PREFIX)
    seen = said("“{prefix} …”, the source seen", prefix=PREFIX)
    beside = [(answer, seeing.chances[answer]), *others[:3]]
    return (
        Bars(blanked, "%", _percents(_favourites(blind)[:4]), top=100),
        Bars(seen, "%", _percents(beside), top=100),
    )


def _favourites(view: View) -> list[tuple[str, float]]:
    """The pets, likeliest first."""
    return sorted(view.chances.items(), key=lambda item: -item[1])


def _percents(chances: list[tuple[str, float]]) -> list[tuple[str, float]]:
    return [(name, 100 * chance) for name, chance in chances]


def _shows(seeing: View, blind: View, lesson: SentencePair, n_tests: int) -> Said:
    answer = lesson.target_words[-1]
    favourites = ", ".join(f"{name} {chance:.0%}" for name, chance in _favourites(blind)[:4])
    return said(
        "{tests} unseen sentences: {seen:.1f}% exactly right and {seen_nats:.2f} nats per token "
        "with the source, {blind:.1f}% and {blind_nats:.2f} nats without. After “{prefix}” it "
        "wavers when blind ({favourites}); seeing “{source}” it gives “{answer}” {chance:.1%}. "
        "What to write comes from the source, how to write it from the decoder.",
        tests=n_tests,
        seen=seeing.exact,
        seen_nats=seeing.nats,
        blind=blind.exact,
        blind_nats=blind.nats,
        prefix=PREFIX,
        favourites=favourites,
        source=lesson.source,
        answer=answer,
        chance=seeing.chances[answer],
    )


def train(seed: int, sizes: Sizes) -> tuple[Any, Transformer]:
    """The corpus, and the recipe's translator after fewer steps."""
    recipe = override(
        load_recipe(RECIPE),
        {"n_pairs": sizes.n_pairs, "d_model": sizes.d_model, "d_ff": sizes.d_ff},
    )
    corpus = gather_corpus(dataclasses.replace(recipe.text, corpus_seed=seed), pairs=True)
    start = corpus.tokenizer.end_id
    config = recipe.model_config(
        corpus.tokenizer.vocab_size,
        source_vocab_size=corpus.source_tokenizer.vocab_size,
        decoder_start=start,
    )
    network = Transformer(config, seed)
    torch.manual_seed(seed)  # which pairs are learnt without their source: dropout_source
    batches = PairBatches(corpus.train, recipe.training.batch_tokens, seed, start)
    learn(network, from_windows(batches), sizes.steps, recipe.training, "a translator")
    return corpus, network


def look(network: Any, corpus: Any, tests: list[SentencePair], lesson: SentencePair) -> View:
    """Translate, score, and ask for a word."""
    readers = corpus.tokenizer, corpus.source_tokenizer
    options = TranslationOptions(beam_size=1)
    found = translate_texts(network, *readers, [*(t.source for t in tests), lesson.source], options)
    right = sum(text == test.target for text, test in zip(found, tests, strict=False))
    source = [*readers[1].encode(lesson.source), readers[1].end_id]
    pets = [pet.english for pet in PETS]
    return View(
        100 * right / len(tests),
        float(evaluate_pairs(network, corpus.validation).nats_per_token),
        word_probabilities(network, readers[0], source, PREFIX, pets),
        found[-1],
    )
