"""Why positions: without them an encoder reads a bag of words; a causal decoder hardly minds.

"Xuanyuan has the budgerigar" and "the budgerigar has Xuanyuan" are the same words. Through an encoder
without positions every word gets the same vector in both, only in another row (attention is a sum
over a set: permute the rows, and the results are permuted). Who owns whom is then a guess. In a
decoder the causal mask itself tells order: the first word sees one, the second two (Haviv et al. 2022).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from budgerigar.experiments.why.frame import Bars, Measured, WhyResult, number
from budgerigar.experiments.why.learning import ADAM, Inputs, learn
from budgerigar.experiments.why.parts import for_words
from budgerigar.experiments.why.stories import Stories, gather, story_loss, train_on_stories
from budgerigar.models.transformer import Transformer
from budgerigar.said import Said, said
from budgerigar.text.story_words import PEOPLE, PETS

STORIES = Stories(n=4000, steps=100, batch=16, layers=2)
OWNER, OWNED = 0, 1
SENTENCES = (("Xuanyuan", "has", "the", "budgerigar"), ("the", "budgerigar", "has", "Xuanyuan"))
NOISE = 3.0  # times the spread between seeds: less is no difference
LITTLE = 0.05  # nats per word: less is hardly a difference


@dataclass(frozen=True)
class Sizes:
    """How large the experiment is."""

    steps: int = 120
    batch: int = 32
    tests: int = 500
    d_model: int = 48
    stories: Stories = STORIES
    repeats: int = 2
    """decoders of each kind, to know how far they differ by chance"""


def run(seed: int = 1, sizes: Sizes = Sizes()) -> WhyResult:
    """The permutation in numbers, a reader of owner and owned, and a decoder of stories."""
    words = _words()
    moved = {kind: moved_vectors(kind, words, seed, sizes) for kind in ("none", "sinusoidal")}
    right = {kind: owner_accuracy(kind, words, seed, sizes) for kind in ("none", "sinusoidal")}
    decoders = decoder_losses(seed, sizes)
    means = {kind: sum(found) / len(found) for kind, found in decoders.items()}
    spread = max(max(found) - min(found) for found in decoders.values())
    hardly = _gain(means) < LITTLE
    held = moved["none"] < 1e-5 and right["none"] < 60 and right["sinusoidal"] > 95 and hardly
    return WhyResult(
        part="positions",
        seed=seed,
        problem=said(
            "To attention a sentence is a bag of words: “Xuanyuan has the budgerigar” and “the "
            "budgerigar has Xuanyuan” give the same vectors, permuted."
        ),
        without=Measured(
            said("encoder without positions, who owns whom"), right["none"], said("% right"), 1
        ),
        with_part=Measured(said("with sinusoids"), right["sinusoidal"], said("% right"), 1),
        panels=_panels(right, means),
        shows=_shows(moved, right, means, spread),
        held=held,
        verdict=said(
            "It holds: without positions the encoder is lost, the causal decoder only a little worse."
        )
        if held
        else said("It does not hold in all parts this time; see the numbers."),
        next_problem=said(
            "The right words now find each other, but attention only adds up what they say; nothing "
            "combines it."
        ),
        numbers={
            "moved vectors": moved,
            "% right": right,
            "decoder losses": decoders,
            "spread between runs": spread,
        },
    )


def _panels(right: dict[str, float], means: dict[str, float]) -> tuple[Bars, Bars]:
    return (
        Bars(
            said("who owns whom, read by an encoder"),
            "%",
            [
                (said("no positions"), right["none"]),
                (said("sinusoids"), right["sinusoidal"]),
            ],
            top=100,
            line=(said("chance"), 50.0),
        ),
        Bars(
            said("a causal decoder on stories, held-out words"),
            said("nats"),
            [
                (said("no positions"), means["none"]),
                (said("learned positions"), means["learned"]),
                (said("rotary positions"), means["rotary"]),
            ],
        ),
    )


def _shows(
    moved: dict[str, float], right: dict[str, float], means: dict[str, float], spread: float
) -> Said:
    return said(
        "The largest difference between a word's vectors in the two sentences, against the "
        "vectors' own size: {moved} without positions, {moved_with} with. So the owner is found in "
        "{right:.1f}% of unseen sentences without and {right_with:.1f}% with. A causal decoder "
        "reads left to right anyway: {none:.3f} nats per word without positions, {learned:.3f} "
        "with learned ones ({size}; equal runs differ by {spread:.3f}), {rotary:.3f} with rotary "
        "ones.",
        moved=number(moved["none"]),
        moved_with=number(moved["sinusoidal"]),
        right=right["none"],
        right_with=right["sinusoidal"],
        size=_size(_gain(means), spread),
        spread=spread,
        **means,
    )


def _gain(means: dict[str, float]) -> float:
    """Nats per word between a decoder without positions and one with learned ones."""
    return abs(means["none"] - means["learned"])


def _size(gain: float, spread: float) -> Said:
    if gain <= max(NOISE * spread, 0.01):
        return said("no difference that these seeds could show")
    return said("hardly a difference") if gain < LITTLE else said("a difference, this time")


def _words() -> list[str]:
    """The vocabulary: has, the, people, pets. Number 0 and 1 are also the answers."""
    return [
        "has",
        "the",
        *(person.english for person in PEOPLE),
        *(pet.english for pet in PETS),
    ]


def _encoder(kind: str, n_words: int, seed: int, sizes: Sizes) -> Transformer:
    dials = {"assembly": "encoder-only", "n_layers": 2, "n_heads": 4, "positions": kind}
    return Transformer(for_words(n_words, 8, sizes.d_model, **dials), seed)


@torch.inference_mode()
def moved_vectors(kind: str, words: list[str], seed: int, sizes: Sizes) -> float:
    """How far the words' vectors differ between the two sentences, against the largest vector."""
    one, other = SENTENCES
    network = _encoder(kind, len(words), seed, sizes).eval()
    first, second = (
        network.encode(torch.tensor([[words.index(w) for w in sentence]]))[0]
        for sentence in (one, other)
    )
    moved = second[[other.index(word) for word in one]]
    return float((first - moved).norm(dim=-1).max() / first.norm(dim=-1).max())


