"""`train`: from a recipe and a text to a run folder; and `resume`, which goes on with one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.formats.metrics import append_metrics
from budgerigar.formats.run import (
    RUNS,
    Loaded,
    RunFolder,
    load_model,
    make_config,
    resolve_run,
    save_weights,
)
from budgerigar.training.asked import refuse_untrainable, without_effect
from budgerigar.training.corpora import (
    describe_corpus,
    gather_corpus,
    make_batches,
)
from budgerigar.training.device import Compute, choose_compute
from budgerigar.training.finish import TrainedRun, compared, make_loop, run_loop
from budgerigar.training.memory import check_memory
from budgerigar.training.plan import Plan, make_plan, shape_of
from budgerigar.training.recipe import (
    Recipe,
    flat,
    load_recipe,
    override,
    recipe_from_dict,
    settings_of,
    to_toml,
)
from budgerigar.training.report import write_report
from budgerigar.training.resume import resume_run
from budgerigar.training.timing import SHARE_FOR_STEPS, settle_threads, steps_for_minutes


def train(
    recipe: Recipe | str | Path | None = None,
    files: Sequence[str | Path] = (),
    *,
    corpus: Any = None,
    out: str | Path | None = None,
    minutes: float | None = None,
    settings: Mapping[str, Any] | None = None,
    resume: str | Path | None = None,
    start_from: str | Path | None = None,
    callbacks: Iterable[Any] = (),
) -> TrainedRun:
    """Train a model and keep everything of it in a run folder.

    Args:
        recipe: a `Recipe`, the name of one in the package, or a TOML file; None plans one for the
            text and this machine (see plan.py).
        files: text files; or `corpus`, one prepared already; or the recipe's own corpus.
        out: the run folder to make; None: runs/<name>-<n>.
        minutes: time budget; sets the number of steps by measuring this machine.
        settings: changes to the recipe, as `recipe.override` takes them.
        resume: a run folder to go on with; then the rest of the arguments are not needed.
        start_from: a run folder whose weights and vocabulary to begin with (fine-tuning).
        callbacks: objects with on_step, on_evaluation or on_sample; see events.py.

    Raises:
        UserError: whatever the user can mend, all problems of the settings at once.
    """
    with torch.random.fork_rng(devices=_cuda_devices()):
        if resume is not None:
            return resume_run(resolve_run(resume), corpus, settings, callbacks)
        return _start(recipe, files, corpus, out, minutes, settings, start_from, callbacks)


# -- a new run ---------------------------------------------------------------------------------


def _start(
    recipe: Recipe | str | Path | None,
    files: Sequence[str | Path],
    corpus: Any,
    out: str | Path | None,
    minutes: float | None,
    settings: Mapping[str, Any] | None,
    start_from: str | Path | None,
    callbacks: Iterable[Any],
) -> TrainedRun:
    if out is not None and Path(out).exists():
        RunFolder.refuse_existing(Path(out))
    files = [files] if isinstance(files, str | Path) else list(files)
    minutes, settings = _budget(minutes, settings)
    base = None if start_from is None else _base(resolve_run(start_from), settings)
    plan: Plan | None = None
    if recipe is None:
        plan = _planned(files, corpus, minutes, settings, base)
        recipe, corpus = plan.recipe, plan.corpus
    else:
        recipe = override(_as_recipe(recipe), settings)
        refuse_untrainable(recipe)
        if minutes is not None:
            recipe = recipe.replace(training={"minutes": minutes, "steps": None})
    if corpus is None:
        tokenizer = None if base is None else base.tokenizer
        corpus = gather_corpus(recipe.text, files, tokenizer)
    if plan is None:
        _say(corpus.notes)
    _say(without_effect(recipe, flat(settings), bool(files)))
    folder = Path(out) if out is not None else next_folder(_name_of(recipe, files))
    if recipe.kind == "ngram":
        return _count(recipe, corpus, files, folder)
    return _train_network(recipe, corpus, files, folder, base, plan, callbacks)


def _base(path: Path, settings: Mapping[str, Any]) -> Loaded:
    """The run to begin with; refuses settings that would make its weights another model's."""
    base = load_model(path)
    if base.config["kind"] != "transformer":
        raise UserError(
            f"{path} is an n-gram: it was counted, not trained, so there are no weights to start "
            "from."
        )
    kept = dict.fromkeys(settings_of("transformer")) | dict(base.config["model"])
    kept |= {"tokenizer": base.tokenizer.kind, "vocab_size": base.tokenizer.vocab_size}
    clash = [n for n, v in flat(settings).items() if n in kept and v not in (kept[n], "auto")]
    if clash:
        raise UserError(
            f"{', '.join(clash)} cannot be given here: training goes on from {path} (--from), "
            "whose shape and vocabulary are kept. Leave it out, or train a new model."
        )
    return base


