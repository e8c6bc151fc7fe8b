"""The dials of an ablation and its cells: which settings are varied, over which values. No torch.

A cell is one value for every dial. A value that fits nowhere is an error; a combination without
meaning of values that fit elsewhere is left out, in words, and so is one that is the same model as
another because a dial has no effect there (a rotary base without rotary positions).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints
from zlib import crc32

from budgerigar.errors import UserError
from budgerigar.training.asked import refuse_untrainable, without_effect
from budgerigar.training.recipe import (
    FROM_TEXT,
    Recipe,
    TextRecipe,
    TrainingRecipe,
    override,
    settings_of,
)
from budgerigar.training.recipe_checks import nearest

Listed = Mapping[str, Sequence[Any] | str]
"""dial -> its values; as one text with commas between, they are read as the setting's type says"""

# Settings that no dial can be, and why.
_NO_DIALS = {
    "seed": "each cell is repeated over seeds anyway: --seeds N, and --seed for the first",
    "kind": "other kinds of model share no settings; `budgie compare` compares them",
    "assembly": "models of different assemblies learn different tasks",
    **dict.fromkeys(
        ("steps", "minutes", "epochs"), "the budget is the same for all; give --steps or --minutes"
    ),
    **dict.fromkeys(FROM_TEXT, "it is the tokenizer's, and all cells read the same tokens"),
    **dict.fromkeys(
        (
            "device", "threads", "compile", "log_every", "checkpoint_every", "keep_checkpoints",
            "sample_every", "sample_tokens", "baselines", "spike",
        ),
        "it changes nothing of what is learnt",
    ),
    **dict.fromkeys(
        ("evaluate_every", "evaluation_tokens", "bleu_sentences"),
        "it is part of the measure, which is the same for all",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Dial:
    """One setting that is varied."""

    part: str
    """of the recipe: "model" or "training" """
    name: str
    values: tuple[Any, ...]
    base: Any
    """its value in the cell that the others are compared with"""


@dataclass(frozen=True)
class Cell:
    """A value for each dial, in the dials' order, and the recipe with them."""

    values: tuple[Any, ...]
    recipe: Recipe = field(repr=False, compare=False)


@dataclass(frozen=True)
class Layout:
    """All cells, the base first; and which combinations were left out, with the reason."""

    dials: tuple[Dial, ...]
    cells: tuple[Cell, ...]
    skipped: tuple[tuple[str, str], ...] = ()


def lay_out(recipe: Recipe, listed: Listed, one_at_a_time: bool = False) -> Layout:
    """The cells of `recipe` with the dials `listed`: all combinations, or one dial at a time.

    The base: the recipe's own value of each dial; in a matrix that does not list it, the first one.

    Raises:
        UserError: all that cannot be, at once.
    """
    dials = read_dials(recipe, listed, one_at_a_time)
    base = tuple(dial.base for dial in dials)
    wanted = [base, *(v for v in _assignments(dials, one_at_a_time) if v != base)]
    recipes: dict[tuple[Any, ...], Recipe] = {}
    problems: dict[tuple[Any, ...], str] = {}
    for values in wanted:
        try:
            recipes[values] = applied(recipe, dials, values)
            refuse_untrainable(recipes[values])
        except UserError as error:
            recipes.pop(values, None)
            problems[values] = _reason(error)
    _refuse_lost(dials, recipes, problems)
    cells, same = _different(dials, recipes)
    skipped = [(label(dials, values), why) for values, why in problems.items()]
    return Layout(dials, cells, tuple(skipped + same))


def applied(recipe: Recipe, dials: Sequence[Dial], values: Sequence[Any]) -> Recipe:
    """The recipe with these values of the dials; None takes a setting back to its default."""
    changes: dict[str, dict[str, Any]] = {"model": {}, "training": {}}
    for dial, value in zip(dials, values, strict=True):
        changes[dial.part][dial.name] = value
    none = {part: {n: v for n, v in made.items() if v is None} for part, made in changes.items()}
    return override(recipe.replace(**none), changes)


def label(dials: Sequence[Dial], values: Sequence[Any]) -> str:
    """A cell in words: positions=rotary norm_place=pre."""
    return " ".join(
        f"{dial.name}={in_words(value)}" for dial, value in zip(dials, values, strict=True)
    )


def in_words(value: Any) -> str:
    """A value as it is typed."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def folder_name(dials: Sequence[Dial], values: Sequence[Any]) -> str:
    """The name of a cell's folder, the same again whatever other values the dials have."""
    typed = label(dials, values).replace(" ", "+")
    name = "".join(c if c.isalnum() or c in "-_.=+" else "-" for c in typed)[:120]
    return name if name == typed else f"{name}-{crc32(typed.encode()):08x}"


# -- reading -------------------------------------------------------------------------------------


def read_dials(recipe: Recipe, listed: Listed, one_at_a_time: bool = False) -> tuple[Dial, ...]:
    """The dials that `listed` names, their values of the right type.

    Raises:
        UserError: every unknown name, every value that cannot be read, at once.
    """
    dials: list[Dial] = []
    problems: list[str] = [] if listed else ["no dial is named; --dial positions=rotary,learned"]
    for typed, values in listed.items():
        try:
            dials.append(_dial(recipe, typed, values, one_at_a_time))
        except ValueError as error:
            problems.append(str(error))
    names = [dial.name for dial in dials]
    problems += [f"{name} is named twice" for name in set(names) if names.count(name) > 1]
    _raise(problems)
    return tuple(dials)


def _dial(recipe: Recipe, typed: str, values: Sequence[Any] | str, one_at_a_time: bool) -> Dial:
    part, name, hint, default = _setting(recipe, typed.strip().replace("-", "_"))
    if isinstance(values, str):
        values = [word.strip() for word in values.split(",") if word.strip()]
    read = [_read(value, hint, name) for value in values]
    if None in read and default is not None:
        raise ValueError(f"{name}=none cannot be said: without a value it is {default}")
    own = recipe.model.get(name, default) if part == "model" else getattr(recipe.training, name)
    own = _read(own, hint, name)
    if len(set(read)) < len(read):
        raise ValueError(f"{name} has a value twice: {', '.join(map(in_words, read))}")
    if len({*read, own} if one_at_a_time else read) < 2:
        raise ValueError(
            f"{name} has nothing to be compared with: give two values or more, as in "
            f"--dial {name}=a,b; a setting of all cells is a flag, --{name.replace('_', '-')}"
        )
    base = own if one_at_a_time or own in read else read[0]
    return Dial(part, name, tuple(read), base)


def _setting(recipe: Recipe, typed: str) -> tuple[str, str, Any, Any]:
    """(part, name, declared type, default) of the setting that was meant."""
    part, _, name = typed.rpartition(".")
    config = next(iter(settings_of(recipe.kind).values()))
    homes = {"model": (config, settings_of(recipe.kind)), "training": (TrainingRecipe, None)}
    if name in _NO_DIALS:
        raise ValueError(f"{name} is no dial: {_NO_DIALS[name]}")
    if part == "text" or (not part and name in get_type_hints(TextRecipe)):
        raise ValueError(
            f"{name} is the text's, and all cells read the same tokens; train a run for each, and "
            "compare their bits per byte (budgie evaluate)"
        )
    if part not in ("", *homes):
        raise ValueError(f"{typed}: a recipe's settings are model.NAME or training.NAME")
    known: list[str] = []
    for home, (kind, names) in homes.items():
        hints = get_type_hints(kind)
        mine = [n for n in (hints if names is None else names) if n not in _NO_DIALS]
        if part in ("", home):
            known += mine
            if name in mine:
                return home, name, hints[name], getattr(kind, name, None)
    hint = nearest(name, known).rstrip(".?")
    raise ValueError(
        f"there is no dial {typed!r}{hint}; this recipe has {', '.join(known)} "
        "(`budgie ablate --help` explains each)"
    )


def _read(value: Any, hint: Any, name: str) -> Any:
    """A typed word as the value that the type `hint` wants; other values as they are."""
    options = list(get_args(hint)) if get_origin(hint) in (Union, UnionType) else [hint]
    words = [str(w) for o in options if get_origin(o) is Literal for w in get_args(o)]
    if not isinstance(value, str):
        whole = isinstance(value, int) and not isinstance(value, bool)
        value = float(value) if whole and float in options and int not in options else value
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{name}={value} must be a finite number")
        return tuple(value) if isinstance(value, list) else value
    if value in words or str in options:
        return value
    if value == "none" and type(None) in options:
        return None
    truths = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    if bool in options and value.lower() in truths:
        return truths[value.lower()]
    for kind in (int, float):
        if kind in options and (found := _number(value, kind)) is not None:
            return found
    wanted = words + ["true or false"] * (bool in options) + ["none"] * (type(None) in options)
    wanted += ["a number"] * (float in options) + ["a whole number"] * (int in options)
    if not wanted:
        raise ValueError(f"{name} is a list or table, and no dial can say it")
    raise ValueError(
        f"{name}={value}: it must be {', '.join(wanted)}{nearest(value, words).rstrip('.')}"
    )


def _number(text: str, kind: type) -> int | float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    if not math.isfinite(number):
        return None
    return number if kind is float else int(number) if number == int(number) else None


# -- cells ---------------------------------------------------------------------------------------


def _assignments(dials: Sequence[Dial], one_at_a_time: bool) -> Iterator[tuple[Any, ...]]:
    if not one_at_a_time:
        yield from itertools.product(*(dial.values for dial in dials))
        return
    base = tuple(dial.base for dial in dials)
    for n, dial in enumerate(dials):
        for value in dial.values:
            yield (*base[:n], value, *base[n + 1 :])


def _refuse_lost(
    dials: Sequence[Dial],
    recipes: Mapping[tuple[Any, ...], Recipe],
    problems: Mapping[tuple[Any, ...], str],
) -> None:
    """Raise where the base, or each cell with one of the values, cannot be."""
    base = tuple(dial.base for dial in dials)
    lost = {base} if base in problems else set()
    for n, dial in enumerate(dials):
        for value in dial.values:
            if not any(values[n] == value for values in recipes):
                lost |= {values for values in problems if values[n] == value}
    _raise([f"{label(dials, v)}: {why}" for v, why in problems.items() if v in lost])


def _different(
    dials: Sequence[Dial], recipes: Mapping[tuple[Any, ...], Recipe]
) -> tuple[tuple[Cell, ...], list[tuple[str, str]]]:
    """The cells that are models of their own, and those that equal one of these, with the reason."""
    cells: list[Cell] = []
    skipped: list[tuple[str, str]] = []
    seen: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    heard: set[str] = set()
    for values, recipe in recipes.items():
        idle = [dial.name for dial in dials if without_effect(recipe, [dial.name], True)]
        heard |= {dial.name for dial in dials} - set(idle)
        key = tuple(
            ... if dial.name in idle else value for dial, value in zip(dials, values, strict=True)
        )
        if key in seen:
            same = label(dials, seen[key])
            why = f"the same as {same}, {' and '.join(idle)} having no effect there"
            skipped.append((label(dials, values), why))
            continue
        seen[key] = values
        cells.append(Cell(values, recipe))
    dead = [dial for dial in dials if dial.name not in heard]
    remarks = [
        without_effect(recipe, [d.name], True)[0] for d in dead for recipe in recipes.values()
    ]
    _raise(list(dict.fromkeys(remark.removeprefix("note: ") for remark in remarks)))
    return tuple(cells), skipped


def _reason(error: UserError) -> str:
    """What is wrong, on one line."""
    lines = str(error).splitlines()
    kept = [line.strip(" -").removeprefix("settings: ") for line in lines[1:] or lines]
    return "; ".join(line.removeprefix("[model] ") for line in kept)


def _raise(problems: Sequence[str]) -> None:
    if problems:
        raise UserError(
            "this ablation cannot be run:\n" + "\n".join(f"  - {problem}" for problem in problems)
        )
