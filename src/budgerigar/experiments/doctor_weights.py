"""The doctor's checks of weights: names and shapes, numbers, ties, rotary order, context."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from budgerigar.experiments.doctor_patient import (
    GGUF,
    HUGGING_FACE,
    RUN,
    Fault,
    NotMadeError,
    Patient,
)
from budgerigar.formats.weight_rules import Interleaved, weight_of
from budgerigar.layers import shapes
from budgerigar.layers.config import TransformerConfig
from budgerigar.layers.embedding import Head
from budgerigar.layers.linear import Linear

TEXT = (
    "The capital of France is Paris. The sun rises in the east and sets in the west, and in the "
    "evening the children came home from school, because it was getting dark."
)
MOST_TOKENS = 64
MOST_PARAMETERS = 3_000_000_000  # beyond, running it here takes minutes and tens of GB
SENSIBLE = 0.75  # of the loss of guessing: a model that knows its language is well below
MARGIN = 0.3  # nats by which the other way must be better
LARGEST_HALF = 65504.0
_CHUNK = 1 << 24


# -- names and shapes ------------------------------------------------------------------------------
def tensors_fit(patient: Patient) -> Iterator[Fault]:
    """Tensors against those that the description asks for."""
    patient.need_config()
    if patient.form == RUN:
        found = _problems_of_run(patient)
    elif patient.problems is None or not patient.whole:
        raise NotMadeError("not all weights are there")
    else:
        found = patient.problems()
    head = [words for words in found if _is_lost_head(words)]
    rest = [words for words in found if not _is_lost_head(words)]
    if head:
        yield Fault(
            "tied head left random",
            f"{head[0]}, and tie_word_embeddings is not true",
            "A program that goes on fills the output layer with random numbers. Set "
            "tie_word_embeddings to true in config.json if the embedding is the output layer too; "
            "else the file lacks it.",
        )
    if rest:
        shown = "; ".join(rest[:6]) + ("; …" if len(rest) > 6 else "")
        yield Fault(
            "missing, unused or misshapen tensors",
            f"{len(rest)}: {shown}",
            "The description or the weights were changed, or are of another model: take both from "
            "one place.",
        )


def _is_lost_head(words: str) -> bool:
    return "(it fills head.weight)" in words


def _problems_of_run(patient: Patient) -> list[str]:
    if patient.tensors is None:
        raise NotMadeError("the weights could not be read")
    if not isinstance(patient.config, TransformerConfig) or "adapters" in patient.values:
        patient.need_network()  # says by itself what does not fit
        return []
    from budgerigar.formats.tensors import plain_name
    from budgerigar.models.transformer import Transformer

    network = Transformer.unfilled(patient.config)
    wanted = {plain_name(name): tuple(one.shape) for name, one in network.state_dict().items()}
    held = set(patient.tensors.names())
    found = [f"{name} is missing" for name in wanted if name not in held]
    found += [f"{name} is not part of this model" for name in sorted(held - set(wanted))]
    for name in sorted(held & set(wanted)):
        if (shape := tuple(patient.tensors.shape(name))) != wanted[name]:
            found.append(f"{name} is {shape}, not {wanted[name]}")
    return found


# -- numbers ---------------------------------------------------------------------------------------
def numbers(patient: Patient) -> Iterator[Fault]:
    """NaN, infinities, and numbers that float16 cannot hold."""
    if patient.tensors is None:
        raise NotMadeError("the weights could not be read")
    broken, large, unread = [], [], []
    for name in patient.tensors.names():
        try:
            values = patient.tensors.get(name)
        except Exception as error:  # a type that is not read here
            unread.append(f"{name} ({str(error).splitlines()[0][:60]})")
            continue
        if not values.is_floating_point():
            continue
        n_wrong, largest = _extremes(values)
        if n_wrong:
            broken.append(f"{name} ({n_wrong:,} of {values.numel():,})")
        elif largest > LARGEST_HALF:
            large.append(f"{name} (up to {largest:.3g})")
    if broken:
        yield Fault(
            "numbers that are infinite or none",
            _some(broken),
            "Numbers overflowed in training or when the weights were changed to a smaller type. Take "
            "the weights from before.",
        )
    if large:
        yield Fault(
            "numbers beyond float16",
            _some(large),
            "They become infinite where the model is run or written in float16: use float32 or "
            "bfloat16.",
            "warning",
        )
    if unread and len(unread) == len(list(patient.tensors.names())):
        raise NotMadeError(unread[0])


def _extremes(values: Tensor) -> tuple[int, float]:
    """(how many are no number or infinite, the largest magnitude of the others)."""
    wrong, largest = 0, 0.0
    for chunk in values.flatten().split(_CHUNK):
        fine = chunk.isfinite()
        if bool(fine.all()):
            largest = max(largest, float(chunk.abs().max())) if chunk.numel() else largest
        else:
            wrong += int((~fine).sum())
    return wrong, largest


def _some(words: list[str]) -> str:
    return f"in {len(words)} tensors: {', '.join(words[:4])}{' …' if len(words) > 4 else ''}"


def tie(patient: Patient) -> Iterator[Fault]:
    """An output layer that is said to be the embedding and is there with other numbers."""
    if patient.form != HUGGING_FACE:
        return
    if patient.tensors is None or not patient.whole:
        raise NotMadeError("not all weights are there")
    config = patient.need_config()
    names = set(patient.tensors.names())
    tables = [
        n for n in names if n.endswith(("embed_tokens.weight", "wte.weight", "shared.weight"))
    ]
    if "lm_head.weight" not in names or not tables:
        return
    head, table = patient.tensors.get("lm_head.weight"), patient.tensors.get(tables[0])
    same = head.shape == table.shape and torch.equal(head, table)
    if config.tied_embeddings and not same:
        yield Fault(
            "tie flag against tensors",
            f"config.json ties the output layer to the embedding, and lm_head.weight differs from "
            f"{tables[0]}",
            "Set tie_word_embeddings to false if the two were trained apart; else remove "
            "lm_head.weight from the file.",
        )
    elif same and not config.tied_embeddings:
        yield Fault(
            "an output layer that could be tied",
            f"lm_head.weight and {tables[0]} are the same numbers, and config.json does not tie them",
            "Harmless, but stored twice.",
            "note",
        )


# -- context ---------------------------------------------------------------------------------------
def context(patient: Patient) -> Iterator[Fault]:
    """A context that the positions were not made for."""
    config = patient.need_config()
    if not isinstance(config, TransformerConfig):
        return
    if config.positions == "rotary":
        yield from _rotary_context(config)
    length = (patient.said.tokenizer.get("model_max_length") if patient.said else None) or 0
    usable = config.context_length
    if isinstance(length, int) and usable < length < 10**9 and config.positions == "learned":
        yield Fault(
            "context beyond training",
            f"tokenizer_config.json allows {length:,} tokens, and the model has {usable:,} positions",
            f"Set model_max_length to {usable}: a longer text is an error.",
            "warning",
        )


def _rotary_context(config: TransformerConfig) -> Iterator[Fault]:
    scaling, length = config.rotary_scaling, config.context_length
    if scaling is not None:
        reach = scaling.factor * scaling.original_context_length
        if scaling.kind in ("linear", "yarn", "llama3") and length > reach * 1.001:
            yield Fault(
                "context beyond training",
                f"a context of {length:,} is promised, and the scaling of rotary positions stretches "
                f"{scaling.original_context_length:,} by {scaling.factor:g} to {reach:,.0f}",
                f"Give it at most {reach:,.0f} tokens, or set a factor of "
                f"{length / scaling.original_context_length:g}.",
                "warning",
            )
    elif length > (turn := 2 * math.pi * config.rotary_base):
        yield Fault(
            "context beyond training",
            f"a context of {length:,} is promised, and with base {config.rotary_base:g} and no scaling "
            f"the slowest pair has turned once after {turn:,.0f}",
            "rope_theta or rope_scaling is likely missing from config.json.",
            "warning",
        )


# -- what perplexity tells ----------------------------------------------------------------------
def rotary_order(patient: Patient) -> Iterator[Fault]:
    """Perplexity of a text with rotary pairs as they are stored, and in both other orders."""
    config = patient.need_config()
    if not isinstance(config, TransformerConfig) or config.positions != "rotary":
        return
    network, ids = _runnable(patient)
    as_stored = _loss(network, ids)
    patient.measured["perplexity as stored"] = _perplexity(as_stored)
    others = {}
    for name, turn in _TURNS.items():
        with _turned(network, config, turn):
            others[name] = _loss(network, ids)
    best = min(others, key=lambda name: others[name])
    patient.measured["perplexity in another rotary order"] = _perplexity(others[best])
    if _better(others[best], as_stored, config.vocab_size):
        yield Fault(
            "rotary order",
            f"perplexity {_perplexity(as_stored):,.4g} as stored and {_perplexity(others[best]):,.4g} "
            f"with the rows of queries and keys {best}",
            "The weights were converted without changing the order of rotary pairs (or twice): convert "
            "them again from the original.",
        )


def random_head(patient: Patient) -> Iterator[Fault]:
    """Perplexity with the output layer, and with the embedding in its place."""
    config = patient.need_config()
    if not isinstance(config, TransformerConfig) or config.tied_embeddings or not config.token_head:
        return
    network, ids = _runnable(patient)
    table = weight_of(network, "embedding.tokens.weight")
    own = weight_of(network, "head.weight")
    if table is None or own is None or table.shape != own.shape:
        return
    as_stored = _loss(network, ids)
    patient.measured["perplexity as stored"] = _perplexity(as_stored)
    head: Head = network.head
    kept = head.weight, head.packed
    try:
        head.weight, head.packed = nn.Parameter(table, requires_grad=False), None
        tied = _loss(network, ids)
    finally:
        head.weight, head.packed = kept
    if _better(tied, as_stored, config.vocab_size):
        yield Fault(
            "tied head left random",
            f"perplexity {_perplexity(as_stored):,.4g} with the stored output layer and "
            f"{_perplexity(tied):,.4g} with the embedding in its place",
            "The model was saved after its tied output layer had been filled with random numbers. "
            "Set tie_word_embeddings to true and remove lm_head.weight.",
        )


def _better(other: float, as_stored: float, vocab_size: int) -> bool:
    """Whether the other way makes sense of a text, and more of it: a random model makes of none."""
    if not math.isfinite(other):
        return False
    sensible = other < SENSIBLE * math.log(vocab_size)
    return sensible and (not math.isfinite(as_stored) or other < as_stored - MARGIN)


def _perplexity(loss: float) -> float:
    return math.exp(min(loss, 700.0)) if math.isfinite(loss) else math.nan


def _runnable(patient: Patient) -> tuple[Any, list[int]]:
    """The network and the ids of the text; or why not."""
    config, tokenizer = patient.need_config(), patient.need_tokenizer()
    if config.assembly != "decoder-only":
        raise NotMadeError("perplexity of a text is measured for decoder-only models")
    if shapes.parameters(config).total > MOST_PARAMETERS:
        raise NotMadeError(
            f"the model has over {MOST_PARAMETERS:,} parameters, too many to run for a check"
        )
    ids = list(tokenizer.encode(patient.text or TEXT))
    start = list(getattr(tokenizer, "start_ids", ()))
    ids = [*start, *ids][: min(MOST_TOKENS, config.context_length)]
    if len(ids) < 8 or max(ids) >= config.vocab_size:
        raise NotMadeError(
            "the text gives too few tokens of this vocabulary; give another by --text"
        )
    if patient.form == GGUF or patient.whole:
        return patient.need_network(), ids
    raise NotMadeError("the model cannot be loaded")


@torch.inference_mode()
def _loss(network: Any, ids: list[int]) -> float:
    """Mean nats per token."""
    tokens = torch.tensor(ids, device=network.device)
    return float(F.cross_entropy(network(tokens[None, :-1])[0], tokens[1:]))


_TURNS: dict[str, Callable[[int], Callable[[Tensor], Tensor]]] = {
    "taken as side by side (2i, 2i + 1)": lambda heads: (
        lambda rows: Interleaved(heads).read(rows, tuple(rows.shape))
    ),
    "taken as half a head apart (i, i + E/2)": lambda heads: (
        lambda rows: Interleaved(heads).write(rows)
    ),
}


@contextmanager
def _turned(network: Any, config: TransformerConfig, turn: Any) -> Iterator[None]:
    """The network with rows of queries and keys in another order, put back afterwards."""
    kept = []
    try:
        for layer in range(config.decoder_layers):
            attention = network.get_submodule(f"decoder.{layer}.self_attention")
            for name, heads in (("query", config.n_heads), ("key", config.kv_heads)):
                kept.append((attention, name, getattr(attention, name)))
                setattr(attention, name, _reordered(kept[-1][2], turn(heads)))
        yield
    finally:
        for attention, name, module in kept:
            setattr(attention, name, module)


def _reordered(module: Any, reorder: Callable[[Tensor], Tensor]) -> Linear:
    """A copy of a (packed) linear layer with its outputs in another order."""
    weight = module.weight.detach()
    with torch.device("meta"):
        made = Linear(weight.shape[1], weight.shape[0], bias=module.bias is not None)
    made.weight = nn.Parameter(reorder(weight).contiguous(), requires_grad=False)
    if module.bias is not None:
        made.bias = nn.Parameter(reorder(module.bias.detach()).contiguous(), requires_grad=False)
    return made
