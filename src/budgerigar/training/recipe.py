"""Recipes: everything a training run is asked for, as one tree of plain values. Imports no torch.

A recipe is a TOML file with four parts: `about` (words), `[text]`, `[model]`, `[training]`. Values
are overridden in the order recipe < `--config` file < flags; what is None is left out. The settings
of `[text]` and `[training]` stand in recipe_fields.py, those of `[model]` with the models.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_type_hints

from budgerigar.errors import UserError
from budgerigar.layers.config import TransformerConfig
from budgerigar.models.configs import KINDS, config_from_dict
from budgerigar.training.objectives import objective_of, objective_problems
from budgerigar.training.objectives import reads_pairs as reads_pairs
from budgerigar.training.recipe_checks import (
    checked,
    nearest,
    pair_problems,
    range_problems,
    text_problems,
    unknown,
    window_problems,
)
from budgerigar.training.recipe_fields import TextRecipe as TextRecipe
from budgerigar.training.recipe_fields import TrainingRecipe as TrainingRecipe

# Model settings that the tokenizer decides
FROM_TEXT = ("vocab_size", "source_vocab_size", "decoder_start", "n_classes")


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
        """The model's kind: one of `models.configs.KINDS`."""
        return str(self.model.get("kind", "transformer"))

    @property
    def objective(self) -> str:
        """What is learnt: one of `recipe_fields.Objective`, "auto" settled."""
        return objective_of(self.model, self.training.objective)

    @property
    def reads_pairs(self) -> bool:
        """Whether it learns from pairs, a source and a target, and from nothing else."""
        return self.objective == "pairs"

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
    problems += pair_problems(parts["text"], parts["training"], model, where)
    problems += objective_problems(parts["text"], parts["training"], model, where)
    problems += window_problems(parts["training"], model, where)
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
        _drop_pointless(merged, flat(values))
    return recipe_from_dict(merged, "settings")


# What a recipe has set is of no use, and refused, beside another choice: (setting, value, without).
_POINTLESS: tuple[tuple[str, Any, tuple[str, ...]], ...] = (
    ("attention", "none", ("d_attention",)),
    ("attention", "bahdanau", ("reverse_source", "context_every_step")),
    ("vocabulary", "joint", ("source_tokenizer", "source_vocab_size")),
    ("vocabulary", "separate", ("shared_embeddings",)),
)


def _drop_pointless(merged: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Take out of `merged` what the choices just `given` leave without a use, unless it was given
    too: a recipe's d_attention goes with its attention."""
    for name, value, without in _POINTLESS:
        if given.get(name) != value:
            continue
        for other in without:
            if other in given:
                continue
            for part in ("model", "text"):
                merged[part].pop(other, None)


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
    config = KINDS.get(kind, TransformerConfig)
    return {f.name: config for f in dataclasses.fields(config) if f.name not in FROM_TEXT}


# -- inside ------------------------------------------------------------------------------------


def _recipes_folder() -> Path:
    return Path(__file__).parent / "recipes"


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        raise UserError(f"There is no file {path}.") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
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
    if kind not in KINDS:
        return [f"{where} kind = {kind!r} must be one of {', '.join(KINDS)}"]
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
