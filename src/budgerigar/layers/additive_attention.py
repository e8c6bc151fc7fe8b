"""Additive attention (Bahdanau, Cho & Bengio 2014): the first attention, inside a recurrent decoder.

The query is the decoder's state before it reads the next word, the keys and values are the encoder's
annotations; a small network says how well they fit, where the Transformer takes a dot product.

Shapes: B batch, T target positions, S source positions, H d_hidden, A d_attention, C width of an
annotation. To the viewer this is one head: (B,1,T,S).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from budgerigar.layers.attention import AttentionSteps
from budgerigar.layers.linear import Linear
from budgerigar.layers.taps import Taps, tap
from budgerigar.layers.visibility import View


def additive_attention(
    queries: Tensor, keys: Tensor, values: Tensor, score: Tensor, visible: Tensor
) -> Tensor:
    """sum_j a_ij h_j with a_i = softmax_j(v . tanh(W s_(i-1) + U h_j)): A.1.2, equations 5 and 6.

    queries W s (..., T, A), keys U h (..., S, A), values h (..., S, C), score v (A), visible
    (..., T, S) boolean -> (..., T, C).
    """
    together = torch.tanh(queries[..., :, None, :] + keys[..., None, :, :])  # (..., T, S, A)
    scores = together @ score  # how well source word j fits what is to be written at i
    masked = scores.masked_fill(~visible, float("-inf"))  # a weight of exactly 0
    weights = torch.softmax(masked, dim=-1)  # each row sums to 1
    return weights @ values  # the expected annotation


class AdditiveAttention(nn.Module):
    """`query` (A,H) without a bias, `key` (A,C) with the one bias of the sum, `score` (A)."""

    # what the viewer asks of every attention
    cross, n_heads, n_kv_heads, window, sink_tokens = True, 1, 1, None, 0

    def __init__(self, name: str, d_hidden: int, d_annotation: int, d_attention: int) -> None:
        super().__init__()
        self.name, self.d_head = name, d_annotation
        self.query = Linear(d_hidden, d_attention, bias=False)
        self.key = Linear(d_annotation, d_attention)
        self.score = nn.Parameter(torch.zeros(d_attention))

    def memory(self, annotations: Tensor) -> tuple[Tensor, Tensor]:
        """Keys (B,S,A) and values (B,S,C), computed once per source, in full precision."""
        full = torch.float64 if annotations.dtype == torch.float64 else torch.float32
        return self.key(annotations).to(full), annotations.to(full)

    def tapped(self, keys: Tensor, values: Tensor, taps: Taps | None) -> tuple[Tensor, Tensor]:
        """`memory` as it is seen or replaced from outside: (B,1,S,A), (B,1,S,C)."""
        keys = tap(taps, f"{self.name}.key", keys[:, None])[:, 0]
        return keys, tap(taps, f"{self.name}.value", values[:, None])[:, 0]

    def forward(
        self,
        hidden: Tensor,
        keys: Tensor,
        values: Tensor,
        padding: Tensor | None,
        taps: Taps | None = None,
    ) -> Tensor:
        """One step: the state (B,H) before it -> the context (B,C). padding (B,S) boolean."""
        query = tap(taps, f"{self.name}.query", self.query(hidden).to(keys.dtype)[:, None, None])
        visible = None if padding is None else ~padding[:, None, None]
        steps = self._steps(query, keys[:, None], values[:, None], visible, taps)
        return self.given(steps.head_output, taps)[:, 0, 0]

    def given(self, head_output: Tensor, taps: Taps | None) -> Tensor:
        """The context (B,1,T,C) under both its names: one head, so no projection joins several."""
        head_output = tap(taps, f"{self.name}.head_output", head_output)
        return tap(taps, f"{self.name}.output", head_output[:, 0])[:, None]

    def steps_from_taps(
        self, query: Tensor, key: Tensor, value: Tensor, view: View, bias: Tensor | None = None
    ) -> AttentionSteps:
        """Recompute every step from the tensors that the model used (taps query, key, value)."""
        return self._steps(query, key, value, view.visible()[:, None])

    def _steps(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        visible: Tensor | None,
        taps: Taps | None = None,
    ) -> AttentionSteps:
        """query (B,1,T,A), key (B,1,S,A), value (B,1,S,C), visible (B|1,1,T|1,S)."""
        together = torch.tanh(query[:, :, :, None] + key[:, :, None])
        scores = tap(taps, f"{self.name}.scores", together @ self.score.to(key.dtype))
        masked = scores if visible is None else scores.masked_fill(~visible, float("-inf"))
        blind = (masked == float("-inf")).all(-1, keepdim=True)
        weights = torch.softmax(masked.masked_fill(blind, 0.0), dim=-1).masked_fill(blind, 0.0)
        weights = tap(taps, f"{self.name}.weights", weights)
        return AttentionSteps(scores, scores, scores, scores, masked, weights, weights @ value)

    def replaced(self, taps: Taps | None) -> bool:
        """Whether something that happens inside the loop over time is changed from outside."""
        parts = ("query", "scores", "weights", "head_output", "output")
        return taps is not None and any(taps.replaces(f"{self.name}.{part}") for part in parts)

    def look(
        self,
        before: Tensor,
        keys: Tensor,
        values: Tensor,
        padding: Tensor | None,
        contexts: Tensor,
        taps: Taps,
    ) -> None:
        """Record what a whole sequence did: states `before` each step (B,T,H), contexts (B,T,C)."""
        self.given(contexts[:, None], taps)
        with torch.no_grad():
            query = tap(taps, f"{self.name}.query", self.query(before).to(keys.dtype)[:, None])
            if taps.wants(f"{self.name}.scores") or taps.wants(f"{self.name}.weights"):
                visible = None if padding is None else ~padding[:, None, None]
                self._steps(query, keys[:, None], values[:, None], visible, taps)
