"""In-context learning of a model that is there: a rule from a few pairs, a random map, a repeated text.

The real case of `in_context.py` (Brown et al. 2020; Olsson et al. 2022). Nothing is trained. A text of
lines "cat -> tac" is read once; at line k + 1 the model has seen k lines and is asked for the second
word. An answer is right when each of its tokens is the likeliest. Maps with a rule (opposites,
capitals, words turned round) show k *other* pairs; random maps of words show the same pair k times,
so that looking back is enough. (The answers to a rule the weights may know; there the shots tell what
is asked for.) On random tokens, twice, nothing but looking back can help.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.experiments.why import repeated_tokens, word_maps
from budgerigar.experiments.why.frame import Bars, Lines, Measured, WhyResult
from budgerigar.experiments.why.real_maps import RULES, WORDS
from budgerigar.experiments.why.repeated_tokens import Repeats, fits
from budgerigar.experiments.why.word_maps import Mean, Shots, mean_of
from budgerigar.inspection.induction import THRESHOLD
from budgerigar.models.transformer import Transformer

RANDOM = "random maps"
ARROW, END = " ->", "\n"
WEAK = 50.0  # % right after the most shots under which a model is called weak at a map
Pair = tuple[str, str]


@dataclass(frozen=True)
class Sizes:
    """How large the measurement is."""

    lines: int = 9
    """of a text of a rule, and rounds of a random map"""
    passes: int = 2
    """times that each pair of a rule is asked for after each number of shots"""
    maps: int = 24
    """random maps"""
    pairs: int = 6
    """of a random map"""
    repeats: int = 10
    """texts of random tokens, twice"""
    length: int = 50
    """tokens of one of them"""
    best: int = 5
    """heads to name"""
    shown: tuple[int, ...] = (0, 1, 2, 4, 8)
    """numbers of shots in the words of the result"""


def run(model: str, seed: int = 1, sizes: Sizes = Sizes()) -> WhyResult:
    """Measure `model`, which is whatever `formats.load.load_any` takes.

    Raises:
        UserError: it cannot be loaded or fetched, or is no decoder-only Transformer, or its context is
            shorter than the texts.
    """
    from budgerigar.formats.load import load_any

    progress.note(f"loading {model}")
    loaded = load_any(model)
    network, tokenizer = loaded.network, loaded.tokenizer
    _check(network, model)
    texts = sizes.passes * sum(map(len, RULES.values())) + sizes.maps + sizes.repeats
    progress.note(f"measuring on {texts} texts, nothing is trained")
    generator = torch.Generator().manual_seed(seed)
    found: dict[str, Shots] = {}
    for name, pairs in RULES.items():
        orders = list(rule_texts(len(pairs), sizes, generator))
        found[name] = by_pair(_read(network, tokenizer, pairs, orders, name), orders)
    found[RANDOM] = random_maps(network, tokenizer, sizes, generator)
    repeats = repeated_tokens.measure(network, tokenizer, sizes.repeats, sizes.length, generator)
    return report(model, seed, sizes, found, repeats)


def _check(network: Any, model: str) -> None:
    if not isinstance(network, Transformer) or network.config.assembly != "decoder-only":
        raise UserError(
            f"{model} is no decoder-only Transformer: what is measured here is how such a model goes "
            "on with a text, and where its heads look. `budgie list models` names some to fetch."
        )


# -- texts ---------------------------------------------------------------------------------------
def rule_texts(n: int, sizes: Sizes, generator: torch.Generator) -> Iterator[list[int]]:
    """Numbers of the pairs of each text, n texts a pass: each pair stands once at each line."""
    for _ in range(sizes.passes):
        order = torch.randperm(n, generator=generator)
        apart = torch.randperm(n, generator=generator)[: sizes.lines]
        for start in range(n):
            yield order[(start + apart) % n].tolist()


def spelled(tokenizer: Any, pairs: Iterable[Pair]) -> tuple[list[int], list[tuple[int, int]]]:
    """Ids of the lines "first -> second", and for each where the answer begins and ends in them."""
    ids = list(tokenizer.start_ids)
    spans = []
    for first, second in pairs:
        head = tokenizer.encode(f"{first}{ARROW}")
        whole = tokenizer.encode(f"{first}{ARROW} {second}")
        parts = enumerate(zip(head, whole, strict=False))
        same = next((n for n, (a, b) in parts if a != b), min(len(head), len(whole)))
        spans.append((len(ids) + same, len(ids) + len(whole)))
        ids += [*whole, *tokenizer.encode(END)]
    return ids, spans


@torch.inference_mode()
def answers(
    network: Transformer, ids: Sequence[int], spans: Sequence[tuple[int, int]]
) -> list[tuple[float, float]]:
    """For each answer (its ids are those from `start` to `end`): nats, and 100.0 if right, else 0."""
    fits(network, len(ids))
    tokens = torch.tensor([list(ids)], device=network.device)
    logits = network(tokens)[0, :-1].float()
    loss = F.cross_entropy(logits, tokens[0, 1:], reduction="none").cpu()
    right = (logits.argmax(-1) == tokens[0, 1:]).cpu()
    return [
        (float(loss[start - 1 : end - 1].sum()), 100.0 * float(right[start - 1 : end - 1].all()))
        for start, end in spans
    ]


def _read(
    network: Transformer,
    tokenizer: Any,
    pairs: Sequence[Pair],
    texts: Sequence[Sequence[int]],
    what: str,
) -> Tensor:
    """(texts, lines, 2): nats and % right of every answer."""
    rows = []
    with progress.track(what, total=len(texts), unit="texts") as job:
        for text in texts:
            rows.append(answers(network, *spelled(tokenizer, [pairs[n] for n in text])))
            job.advance(1)
    return torch.tensor(rows, dtype=torch.float64)


# -- measurements --------------------------------------------------------------------------------
def by_pair(read: Tensor, texts: Sequence[Sequence[int]]) -> Shots:
    """By lines seen; a pair is one measurement, the mean of the texts that ask for it there."""
    order = torch.tensor(texts)  # (texts, lines)
    n, lines = int(order.max()) + 1, order.shape[1]
    sums = torch.zeros(n, lines, 2, dtype=torch.float64)
    sums.scatter_add_(0, order[..., None].expand(-1, -1, 2), read)
    means = sums / (len(texts) / n)
    return _by_line(means)


def random_maps(
    network: Transformer, tokenizer: Any, sizes: Sizes, generator: torch.Generator
) -> Shots:
    """Each pair of a map once per round; a map is one measurement."""
    maps = word_maps.draw_map(sizes.maps, len(WORDS), sizes.pairs, generator)
    turns = word_maps.in_rounds(sizes.maps, sizes.pairs, sizes.lines, generator)
    rows = []
    with progress.track(RANDOM, total=sizes.maps, unit="maps") as job:
        for one, order in zip(maps.tolist(), turns.tolist(), strict=True):
            pairs = [(WORDS[key], WORDS[value]) for key, value in one]
            rows.append(answers(network, *spelled(tokenizer, [pairs[n] for n in order])))
            job.advance(1)
    read = torch.tensor(rows, dtype=torch.float64).view(sizes.maps, sizes.lines, sizes.pairs, 2)
    return _by_line(read.mean(2))


def _by_line(means: Tensor) -> Shots:
    """(measurements, lines, 2: nats and % right) -> the mean of each line."""
    columns = [tuple(mean_of(row) for row in means[..., part].T) for part in (0, 1)]
    return Shots(*columns)


# -- the report ----------------------------------------------------------------------------------
def gain(found: Shots) -> Mean:
    """% right after the most shots less % right without any; the two errors added as if apart."""
    none, most = found.accuracy[0], found.accuracy[-1]
    return Mean(most.mean - none.mean, math.hypot(none.error, most.error), most.n)


def called(found: Shots) -> str:
    """What the numbers amount to, in a word or two."""
    more = gain(found)
    if not more.mean > 2 * more.error:
        return "no gain that exceeds the noise"
    return "weak" if found.accuracy[-1].mean < WEAK else "strong"


def report(
    model: str, seed: int, sizes: Sizes, found: dict[str, Shots], repeats: Repeats
) -> WhyResult:
    """The measurements as a result."""
    most = sizes.lines - 1
    best = list(repeats.scores.items())[: sizes.best]
    held = (
        called(found[RANDOM]) != "no gain that exceeds the noise"
        and best[0][1] >= THRESHOLD
        and repeats.second.mean < repeats.first.mean / 2
    )
    weak = [name for name, shots_ in found.items() if called(shots_) != "strong"]
    return WhyResult(
        part="in-context",
        seed=seed,
        problem="What a text sets up anew cannot be in the weights. A model that learnt to look back "
        "can go on with it all the same; how well does this one?",
        without=Measured(f"{RANDOM}, never shown", found[RANDOM].accuracy[0].mean, "% right", 1),
        with_part=Measured(f"shown {most} times", found[RANDOM].accuracy[-1].mean, "% right", 1),
        panels=_panels(model, found, best, repeats.alike),
        shows=_shows(sizes, found, repeats, best),
        held=held,
        verdict=_verdict(held, weak, repeats),
        next_problem="A few pairs in the text are all that the model is told; telling it what to do, "
        "and having it do that, takes training on instructions.",
        numbers={
            "maps": found,
            "called": {n: called(s) for n, s in found.items()},
            "repeats": repeats,
        },
    )


def _panels(
    model: str, found: dict[str, Shots], best: Sequence[tuple[str, float]], alike: float
) -> tuple[Lines, Lines, Bars]:
    shots = list(range(len(found[RANDOM].loss)))
    seen = "pairs shown before (random maps: times the same pair was)"
    return (
        Lines(
            f"{Path(model).name}: answers by shots",
            seen,
            "% right",
            shots,
            {name: [mean.mean for mean in one.accuracy] for name, one in found.items()},
            bottom=0.0,
            top=100.0,
        ),
        Lines(
            "loss of the right answer",
            seen,
            "nats per answer",
            shots,
            {name: [mean.mean for mean in one.loss] for name, one in found.items()},
            bottom=0.0,
        ),
        Bars(
            "best induction heads: weight on what followed",
            "",
            best,
            top=1.0,
            line=("everywhere alike", alike),
        ),
    )


def _shows(
    sizes: Sizes, found: dict[str, Shots], repeats: Repeats, best: Sequence[tuple[str, float]]
) -> str:
    shown = [k for k in sizes.shown if k < sizes.lines]
    rows = [
        f"{name} ({one.accuracy[0].n} {'maps' if name == RANDOM else 'pairs'}) "
        + ", ".join(f"{one.accuracy[k].mean:.0f} ± {one.accuracy[k].error:.0f}" for k in shown)
        + f"%: {called(one)}"
        for name, one in found.items()
    ]
    heads = ", ".join(f"{name} {score:.2f}" for name, score in best)
    return (
        f"After {', '.join(map(str, shown))} shots, mean and standard error: {'; '.join(rows)}. (Of a "
        "rule's pairs the weights may know the answers; the shots tell what is asked for.) On "
        f"{repeats.first.n} texts of random tokens, twice, the first copy costs {repeats.first} nats "
        f"per token, the second {repeats.second}. {repeats.heads} of {len(repeats.scores)} heads have "
        f"an induction score of {THRESHOLD} or more: they look at what followed the same token before; "
        f"the best are {heads} (everywhere alike: {repeats.alike:.3f}).{_cut(repeats)}"
    )


def _cut(repeats: Repeats) -> str:
    """What switching heads off does."""
    if repeats.without is None:
        return ""
    return (
        f" With those {repeats.heads} switched off the second copy costs {repeats.without}; with as "
        f"many other heads of the same layers, {repeats.without_others}."
    )


def _verdict(held: bool, weak: Sequence[str], repeats: Repeats) -> str:
    heads = (
        "and it is heads that look back that do it"
        if repeats.rests_on_heads
        else "and there are heads that look back; not they alone do it"
    )
    said = (
        f"It holds: shown in the text, a random map and random tokens are gone on with, {heads}."
        if held
        else "It does not show here: the model does not go on with what only the text told it, or no "
        "head looks back."
    )
    return f"{said} Weak or nothing on {', '.join(weak)}." if weak else said