def _budget(
    minutes: float | None, settings: Mapping[str, Any] | None
) -> tuple[float | None, dict[str, Any]]:
    """Minutes asked for win over the steps of a recipe, wherever they were given; not over steps
    asked for at the same time."""
    changes = dict(settings or {})
    asked = changes.pop("minutes", None)
    minutes = minutes if minutes is not None else asked
    recipe_from_dict({"training": {"minutes": minutes}}, "settings")  # refuses what is no time
    return (None if "steps" in flat(changes) else minutes), changes


def _as_recipe(recipe: Recipe | str | Path) -> Recipe:
    return recipe if isinstance(recipe, Recipe) else load_recipe(recipe)


def _planned(
    files: Sequence[str | Path],
    corpus: Any,
    minutes: float | None,
    settings: Mapping[str, Any] | None,
    base: Loaded | None,
) -> Plan:
    plan = make_plan(files, corpus=corpus, minutes=minutes, settings=settings, start_from=base)
    _say(plan.corpus.notes)
    progress.note(plan.text())
    return plan


def _say(notes: Iterable[str]) -> None:
    for note in notes:
        progress.note(note)


def next_folder(name: str) -> Path:
    """The first free runs/<name>-<n>."""
    number = 1
    while (RUNS / f"{name}-{number}").exists():
        number += 1
    return RUNS / f"{name}-{number}"


def _name_of(recipe: Recipe, files: Sequence[str | Path]) -> str:
    name = Path(files[0]).stem if files else recipe.text.corpus or recipe.kind
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip("-.") or "run"


def _train_network(
    recipe: Recipe,
    corpus: Any,
    files: Sequence[str | Path],
    path: Path,
    base: Loaded | None,
    plan: Plan | None,
    callbacks: Iterable[Any],
) -> TrainedRun:
    from budgerigar import models

    compute = choose_compute(recipe.training)
    if base is not None:
        recipe, network = _continued(recipe, corpus, base)
    else:
        recipe = fit_context(recipe, corpus)
        config = recipe.model_config(corpus.tokenizer.vocab_size)
        check_memory(config, recipe.training.batch_size, compute.device)
        network = models.build(config, seed=recipe.training.seed)
    if recipe.training.precision == "auto" and compute.precision == "bfloat16":
        progress.note("precision: bfloat16 products, which run faster here (--precision float32)")
    recipe = recipe.replace(training={"precision": compute.precision})  # what resuming needs
    network.to(compute.device)
    batches = make_batches(recipe, corpus, network)
    threads = plan.threads if plan else settle_threads(network, batches, recipe.training, compute)
    recipe = _fix_steps(recipe, network, batches, corpus, compute)
    text = describe_corpus(corpus, files)
    config = make_config(
        network.config, text, started_from=None if base is None else str(base.folder)
    )
    folder = RunFolder.create(path, config, to_toml(recipe), corpus.tokenizer)
    with folder.lock():
        lines = plan.baselines if plan else compared(recipe, corpus, network.context_length)
        append_metrics(folder.metrics_path, {"kind": "baselines", "losses": lines})
        torch.manual_seed(recipe.training.seed)
        loop = make_loop(
            recipe, corpus, folder, network, batches, compute, threads, lines, callbacks
        )
        return run_loop(loop, recipe, corpus, folder)


