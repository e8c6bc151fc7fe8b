"""Going on with a run from its last checkpoint, as if it had never stopped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.formats.adapters import load_base_of, with_new_adapters
from budgerigar.formats.atomic import write_text
from budgerigar.formats.checkpoints import Checkpoint, read_latest_checkpoint
from budgerigar.formats.load import load_any
from budgerigar.formats.metrics import append_metrics, cut_metrics, read_metrics
from budgerigar.formats.run import RunFolder, load_tokenizers
from budgerigar.training.adapting import prepared, set_recompute
from budgerigar.training.corpora import check_same_corpus, corpus_of_run, make_batches
from budgerigar.training.device import Compute, choose_compute
from budgerigar.training.fine_tuning import take_weights
from budgerigar.training.finish import TrainedRun, compared, make_loop, run_loop
from budgerigar.training.new_network import new_network
from budgerigar.training.recipe import Recipe, override, recipe_from_dict, to_toml
from budgerigar.training.timing import settle_threads
from budgerigar.training.word_vector_runs import resume_vectors

# What may differ when a run goes on; anything else would make it another run.
CHANGEABLE = (
    "steps", "patience", "evaluate_every", "sample_every", "checkpoint_every",
    "keep_checkpoints", "log_every", "threads", "device", "learning_rate", "min_learning_rate",
    "muon_learning_rate", "embedding_learning_rate", "head_learning_rate", "clip", "spike",
)  # fmt: skip


def resume_run(
    path: Path, corpus: Any, settings: Mapping[str, Any] | None, callbacks: Iterable[Any]
) -> TrainedRun:
    folder = RunFolder.open(path)
    config = folder.config()
    recipe = _resumed_recipe(folder, settings)
    with folder.lock():
        checkpoint = read_latest_checkpoint(path)
        text = config.get("text", {})
        if corpus is None:
            corpus = corpus_of_run(recipe, text, path, *load_tokenizers(path))
        check_same_corpus(corpus, text, path)
        if recipe.kind == "word-vectors":
            return resume_vectors(folder, recipe, corpus, checkpoint)
        network = _network(path, config, recipe, corpus, checkpoint)
        set_recompute(network, recipe)
        return _go_on(folder, recipe, corpus, network, checkpoint, callbacks)


def _network(
    folder: Path, config: dict[str, Any], recipe: Recipe, corpus: Any, checkpoint: Any
) -> nn.Module:
    """The network to go on with; without a checkpoint as it was before its first update."""
    from budgerigar import models
    from budgerigar.models.configs import config_from_dict

    if "adapters" in config:
        found = load_base_of(config, folder).network
        return with_new_adapters(found, config["adapters"], recipe.training.seed)
    shape, base = config_from_dict(config["model"]), config.get("started_from")
    if checkpoint is None and not base:
        return new_network(shape, recipe, corpus)
    network: nn.Module = models.build(shape, seed=recipe.training.seed)
    if checkpoint is None:
        trained, _ = prepared(recipe, load_any(str(base)))
        take_weights(network, trained, with_classes=False)
    return network


def _resumed_recipe(folder: RunFolder, settings: Mapping[str, Any] | None) -> Recipe:
    stored = folder.recipe()
    if stored is None:
        raise UserError(
            f"{folder.path} has no recipe.toml, so it is not known how it was trained. Start a new "
            f"run from its weights: budgie train FILE --from {folder.path}"
        )
    recipe = recipe_from_dict(stored, str(folder.recipe_path))
    if recipe.kind == "ngram":
        raise UserError(
            f"{folder.path} is an n-gram, which is counted in one go: there is nothing to resume. If "
            "it was stopped before its end, remove the folder and train again."
        )
    changes = {k: v for k, v in (settings or {}).items() if v is not None}
    refused = [name for name in changes if name not in CHANGEABLE]
    if refused:
        raise UserError(
            f"{', '.join(refused)} cannot change while a run goes on. What can: "
            f"{', '.join(CHANGEABLE)}. For anything else start anew with --from {folder.path}."
        )
    if changes:
        recipe = override(recipe, changes)
        write_text(folder.recipe_path, to_toml(recipe))
    return recipe


def _go_on(
    folder: RunFolder,
    recipe: Recipe,
    corpus: Any,
    network: Any,
    checkpoint: Checkpoint | None,
    callbacks: Iterable[Any],
) -> TrainedRun:
    compute = choose_compute(recipe.training)
    network.to(compute.device)
    batches = make_batches(recipe, corpus, network)
    state = checkpoint.state if checkpoint else {}
    threads = _same_threads(recipe, state, network, batches, compute)
    metrics = folder.metrics_path
    cut_metrics(metrics, int(state.get("metrics_bytes", 0)))
    logged = read_metrics(metrics, "baselines")
    if not logged:
        length = network.context_length
        logged = [{"kind": "baselines", "losses": compared(recipe, corpus, length)}]
        append_metrics(metrics, logged[0])
    torch.manual_seed(recipe.training.seed)
    lines = logged[0]["losses"]
    loop = make_loop(recipe, corpus, folder, network, batches, compute, threads, lines, callbacks)
    if checkpoint is not None:
        loop.restore(checkpoint)
        loop.standing.total_steps = recipe.training.steps or loop.standing.total_steps
        if loop.standing.step < loop.standing.total_steps:
            loop.standing.finished = False
        progress.note(_where(folder.path, checkpoint.step, loop.standing.total_steps))
    return run_loop(loop, recipe, corpus, folder)


def _where(path: Path, step: int, total: int) -> str:
    if step < total:
        return f"going on from step {step:,} of {total:,}"
    return (
        f"{path} has done its {total:,} steps and is finished. To train on: "
        f"budgie train --resume {path} --steps {2 * total}"
    )


def _same_threads(
    recipe: Recipe, state: dict[str, Any], network: nn.Module, batches: Any, compute: Compute
) -> int:
    """The thread count the run had, unless another is asked for; warns where exactness is lost."""
    if state.get("torch_version", torch.__version__) != torch.__version__:
        progress.note(
            f"this run began with torch {state['torch_version']}, here is {torch.__version__}: it "
            "goes on, but not bit for bit as it would have"
        )
    if "threads" in state and recipe.training.threads == "auto":
        torch.set_num_threads(state["threads"])
        return int(state["threads"])
    return settle_threads(network, batches, recipe.training, compute)
