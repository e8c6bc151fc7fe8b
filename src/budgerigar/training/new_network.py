"""A network before its first update: drawn from a seed, with what is known of the text set at once."""

from __future__ import annotations

from typing import Any

from torch import nn

from budgerigar import progress
from budgerigar.formats.embeddings import begin_embedding
from budgerigar.models.base import begin_with_frequencies
from budgerigar.training.objectives import MASKED_WORDS, NEXT_TOKEN
from budgerigar.training.recipe import Recipe


def new_network(config: Any, recipe: Recipe, corpus: Any) -> nn.Module:
    """The same weights for the same recipe and text, at the start and when a run is begun again."""
    from budgerigar import models

    network: nn.Module = models.build(config, seed=recipe.training.seed)
    if not recipe.reads_pairs and recipe.objective in (NEXT_TOKEN, MASKED_WORDS):
        begin_with_frequencies(network, corpus.train.counts)
    if recipe.training.embedding_from is not None:
        progress.note(begin_embedding(network, corpus.tokenizer, recipe.training.embedding_from))
    return network
