"""What the probe `recall` says of each model: how far it remembers, and of two owners, whose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from budgerigar.text.stories import CHANCE

HALF_RIGHT = (
    "Two steps are asked for, whose pet and then which: half right is a model that knows the two "
    "pets, not whose each is (to name the latest every time is right in half too); what is above "
    "it knows whose. "
)


@dataclass(frozen=True)
class Line:
    """What one model remembers, by distance, in %."""

    name: str
    parameters: int
    seconds: float
    loss: float | None
    """nats per token at the end of the training (the encoder-decoder: per answer)"""
    accuracy: tuple[float, ...]
    probability: tuple[float, ...]
    """mean, of the right pet"""


def chance_of(owners: int) -> float:
    """% right of a guess among all pets, or, with two owners, between the two that were named."""
    return 100 * CHANCE if owners == 1 else 50.0


def in_words(
    lines: Sequence[Line], distances: Sequence[int], tests: int, owners: int
) -> tuple[str, ...]:
    """A sentence on each model; with two owners also whether any of them took the second step.

    tests: stories asked at each distance.
    """
    chance = chance_of(owners)
    if owners == 1:
        return tuple(_says(line, distances, chance) for line in lines)
    noise = 2 * 50.0 / tests**0.5  # two standard errors of a guess between two, in %
    said = [_says_of_two(line, distances, chance, noise) for line in lines]
    if not any(line.accuracy[0] > chance + noise for line in lines):
        said.append(
            "None learnt in this training whose pet is whose, so these lines do not show how far "
            "two steps reach; the probe with one owner shows how far one does."
        )
    return tuple(said)


def _says_of_two(line: Line, distances: Sequence[int], chance: float, noise: float) -> str:
    """Whether it knows whose, or only the two pets, or not even these."""
    near = line.accuracy[0]
    if near >= (100 + chance) / 2:
        return _says(line, distances, chance)
    begins = f"{line.name}: {near:.0f}% right with no filler"
    if near > chance + noise:
        return f"{begins}, more than a guess between the two pets: at times it knows whose."
    if near < chance - noise:
        return f"{begins}, less than a guess between the two pets: it does not keep the pets even."
    below = (d for d, a in zip(distances, line.accuracy, strict=True) if a < chance - noise)
    lost = next(below, None)
    far = "" if lost is None else f"; from {lost:,} words on less than that"
    return f"{begins}, what a guess between the two pets gives: it does not know whose{far}."


def _says(line: Line, distances: Sequence[int], chance: float) -> str:
    """Where it falls below halfway between everything right and chance."""
    halfway = (100 + chance) / 2
    falls = next((d for d, a in zip(distances, line.accuracy, strict=True) if a < halfway), None)
    if falls is None:
        low = min(line.accuracy)
        return (
            f"{line.name}: right in at least {low:.0f}% at every distance up to {distances[-1]:,}."
        )
    if falls == distances[0]:
        return (
            f"{line.name}: {line.accuracy[0]:.0f}% right with no filler at all, "
            f"{line.accuracy[-1]:.0f}% at {distances[-1]:,}; it has not learnt to recall, or cannot."
        )
    return (
        f"{line.name}: {line.accuracy[0]:.0f}% right with no filler; below halfway to chance from "
        f"{falls:,} words on, {line.accuracy[-1]:.0f}% at {distances[-1]:,}."
    )
