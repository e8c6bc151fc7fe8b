"""The residual stream that ends in the logits: which stack it runs through, and from vectors to words.

A Transformer's layers read from and write to one vector per position (Elhage et al. 2021, "A
Mathematical Framework for Transformer Circuits"). Lens, attribution and block look at it.

Shapes: T positions, D d_model, W width of the output matrix (d_model, or the embedding's own), V
vocab_size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.inspection.labels import Spelling
from budgerigar.layers.config import TransformerConfig
from budgerigar.layers.packed_linear import PackedEmbedding

if TYPE_CHECKING:
    from budgerigar.inspection.traces import Trace


@dataclass(frozen=True)
class Stream:
    """One stack of a Transformer. name: "decoder" or "encoder"; ends: whether its end makes logits."""

    name: str
    stack: Any
    network: Any
    ends: bool

    @property
    def depth(self) -> int:
        """Layers."""
        return int(self.stack.depth)

    def block(self, layer: int) -> Any:
        """Layer number `layer`. `UserError` when there is none."""
        if not 0 <= layer < self.depth:
            raise UserError(
                f"there is no layer {layer}: the {self.name} has layers 0 to {self.depth - 1}"
            )
        return list(self.stack.blocks())[layer]


def stream_of(trace: Trace, of: str | None = None) -> Stream:
    """The stack `of`, or the one whose end makes the logits.

    `UserError` for a model that is no Transformer, and for weights that changed since the trace.
    """
    network = trace.network
    main = "decoder" if getattr(network, "decoder", None) is not None else "encoder"
    name = of or main
    stack = getattr(network, name, None) if name in ("decoder", "encoder") else None
    if not isinstance(network.config, TransformerConfig):
        kind = type(getattr(network, "network", network)).__name__
        raise UserError(
            f"this model ({kind}) has no residual stream: only a Transformer's layers add to one vector"
        )
    if stack is None:
        raise UserError(f"this model has no {name!r}; it has a {main}")
    trace.check_unchanged()
    ends = name == main and getattr(network, "head", None) is not None
    return Stream(name, stack, network, ends)


def ending_stream(trace: Trace) -> Stream:
    """The stack that makes the logits; `UserError` where no output layer over the tokens follows."""
    stream = stream_of(trace)
    if not stream.ends:
        raise UserError(
            "this model has no output layer over its tokens, so no word can be read from its vectors"
        )
    return stream


def position_of(trace: Trace, position: int) -> int:
    """`position`, counted from the end where negative. `UserError` when there is none."""
    n = len(trace)
    if not -n <= position < n:
        raise UserError(f"there is no position {position}: the text has positions 0 to {n - 1}")
    return position % n


def row_spelling(trace: Trace) -> Spelling:
    """What names the T rows of logits: the tokens being predicted of a translation, else those read."""
    found: Spelling = getattr(trace, "predicted", trace.spelling)
    return found


def row_labels(trace: Trace) -> list[str]:
    """T names of the rows of logits."""
    return list(row_spelling(trace).labels)


def rows_are_about_next(trace: Trace) -> bool:
    """Whether a row of logits is about the token after the one that names it: of models that continue
    a text. A translation's rows are named by what they predict, an encoder's fill in their own place.
    """
    return getattr(trace.network.config, "assembly", None) == "decoder-only"


def one_token(tokenizer: Any, text: str) -> int:
    """The id of a text that is one token, with or without a blank before it; else `UserError`."""
    for written in (f" {text}", text):
        ids = list(tokenizer.encode(written))
        if len(ids) == 1:
            return int(ids[0])
    raise UserError(
        f"{text!r} is {len(tokenizer.encode(text))} tokens to this model; name one token, or its id"
    )


def read_out(stream: Stream, vectors: Tensor) -> Tensor:
    """Logits (1,T,V) of the stream's vectors (1,T,D): the final norm, once, and the output layer.

    A post-norm stack has no final norm: its vectors are normalised already and are taken as they are.
    These are the model's own modules, so that the last layer's vectors give the model's own logits.
    """
    network, norm = stream.network, stream.stack.final_norm
    with torch.no_grad():
        x = vectors if norm is None else norm(vectors)
        logits: Tensor = network.head(x, network.embedding)
    return logits


def divergence(own: Tensor, other: Tensor) -> np.ndarray:
    """KL(own || other) of the softmax of each row, in nats: logits (T,V) twice -> (T,) float64.

    Some rows at a time: (T,V) in float64 may not fit.
    """
    found = []
    for a, b in zip(own.split(rows_at_once(own)), other.split(rows_at_once(own)), strict=True):
        first, second = (torch.log_softmax(part.double(), dim=-1) for part in (a, b))
        apart = torch.nan_to_num(first.exp() * (first - second)).sum(dim=-1)
        found.append(apart.clamp(min=0).cpu().numpy())
    return np.concatenate(found)


def rows_at_once(logits: Tensor) -> int:
    """How many rows of (T,V) to turn into float64 together: 32 MB of them."""
    return max(1, 2**22 // logits.shape[-1])


def output_matrix(network: Any, tokens: list[int]) -> np.ndarray:
    """Rows of the output matrix as they multiply, float64 (k,W) of k tokens.

    Tied or not, quantised or not; without the bias, times the head's scale.
    """
    head, table = network.head, network.embedding.tokens
    packed = table.matrix if head.tied and isinstance(table, PackedEmbedding) else head.packed
    ids = torch.tensor(tokens, device=network.device)
    with torch.no_grad():
        if packed is not None:
            rows = packed.row(ids)
        else:
            rows = (table.weight if head.weight is None else head.weight)[ids]
        return double(rows) * float(head.scale)


def double(tensor: Tensor) -> np.ndarray:
    """A float64 array of a tensor on any device."""
    return np.asarray(tensor.detach().cpu().double().numpy())
