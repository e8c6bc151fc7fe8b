"""Fine-tuning of models that others trained: all weights or adapters, in the memory that there is.

What a step takes is counted before it starts, said, and made to fit: by computing each layer again
in the backward pass instead of keeping it (Chen et al. 2016), then by smaller batches, more of them
per update. Neither changes what is learnt.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.evaluation.losses import (
    ACTIVATIONS_AT_ONCE,
    LOGITS_AT_ONCE,
    LOGITS_IN_PARTS,
    numbers_of_token,
)
from budgerigar.formats.adapters import described, with_new_adapters
from budgerigar.formats.metrics import append_metrics, read_metrics
from budgerigar.formats.run import Loaded
from budgerigar.layers.config import TransformerConfig
from budgerigar.layers.lora import has_adapters, merged, targets_of
from budgerigar.layers.packed_linear import n_weights, packed_bytes, unpack
from budgerigar.layers.shapes import activation_values_per_token
from budgerigar.training.allocator import give_back_freed_memory
from budgerigar.training.corpora import window_length
from budgerigar.training.device import computes_bfloat16
from budgerigar.training.memory import memory_of
from budgerigar.training.objectives import CLASSIFICATION, NEXT_TOKEN
from budgerigar.training.plan_parts import shape_of
from budgerigar.training.recipe import Recipe, flat, load_recipe
from budgerigar.training.timing import MeasuredStep

FINE_TUNE = "fine-tune"
SHARE_OF_MEMORY = (
    0.6  # of what is free; the rest is for what else runs, and for what is not counted
)
EVALUATIONS = 4  # along the way, at least
BASE = "base"  # the line to compare with
PROGRAM = 400_000_000  # bytes of Python, torch and tokenizers themselves


def needs_fine_tuning(base: Loaded, lora: Any = None) -> bool:
    """Whether a base is trained on by the recipe `fine-tune`: another's model, or adapters on any."""
    return bool(lora) or bool(getattr(base.tokenizer, "imported", False))


def fine_tuning_recipe(base: Loaded, settings: Mapping[str, Any] | None) -> Recipe:
    """The recipe `fine-tune` for the shape of a base, with the rate that suits what is learnt."""
    recipe = load_recipe(FINE_TUNE).replace(model=shape_of(base))
    changes: dict[str, Any] = {}
    context = base.network.context_length
    if context is not None and context < (recipe.training.window_length or 0):
        changes["window_length"] = context
    if flat(settings).get("lora") is None:
        changes["learning_rate"] = 0.1 * recipe.training.learning_rate
    return recipe.replace(training=changes)


def check_adapters(recipe: Recipe, base: Loaded | None) -> None:
    """Refuse adapters where there is nothing that they could be put on.

    Raises:
        UserError: says why, before anything is read.
    """
    training = recipe.training
    targets_of(training.lora_targets)
    if training.lora is None:
        for name in ("lora_alpha", "lora_targets"):
            if getattr(training, name) is not None:
                progress.note(
                    f"note: --{name.replace('_', '-')} has no effect here: it is for --lora"
                )
        return
    need_base(training.lora, base)
    assert base is not None
    if recipe.kind != "transformer":
        raise UserError(f"--lora is for Transformers, and {base.folder} is of kind {recipe.kind}.")
    if recipe.objective == CLASSIFICATION:
        raise UserError(
            "--lora cannot be used with --classify: the layer that tells the classes is new, and is "
            "learnt together with all weights. Leave --lora out."
        )


def need_base(lora: Any, base: Loaded | None) -> None:
    """Raise a `UserError` where adapters are asked for and there is nothing to put them on."""
    if lora is not None and base is None:
        raise UserError(
            "--lora puts adapters on a model that was trained before, and none is named: give it with "
            "--from (a run, a Hugging Face folder, a .gguf file)."
        )


def prepared(recipe: Recipe, base: Loaded) -> tuple[nn.Module, str]:
    """(the base's network, ready to be trained; what was done with it, in words)."""
    training, network = recipe.training, base.network
    if training.lora is not None:
        told = {
            "rank": training.lora,
            "alpha": alpha_of(recipe),
            "targets": targets_of(training.lora_targets),
        }
        network = with_new_adapters(network, told, training.seed)
        learnt = sum(p.numel() for p in network.parameters() if p.requires_grad)
        return network, (
            f"; adapters of rank {training.lora} are learnt, {learnt:,} numbers beside "
            f"{n_weights(network) - learnt:,} that stay as they are"
        )
    network = merged(network)
    unpack(network)
    for parameter in network.parameters():  # in memory of their own, no longer a file's
        parameter.data = parameter.detach().clone()
        parameter.requires_grad_(True)
    return network, ""


def alpha_of(recipe: Recipe) -> float:
    """alpha: what was asked for, or twice the rank."""
    training = recipe.training
    assert training.lora is not None
    return 2.0 * training.lora if training.lora_alpha is None else training.lora_alpha


