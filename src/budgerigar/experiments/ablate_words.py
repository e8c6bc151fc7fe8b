"""An ablation in words: its tables, what they show and what they cannot, a drawing for a terminal."""

from __future__ import annotations

import io
import statistics
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console

from budgerigar.experiments.ablate_dials import in_words
from budgerigar.experiments.ablate_results import Ablation, CellResult, Effect
from budgerigar.experiments.ablate_statistics import LEVEL, Difference, least_shown
from budgerigar.experiments.compare_words import duration, lined_up

UNITS = {"bits_per_byte": "bits per byte", "loss": "nats per token", "bleu": "BLEU"}
NOTHING = "within noise"
WIDTH = 120  # columns of a terminal
WIDE = 240  # for tables, which no line may break
AXIS = 56  # columns of the drawing
EFFECTS_ABOUT = (
    "Each effect of a dial is the mean over the settings of the others; from and to are the smallest "
    "and the largest there. Where these differ much, it depends on the others, and the mean says "
    "little."
)


# -- the cells -----------------------------------------------------------------------------------


def head(found: Ablation) -> tuple[str, ...]:
    """Of the table of cells."""
    bleu = ("BLEU",) if _has_bleu(found) else ()
    names = [dial.name for dial in found.dials]
    steps = ("steps",) if _steps_differ(found) else ()
    return (
        *names, "weights", *steps, "time", f"{UNITS[found.measure]} ± sd (n)", *bleu,
        "to the base [95 %]", "p (Holm)", "verdict",
    )  # fmt: skip


def rows(found: Ablation) -> list[tuple[str, ...]]:
    """The table of cells, best first; its head is `head`."""
    said = dict(zip(found.cells, verdicts(found), strict=True))
    differences = dict(zip(found.cells, found.differences, strict=True))
    made = []
    for cell in ranked(found):
        bleu = list(cell.by_seed("bleu").values())
        made.append(
            (
                *map(in_words, cell.values),
                f"{cell.parameters:,}",
                *((f"{cell.steps:,}",) if _steps_differ(found) else ()),
                duration(statistics.fmean(run.training_seconds for run in cell.runs)),
                mean_and_deviation(list(cell.by_seed(found.measure).values())),
                *((f"{statistics.fmean(bleu):.2f}" if bleu else "-",) if _has_bleu(found) else ()),
                interval(differences[cell]),
                p_value(differences[cell]),
                said[cell],
            )
        )
    return made


def mean_and_deviation(values: Sequence[float]) -> str:
    """2.2577 ± 0.0041 (3): mean, standard deviation, how many."""
    if not values:
        return "-"
    spread = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.4f}{spread} ({len(values)})"


def _steps_differ(found: Ablation) -> bool:
    return len({cell.steps for cell in found.cells}) > 1


def _has_bleu(found: Ablation) -> bool:
    return any(run.bleu is not None for cell in found.cells for run in cell.runs)


def ranked(found: Ablation) -> list[CellResult]:
    """Best mean first; those without any at the end."""

    def mean(cell: CellResult) -> float:
        values = cell.by_seed(found.measure).values()
        return statistics.fmean(values) if values else float("inf")

    return sorted(found.cells, key=mean)


def verdicts(found: Ablation) -> list[str]:
    """Of each cell against the base, in a word or two."""
    pairs = zip(found.cells, found.differences, strict=True)
    return [_verdict(found, cell, difference) for cell, difference in pairs]


def _verdict(found: Ablation, cell: CellResult, difference: Difference | None) -> str:
    if cell.diverged:
        return f"diverged in {len(cell.diverged)} of {len(cell.runs)}"
    if cell is found.base:
        return "base"
    if found.base.diverged:
        return "the base diverged"
    return decision(difference)


def decision(difference: Difference | None) -> str:
    """Whether a difference of losses is larger than the noise."""
    if difference is None or difference.p is None:
        return "one seed"
    if difference.shown:
        return "better" if difference.mean < 0 else "worse"
    return "identical" if difference.mean == 0 and not difference.deviation else NOTHING


