"""Each token of a text hidden in turn: what an encoder would put there, told from both sides.

What surprise is for a model that reads from left to right, these are for an encoder; their sum is the
pseudo-log-likelihood (Salazar et al. 2020), not the probability of the text.

Shapes: n positions, T tokens, V vocab_size, k guesses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from budgerigar.errors import UserError
from budgerigar.evaluation.losses import ranks_of
from budgerigar.models.modes import without_dropout
from budgerigar.text.fill_in_tokens import need_mask

_NUMBERS_AT_ONCE = 1 << 25  # logits of a batch


@dataclass(frozen=True)
class MaskedOut:
    """positions (n); nats (n) of the token that stands there; rank (n), 1 the likeliest; top_ids and
    top_p (n,k): what would be put there.
    """

    positions: np.ndarray
    nats: np.ndarray
    rank: np.ndarray
    top_ids: np.ndarray
    top_p: np.ndarray


@torch.inference_mode()
def mask_each(
    network: Any,
    tokenizer: Any,
    ids: Sequence[int],
    positions: Sequence[int] | None = None,
    top: int = 5,
    also: Sequence[int] = (),
) -> MaskedOut:
    """Hide each of `positions` (None: all but special tokens) by itself; `also` stay hidden throughout.

    Raises:
        UserError: the model is no encoder, or its vocabulary has no [MASK].
    """
    if getattr(network.config, "assembly", None) != "encoder-only":
        raise UserError("only an encoder tells a hidden token from both sides")
    mask_id, special = need_mask(tokenizer), set(tokenizer.special_ids.values())
    given = list(ids)
    if positions is None:
        positions = [at for at, token in enumerate(given) if token not in special]
    if wrong := [at for at in positions if not 0 <= at < len(given)]:
        raise UserError(f"there is no position {wrong[0]} to mask in {len(given)} tokens")
    top = min(top, int(network.vocab_size))
    size = max(1, _NUMBERS_AT_ONCE // max(1, len(given) * int(network.vocab_size)))
    nats, ranks, best, chances = [], [], [], []
    with without_dropout(network):
        for start in range(0, len(positions), size):
            batch = torch.tensor(list(positions[start : start + size]), device=network.device)
            tokens = torch.tensor([given], device=network.device).repeat(len(batch), 1)
            tokens[:, list(also)] = mask_id
            rows = torch.arange(len(batch), device=network.device)
            tokens[rows, batch] = mask_id
            logits = network.forward(tokens)[rows, batch]  # (b,V)
            wanted = torch.tensor(given, device=network.device)[batch]
            log_p = logits.double().log_softmax(-1)
            found = log_p.topk(top)
            nats.append(-log_p.gather(1, wanted[:, None])[:, 0])
            ranks.append(ranks_of(logits, wanted))
            best.append(found.indices)
            chances.append(found.values.exp())
    return MaskedOut(
        np.asarray(positions, dtype=np.int64),
        *(_joined(parts, (0,)) for parts in (nats, ranks)),
        *(_joined(parts, (0, top)) for parts in (best, chances)),
    )


def _joined(parts: Sequence[torch.Tensor], empty: tuple[int, ...]) -> np.ndarray:
    return torch.cat(list(parts)).cpu().numpy() if parts else np.zeros(empty)
