"""Recipes: everything a training run is asked for, as one tree of plain values. Imports no torch.

A recipe is a TOML file with four parts: `about` (words), `[text]`, `[model]`, `[training]`. Values
are overridden in the order recipe < `--config` file < flags; what is None is left out. The line
below each field explains it, and the command line's help is made from these lines.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_type_hints

from budgerigar.errors import UserError
from budgerigar.layers.config import TransformerConfig
from budgerigar.models.configs import NgramConfig, config_from_dict
from budgerigar.training.recipe_checks import (
    checked,
    nearest,
    range_problems,
    text_problems,
    unknown,
)

Schedule = Literal["constant", "cosine", "linear", "inverse-sqrt", "warmup-stable-decay"]
FROM_TEXT = ("vocab_size",)  # model settings that the tokenizer decides


@dataclass(frozen=True)
class TextRecipe:
    """Which text, and how it becomes tokens."""

    corpus: str | None = None
    """corpus used when no file is given: "stories" (generated) or a catalogue name"""
    n_stories: int = 20_000
    """corpus "stories": how many are generated for training"""
    language: Literal["en", "zh", "both"] = "en"
    """corpus "stories": their language"""
    filler_words: tuple[int, ...] = (0, 60)
    """corpus "stories": fewest and most words of filler before the gap"""
    tokenizer: str = "auto"
    """auto, character, symbols, byte, bpe, unigram, wordpiece or word"""
    vocab_size: int | None = None
    """vocabulary size of bpe, unigram, wordpiece and word; None: by the size of the corpus"""
    documents: str = "auto"
    """how the text falls into documents: auto, none, blank-lines, files or json-lines"""
    validation: str | None = None
    """a file to validate on; None: the last part of the text"""
    validation_fraction: float = 0.1
    """share of the text held out when there is no validation file"""
    encoding: str | None = None
    """encoding of the files; None: UTF-8, or what a byte-order mark says"""
    corpus_seed: int = 0
    """seed of generated text and of the tokenizer's sample; apart from training's own seed"""


@dataclass(frozen=True)
class TrainingRecipe:
    """Objective, optimizer, schedule and what happens along the way."""

    steps: int | None = None
    """optimizer steps; None: as many as fit into `minutes`"""
    minutes: float | None = None
    """time budget; some steps are measured, the number of steps is fixed once and stored"""
    batch_size: int = 12
    """windows per forward pass; tokens per step = batch_size x accumulate x context_length"""
    accumulate: int = 1
    """forward passes per step; the loss is averaged over all their tokens"""
    window_order: Literal["random", "shuffled"] = "shuffled"
    """random: windows start anywhere (nanoGPT); shuffled: every token once per pass"""
    label_smoothing: float = 0.0
    """share of the target's probability spread over the vocabulary (Szegedy et al. 2016)"""
    seed: int = 1
    """seed of initialisation, data order, dropout and samples, each with its own generator"""

    optimizer: Literal["adamw", "muon"] = "adamw"
    """adamw (Loshchilov & Hutter 2019) for all, or muon (Jordan 2024) for the hidden matrices"""
    learning_rate: float = 1e-3
    """peak learning rate of AdamW (with muon: of embeddings, head, norms and biases)"""
    min_learning_rate: float = 0.0
    """learning rate at the end of the schedule; the other rates shrink by the same factor"""
    schedule: Schedule = "cosine"
    """constant, cosine, linear, inverse-sqrt or warmup-stable-decay"""
    warmup_steps: int = 100
    """steps over which the rate rises linearly from almost 0"""
    decay_fraction: float = 0.2
    """warmup-stable-decay: last share of the steps, over which the rate falls linearly"""
    beta1: float = 0.9
    """AdamW: decay of the mean of gradients"""
    beta2: float = 0.99
    """AdamW: decay of the mean of squared gradients"""
    epsilon: float = 1e-8
    """AdamW: added to the root of the mean square"""
    weight_decay: float = 0.1
    """AdamW: decay of matrices (2-D); norms and biases (1-D) are never decayed"""
    embedding_learning_rate: float | None = None
    """peak rate of the embeddings; None: learning_rate"""
    head_learning_rate: float | None = None
    """peak rate of an untied output layer; None: learning_rate"""
    muon_learning_rate: float = 0.02
    """muon: peak rate of the hidden matrices"""
    muon_momentum: float = 0.95
    """muon: momentum (Nesterov)"""
    muon_momentum_warmup: int = 0
    """muon: steps over which the momentum rises from 0.85"""
    muon_weight_decay: float = 0.0
    """muon: decoupled weight decay of the hidden matrices"""
    muon_steps: int = 5
    """muon: Newton-Schulz iterations"""
    muon_iteration: Literal["quintic", "polar"] = "quintic"
    """muon: coefficients; quintic (Jordan 2024, 5 steps) or polar (Amsel et al. 2025, 3 or more)"""
    clip: float | None = 1.0
    """largest norm of the whole gradient; 0: no clipping"""

    average: Literal["none", "ema", "last"] = "none"
    """what is evaluated and saved: the weights, their moving average, or the mean of the last"""
    average_decay: float = 0.999
    """ema: decay per step (less at the start)"""
    average_count: int = 5
    """last: how many snapshots are averaged, one per evaluation interval"""

    evaluate_every: int = 250
    """steps between evaluations on the whole validation split; the best weights are kept"""
    evaluation_tokens: int | None = None
    """evaluate on this many tokens only until the end; None: all"""
    patience: int | None = None
    """stop after this many evaluations without a better loss; None: never"""
    sample_every: int | None = None
    """steps between samples; None: at each evaluation, 0: never"""
    sample_tokens: int = 120
    """tokens of a sample"""
    checkpoint_every: int | None = None
    """steps between checkpoints; None: at each evaluation"""
    keep_checkpoints: int = 2
    """newest checkpoints that are kept"""
    log_every: int = 10
    """steps per line of metrics.jsonl"""
    baselines: bool = True
    """compute the losses of simple models first, to see whether ours is normal"""
    spike: float = 3.0
    """stop when the loss exceeds its recent mean by this many nats three steps in a row; 0: never"""

    device: str = "auto"
    """auto (CUDA where there is one), cpu or cuda"""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """bfloat16 computes under autocast; auto: where the hardware has it, else float32"""
    compile: bool = False
    """torch.compile: pays off on a GPU"""
    threads: str | int = "auto"
    """CPU threads; auto times one step at each number"""


