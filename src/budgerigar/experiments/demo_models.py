"""The models that the demo trains, for whoever wants to look into them without having seen it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from budgerigar import progress
from budgerigar.experiments.demo_runs import StoppedError, trained

WORDS, TRANSLATION, WRITER = "demo-words", "demo-translation", "demo-shakespeare"
"""names of the demo's runs, part by part"""


def demo_models(folder: Path, **settings: Any) -> list[Path]:
    """The demo's runs under `folder`; of the two small ones, what is not there yet is trained now.

    Together that takes about a minute. `settings` override those of their recipes (threads=1).

    Raises:
        KeyboardInterrupt: the user stopped it; the next call goes on there.
    """
    missing = [name for name in (WORDS, TRANSLATION) if not _has_model(folder / name)]
    if missing:
        progress.note(
            f"The demo's {' and '.join(missing)} "
            f"{'are' if len(missing) > 1 else 'is'} not under {folder} yet: training now, "
            f"about {30 * len(missing)} seconds. `budgie demo --quick` shows how they learn."
        )
    try:
        for name in missing:
            _train(name, folder, settings)
    except StoppedError as stop:
        progress.note(f"Stopped, and saved. The next start goes on there. ({stop})")
        raise KeyboardInterrupt from None
    return [folder / name for name in (WORDS, TRANSLATION, WRITER) if _has_model(folder / name)]


def _has_model(run: Path) -> bool:
    from budgerigar.formats.run import WEIGHTS

    return (run / "config.json").is_file() and (run / WEIGHTS).is_file()


def _train(name: str, folder: Path, settings: dict[str, Any]) -> None:
    """Train one of the two with the demo's own settings."""
    from budgerigar.experiments.demo_translation import translation_recipe
    from budgerigar.experiments.demo_words import game_recipe
    from budgerigar.training.corpora import gather_corpus

    recipe = game_recipe(settings) if name == WORDS else translation_recipe(settings)
    with progress.without_notes():
        trained(recipe, gather_corpus(recipe.text, pairs=recipe.reads_pairs), folder / name)
