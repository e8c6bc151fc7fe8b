"""`train`: from a recipe and a text to a run folder; and `resume`, which goes on with one."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.formats.atomic import disk_errors
from budgerigar.formats.metrics import append_metrics
from budgerigar.formats.run import (
    RUNS,
    Loaded,
    RunFolder,
    make_config,
    resolve_run,
    save_weights,
)
from budgerigar.training.adapting import (
    check_adapters,
    fine_tuning_recipe,
    fit_to_memory,
    measure_before,
    need_base,
    needs_fine_tuning,
    said_of_base,
    seconds_for_steps,
    set_recompute,
)
from budgerigar.training.asked import refuse_untrainable, without_effect
from budgerigar.training.branch import branch_off
from budgerigar.training.corpora import (
    describe_corpus,
    gather_corpus,
    make_batches,
    model_config,
    window_length,
)
from budgerigar.training.device import Compute, choose_compute
from budgerigar.training.fine_tuning import (
    check_fits,
    continue_from,
    load_base,
    with_vocabularies,
)
from budgerigar.training.finish import TrainedRun, compared, make_loop, run_loop
from budgerigar.training.given import Given, Paths, with_full_paths
from budgerigar.training.memory import check_memory
from budgerigar.training.new_network import new_network
from budgerigar.training.objectives import MASKED_WORDS, NEXT_TOKEN
from budgerigar.training.pair_corpora import for_other_pairs
from budgerigar.training.plan import make_plan
from budgerigar.training.plan_parts import Plan, recipe_for, slower_when_going_on
from budgerigar.training.recipe import (
    Recipe,
    flat,
    load_recipe,
    override,
    reads_pairs,
    recipe_from_dict,
    to_toml,
)
from budgerigar.training.report import write_report
from budgerigar.training.resume import resume_run
from budgerigar.training.timing import SHARE_FOR_STEPS, measure_steps, settle_threads
from budgerigar.training.word_vector_runs import settle_tokenizer, train_vectors

VECTORS = "word-vectors"


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
    **pair_files: Paths,
) -> TrainedRun:
    """Train a model and keep everything of it in a run folder.

    Args:
        recipe: a `Recipe`, the name of one in the package, or a TOML file; None plans one for the
            text and this machine (see plan.py).
        files: text files; or `corpus`, one prepared already; or the recipe's own corpus.
        pair_files: sentence pairs instead: `source` and `target` (parallel files) or `pairs` (files
            with both sides), and validation_source, validation_target, validation_pairs.
        out: the run folder to make; None: runs/<name>-<n>.
        minutes: time budget; sets the number of steps by measuring this machine.
        settings: changes to the recipe, as `recipe.override` takes them.
        resume: a run folder to go on with; then the rest of the arguments are not needed. With
            `out` and a number of steps (or minutes) it is left as it is, and a run of that length
            goes on in a new folder from where its rate began to fall (warmup-stable-decay).
        start_from: a model whose weights and vocabulary to begin with (fine-tuning): a run, or one of
            others (whatever `load_any` takes); with the setting `lora`, adapters beside its weights.
        callbacks: objects with on_step, on_evaluation or on_sample; see events.py.

    Raises:
        UserError: whatever the user can mend, all problems of the settings at once.
    """
    with torch.random.fork_rng(devices=_cuda_devices()):
        if resume is not None:
            path = resolve_run(resume)
            if out is not None:
                path, settings = branch_off(path, Path(out), minutes, settings)
            return resume_run(path, corpus, settings, callbacks)
        given = _given(files, pair_files)
        return _start(recipe, given, corpus, out, minutes, settings, start_from, callbacks)


def _given(files: Paths, pair_files: Mapping[str, Paths]) -> Given:
    unknown = [name for name in pair_files if name not in Given.__dataclass_fields__]
    if unknown:
        raise TypeError(f"train() has no argument {unknown[0]!r}")
    return Given(files, **pair_files)


def _start(
    recipe: Recipe | str | Path | None,
    given: Given,
    corpus: Any,
    out: str | Path | None,
    minutes: float | None,
    settings: Mapping[str, Any] | None,
    start_from: str | Path | None,
    callbacks: Iterable[Any],
) -> TrainedRun:
    if out is not None and Path(out).exists():
        RunFolder.refuse_existing(Path(out))
    minutes, settings = _budget(minutes, settings)
    base = None if start_from is None else load_base(start_from, settings)
    need_base(flat(settings).get("lora"), base)
    plan: Plan | None = None
    named = _suitable(settings, given, base) if recipe is None else recipe
    if named is None:
        plan = _planned(given, corpus, minutes, settings, base)
        asked, corpus = plan.recipe, plan.corpus
    else:
        asked = _as_asked(named, given, minutes, settings)
        if isinstance(named, str) and recipe is None and base is not None:
            asked = slower_when_going_on(asked, settings)
    return _run(with_full_paths(asked), given, corpus, out, settings, base, plan, callbacks)


def _suitable(
    settings: Mapping[str, Any], given: Given, base: Loaded | None
) -> Recipe | str | None:
    """The recipe where none was named; None: it is to be planned for the text."""
    found = recipe_for(settings, given, base)
    lora = flat(settings).get("lora")
    if found or base is None or given.has_pairs or not needs_fine_tuning(base, lora):
        return found
    return found if reads_pairs(base.config["model"]) else fine_tuning_recipe(base, settings)


def _run(
    recipe: Recipe,
    given: Given,
    corpus: Any,
    out: str | Path | None,
    settings: Mapping[str, Any] | None,
    base: Loaded | None,
    plan: Plan | None,
    callbacks: Iterable[Any],
) -> TrainedRun:
    """Train what is settled by now; a corpus is gathered where none was given or planned with."""
    check_adapters(recipe, base)
    if base is not None:
        check_fits(base, recipe)
        recipe = with_vocabularies(recipe, base)
    if corpus is None:
        recipe = settle_tokenizer(recipe, given) if recipe.kind == VECTORS else recipe
        known: dict[str, Any] = {}
        if base is not None:
            known = {"tokenizer": base.tokenizer, "source_tokenizer": base.source_tokenizer}
        corpus = gather_corpus(recipe.text, given, objective=recipe.objective, **known)
    if plan is None:
        _say(corpus.notes)
    _say(without_effect(recipe, flat(settings), bool(given)))
    folder = Path(out) if out is not None else next_folder(_name_of(recipe, given))
    if recipe.kind == "ngram":
        return _count(recipe, corpus, given, folder)
    if recipe.kind == VECTORS:
        return train_vectors(recipe, corpus, given, folder)
    return _train_network(recipe, corpus, given, folder, base, plan, callbacks)


def _as_asked(
    named: Recipe | str | Path,
    given: Given,
    minutes: float | None,
    settings: Mapping[str, Any] | None,
) -> Recipe:
    """The recipe with what the user changes of it."""
    if not isinstance(named, Recipe):
        corpus = flat(settings).get("corpus")
        named = for_other_pairs(load_recipe(named), given.has_pairs, corpus)
    recipe = override(named, settings)
    refuse_untrainable(recipe, given)
    if minutes is not None:
        recipe = recipe.replace(training={"minutes": minutes, "steps": None})
    return recipe


def _budget(
    minutes: float | None, settings: Mapping[str, Any] | None
) -> tuple[float | None, dict[str, Any]]:
    """Minutes asked for win over the steps of a recipe, wherever they were given; not over steps
    asked for at the same time."""
    changes = dict(settings or {})
    asked = changes.pop("minutes", None)
    minutes = minutes if minutes is not None else asked
    recipe_from_dict({"training": {"minutes": minutes}}, "settings")  # refuses what is no time
    if minutes is not None and "steps" in flat(changes):
        progress.note("note: --minutes has no effect here: --steps says how long")
        minutes = None
    return minutes, changes


def _planned(
    given: Given,
    corpus: Any,
    minutes: float | None,
    settings: Mapping[str, Any] | None,
    base: Loaded | None,
) -> Plan:
    plan = make_plan(given, corpus=corpus, minutes=minutes, settings=settings, start_from=base)
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


def _name_of(recipe: Recipe, given: Given) -> str:
    name = given.stem or recipe.text.corpus or recipe.kind
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip("-.") or "run"


def _train_network(
    recipe: Recipe,
    corpus: Any,
    given: Given,
    path: Path,
    base: Loaded | None,
    plan: Plan | None,
    callbacks: Iterable[Any],
) -> TrainedRun:
    compute = choose_compute(recipe.training)
    fine_tuned = base is not None and needs_fine_tuning(base, recipe.training.lora)
    if base is not None:
        recipe, network = continue_from(recipe, corpus, base)
        if fine_tuned:
            recipe = fit_to_memory(recipe, network, compute.device)
    else:
        windows = recipe.objective in (NEXT_TOKEN, MASKED_WORDS)
        recipe = fit_context(recipe, corpus) if windows else recipe
        config = model_config(recipe, corpus)
        check_memory(config, recipe.training, compute.device)
        network = new_network(config, recipe, corpus)
    if recipe.training.precision == "auto" and compute.precision == "bfloat16":
        progress.note("precision: bfloat16 products, which run faster here (--precision float32)")
    recipe = recipe.replace(training={"precision": compute.precision})  # what resuming needs
    set_recompute(network, recipe)
    network.to(compute.device)
    batches = make_batches(recipe, corpus, network)
    threads = plan.threads if plan else settle_threads(network, batches, recipe.training, compute)
    measured = corpus if fine_tuned else None  # before and after, in the same minutes
    recipe = _fix_steps(recipe, network, batches, measured, compute)
    text = describe_corpus(corpus, given, recipe.reads_pairs, recipe.objective)
    config = make_config(network.config, text, **said_of_base(recipe, base))
    tokenizers = (corpus.tokenizer, getattr(corpus, "source_tokenizer", None))
    folder = RunFolder.create(path, config, to_toml(recipe), *tokenizers)
    with folder.lock():
        lines = plan.baselines if plan else compared(recipe, corpus, network.context_length)
        if fine_tuned:
            lines = lines | measure_before(recipe, corpus, network, folder.metrics_path)
        append_metrics(folder.metrics_path, {"kind": "baselines", "losses": lines})
        torch.manual_seed(recipe.training.seed)
        loop = make_loop(
            recipe, corpus, folder, network, batches, compute, threads, lines, callbacks
        )
        return run_loop(loop, recipe, corpus, folder)


def fit_context(recipe: Recipe, corpus: Any) -> Recipe:
    """Shrink the context of a recipe to what the text can fill, and say so."""
    config = recipe.model_config(corpus.tokenizer.vocab_size)
    limit = getattr(config, "context_length", None)
    asked = limit or window_length(recipe.training, None)
    longest = corpus.train.n_tokens - 1
    if longest < 1:
        raise UserError(
            f"The text has only {corpus.train.n_tokens} tokens to train on; at least 2 are needed "
            "to learn what follows what. Give a longer text."
        )
    if longest >= asked:
        return recipe
    what = "context" if limit else "windows"
    progress.note(
        f"{what}: {longest} tokens instead of {asked}, because the training text has only "
        f"{corpus.train.n_tokens} tokens"
    )
    if limit is None:
        return recipe.replace(training={"window_length": longest})
    recipe = recipe.replace(model={"context_length": longest})
    if (recipe.training.window_length or 0) > longest:
        recipe = recipe.replace(training={"window_length": None})
    return recipe


def _fix_steps(
    recipe: Recipe, network: nn.Module, batches: Any, measured: Any, compute: Compute
) -> Recipe:
    """Settle the number of steps once: the clock decides nothing after this."""
    training = recipe.training
    if training.steps is not None:
        return recipe
    if training.minutes is None:
        raise UserError("The recipe says neither steps nor minutes. Give --steps or --minutes.")
    step = measure_steps(network, batches, training, compute)
    seconds = 60 * SHARE_FOR_STEPS * training.minutes
    if measured is not None:
        seconds = min(seconds, seconds_for_steps(recipe, measured, step))
    steps = max(1, int(seconds / step.seconds))
    progress.note(f"{steps:,} steps fit into {training.minutes:g} minutes here")
    every = min(training.evaluate_every, max(steps // 4, 1))
    return recipe.replace(training={"steps": steps, "evaluate_every": every})


def _count(recipe: Recipe, corpus: Any, given: Given, path: Path) -> TrainedRun:
    """The n-gram's training: count, evaluate, save."""
    from budgerigar.evaluation import evaluate
    from budgerigar.models.ngram import NgramModel

    recipe = _shorter_than_text(recipe, corpus)
    config = recipe.model_config(corpus.tokenizer.vocab_size)
    text = describe_corpus(corpus, given)
    folder = RunFolder.create(path, make_config(config, text), to_toml(recipe), corpus.tokenizer)
    with folder.lock():
        train_store, before = corpus.train, time.perf_counter()
        with disk_errors(f"keep what is counted in {folder.path}"):
            network = NgramModel.fit(
                train_store.tokens, config, end_id=train_store.end_id, folder=folder.path
            )
        seconds = time.perf_counter() - before
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
        "training_seconds": seconds,
        "evaluation": dataclasses.asdict(found),
    }
    return TrainedRun(folder.path, network, corpus.tokenizer, report)


def _shorter_than_text(recipe: Recipe, corpus: Any) -> Recipe:
    """An n-gram of a length that the text has, as a window is never longer than its text."""
    config, n_tokens = recipe.model_config(corpus.tokenizer.vocab_size), corpus.train.n_tokens
    if config.order <= n_tokens:
        return recipe
    progress.note(f"order {config.order} shortened to {n_tokens}: the text has no more tokens")
    return recipe.replace(model={"order": max(n_tokens, 1)})


def _cuda_devices() -> list[int]:
    return list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