@dataclass(frozen=True)
class Recipe:
    """What a run is asked for. `model` holds the settings that differ from the defaults."""

    about: str = ""
    text: TextRecipe = field(default_factory=TextRecipe)
    model: Mapping[str, Any] = field(default_factory=lambda: {"kind": "transformer"})
    training: TrainingRecipe = field(default_factory=TrainingRecipe)

    def to_dict(self) -> dict[str, Any]:
        """Plain nested values, None left out."""
        return {
            "about": self.about,
            "text": _without_none(self.text),
            "model": {key: value for key, value in self.model.items() if value is not None},
            "training": _without_none(self.training),
        }

    @property
    def kind(self) -> str:
        """The model's kind: "transformer" or "ngram"."""
        return str(self.model.get("kind", "transformer"))

    def model_config(self, vocab_size: int, **changes: Any) -> Any:
        """The validated config of the model for a vocabulary of `vocab_size`.

        Raises:
            UserError: all problems of the combination at once.
        """
        values = {"kind": "transformer", **self.model, "vocab_size": vocab_size, **changes}
        return config_from_dict({k: v for k, v in values.items() if v is not None}).validate()

    def replace(self, **parts: Any) -> Recipe:
        """A copy with parts changed; `text` and `training` may be dicts of changes."""
        made: dict[str, Any] = {
            name: dataclasses.replace(getattr(self, name), **value)
            if isinstance(value, dict) and name in ("text", "training")
            else ({**self.model, **value} if name == "model" else value)
            for name, value in parts.items()
        }
        return dataclasses.replace(self, **made)


def recipe_from_dict(values: Mapping[str, Any], where: str = "recipe") -> Recipe:
    """Build a recipe from plain nested values.

    Raises:
        UserError: every unknown name (with the nearest known one) and wrong type, at once.
    """
    problems = list(unknown(values, ("about", "text", "model", "training"), where))
    values = {name: part for name, part in values.items() if _is_part(name, part, where, problems)}
    parts: dict[str, Any] = {"about": str(values.get("about", ""))}
    for name, kind in (("text", TextRecipe), ("training", TrainingRecipe)):
        part = values.get(name, {})
        parts[name] = kind(**checked(kind, part, f"{where}: [{name}]", problems))
    model = dict(values.get("model", {}))
    model.setdefault("kind", "transformer")
    problems += _model_problems(model, f"{where}: [model]")
    parts["model"] = model
    problems += text_problems(parts["text"], f"{where}: [text]")
    problems += range_problems(parts["training"], f"{where}: [training]")
    if problems:
        raise UserError(
            "These settings cannot be used:\n" + "\n".join(f"  {problem}" for problem in problems)
        )
    return Recipe(**parts)


def recipe_names() -> list[str]:
    """Names of the recipes in the package, alphabetically."""
    return sorted(path.stem for path in _recipes_folder().glob("*.toml"))


def recipe_path(name_or_path: str | Path) -> Path:
    """The file of a recipe in the package, or of the user's.

    Raises:
        UserError: there is none; names the nearest.
    """
    if Path(name_or_path).suffix == ".toml":
        if not Path(name_or_path).is_file():
            raise UserError(f"There is no recipe file {name_or_path}.")
        return Path(name_or_path)
    found = _recipes_folder() / f"{name_or_path}.toml"
    if not found.is_file():
        raise UserError(
            f"There is no recipe {str(name_or_path)!r}{nearest(str(name_or_path), recipe_names())}"
            f" Recipes: {', '.join(recipe_names())}; or give a file that ends in .toml."
        )
    return found


def load_recipe(name_or_path: str | Path) -> Recipe:
    """A recipe by its name in the package or by its TOML file's path."""
    path = recipe_path(name_or_path)
    return recipe_from_dict(_read_toml(path), path.name)


