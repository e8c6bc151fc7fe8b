"""The same measures for every model of a comparison.

Bits per byte windowed (state reset at each window) and streaming, with a standard error over
windows; by how much the model may see; generation; what is carried from step to step.
"""

from __future__ import annotations

import dataclasses
import math
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from budgerigar import progress
from budgerigar.evaluation import evaluate
from budgerigar.evaluation.losses import LossBlock
from budgerigar.generation.options import SamplingOptions
from budgerigar.generation.streaming import generate_texts
from budgerigar.models.modes import without_dropout
from budgerigar.models.ngram_counts import usable_context

SAMPLE_TOKENS = 200


@dataclass(frozen=True)
class Result:
    """One model of a comparison. Standard errors are over windows, of the same unit."""

    name: str
    about: str
    """its size in words"""
    parameters: int
    """weights; of an n-gram the n-grams that it keeps"""
    training_seconds: float
    """without evaluating and saving; of the n-gram all orders that were tried"""
    tokens_read: int
    tokens_per_second: float
    nats_per_token: float
    bits_per_byte: float
    standard_error: float | None
    streaming_bits_per_byte: float
    streaming_standard_error: float | None
    generation_tokens_per_second: float
    carried_bytes: int
    """from step to step for one text, after `context_length` tokens"""
    curve: tuple[tuple[float, float], ...]
    """(seconds of training, bits per byte on the beginning of the validation split)"""
    by_context: tuple[float | None, ...]
    """bits per byte of the tokens before which 1, 2-3, 4-7, … can be seen"""
    sample: str
    window_nats: tuple[float, ...] = field(repr=False, default=())
    """the windowed score, window by window: two models are compared window by window"""
    steps: int = 0
    total_steps: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Result:
        """The reverse of `as_dict`, from JSON."""
        known = {f.name for f in dataclasses.fields(cls)}
        kept = {name: value for name, value in values.items() if name in known}
        kept["curve"] = tuple((float(a), float(b)) for a, b in kept["curve"])
        kept["by_context"] = tuple(kept["by_context"])
        kept["window_nats"] = tuple(kept["window_nats"])
        return cls(**kept)


def scores(network: Any, corpus: Any, window: int) -> dict[str, Any]:
    """The fields of a `Result` about the validation split."""
    held_out = corpus.validation
    blocks: list[LossBlock] = []
    found = evaluate(network, held_out, context_length=window, watch=blocks.append)
    progress.note(
        f"  windowed {found.bits_per_byte:.4f} bits per byte; now with its state carried through"
    )
    carried = evaluate(network, held_out, context_length=window, streaming=True)
    nats = np.concatenate([block.nats for block in blocks])
    per_byte = found.n_tokens / max(found.n_bytes, 1) / math.log(2)

    def in_bits(error: float | None) -> float | None:
        return None if error is None else error * per_byte

    edges = np.arange(0, len(nats), window)
    return {
        "nats_per_token": found.nats_per_token,
        "bits_per_byte": found.bits_per_byte,
        "standard_error": in_bits(found.standard_error),
        "streaming_bits_per_byte": carried.bits_per_byte,
        "streaming_standard_error": in_bits(carried.standard_error),
        "by_context": by_context(nats * per_byte, held_out, window),
        "window_nats": tuple(np.add.reduceat(nats, edges).tolist()),
    }


def by_context(bits: np.ndarray[Any, Any], store: Any, window: int) -> tuple[float | None, ...]:
    """Mean of `bits` (one per target) where 1, 2-3, 4-7, … tokens can be seen; None: nowhere."""
    tokens = np.asarray(store.tokens, dtype=np.int64)
    places = np.arange(1, len(tokens))
    seen = np.minimum(usable_context(tokens, store.end_id)[1:-1], (places - 1) % window + 1)
    groups = n_groups(window)
    which = np.minimum(np.log2(np.maximum(seen, 1)).astype(int), groups - 1)
    return tuple(
        float(bits[which == n].mean()) if (which == n).any() else None for n in range(groups)
    )


def n_groups(window: int) -> int:
    """1, 2-3, 4-7, …: the last group is not only the last token of a window."""
    return int(math.log2(max(window - 1, 1))) + 1


def context_labels(window: int) -> list[str]:
    """Names of `by_context`'s groups."""
    starts = [2**n for n in range(n_groups(window))]
    ends = [2 * start - 1 for start in starts[:-1]] + [window]
    return [str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True)]


def writes(network: Any, corpus: Any, seed: int, n_tokens: int = SAMPLE_TOKENS) -> dict[str, Any]:
    """A sample, and how fast it was written: one text, one token at a time."""
    options = SamplingOptions(max_new_tokens=n_tokens, seed=seed)
    starts = corpus.train.end_id is not None

    def run(settings: SamplingOptions) -> Any:
        return generate_texts(network, corpus.tokenizer, [""], settings, starts_documents=starts)[0]

    run(dataclasses.replace(options, max_new_tokens=2))  # tables that the first use builds
    before = time.perf_counter()
    written = run(options)
    seconds = max(time.perf_counter() - before, 1e-9)
    return {
        "sample": written.text,
        "generation_tokens_per_second": max(len(written.tokens), 1) / seconds,
    }


def carried_bytes(network: Any, corpus: Any, window: int) -> int:
    """What one text's state holds after `window` tokens."""
    limit = network.context_length or window
    tokens = np.asarray(corpus.validation.tokens[: min(window, limit)], dtype=np.int64)
    with without_dropout(network), torch.no_grad():
        rows = torch.from_numpy(tokens)[None].to(network.device)
        _, state = network.step(rows, network.start(1))
    return int(state.nbytes)
