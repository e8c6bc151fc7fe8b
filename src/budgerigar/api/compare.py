"""`compare`: the ancestors and the Transformer on one text, and the probes of why it came."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from budgerigar.errors import UserError

PROBES = ("recall", "parallel", "context")


def compare(
    corpus: str | Path | None = None,
    *,
    models: Sequence[str] | None = None,
    minutes: float | None = None,
    parameters: int | None = None,
    passes: float | None = None,
    context_length: int = 256,
    seed: int = 1,
    out: str | Path | None = None,
    device: str = "auto",
    threads: str | int = "auto",
    text: dict[str, Any] | None = None,
    probe: str | None = None,
    **probe_settings: Any,
) -> Any:
    """Train models on one corpus and measure all in the same way; or run one of the probes.

    Args:
        corpus: a file, a folder, a corpus of the catalogue, or "stories"; not needed with a probe.
        models: of ngram, feed-forward, rnn, lstm, gru, gpt (default: all but gru).
        minutes: of training for each network [5]; or `passes` over the text, the same for all.
        parameters: weights of each network; None: as its recipe or plan says.
        context_length: tokens of an evaluation window, for all.
        out: folder of all runs and results; the same call again goes on there.
        text: settings of the text, fields of `TextRecipe`: tokenizer, documents, …
        probe: "recall", "parallel" or "context" instead; `probe_settings` are its own.

    Raises:
        UserError: no such text, or settings that cannot be compared.
    """
    folder = None if out is None else Path(out)
    if probe is not None:
        from budgerigar.api.probes import run_probe

        common = {"seed": seed, "threads": threads, "device": device}
        wanted: dict[str, Any] = {} if models is None else {"models": tuple(models)}
        if minutes is not None:
            wanted["minutes"] = minutes
        return run_probe(probe, folder, common, {**wanted, **probe_settings})
    if probe_settings:
        raise TypeError(f"compare() has no argument {next(iter(probe_settings))!r}")
    from budgerigar.experiments.compare import compare as run
    from budgerigar.experiments.compare_models import DEFAULT_MODELS, Asked

    files, settings = _text_of(corpus, text)
    chosen = tuple(DEFAULT_MODELS if models is None else models)
    asked = Asked(chosen, minutes, parameters, passes, context_length, seed, device, threads)
    return run(files, settings, asked, folder)


def _text_of(corpus: str | Path | None, text: dict[str, Any] | None) -> tuple[list[Path], Any]:
    """(files, recipe of the text) of what was named."""
    from budgerigar.text.catalogue import entry
    from budgerigar.training.recipe import TextRecipe

    if corpus is None:
        raise UserError(
            "there is no text to compare on. Give a file, a folder or a corpus of `budgie list`; or "
            f"--probe {', '.join(PROBES)}, which need none."
        )
    settings = TextRecipe(**(text or {}))
    if Path(corpus).exists():
        return [Path(corpus)], settings
    import dataclasses

    name = str(corpus)
    if name != "stories":
        if any(mark in name for mark in "/\\."):
            raise UserError(f"{name}: there is no such file. Is the path right?")
        if entry(name).kind == "pairs":
            raise UserError(f"{name} holds sentence pairs; compare needs a text.")
    return [], dataclasses.replace(settings, corpus=name)