def said_of_base(recipe: Recipe, base: Loaded | None) -> dict[str, Any]:
    """What config.json keeps about the base of a run."""
    if base is None:
        return {"started_from": None}
    path = Path(base.folder).resolve()
    told: dict[str, Any] = {"started_from": str(base.folder)}
    if "imported" in base.config:
        told |= {"started_from": str(path), "imported": base.config["imported"]}
    if recipe.training.lora is not None:
        targets = targets_of(recipe.training.lora_targets)
        told["adapters"] = described(path, recipe.training.lora, alpha_of(recipe), targets)
    return told


def set_recompute(network: nn.Module, recipe: Recipe) -> None:
    """Tell the stacks of a Transformer whether to compute layers again in the backward pass."""
    for stack in (getattr(network, "encoder", None), getattr(network, "decoder", None)):
        if stack is not None and hasattr(stack, "recompute"):
            stack.recompute = recipe.training.recompute


# -- memory ----------------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class Need:
    """Bytes that fine-tuning takes."""

    weights: int
    state: int
    """gradients and the optimizer's two averages"""
    batch: int
    """what a forward pass keeps for the backward pass"""
    measuring: int = 0
    """what an evaluation takes, which is at other times than a batch"""

    @property
    def total(self) -> int:
        """All of it together."""
        return self.weights + self.state + max(self.batch, self.measuring) + PROGRAM

    def text(self) -> str:
        """In words."""
        parts = {"weights": self.weights, "optimizer": self.state}
        most = "batch" if self.batch >= self.measuring else "measuring"
        parts |= {most: max(self.batch, self.measuring), "program": PROGRAM}
        shown = ", ".join(f"{name} {size / 1e9:.2f}" for name, size in parts.items())
        return f"about {self.total / 1e9:.1f} GB ({shown})"


def needed(recipe: Recipe, network: nn.Module) -> Need:
    """Bytes of weights, optimizer and a batch, counted from shapes.

    With all weights learnt, those of a twin are in it where steps are timed first. Adapters keep what
    they read beside what the base keeps, which is seldom over a third more. Products in bfloat16 keep
    a copy of each matrix for the backward pass.
    """
    training = recipe.training
    config: Any = network.config
    learnt = sum(p.numel() for p in network.parameters() if p.requires_grad)
    timed = training.steps is None or training.threads == "auto"
    weights = packed_bytes(network) + (4 * learnt if timed and not has_adapters(network) else 0)
    if not isinstance(config, TransformerConfig):
        return Need(weights, 12 * learnt, 0)
    pairs = recipe.reads_pairs
    length = window_length(training, config.context_length)
    tokens = training.batch_tokens if pairs else training.batch_size * length
    values = activation_values_per_token(config)
    if training.recompute:
        head = 2 * config.d_model + 2 * config.vocab_size
        depth = config.encoder_layers + config.decoder_layers
        values = depth * config.d_model + (values - head) // max(depth, 1) + head
    beside = 4 / 3 if has_adapters(network) else 1.0
    batch = int(4 * beside * tokens * values) + _bfloat16_copies(training, network)
    return Need(weights, 12 * learnt, batch, _measuring(recipe, network))


def _bfloat16_copies(training: Any, network: nn.Module) -> int:
    matrices = [p for p in network.parameters() if p.dim() == 2]
    place = matrices[0].device if matrices else torch.device("cpu")
    automatic = training.precision == "auto" and computes_bfloat16(place)
    return (
        2 * sum(p.numel() for p in matrices) if automatic or training.precision == "bfloat16" else 0
    )


def _measuring(recipe: Recipe, network: Any) -> int:
    """Bytes that measuring a loss takes at the most: of a decoder's layers, and of some logits with
    their softmax (`evaluation/losses.py`)."""
    config = network.config
    if recipe.objective != NEXT_TOKEN or config.assembly != "decoder-only":
        return 0
    length = evaluation_length(recipe, network) or config.context_length
    window = 4 * length * numbers_of_token(config)
    logits = min(LOGITS_IN_PARTS, 32 * length * config.vocab_size)
    return max(window, min(32 * window, ACTIVATIONS_AT_ONCE)) + 8 * logits