def interval(difference: Difference | None) -> str:
    """+0.0123 [+0.0101, +0.0145]"""
    if difference is None:
        return ""
    if difference.low is None:
        return f"{difference.mean:+.4f}"
    return f"{difference.mean:+.4f} [{difference.low:+.4f}, {difference.high:+.4f}]"


def p_value(difference: Difference | None) -> str:
    """After the correction."""
    if difference is None or difference.adjusted is None:
        return ""
    return "< 0.001" if difference.adjusted < 0.001 else f"{difference.adjusted:.3f}"


# -- the dials -----------------------------------------------------------------------------------

EFFECT_HEAD = (
    "dial", "effect [95 %]", "p (Holm)", "verdict", "from", "to",
)  # fmt: skip


def effect_rows(found: Ablation) -> list[tuple[str, ...]]:
    """The table of main effects; its head is `EFFECT_HEAD`."""
    return [
        (
            effect_name(one),
            interval(one.difference),
            p_value(one.difference),
            decision(one.difference),
            f"{one.least[0]:+.4f} ({one.least[1]})",
            f"{one.most[0]:+.4f} ({one.most[1]})",
        )
        for one in found.effects
    ]


def effect_name(effect: Effect) -> str:
    """norm_place: post against pre"""
    return f"{effect.dial}: {effect.value} against {effect.against}"


# -- sentences -----------------------------------------------------------------------------------


def about(found: Ablation) -> str:
    """What was done, in one sentence."""
    budget = f"{found.base.steps:,} steps"
    if found.minutes is not None:
        budget = f"{found.minutes:g} minutes"
    equal = ", as many parameters each" if found.equal_parameters else ""
    seeds = ", ".join(map(str, found.seeds))
    how = "one dial at a time" if found.one_at_a_time else "all combinations"
    return (
        f"{found.recipe} on {found.corpus}, {how}: {len(found.cells)} cells, {budget} each{equal}, "
        f"seed{'s' * (len(found.seeds) > 1)} {seeds}; {UNITS[found.measure]} of the best weights "
        f"on the whole validation split, {found.n_tokens:,} tokens."
    )


def findings(found: Ablation) -> list[str]:
    """What was shown, what was not, what went wrong and how it was decided; a sentence each."""
    said = [_best(found), *_shown(found), *_went_wrong(found)]
    known = [d for d in found.differences if d is not None and d.p is not None]
    if len(found.seeds) < 2:
        said.append("One seed shows no noise: how much of this is chance, only more seeds can say.")
    elif known:
        said.append(_method(found, known))
    said += [f"Left out: {words}: {why}." for words, why in found.skipped]
    return said


def _best(found: Ablation) -> str:
    best, unit = ranked(found)[0], UNITS[found.measure]
    values = list(best.by_seed(found.measure).values())
    if not values:
        return "Every run diverged; a lower learning rate may help."
    sentence = f"Lowest mean: {best.label}, {mean_and_deviation(values)} {unit}"
    verdict = verdicts(found)[found.cells.index(best)]
    if verdict == NOTHING:
        return f"{sentence}, which these seeds do not tell from the base, {found.base.label}."
    return f"{sentence}{' (the base)' if best is found.base else ''}."


def _shown(found: Ablation) -> list[str]:
    groups: dict[str, list[str]] = {"better": [], "worse": [], NOTHING: [], "identical": []}
    for cell, difference, verdict in zip(
        found.cells, found.differences, verdicts(found), strict=True
    ):
        if verdict in groups and difference is not None:
            groups[verdict].append(f"{cell.label} ({interval(difference)})")
    heads = {
        "better": "Better than the base, beyond the noise",
        "worse": "Worse than the base, beyond the noise",
        NOTHING: f"No difference to the base that {len(found.seeds)} seeds could show",
        "identical": "The same numbers as the base",
    }
    return [f"{heads[name]}: {'; '.join(cells)}." for name, cells in groups.items() if cells]


