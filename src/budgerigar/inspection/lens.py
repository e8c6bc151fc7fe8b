"""The logit lens (nostalgebraist 2020): what the model would say if it stopped after each layer.

p_l = softmax(W_U norm_f(h_l)), h_l the residual stream after layer l. The final norm is applied
exactly once, with its scale and shift, to vectors that have not passed it yet; a post-norm model has
no final norm, its vectors are normalised already and are taken as they are. The last row is the
model's own prediction, to the last bit.

Shapes: L layers, T positions, V vocab_size, k words shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.evaluation.losses import ranks_of
from budgerigar.inspection.stream import (
    Stream,
    divergence,
    ending_stream,
    read_out,
    row_labels,
    rows_at_once,
)

if TYPE_CHECKING:
    from budgerigar.inspection.traces import Trace


@dataclass(frozen=True)
class Lens:
    """L + 1 rows of the stream ("embedding", "L0", …), at each of the T positions.

    labels: T names of the positions (a translation's: of the token being predicted there)
    top (L+1,T,k): the likeliest tokens' ids; chances (L+1,T,k): their probabilities
    final (T,): the model's own choice, the likeliest at the last layer
    final_chance, final_rank (L+1,T): its probability and rank (1 = the likeliest) at each layer
    divergence (L+1,T): KL(final || layer) in nats, 0 in the last row
    difference: the largest of the last row's logits to the model's own: 0
    """

    rows: tuple[str, ...]
    labels: tuple[str, ...]
    top: np.ndarray
    chances: np.ndarray
    final: np.ndarray
    final_chance: np.ndarray
    final_rank: np.ndarray
    divergence: np.ndarray
    difference: float

    def settled(self) -> np.ndarray:
        """(T,): the first row from which on the likeliest token is the final one."""
        agrees = self.top[..., 0] == self.final  # (L+1,T)
        stays = np.flip(np.cumprod(np.flip(agrees, axis=0), axis=0), axis=0).astype(bool)
        return np.asarray(stays.argmax(axis=0))


def lens_logits(trace: Trace, row: int) -> Tensor:
    """Logits (T,V) read from row `row` of the stream: 0 the embedding, l + 1 after layer l."""
    stream = ending_stream(trace)
    if not 0 <= row <= stream.depth:
        raise UserError(f"there is no row {row}: the lens has rows 0 (embedding) to {stream.depth}")
    return read_out(stream, _stream_at(trace, stream, row))[0]


def logit_lens(trace: Trace, top: int = 5) -> Lens:
    """Every layer's vectors read as predictions; the `top` likeliest tokens of each.

    `UserError` for a model without a residual stream or without logits over tokens.
    """
    if top < 1:
        raise UserError(f"top = {top}: show at least one token")
    stream = ending_stream(trace)
    last = lens_logits(trace, stream.depth)
    final = last.argmax(dim=-1)
    rows = [_read(lens_logits(trace, row), last, final, top) for row in range(stream.depth)]
    rows.append(_read(last, last, final, top))
    ids, chances, chance, ranks, apart = (np.stack(c) for c in zip(*rows, strict=True))
    return Lens(
        rows=("embedding", *(f"L{layer}" for layer in range(stream.depth))),
        labels=tuple(row_labels(trace)),
        top=ids,
        chances=chances,
        final=final.cpu().numpy(),
        final_chance=chance,
        final_rank=ranks,
        divergence=apart,
        difference=float((last - trace.logits).abs().max()),
    )


def _read(logits: Tensor, last: Tensor, final: Tensor, top: int) -> tuple[np.ndarray, ...]:
    """One row of the lens: ids and chances (T,k), the final token's chance, rank and KL (T,)."""
    ids, chances, chance = [], [], []
    step = rows_at_once(logits)
    for part, wanted in zip(logits.split(step), final.split(step), strict=True):
        row = torch.softmax(part.double(), dim=-1)
        best = row.topk(min(top, row.shape[-1]), dim=-1)
        ids.append(best.indices)
        chances.append(best.values)
        chance.append(row.gather(-1, wanted[:, None])[:, 0])
    found = [torch.cat(parts).cpu().numpy() for parts in (ids, chances, chance)]
    return (*found, ranks_of(logits, final).cpu().numpy(), divergence(last, logits))


def _stream_at(trace: Trace, stream: Stream, row: int) -> Tensor:
    """(1,T,D): the vectors between two layers."""
    name = f"{stream.name}.{row - 1}.residual_after" if row else f"{stream.name}.0.residual_before"
    return trace.tensor(name)
