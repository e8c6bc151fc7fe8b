"""Small GPTs on the generated stories, for the parts that need a language."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import torch

from budgerigar.evaluation.evaluate import evaluate
from budgerigar.experiments.why.learning import from_windows, learn
from budgerigar.layers.config import TransformerConfig
from budgerigar.models.transformer import Transformer
from budgerigar.text.batches import WindowBatches
from budgerigar.text.corpus import Corpus, prepare_documents
from budgerigar.text.stories import stories_documents
from budgerigar.training.recipe import TrainingRecipe, load_recipe


@dataclass(frozen=True)
class Stories:
    """How many stories, how long they and the training are."""

    n: int = 4000
    held_out: int = 100
    filler_words: tuple[int, int] = (0, 30)
    length: int = 64
    """context in words"""
    d_model: int = 64
    layers: int = 1
    heads: int = 4
    steps: int = 120
    batch: int = 16


def gather(sizes: Stories, seed: int) -> Corpus:
    """The stories of this seed, in words."""
    return prepare_documents(
        stories_documents(sizes.n, seed, filler_words=sizes.filler_words),
        stories_documents(
            sizes.held_out, seed, split="validation", filler_words=sizes.filler_words
        ),
        tokenizer="word",
        seed=seed,
    )


def settings(sizes: Stories) -> TrainingRecipe:
    """How the recipe `stories` trains."""
    return dataclasses.replace(load_recipe("stories").training, batch_size=sizes.batch)


def config(corpus: Corpus, sizes: Stories, **changes: Any) -> TransformerConfig:
    """The model of the recipe `stories`, in this size."""
    recipe = load_recipe("stories")
    own = {
        "context_length": sizes.length,
        "d_model": sizes.d_model,
        "n_layers": sizes.layers,
        "n_heads": sizes.heads,
    }
    found = recipe.model_config(corpus.tokenizer.vocab_size, **{**own, **changes})
    assert isinstance(found, TransformerConfig)
    return found


def train_on_stories(
    corpus: Corpus, sizes: Stories, seed: int, what: str, **changes: Any
) -> tuple[Transformer, list[float]]:
    """A trained network and its losses in nats per word; `changes` go to its configuration."""
    network = Transformer(config(corpus, sizes, **changes), seed)
    batches = WindowBatches(corpus.train, sizes.length, sizes.batch, seed, order="shuffled")
    losses = learn(network, from_windows(batches), sizes.steps, settings(sizes), what)
    return network, losses


def story_loss(network: Any, corpus: Corpus) -> float:
    """Nats per word of the held-out stories."""
    with torch.inference_mode():
        return float(evaluate(network, corpus.validation).nats_per_token)
