"""Why the causal mask: a decoder that may look at the next word learns to copy it, and no more.

The same small GPT on the same stories, with the mask and without (an encoder is a decoder without
mask). Without it the training loss goes to 0, for the answer stands one place to the right. But when
it has to write, there is nothing to the right yet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from budgerigar.experiments.why.frame import Bars, Lines, Measured, WhyResult
from budgerigar.experiments.why.learning import last_mean
from budgerigar.experiments.why.stories import Stories, gather, train_on_stories
from budgerigar.models.transformer import Transformer
from budgerigar.said import Said, said
from budgerigar.text.corpus import Corpus

STORIES = Stories(n=4000, steps=140, batch=16)
PROMPT = "Mei had a cat when she was young ."


@dataclass(frozen=True)
class Sizes:
    """How large the experiment is."""

    stories: Stories = STORIES
    n_words: int = 28
    """to write"""
    prefixes: int = 400
    """beginnings of unseen stories whose next word is asked"""


@dataclass(frozen=True)
class Half:
    """The network with or without the mask."""

    losses: list[float]
    training: float
    """nats per word at the end of the training"""
    next_word: float
    """nats of the next word of an unseen story, of which only the beginning is there"""
    text: str


def run(seed: int = 1, sizes: Sizes = Sizes()) -> WhyResult:
    """Train both, ask both for a next word that nobody can look at, let both write."""
    corpus = gather(sizes.stories, seed)
    without = measure(corpus, seed, sizes, masked=False)
    masked = measure(corpus, seed, sizes, masked=True)
    chance = math.log(corpus.tokenizer.vocab_size)
    held = without.training < 0.2 < masked.training and without.next_word > 2 * masked.next_word
    return WhyResult(
        part="mask",
        seed=seed,
        problem=said(
            "To predict the next word, the cheapest way is to look at it: without a mask nothing else "
            "is learnt."
        ),
        without=Measured(
            said("no mask: the next word of an unseen story"), without.next_word, said("nats")
        ),
        with_part=Measured(said("causal mask"), masked.next_word, said("nats")),
        panels=_panels(without, masked, chance),
        shows=_shows(without, masked, chance),
        held=held,
        verdict=said("It holds: the best training loss belongs to the network that can do nothing.")
        if held
        else said(
            "It does not show this time: without the mask the loss did not go to 0, or writing did "
            "not suffer."
        ),
        next_problem=said(
            "A masked decoder knows its own text only. To translate it has to look into another one, "
            "and there it may look everywhere."
        ),
        samples=(
            (said("written without the mask"), f"{PROMPT} {without.text}"),
            (said("written with the mask"), f"{PROMPT} {masked.text}"),
        ),
        numbers={"without": without, "with": masked, "chance": chance},
    )


def _panels(without: Half, masked: Half, chance: float) -> tuple[Lines, Bars]:
    return (
        Lines(
            said("training loss"),
            said("step"),
            said("nats per word"),
            list(range(1, len(without.losses) + 1)),
            {said("causal mask"): masked.losses, said("no mask"): without.losses},
            bottom=0.0,
        ),
        Bars(
            said("nats per word"),
            "",
            [
                (said("no mask, in training"), without.training),
                (said("no mask, writing"), without.next_word),
                (said("mask, in training"), masked.training),
                (said("mask, writing"), masked.next_word),
            ],
            line=(said("chance"), chance),
        ),
    )


def _shows(without: Half, masked: Half, chance: float) -> Said:
    worse = said("worse than") if without.next_word > chance else said("against")
    return said(
        "In training the loss without the mask goes to {trained:.2f} nats per word, with it to "
        "{masked:.2f}. At the end of a beginning, where the next word is yet to come, the one "
        "without costs {writing:.2f} nats ({worse} the {chance:.2f} of pure chance), the one with "
        "{masked_writing:.2f}. Read what they write: both continue the same words, always taking "
        "the likeliest.",
        trained=without.training,
        masked=masked.training,
        writing=without.next_word,
        worse=worse,
        chance=chance,
        masked_writing=masked.next_word,
    )


def measure(corpus: Corpus, seed: int, sizes: Sizes, masked: bool) -> Half:
    """Train one network; ask it for next words; let it write."""
    assembly = "decoder-only" if masked else "encoder-only"
    what = "with the mask" if masked else "without the mask"
    network, losses = train_on_stories(corpus, sizes.stories, seed, what, assembly=assembly)
    return Half(
        losses,
        last_mean(losses),
        next_word_nats(network, corpus, sizes),
        _write(network, corpus.tokenizer, sizes),
    )


@torch.inference_mode()
def next_word_nats(network: Transformer, corpus: Corpus, sizes: Sizes) -> float:
    """-ln p of the word after beginnings of held-out stories, 2 to half a context long; the mean."""
    store, end = corpus.validation, corpus.train.end_id
    ids = torch.from_numpy(np.array(store.tokens, dtype=np.int64))
    begins = np.flatnonzero(ids.numpy() == end).tolist()
    most = sizes.stories.length // 2
    total, n = 0.0, 0
    for number, begin in enumerate(begins[: sizes.prefixes]):
        length = 2 + number % (most - 2)
        if begin + length >= len(ids):
            continue
        logits = _next(network, ids[begin : begin + length])
        total -= float(logits.log_softmax(-1)[ids[begin + length]])
        n += 1
    return total / max(1, n)


@torch.inference_mode()
def _write(network: Transformer, tokenizer: Any, sizes: Sizes) -> str:
    """The likeliest word again and again, whole text read each time; as text."""
    ids = [tokenizer.end_id, *tokenizer.encode(PROMPT)]
    begun = len(ids)
    for _ in range(sizes.n_words):
        ids.append(int(_next(network, torch.tensor(ids)).argmax()))
    return " ".join(tokenizer.decode([token]).strip() or "<end>" for token in ids[begun:])


def _next(network: Transformer, ids: Tensor) -> Tensor:
    """Logits (V,) of the word after ids (T,)."""
    logits: Tensor = network(ids[None])[0, -1]
    return logits


__all__ = ["Half", "Sizes", "measure", "next_word_nats", "run"]
