"""Whether given values fit the settings they are meant for; each problem in words. No torch."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from budgerigar.training.recipe import TrainingRecipe


def nearest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else "."


def unknown(values: Mapping[str, Any], known: Iterable[str], where: str) -> Iterable[str]:
    names = list(known)
    for name in values:
        if name not in names:
            yield f"{where} has no setting {name!r}{nearest(name, names)}"


def checked(
    kind: type, values: Mapping[str, Any], where: str, problems: list[str]
) -> dict[str, Any]:
    """The usable part of `values` for the dataclass `kind`; what is wrong goes to `problems`."""
    hints = get_type_hints(kind)
    problems.extend(unknown(values, hints, where))
    good = {}
    for name, value in values.items():
        if name not in hints or value is None:
            continue
        if isinstance(value, list):
            value = tuple(value)
        if isinstance(value, int) and float in (get_args(hints[name]) or (hints[name],)):
            value = value if isinstance(value, bool) else float(value)
        if _fits(value, hints[name]):
            good[name] = value
        else:
            problems.append(f"{where} {name} = {value!r} must be {_words(hints[name])}")
    return good


def _fits(value: Any, hint: Any) -> bool:
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if get_origin(hint) is tuple:
        return isinstance(value, tuple)
    options = get_args(hint) or (hint,)
    if isinstance(value, bool):
        return bool in options
    if isinstance(value, int) and float in options:
        return True
    return isinstance(value, tuple(o for o in options if isinstance(o, type)))


def _words(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    names = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
    options = [names[o] for o in (get_args(hint) or (hint,)) if o in names]
    return " or ".join(options) or "a list"


def range_problems(training: TrainingRecipe, where: str) -> list[str]:
    rules: list[tuple[str, float]] = [
        ("steps", 1), ("batch_size", 1), ("accumulate", 1), ("evaluate_every", 1), ("log_every", 1),
        ("keep_checkpoints", 1), ("patience", 1), ("checkpoint_every", 1), ("average_count", 1),
        ("warmup_steps", 0), ("learning_rate", 0), ("min_learning_rate", 0), ("weight_decay", 0),
        ("muon_learning_rate", 0), ("muon_steps", 1), ("sample_tokens", 1), ("spike", 0),
    ]  # fmt: skip
    problems = [
        f"{where} {name} = {value} must be at least {least}"
        for name, least in rules
        if (value := getattr(training, name)) is not None and value < least
    ]
    for name in ("beta1", "beta2", "muon_momentum", "average_decay", "label_smoothing"):
        if not 0 <= getattr(training, name) < 1:
            problems.append(f"{where} {name} = {getattr(training, name)} must be from 0 to below 1")
    if not 0 < training.decay_fraction <= 1:
        problems.append(f"{where} decay_fraction must be above 0 and at most 1")
    if training.minutes is not None and training.minutes <= 0:
        problems.append(f"{where} minutes = {training.minutes} must be above 0")
    threads = training.threads
    if isinstance(threads, str) and threads != "auto" and not threads.isdecimal():
        problems.append(f"{where} threads = {threads!r} must be auto or a number")
    if training.device not in ("auto", "cpu") and not training.device.startswith("cuda"):
        problems.append(f"{where} device = {training.device!r} must be auto, cpu or cuda")
    return problems
