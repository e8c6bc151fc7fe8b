"""What is asked of the generation loop, checked and made into tensors.

Shapes: B batch, T positions, V vocab_size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.generation.overflow import check_sinks, refuse_overflow
from budgerigar.generation.sampling import SamplingOptions
from budgerigar.models.base import check_ids

Watch = Callable[[int, int], bool]
"""Called with (request, token) after each token; True ends that request (a stop text)."""


def check_requests(
    network: Any,
    prompts: Sequence[Sequence[int]],
    options: SamplingOptions,
    end_ids: Sequence[int],
    cached: bool,
    watch: Watch | None,
) -> None:
    """Refuse what cannot be run, before anything runs."""
    if options.stops and watch is None:
        raise UserError("stop texts are matched on text: use stream_text or generate_texts")
    for i, prompt in enumerate(prompts):
        if not prompt:
            raise UserError(f"prompt {i} has no tokens: give at least one to start from")
        check_ids((*prompt, *end_ids), network.vocab_size)
        context = network.context_length
        if options.on_overflow == "error" and context is not None and len(prompt) > context:
            raise refuse_overflow(len(prompt), context, 0)
    if options.on_overflow == "sinks":
        check_sinks(network, cached)


def check_counts(
    network: Any, n: int, samples: list[int], sources: Sequence[Sequence[int]] | None
) -> None:
    """Refuse other than one sample number and one source, of ids that exist, for each prompt."""
    for name, given in (("samples", samples), ("sources", sources)):
        if given is not None and len(given) != n:
            raise UserError(f"{len(given)} {name} for {n} prompts: give one for each")
    known = getattr(network.config, "source_vocab_size", None) or network.vocab_size
    for i, source in enumerate(sources or ()):
        check_ids(source, known, f"source {i}")


def forbidden_mask(network: Any, forbidden: np.ndarray | Tensor | None) -> Tensor | None:
    """The mask (V,) on the model's device; shorter ones are for a vocabulary padded beyond it."""
    if forbidden is None:
        return None
    mask = torch.ones(network.vocab_size, dtype=torch.bool)
    given = torch.as_tensor(forbidden, dtype=torch.bool)[: network.vocab_size]
    mask[: len(given)] = given
    if bool(mask.all()):
        raise UserError("every token is forbidden: this model has nothing it may generate")
    return mask.to(network.device)


def pad(lines: Sequence[Sequence[int]], device: Any) -> tuple[Tensor, Tensor | None]:
    """Ids (B, T) padded on the right with 0, and lengths (B,); None where nothing is padded."""
    lengths = [len(line) for line in lines]
    longest = max(lengths)
    padded = [[*line, *[0] * (longest - len(line))] for line in lines]
    tokens = torch.tensor(padded, dtype=torch.int64).to(device)
    if min(lengths) == longest:
        return tokens, None
    return tokens, torch.tensor(lengths, dtype=torch.int64).to(device)
