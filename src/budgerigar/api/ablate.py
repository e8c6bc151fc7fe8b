"""`ablate`: settings of a recipe varied, over seeds, with what is noise and what is not."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgerigar.api.training import nested, paths_of, resolve
from budgerigar.api.translation import Files
from budgerigar.errors import UserError
from budgerigar.training.recipe import Recipe, flat

if TYPE_CHECKING:
    from budgerigar.experiments.ablate_results import Ablation


def ablate(
    recipe: str | Path | Recipe,
    dials: Mapping[str, Sequence[Any] | str],
    *files: str | Path,
    source: Files = (),
    target: Files = (),
    pairs: Files = (),
    validation_source: Files = (),
    validation_target: Files = (),
    validation_pairs: Files = (),
    seeds: int = 3,
    minutes: float | None = None,
    one_at_a_time: bool = False,
    equal_parameters: bool = False,
    corpus: str | None = None,
    config: str | Path | None = None,
    out: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    **more_settings: Any,
) -> Ablation:
    """Train a recipe with each combination of the dials, over several seeds, and compare.

        bg.ablate("shakespeare", {"positions": ["rotary", "none"]}, "my.txt", steps=300)

    Every cell reads the same tokens and is scored on the whole validation split; differences to the
    base (the recipe's own values, or the first ones) are paired by seed, with Student's interval,
    and larger than the noise only after Holm's correction for all comparisons.

    Args:
        recipe: its name, a TOML file or a `Recipe`; the settings hold for all cells.
        dials: setting of the model or of the training -> its values.
        files: the text; or sentence pairs, as for `train`; or `corpus`; or the recipe's own.
        seeds: runs of each cell; the first seed is the recipe's.
        minutes: of training for each run, instead of the same number of `steps` for all.
        one_at_a_time: vary each dial alone, the others as the recipe has them.
        equal_parameters: choose each cell's d_ff (d_hidden) so that all have as many weights.
        out: folder of all runs and results; the same call goes on there.

    Raises:
        UserError: all that cannot be, at once, before anything is trained.
    """
    from budgerigar.experiments.ablate import ablate as run
    from budgerigar.experiments.ablate_budget import Asked

    layers = [settings or {}, more_settings]
    named = _named(
        corpus, files=files, source=source, target=target, pairs=pairs,
        validation_source=validation_source, validation_target=validation_target,
        validation_pairs=validation_pairs,
    )  # fmt: skip
    return run(
        _base(recipe, config, layers, corpus, named),
        dials,
        named,
        Asked(seeds, minutes, one_at_a_time, equal_parameters),
        name=recipe.about if isinstance(recipe, Recipe) else Path(recipe).stem,
        out=None if out is None else Path(out),
        typed=_typed(layers, config, minutes),
    )


def _base(
    recipe: str | Path | Recipe,
    config: str | Path | None,
    layers: Sequence[Mapping[str, Any]],
    corpus: str | None,
    named: Mapping[str, Any],
) -> Recipe:
    base = resolve(recipe, config, layers, corpus, bool(set(named) - {"files"}))
    assert base is not None  # None is planned, and here a recipe is always named
    return base


def _named(corpus: str | None, **given: Files) -> dict[str, list[Path]]:
    """The files that were given, by what they are."""
    named = {name: paths_of(value) for name, value in given.items() if value}
    if named and corpus:
        raise UserError("give files or a corpus, not both")
    return named


def _typed(
    layers: Sequence[Mapping[str, Any]], config: str | Path | None, minutes: float | None
) -> frozenset[str]:
    """The settings that were asked for by name, on the way or in the file `config`."""
    typed = set(flat(nested(layers)))
    if minutes is not None and "steps" in typed:
        raise UserError("steps and minutes both say how long a run is; give one of them")
    if config is not None:
        typed |= set(flat(tomllib.loads(Path(config).read_text(encoding="utf-8-sig"))))
    return frozenset(typed)
