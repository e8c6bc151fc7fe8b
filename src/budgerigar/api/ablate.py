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

        bg.ablate("shakespeare", {"positions": ["rotary", "none"], "norm_place": "pre,post"},
                  "my.txt", steps=300)

    Every cell reads the same tokens and is scored on the whole validation split. Differences to the
    base (the recipe's own values, or the first ones) are paired by seed, with Student's interval;
    whether one is larger than the noise is said after Holm's correction for all comparisons.

    Args:
        recipe: its name, a TOML file or a `Recipe`; the settings after it hold for all cells.
        dials: setting of the model or of the training -> its values.
        files: the text; or sentence pairs, as `train` takes them; or `corpus`; or the recipe's own.
        seeds: runs of each cell; the first seed is the recipe's (or the setting `seed`).
        minutes: of training for each run, instead of the same number of `steps` for all.
        one_at_a_time: vary each dial alone, the others as the recipe has them.
        equal_parameters: choose each cell's d_ff (d_hidden) so that all have as many weights.
        out: folder of all runs and results; the same call again goes on there.

    Raises:
        UserError: unknown settings, values or combinations without meaning: all of them at once,
            before anything is trained.
    """
    from budgerigar.experiments.ablate import ablate as run
    from budgerigar.experiments.ablate_budget import Asked

    layers = [layer for layer in (settings, more_settings) if layer]
    typed = set(flat(nested(layers)))
    if minutes is not None and "steps" in typed:
        raise UserError("steps and minutes both say how long a run is; give one of them")
    given = {
        "files": files, "source": source, "target": target, "pairs": pairs,
        "validation_source": validation_source, "validation_target": validation_target,
        "validation_pairs": validation_pairs,
    }  # fmt: skip
    named = {name: paths_of(value) for name, value in given.items() if value}
    if named and corpus:
        raise UserError("give files or a corpus, not both")
    base = resolve(recipe, config, layers, corpus, bool(set(named) - {"files"}))
    assert base is not None
    if config is not None:
        typed |= set(flat(tomllib.loads(Path(config).read_text(encoding="utf-8-sig"))))
    return run(
        base,
        dials,
        named,
        Asked(seeds, minutes, one_at_a_time, equal_parameters),
        name=recipe.about if isinstance(recipe, Recipe) else Path(recipe).stem,
        out=None if out is None else Path(out),
        typed=frozenset(typed),
    )