def override(recipe: Recipe, *changes: Mapping[str, Any] | str | Path | None) -> Recipe:
    """Apply changes in order: each a TOML file or a dict, nested or flat (`{"steps": 20}`).

    None leaves a value as it is. A flat name is found in whichever part has it.
    """
    merged = recipe.to_dict()
    for change in changes:
        if change is None:
            continue
        from_file = isinstance(change, str | Path)
        values = _read_toml(Path(change)) if isinstance(change, str | Path) else dict(change)
        where = str(change) if from_file else "settings"
        for part, part_values in _nested(values, merged, where).items():
            if part == "about":
                merged[part] = part_values
                continue
            if (
                part == "model"
                and part_values.get("kind", merged[part]["kind"]) != merged[part]["kind"]
            ):
                merged[part] = {}  # another kind of model shares no settings with this one
            merged[part].update({k: v for k, v in part_values.items() if v is not None})
    return recipe_from_dict(merged, "settings")


def to_toml(recipe: Recipe, comments: Mapping[str, str] | None = None) -> str:
    """The recipe as TOML text, ready to be read back."""
    import tomlkit

    document = tomlkit.document()
    for line in (comments or {}).values():
        document.add(tomlkit.comment(line))
    for name, value in recipe.to_dict().items():
        document.add(name, tomlkit.item(_toml_value(value)))
    return tomlkit.dumps(document)


def flat(settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """Settings without the parts they belong to, by name; those that are None left out."""
    found: dict[str, Any] = {}
    for name, value in (settings or {}).items():
        found.update(value if isinstance(value, Mapping) else {name: value})
    return {name: value for name, value in found.items() if value is not None}


def settings_of(kind: str) -> dict[str, type]:
    """Names and dataclasses of the model settings a recipe may hold for a kind of model."""
    config = NgramConfig if kind == "ngram" else TransformerConfig
    return {f.name: config for f in dataclasses.fields(config) if f.name not in FROM_TEXT}


# -- inside ------------------------------------------------------------------------------------


def _recipes_folder() -> Path:
    return Path(__file__).parent / "recipes"


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        raise UserError(f"There is no file {path}.") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"{path} cannot be read as TOML: {error}") from error


def _without_none(part: Any) -> dict[str, Any]:
    found = {f.name: getattr(part, f.name) for f in dataclasses.fields(part)}
    return {name: value for name, value in found.items() if value is not None}


def _toml_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _toml_value(item) for key, item in value.items() if item is not None}
    if isinstance(value, tuple | list):
        return [_toml_value(item) for item in value]
    return value


def _is_part(name: str, value: Any, where: str, problems: list[str]) -> bool:
    """Whether `value` can be the part `name` of a recipe; if not, that is one of the problems."""
    if name == "about" or isinstance(value, Mapping):
        return True
    if name in ("text", "model", "training"):
        problems.append(f"{where}: {name} = {value!r} must be a table, as in [{name}]")
    return False


def _model_problems(model: dict[str, Any], where: str) -> list[str]:
    kind = model["kind"]
    if kind not in ("transformer", "ngram"):
        return [f"{where} kind = {kind!r} must be one of transformer, ngram"]
    problems = [
        f"{where} {name} is the tokenizer's; set it in [text]"
        for name in FROM_TEXT
        if name in model
    ]
    known = settings_of(kind)
    strangers = list(
        unknown({k: v for k, v in model.items() if k not in FROM_TEXT}, [*known, "kind"], where)
    )
    if not problems and not strangers:
        try:
            config_from_dict({**model, "vocab_size": 256}).validate()
        except UserError as error:
            lines = str(error).splitlines()
            problems += [f"{where} {line.strip(' -')}" for line in lines[1:] or lines]
    return problems + strangers


def _nested(
    values: Mapping[str, Any], current: Mapping[str, Any], where: str
) -> dict[str, dict[str, Any]]:
    """Sort flat names into the parts of a recipe; nested ones stay where they are."""
    model = values.get("model")
    given = model.get("kind") if isinstance(model, Mapping) else None
    kind = values.get("kind") or given or current["model"]["kind"]
    homes: dict[str, Iterable[str]] = {
        "training": get_type_hints(TrainingRecipe),
        "text": get_type_hints(TextRecipe),
        "model": [*settings_of(str(kind)), "kind"],
    }
    found: dict[str, Any] = {}
    problems: list[str] = []
    for name, value in values.items():
        if name == "about" or name in homes:
            if name == "about":
                found[name] = value
            elif _is_part(name, value, where, problems):
                found.setdefault(name, {}).update(value)
            continue
        home = next((part for part, names in homes.items() if name in names), None)
        if home is None:
            known = [n for names in homes.values() for n in names]
            problems.append(f"{where}: there is no setting {name!r}{nearest(name, known)}")
        else:
            found.setdefault(home, {})[name] = value
    if problems:
        raise UserError("These settings cannot be used:\n" + "\n".join(f"  {p}" for p in problems))
    return found