def fit_to_memory(recipe: Recipe, network: nn.Module, device: torch.device) -> Recipe:
    """The recipe with what makes a step fit; says what it takes and what was changed for it.

    Raises:
        UserError: the weights alone are more than the machine has.
    """
    there, free = memory_of(device), _free(device)
    room = int(SHARE_OF_MEMORY * (free or there or sys.maxsize))
    asked = recipe.training

    def too_large() -> bool:
        need = needed(recipe, network)
        return need.total > room and need.batch > need.measuring

    if too_large():
        recipe = recipe.replace(training={"recompute": True})
    while too_large() and recipe.training.batch_size > 1:
        if recipe.reads_pairs:
            break
        t = recipe.training
        batch = t.batch_size // 2
        accumulate = -(-t.batch_size * t.accumulate // batch)
        recipe = recipe.replace(training={"batch_size": batch, "accumulate": accumulate})
    need = needed(recipe, network)
    if there is not None and need.total > there:
        way = (
            "Give --lora 8: then the base stays as it is"
            if asked.lora is None
            else "Take a smaller base"
        )
        raise UserError(
            f"Fine-tuning {network_words(network)} takes {need.text()}, and this machine has "
            f"{there / 1e9:.0f} GB. {way}; --window-length and --batch-size lower the rest."
        )
    progress.note(f"memory: {need.text()}" + _changes(asked, recipe.training))
    if need.total > room:
        progress.note(
            f"warning: only {(free or there or 0) / 1e9:.1f} GB are free; the machine may become slow, "
            "or end this run" + (". --lora 8 takes far less" if asked.lora is None else "")
        )
    return recipe


def network_words(network: nn.Module) -> str:
    """ "134,515,008 weights"."""
    return f"{n_weights(network):,} weights"


def _changes(asked: Any, now: Any) -> str:
    words = []
    if now.recompute and not asked.recompute:
        words.append("layers are computed again in the backward pass")
    if now.batch_size != asked.batch_size:
        words.append(f"{now.batch_size} windows at a time, {now.accumulate} times per update")
    return f"; to fit: {', '.join(words)}" if words else ""


def _free(device: torch.device) -> int | None:
    """Bytes that can be had now; None where the system does not say."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:  # not Linux
        return None
    found = [line.split() for line in lines if line.startswith("MemAvailable:")]
    return int(found[0][1]) * 1024 if found else None


# -- before and after --------------------------------------------------------------------------
def evaluation_length(recipe: Recipe, network: Any) -> int | None:
    """Targets per window when measuring; None: the model's context.

    With a large vocabulary the logits of a long context take gigabytes, so its windows are shorter.
    """
    context, most = network.context_length, LOGITS_AT_ONCE // network.vocab_size
    if context is None or context <= most:
        return None
    fitting = 1 << max(most.bit_length() - 1, 0)
    return int(min(context, max(window_length(recipe.training, context), fitting)))


def seconds_for_steps(recipe: Recipe, corpus: Any, step: MeasuredStep) -> float:
    """Seconds of --minutes that are left for steps beside measuring before, along the way and after.

    At least a quarter of them; says what measuring takes. Reading without learning is told from a
    step: a third of it, half where the weights stay as they are, less where layers are computed twice.
    """
    training = recipe.training
    assert training.minutes is not None
    budget, n_tokens = 60 * training.minutes, corpus.validation.n_tokens
    if recipe.objective != NEXT_TOKEN:
        return budget
    passes = 3 - int(training.lora is not None) + int(training.recompute)
    per_token = step.seconds / step.tokens / passes
    along = EVALUATIONS * min(training.evaluation_tokens or n_tokens, n_tokens)
    seconds = per_token * (2 * n_tokens + along)
    words = (
        f"measuring: the base and the result on all {n_tokens:,} validation tokens, and along the way, "
        f"about {seconds / 60:.1f} of the {training.minutes:g} minutes"
    )
    if seconds > 0.5 * budget:
        words += f" (less with --validation-fraction below {recipe.text.validation_fraction:g})"
    progress.note(words)
    return max(0.95 * budget - seconds, 0.25 * budget)


def measure_before(recipe: Recipe, corpus: Any, network: Any, metrics: Path) -> dict[str, float]:
    """The base's loss on the whole validation split, as a line to compare with; kept in `metrics`."""
    from budgerigar.evaluation import evaluate

    if recipe.objective != NEXT_TOKEN:
        return {}
    length = evaluation_length(recipe, network)
    n_tokens = corpus.validation.n_tokens
    progress.note(f"measuring the base first, on all {n_tokens:,} validation tokens")
    found = evaluate(network, corpus.validation, context_length=length)
    give_back_freed_memory()
    entry = {"kind": "before", "loss": found.nats_per_token, "bits_per_byte": found.bits_per_byte}
    append_metrics(metrics, {**entry, "n_tokens": found.n_tokens, "window": found.context_length})
    progress.note(
        f"before fine-tuning: {found.bits_per_byte:.3f} bits per byte, {found.nats_per_token:.3f} "
        f"nats per token, over {found.n_tokens:,} validation tokens in windows of "
        f"{found.context_length:,}"
    )
    return {BASE: found.nats_per_token}


def before_and_after(metrics: Path, found: Any) -> dict[str, Any]:
    """Say what a fine-tuning reached, and give it for the report; {} for another training."""
    before = read_metrics(metrics, "before")
    if not before:
        return {}
    was, now, peak = before[0]["bits_per_byte"], found.bits_per_byte, peak_bytes()
    memory = "" if peak is None else f"; {peak / 1e9:.1f} GB of memory at the most"
    progress.note(f"bits per byte: {was:.3f} before fine-tuning, {now:.3f} after{memory}")
    if now >= was:
        progress.note(
            "warning: the base was better than what was made of it. Lower --learning-rate, or give "
            "more text or more time."
        )
    return {"bits_per_byte_before": was, "bits_per_byte_after": now, "peak_bytes": peak}


def peak_bytes() -> int | None:
    """The most memory that this process has had; None where the system does not say."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most
