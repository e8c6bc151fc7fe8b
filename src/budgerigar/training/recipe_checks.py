"""Whether given values fit the settings they are meant for; each problem in words. No torch."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from budgerigar.layers.config import TransformerConfig
from budgerigar.models.configs import CARRYING
from budgerigar.training.objectives import objective_of

if TYPE_CHECKING:
    from budgerigar.training.recipe_fields import TextRecipe, TrainingRecipe


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


# Least value of each number; those that are none or infinite never make sense.
LEAST: dict[str, float] = {
    "steps": 1, "epochs": 1, "batch_size": 1, "batch_tokens": 2, "bleu_sentences": 0, "accumulate": 1,
    "window_length": 1,
    "evaluate_every": 1, "log_every": 1,
    "keep_checkpoints": 1, "patience": 1, "checkpoint_every": 1, "average_count": 1,
    "warmup_steps": 0, "learning_rate": 0, "min_learning_rate": 0, "weight_decay": 0,
    "embedding_learning_rate": 0, "head_learning_rate": 0, "muon_learning_rate": 0,
    "muon_weight_decay": 0, "muon_momentum_warmup": 0, "muon_steps": 1, "sample_tokens": 1,
    "lora": 1,
    "sample_every": 0, "evaluation_tokens": 2, "spike": 0, "clip": 0, "seed": 0, "span_length": 1,
}  # fmt: skip
SHARES = (
    "beta1", "beta2", "muon_momentum", "average_decay", "label_smoothing", "reset_share", "mask_share",
    "task_share",
)  # fmt: skip
MOST_THREADS = 1024  # more than any machine has; beyond it the thread library itself gives up
DEFAULT_CONTEXT = TransformerConfig.context_length
MOST_SEED = 2**63 - 1  # what torch's generators take


def range_problems(training: TrainingRecipe, where: str) -> list[str]:
    """In words, each setting of training that is outside of what can be used."""
    problems = list(_not_numbers(training, where))
    problems += [
        f"{where} {name} = {value} must be at least {least}"
        for name, least in LEAST.items()
        if (value := getattr(training, name)) is not None and value < least
    ]
    for name in SHARES:
        if not 0 <= getattr(training, name) < 1:
            problems.append(f"{where} {name} = {getattr(training, name)} must be from 0 to below 1")
    if not 0 < training.decay_fraction <= 1:
        problems.append(f"{where} decay_fraction must be above 0 and at most 1")
    if training.minutes is not None and training.minutes <= 0:
        problems.append(f"{where} minutes = {training.minutes:g} must be above 0")
    if training.lora_alpha is not None and training.lora_alpha <= 0:
        problems.append(f"{where} lora_alpha = {training.lora_alpha:g} must be above 0")
    if training.epsilon <= 0:
        problems.append(f"{where} epsilon = {training.epsilon:g} must be above 0")
    if training.seed > MOST_SEED:
        problems.append(f"{where} seed = {training.seed} must be below 2 to the power of 63")
    threads = training.threads
    if threads != "auto" and not (str(threads).isdecimal() and 1 <= int(threads) <= MOST_THREADS):
        problems.append(f"{where} threads = {threads!r} must be auto or from 1 to {MOST_THREADS}")
    if training.device not in ("auto", "cpu") and not training.device.startswith("cuda"):
        problems.append(f"{where} device = {training.device!r} must be auto, cpu or cuda")
    return problems


def text_problems(text: TextRecipe, where: str) -> list[str]:
    """In words, each number of `[text]` that cannot be used; names are checked where they are read."""
    problems = list(_not_numbers(text, where))
    if text.n_stories < 1:
        problems.append(f"{where} n_stories = {text.n_stories} must be at least 1")
    if text.corpus_seed < 0:
        problems.append(f"{where} corpus_seed = {text.corpus_seed} must be at least 0")
    words = text.filler_words
    pair = len(words) == 2 and all(type(word) is int for word in words)
    if not (pair and 0 <= words[0] <= words[1]):
        problems.append(
            f"{where} filler_words = {list(words)} must be two whole numbers, fewest and most"
        )
    if text.validation == "":
        problems.append(f"{where} validation = '' must name a file")
    return problems


def pair_problems(
    text: TextRecipe, training: TrainingRecipe, model: Mapping[str, Any], where: str
) -> Iterable[str]:
    """In words, each setting of a translation that another one rules out."""
    for name in ("n_pairs", "vocab_size", "source_vocab_size"):
        value = getattr(text, name)
        if value is not None and value < 1:
            yield f"{where}: [text] {name} = {value} must be at least 1"
    if text.columns is not None:
        yield from _column_problems(text.columns, objective_of(model, training.objective), where)
    if training.best_by == "bleu" and not training.bleu_sentences:
        yield f"{where}: [training] best_by = 'bleu' needs bleu_sentences above 0"
    if training.schedule == "vaswani" and training.warmup_steps < 1:
        yield f"{where}: [training] schedule = 'vaswani' needs warmup_steps of at least 1"
    if text.vocabulary == "separate" and model.get("shared_embeddings"):
        yield f"{where}: shared_embeddings = true needs vocabulary = 'joint'"


def _column_problems(columns: str, objective: str, where: str) -> Iterable[str]:
    words, most = "two, source and target", 2
    if objective == "classification":
        words = "two, label and text"
    elif objective == "span-corruption":
        words, most = "two, source and target, or three, task, source and target", 3
    if not 2 <= len(column_names(columns)) <= most:
        yield f"{where}: [text] columns = {columns!r} must name {words}, with commas between"


def window_problems(
    training: TrainingRecipe, model: Mapping[str, Any], where: str
) -> Iterable[str]:
    """In words, an order of windows that this model cannot learn from, or windows too long for it."""
    kind = model.get("kind", "transformer")
    if training.window_order == "streams" and kind not in CARRYING:
        yield (
            f"{where}: [training] window_order = 'streams' is for models that carry a state "
            f"({', '.join(CARRYING)}), not for a {kind}: use shuffled"
        )
    asked, most = training.window_length, model.get("context_length", DEFAULT_CONTEXT)
    if asked is not None and kind == "transformer" and asked > most:
        yield (
            f"{where}: [training] window_length = {asked} is more than the model's context_length = "
            f"{most}"
        )


def column_names(columns: str) -> list[str]:
    """The names in a setting like "de,en"."""
    return [name.strip() for name in columns.split(",") if name.strip()]


def _not_numbers(part: TrainingRecipe | TextRecipe, where: str) -> Iterable[str]:
    """NaN and infinity pass every comparison or none, so they are looked for by themselves."""
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if isinstance(value, float) and not math.isfinite(value):
            yield f"{where} {field.name} = {value} must be a finite number"
