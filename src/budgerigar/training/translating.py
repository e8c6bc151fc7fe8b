"""Measuring an encoder-decoder while it learns: losses on held-out pairs, BLEU, some translations.

Translations are greedy and of the first `bleu_sentences` validation pairs, so that they cost little
and the same each time; the score that counts is that of `budgie evaluate`, with a beam, on a test set.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from budgerigar.training.events import Translated, Written
from budgerigar.training.recipe import Recipe

SHOWN = 3  # translations in a sample


def pair_evaluator(recipe: Recipe, corpus: Any) -> Callable[[nn.Module, bool], Any]:
    """`(network, whole split?) -> Evaluation` with the loss on all held-out pairs, and BLEU."""
    from budgerigar.evaluation.pairs import evaluate_pairs

    sentences = first_pairs(corpus, recipe.training.bleu_sentences)

    def run(network: Any, _everything: bool) -> Any:
        found = evaluate_pairs(network, corpus.validation)
        if not sentences:
            return found
        return dataclasses.replace(found, bleu=_bleu(network, corpus, sentences))

    return run


def pair_sampler(recipe: Recipe, corpus: Any) -> Callable[[nn.Module, int], Written] | None:
    """`(network, step) -> the first held-out sentences with their references, translated`."""
    if recipe.training.sample_every == 0:
        return None
    sentences = first_pairs(corpus, SHOWN)

    def run(network: nn.Module, step: int) -> Written:
        texts = translate_greedily(network, corpus, [source for source, _ in sentences])
        shown = [
            Translated(source, reference, text)
            for (source, reference), text in zip(sentences, texts, strict=True)
        ]
        lines = [f"{one.source}\n  {one.hypothesis}\n  ({one.reference})" for one in shown]
        return Written("\n".join(lines), tuple(shown))

    return run


def first_pairs(corpus: Any, count: int) -> list[tuple[str, str]]:
    """The text of the first `count` held-out pairs; tokenizers lose nothing, so ids are enough."""
    store = corpus.validation
    return [
        (
            corpus.source_tokenizer.decode(store.source[row].tolist()),
            corpus.tokenizer.decode(store.target[row].tolist()),
        )
        for row in range(min(count, store.n_pairs))
    ]


@torch.no_grad()
def translate_greedily(network: Any, corpus: Any, sources: list[str]) -> list[str]:
    """The likeliest token at each step, until `<end>`."""
    from budgerigar.generation.translation import translate_texts
    from budgerigar.generation.translation_options import TranslationOptions

    options = TranslationOptions(beam_size=1, length_penalty="none")
    return list(
        translate_texts(network, corpus.tokenizer, corpus.source_tokenizer, sources, options)
    )


def _bleu(network: Any, corpus: Any, sentences: list[tuple[str, str]]) -> float:
    from budgerigar.evaluation.translation_scores import score_translations

    texts = translate_greedily(network, corpus, [source for source, _ in sentences])
    scores = score_translations(
        texts,
        [reference for _, reference in sentences],
        target_language=corpus.target_language,
        bootstrap=0,
        metrics=("bleu",),
    )
    assert scores.bleu is not None
    return float(scores.bleu.score)