def fit_context(recipe: Recipe, corpus: Any) -> Recipe:
    """Shrink the context of a recipe to what the text can fill, and say so."""
    asked = recipe.model_config(corpus.tokenizer.vocab_size).context_length
    longest = corpus.train.n_tokens - 1
    if longest < 1:
        raise UserError(
            f"The text has only {corpus.train.n_tokens} tokens to train on; at least 2 are needed "
            "to learn what follows what. Give a longer text."
        )
    if longest >= asked:
        return recipe
    progress.note(
        f"context: {longest} tokens instead of {asked}, because the training text has only "
        f"{corpus.train.n_tokens} tokens"
    )
    return recipe.replace(model={"context_length": longest})


def _continued(recipe: Recipe, corpus: Any, base: Loaded) -> tuple[Recipe, Any]:
    """The network of another run, to be trained on; says what was kept of it."""
    if corpus.tokenizer.fingerprint != base.tokenizer.fingerprint:
        raise UserError(
            f"The corpus was prepared with another tokenizer than that of {base.folder}, whose "
            "weights mean its own vocabulary. Give the files, and they are read with that one."
        )
    progress.note(
        f"starting from {base.folder}: weights, shape and vocabulary "
        f"({base.tokenizer.vocab_size:,} pieces) kept; optimizer and schedule begin anew"
    )
    return dataclasses.replace(recipe, model=shape_of(base)), base.network.train()


def _fix_steps(
    recipe: Recipe, network: nn.Module, batches: Any, corpus: Any, compute: Compute
) -> Recipe:
    """Settle the number of steps once: the clock decides nothing after this."""
    training = recipe.training
    if training.steps is not None:
        return recipe
    if training.minutes is None:
        raise UserError("The recipe says neither steps nor minutes. Give --steps or --minutes.")
    share = SHARE_FOR_STEPS * training.minutes
    steps = steps_for_minutes(share, network, batches, training, compute)
    progress.note(f"{steps:,} steps fit into {training.minutes:g} minutes here")
    every = min(training.evaluate_every, max(steps // 4, 1))
    return recipe.replace(training={"steps": steps, "evaluate_every": every})


def _count(recipe: Recipe, corpus: Any, files: Sequence[str | Path], path: Path) -> TrainedRun:
    """The n-gram's training: count, evaluate, save."""
    from budgerigar.evaluation import evaluate
    from budgerigar.models.ngram import NgramModel

    config = recipe.model_config(corpus.tokenizer.vocab_size)
    text = describe_corpus(corpus, files)
    folder = RunFolder.create(path, make_config(config, text), to_toml(recipe), corpus.tokenizer)
    with folder.lock():
        network = NgramModel.fit(corpus.train.tokens, config, end_id=corpus.train.end_id)
        save_weights(folder.path, network)
        found = evaluate(network, corpus.validation)
        entry = {"kind": "evaluation", "step": 0, "loss": found.nats_per_token}
        entry |= {"bits_per_byte": found.bits_per_byte, "n_tokens": found.n_tokens, "best": True}
        append_metrics(folder.metrics_path, entry)
        progress.note(
            f"order {config.order}: loss {found.nats_per_token:.4f} nats per token, "
            f"{found.bits_per_byte:.3f} bits per byte"
        )
        write_report(folder.path)
    report = {
        "finished": True,
        "best_loss": found.nats_per_token,
        "evaluation": dataclasses.asdict(found),
    }
    return TrainedRun(folder.path, network, corpus.tokenizer, report)


def _cuda_devices() -> list[int]:
    return list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