def owner_accuracy(kind: str, words: list[str], seed: int, sizes: Sizes) -> float:
    """% of the two nouns of unseen sentences that are rightly called owner or owned."""
    network = _encoder(kind, len(words), seed, sizes)
    generator = torch.Generator().manual_seed(seed)

    def following() -> tuple[Inputs, Tensor]:
        sentences, targets = _owning(words, sizes.batch, generator, held_out=False)
        return {"tokens": sentences}, targets

    settings = dataclasses.replace(ADAM, learning_rate=2e-3)
    learn(network, following, sizes.steps, settings, f"encoder, positions {kind}")
    tests, targets = _owning(words, sizes.tests, generator, held_out=True)
    with torch.inference_mode():
        guesses = network(tests)[..., :2].argmax(-1)
    asked = targets >= 0
    return 100 * float((guesses == targets)[asked].float().mean())


def _owning(
    words: list[str], n: int, generator: torch.Generator, held_out: bool
) -> tuple[Tensor, Tensor]:
    """n times "A has the B" or "the B has A": what stands before "has" owns what stands after it.

    Each pair of A and B comes both ways round, so that the words alone tell nothing. Held out are
    the pairs whose numbers add up to a multiple of 5.
    """
    people = torch.randint(0, len(PEOPLE), (8 * n + 40,), generator=generator)
    pets = torch.randint(0, len(PETS), (8 * n + 40,), generator=generator)
    chosen = ((people + pets) % 5 == 0) == held_out
    a = people[chosen][: n // 2] + 2
    b = pets[chosen][: n // 2] + 2 + len(PEOPLE)
    has, the = torch.zeros_like(a), torch.ones_like(a)
    ask = torch.full_like(a, -100)
    owner, owned = torch.full_like(a, OWNER), torch.full_like(a, OWNED)
    both_ways = ((a, the), (has, b), (the, has), (b, a))  # columns: A has the B, the B has A
    asked = ((owner, ask), (ask, owner), (ask, ask), (owned, owned))
    sentences, targets = (
        torch.stack([torch.cat(pair) for pair in columns], dim=1) for columns in (both_ways, asked)
    )
    return sentences, targets


def decoder_losses(seed: int, sizes: Sizes) -> dict[str, list[float]]:
    """Nats per held-out word of small GPTs without positions, with learned and rotary ones."""
    corpus = gather(sizes.stories, seed)
    found: dict[str, list[float]] = {"none": [], "learned": [], "rotary": []}
    for repeat in range(sizes.repeats):
        for kind, losses in found.items():
            network, _ = train_on_stories(
                corpus,
                sizes.stories,
                seed * 100 + repeat,
                f"decoder, positions {kind}",
                positions=kind,
            )
            losses.append(story_loss(network, corpus))
    return found


__all__ = ["Sizes", "decoder_losses", "moved_vectors", "owner_accuracy", "run"]