def _went_wrong(found: Ablation) -> list[str]:
    said = []
    for cell in found.cells:
        if cell.diverged:
            runs = "; ".join(f"seed {run.seed} at {run.diverged}" for run in cell.diverged)
            n, bad = len(cell.runs), len(cell.diverged)
            rest = (
                "" if bad == n else " Its mean is that of the rest, and nothing is tested with it."
            )
            said.append(f"Diverged: {cell.label} in {bad} of {n} runs ({runs}).{rest}")
    return said


def _method(found: Ablation, known: Sequence[Difference]) -> str:
    n = min(d.n for d in known)
    least = least_shown(known)
    limit = ""
    if least is not None:
        limit = (
            f" With noise as in these runs, a difference below about {least:.4f} would hardly be "
            "shown; more seeds lower that."
        )
    comparisons = f"{len(known)} comparison{'s' * (len(known) > 1)}"
    effects = (
        f" (effects of the dials: for their {len(found.effects)} among themselves)"
        if found.effects
        else ""
    )
    freedom = f"n - 1 = {n - 1} degree{'s' * (n > 2)} of freedom"
    return (
        "± is the standard deviation over seeds. Differences are paired by seed: the same seed reads "
        f"the text in the same order. Intervals are Student's t with {freedom}, each for itself; a "
        f"verdict is at {100 * LEVEL:g} % after Holm's correction for {comparisons}{effects}.{limit}"
    )


# -- a terminal ----------------------------------------------------------------------------------


def as_text(found: Ablation, width: int = WIDTH) -> str:
    """Tables, drawing and sentences."""
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False, color_system=None)
    tables = Console(file=out, width=WIDE, highlight=False, color_system=None)
    console.print(about(found), markup=False)
    tables.print(lined_up(head(found), rows(found), left=len(found.dials)))
    lines = drawing(found)
    if lines:
        title = f"difference to the base, {found.base.label}, with its 95 % interval"
        console.print(f"  {title}, {UNITS[found.measure]}", markup=False)
        console.print("\n".join(lines), markup=False)
        console.print()
    if found.effects:
        console.print(EFFECTS_ABOUT, markup=False)
        tables.print(lined_up(EFFECT_HEAD, effect_rows(found)))
    for sentence in findings(found):
        console.print(sentence, markup=False)
    return out.getvalue()


def drawing(found: Ablation) -> list[str]:
    """A line per cell: ├──●──┤ where its difference to the base lies; │ is no difference."""
    known = {
        cell: d for cell, d in zip(found.cells, found.differences, strict=True) if d is not None
    }
    if not known:
        return []
    low, high = span(list(known.values()))

    def place(value: float) -> int:
        return round((min(max(value, low), high) - low) / (high - low) * (AXIS - 1))

    broad = max(cell_len(cell.label) for cell in known)
    lines = []
    for cell in (c for c in ranked(found) if c in known):
        d, marks = known[cell], [" "] * AXIS
        marks[place(0.0)] = "│"
        if d.low is not None and d.high is not None:
            left, right = place(d.low), place(d.high)
            marks[left : right + 1] = "─" * (right + 1 - left)
            marks[left] = "├" if d.low >= low else "<"
            marks[right] = "┤" if d.high <= high else ">"
        marks[place(d.mean)] = "●"
        name = cell.label + " " * (broad - cell_len(cell.label))
        lines.append(f"  {name}  {''.join(marks)}".rstrip())
    scale = f"{low:+.3f}".ljust(AXIS - 7) + f"{high:+.3f}"
    return [*lines, f"  {'':{broad}}  {scale}"]


def span(differences: Sequence[Difference]) -> tuple[float, float]:
    """From where to where to draw: all means and 0, and intervals as far as they do not dwarf them."""
    means = [0.0, *(d.mean for d in differences)]
    low, high = min(means), max(means)
    room = 0.35 * (high - low) or 1e-4
    ends = [e for d in differences for e in (d.low, d.high) if e is not None]
    low, high = max(low - room, min([*ends, low])), min(high + room, max([*ends, high]))
    return (low, high) if low < high else (low - room, high + room)
