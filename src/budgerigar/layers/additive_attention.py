"""Additive attention (Bahdanau, Cho & Bengio 2014): the first attention, inside a recurrent decoder.

The query is the decoder's state before it reads the next word, the keys and values are the encoder's
annotations; a small network says how well they fit, where the Transformer takes a dot product.

Shapes: B batch, T target positions, S source positions, H d_hidden, A d_attention, C width of an
annotation. To the viewer this is one head: (B,1,T,S).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from budgerigar.layers.attention import AttentionSteps
from budgerigar.layers.linear import Linear
from budgerigar.layers.recurrent_kernels import Look
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


@dataclass(frozen=True)
class Source:
    """What the decoder knows of the source. Several rows may share one: `rows` says which is whose.

    keys (N,S,A), values (N,S,C), padding (N,S) boolean: of an attention, N sources. context (N,C):
    the encoder's last state, where it enters every step. rows (B,): None where row b has source b.
    """

    lengths: Tensor | None = None
    keys: Tensor | None = None
    values: Tensor | None = None
    padding: Tensor | None = None
    context: Tensor | None = None
    rows: Tensor | None = None

    def select(self, rows: Tensor) -> Source:
        """For some rows of the batch; copied only once an eighth of the sources is not needed."""
        rows = rows if self.rows is None else self.rows[rows]
        some = next((p for p in (self.keys, self.context) if p is not None), None)
        if some is None:
            return replace(self, rows=rows)
        kept, renumbered = rows.unique(return_inverse=True)
        if len(kept) > 7 / 8 * len(some):
            return replace(self, rows=rows)
        return replace(replace(self, rows=kept).spread(), rows=renumbered)

    def spread(self) -> Source:
        """The same with a source per row, copied where rows share one."""
        if self.rows is None:
            return self
        parts = {
            name: None if part is None else part[self.rows]
            for name, part in vars(self).items()
            if name != "rows"
        }
        return Source(**parts)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(t.nbytes for t in (self.keys, self.values, self.context) if t is not None)


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

    def seen(self, source: Source, taps: Taps | None) -> Source:
        """`source` as it is seen or replaced from outside: keys (B,1,S,A), values (B,1,S,C)."""
        if taps is None:
            return source
        each = source.spread()
        assert each.keys is not None
        assert each.values is not None
        keys = taps(f"{self.name}.key", each.keys[:, None])[:, 0]
        values = taps(f"{self.name}.value", each.values[:, None])[:, 0]
        changed = taps.replaces(f"{self.name}.key") or taps.replaces(f"{self.name}.value")
        return replace(each, keys=keys, values=values) if changed else source

    def forward(self, hidden: Tensor, source: Source, taps: Taps | None = None) -> Tensor:
        """One step: the state (B,H) before it -> the context (B,C)."""
        assert source.keys is not None
        assert source.values is not None
        query = self.query(hidden).to(source.keys.dtype)
        if self.replaced(taps):
            each = source.spread()
            assert each.keys is not None
            assert each.values is not None
            query = tap(taps, f"{self.name}.query", query[:, None, None])
            visible = None if each.padding is None else ~each.padding[:, None, None]
            steps = self._steps(query, each.keys[:, None], each.values[:, None], visible, taps)
            return self.given(steps.head_output, taps)[:, 0, 0]
        context = self._together(query, source)
        if taps is not None:
            self.look(hidden[:, None], source, context[:, None], taps)
        return context

    def _together(self, query: Tensor, source: Source) -> Tensor:
        """Contexts (B,C) of queries (B,A): rows that share a source are multiplied with it at once."""
        assert source.keys is not None
        assert source.values is not None
        score = self.score.to(query.dtype)
        look = Look(score, source.keys, source.values, source.padding)
        rows = source.rows
        if rows is None:
            return look.forward(query[:, None])[0][:, 0]
        # place: the how-manieth row of its source each one is
        n = torch.bincount(rows, minlength=len(source.keys))
        order = rows.argsort(stable=True)
        place = torch.empty_like(rows)
        place[order] = torch.arange(len(rows), device=rows.device) - (n.cumsum(0) - n)[rows[order]]
        queries = query.new_zeros(len(n), int(n.max()) if len(rows) else 0, query.shape[1])
        queries[rows, place] = query
        return look.forward(queries)[0][rows, place]

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

    def look(self, before: Tensor, source: Source, contexts: Tensor, taps: Taps) -> None:
        """Record what was done: states `before` each step (B,T,H), contexts (B,T,C)."""
        self.given(contexts[:, None], taps)
        with torch.no_grad():
            each = source.spread()
            assert each.keys is not None
            assert each.values is not None
            query = self.query(before).to(each.keys.dtype)[:, None]
            query = tap(taps, f"{self.name}.query", query)
            if taps.wants(f"{self.name}.scores") or taps.wants(f"{self.name}.weights"):
                visible = None if each.padding is None else ~each.padding[:, None, None]
                self._steps(query, each.keys[:, None], each.values[:, None], visible, taps)
