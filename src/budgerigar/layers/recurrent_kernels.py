"""Whole sequences through a recurrent layer, with hand-written gradients, for training.

The loop over time holds only what depends on the state: one product with the hidden matrix and a few
passes over (B,H). All else (input gates, gradients of the weights) is one large product over all
steps, before or after. An attention inside the loop (Bahdanau et al. 2014) has its query in the same
product; its keys come computed, and the gradient of the values is again one product.

Shapes: B batch, T positions, S source positions, H d_hidden, G gates times H, A attention width,
C width of the context.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class Attended(NamedTuple):
    """What the attention did in each step: contexts (B,T,C) and weights (B,T,S)."""

    contexts: Tensor
    weights: Tensor


class AttentionInside(NamedTuple):
    """An additive attention whose context enters the cell: see `layers/additive_attention.py`."""

    query: Tensor  # (A,H) matrix
    score: Tensor  # (A)
    context: Tensor  # (G,C) the cell's matrix for the context
    keys: Tensor  # (B,S,A)
    values: Tensor  # (B,S,C)
    padding: Tensor | None  # (B,S) boolean: source positions that are not real


class _Gru:
    """One step and its gradient, in place where it can be. See `recurrent.gru_step`."""

    @staticmethod
    def forward(entered: Tensor, product: Tensor, bias: Tensor, before: Any) -> Any:
        wide = 2 * before[0].shape[1]
        gates = torch.sigmoid_(product[:, :wide].add_(entered[:, :wide]))
        reset, update = gates.chunk(2, dim=1)
        inner = product[:, wide:].add_(bias)
        candidate = torch.addcmul(entered[:, wide:], reset, inner).tanh_()
        hidden = torch.lerp(candidate, before[0], update)
        return (hidden, None), (gates, inner, candidate)

    @staticmethod
    def backward(
        saved: Any, before: Any, d_hidden: Tensor, d_cell: Any, out: Any, same: bool
    ) -> Any:
        gates, inner, candidate = saved
        d_entered, d_product = out
        wide = gates.shape[1]
        reset, update = gates.chunk(2, dim=1)
        d_gates = d_entered[:, :wide]
        d_reset, d_update = d_gates.chunk(2, dim=1)
        d_candidate = torch.addcmul(d_hidden, d_hidden, update, value=-1)
        d_candidate.addcmul_(d_candidate, candidate.square(), value=-1)
        d_entered[:, wide:] = d_candidate
        torch.mul(d_candidate, inner, out=d_reset)
        torch.mul(d_hidden, before[0] - candidate, out=d_update)
        d_gates.mul_(torch.addcmul(gates, gates, gates, value=-1))
        d_product[:, :wide] = d_gates
        torch.mul(d_candidate, reset, out=d_product[:, wide:])
        return d_hidden * update, None


class _Lstm:
    """See `recurrent.lstm_step`."""

    @staticmethod
    def forward(entered: Tensor, product: Tensor, bias: Any, before: Any) -> Any:
        width = before[0].shape[1]
        gates = product.add_(entered)
        torch.sigmoid_(gates[:, : 2 * width])
        gates[:, 2 * width : 3 * width].tanh_()
        gates[:, 3 * width :].sigmoid_()
        enter, forget, candidate, show = gates.chunk(4, dim=1)
        cell = torch.mul(before[1], forget).addcmul_(enter, candidate)
        squashed = torch.tanh(cell)
        return (show * squashed, cell), (gates, squashed)

    @staticmethod
    def backward(
        saved: Any, before: Any, d_hidden: Tensor, d_cell: Tensor, out: Any, same: bool
    ) -> Any:
        gates, squashed = saved
        d_entered, d_product = out
        enter, forget, candidate, show = gates.chunk(4, dim=1)
        d_enter, d_forget, d_candidate, d_show = d_entered.chunk(4, dim=1)
        d_squashed = d_hidden * show
        d_cell = d_cell + d_squashed.addcmul_(d_squashed, squashed.square(), value=-1)
        torch.mul(d_cell, candidate, out=d_enter)
        torch.mul(d_cell, before[1], out=d_forget)
        torch.mul(d_cell, enter, out=d_candidate)
        torch.mul(d_hidden, squashed, out=d_show)
        width = enter.shape[1]
        for part in (slice(0, 2 * width), slice(3 * width, None)):  # sigmoid' = s - s^2
            gate = gates[:, part]
            d_entered[:, part].mul_(torch.addcmul(gate, gate, gate, value=-1))
        d_candidate.addcmul_(d_candidate, candidate.square(), value=-1)
        if not same:
            d_product.copy_(d_entered)
        return None, d_cell * forget


CELLS: dict[str, Any] = {"gru": _Gru, "lstm": _Lstm}


def _times(x: Tensor, matrix: Tensor) -> Tensor:
    """x @ matrix in the matrix's precision (bfloat16 under autocast), the result in x's."""
    return (x.to(matrix.dtype) @ matrix).to(x.dtype)


class _Look:
    """The attention of one pass over a batch: a step, its gradient, and the sums over all steps."""

    def __init__(self, score: Tensor, keys: Tensor, values: Tensor, padding: Tensor | None) -> None:
        self.score, self.keys, self.values, self.padding = score, keys, values, padding
        blind = None if padding is None else padding.all(1, keepdim=True)
        self.blind = blind if blind is not None and bool(blind.any()) else None

    def forward(self, query: Tensor) -> tuple[Tensor, Tensor]:
        """query (B,A) -> context (B,C), weights (B,S)."""
        scores = torch.tanh_(self.keys + query[:, None]) @ self.score
        if self.padding is not None:
            scores.masked_fill_(self.padding, float("-inf"))
        weights = torch.softmax(scores, dim=1)
        if self.blind is not None:
            weights = weights.masked_fill(self.blind, 0.0)
        return torch.bmm(weights[:, None], self.values)[:, 0], weights

    def begin_backward(self) -> None:
        """Zero the sums over the steps."""
        self.d_score = torch.zeros_like(self.score)
        self.squares = torch.zeros_like(self.keys)  # sum of d_scores * tanh^2
        self.sums = self.keys.new_zeros(self.keys.shape[:2])  # sum of d_scores

    def backward(self, query: Tensor, weights: Tensor, d_context: Tensor) -> Tensor:
        """-> d_query (B,A). A softmax's gradients sum to 0, which leaves only the squares there."""
        d_weights = torch.bmm(self.values, d_context[:, :, None])[:, :, 0]
        along = (weights * d_weights).sum(1, keepdim=True)
        d_scores = weights * (d_weights - along)
        inner = torch.tanh_(self.keys + query[:, None])
        self.d_score += d_scores.flatten() @ inner.flatten(0, 1)
        squares = inner.square_()
        self.squares.addcmul_(d_scores[:, :, None], squares)
        self.sums += d_scores
        return torch.bmm(d_scores[:, None], squares)[:, 0] * -self.score

    def d_keys(self) -> Tensor:
        """The gradient of the keys: tanh' = 1 - tanh^2, summed over the steps."""
        return (self.sums[:, :, None] - self.squares).mul_(self.score)


class _Recur(Function):
    """forward: see `recur`. Everything is kept with the time in front: (T,B,...)."""

    @staticmethod
    def forward(
        ctx: Any,
        kind: str,
        low: torch.dtype,
        valid: Tensor | None,
        padding: Tensor | None,
        entered: Tensor,
        hidden: Tensor,
        cell: Tensor | None,
        matrix: Tensor,
        bias: Tensor | None,
        score: Tensor | None,
        context: Tensor | None,
        keys: Tensor | None,
        values: Tensor | None,
    ) -> Any:
        n, gates, dtype = len(entered), entered.shape[-1], hidden.dtype
        look = None if score is None else _Look(score, keys, values, padding)  # type: ignore[arg-type]
        down, into = matrix.to(low).t(), None if context is None else context.to(low).t()
        hiddens = hidden.new_empty(n + 1, *hidden.shape)
        hiddens[0] = hidden
        cells = None if cell is None else hidden.new_empty(n + 1, *hidden.shape)
        if cells is not None:
            cells[0] = cell
        saved, contexts, weights, queries = [], [], [], []
        carried = (hidden, cell)
        for t in range(n):
            product, given = _times(carried[0], down), entered[t].to(dtype)
            if look is not None:
                seen, weight = look.forward(product[:, gates:])
                given = given + _times(seen, into)  # type: ignore[arg-type]
                contexts.append(seen)
                weights.append(weight)
                queries.append(product[:, gates:])
            after, kept = CELLS[kind].forward(given, product[:, :gates], bias, carried)
            if valid is not None:
                after = tuple(
                    None if new is None else torch.where(valid[t], new, old)
                    for new, old in zip(after, carried, strict=True)
                )
            hiddens[t + 1] = after[0]
            if cells is not None:
                cells[t + 1] = after[1]
            saved.append(kept)
            carried = after
        ctx.kind, ctx.low, ctx.look, ctx.saved, ctx.queries = kind, low, look, saved, queries
        ctx.entered_dtype = entered.dtype
        seen_all = torch.stack(contexts) if contexts else None
        weights_all = torch.stack(weights) if weights else None
        ctx.save_for_backward(matrix, context, hiddens, cells, valid, seen_all, weights_all)
        out_cells = None if cells is None else cells[1:]
        ctx.mark_non_differentiable(*(t for t in (out_cells, weights_all) if t is not None))
        ctx.set_materialize_grads(False)
        last = None if carried[1] is None else carried[1].clone()
        return hiddens[1:], last, out_cells, seen_all, weights_all

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_hiddens: Any, d_last: Any, _: Any, d_seen: Any, __: Any) -> Any:
        matrix, context, hiddens, cells, valid, seen, weights = ctx.saved_tensors
        n, look, bias_too = len(hiddens) - 1, ctx.look, ctx.kind == "gru"
        gates = matrix.shape[0] if look is None else matrix.shape[0] - look.score.shape[0]
        up, out = matrix.to(ctx.low), None if context is None else context.to(ctx.low)
        d_entered = hiddens.new_empty(n, hiddens.shape[1], gates)
        same = look is None and not bias_too
        d_product = d_entered if same else hiddens.new_empty(*d_entered.shape[:2], len(matrix))
        d_contexts = None if look is None else torch.empty_like(seen)
        if look is not None:
            look.begin_backward()
        d_hidden, d_cell = torch.zeros_like(hiddens[0]), d_last
        if d_cell is None and cells is not None:
            d_cell = torch.zeros_like(hiddens[0])
        for t in range(n - 1, -1, -1):
            if d_hiddens is not None:
                d_hidden = d_hidden + d_hiddens[t]
            stays = None if valid is None else (d_hidden.masked_fill(valid[t], 0.0), d_cell)
            if valid is not None:
                d_hidden = d_hidden.masked_fill(~valid[t], 0.0)
                if d_cell is not None:
                    stays = (stays[0], d_cell.masked_fill(valid[t], 0.0))  # type: ignore[index]
                    d_cell = d_cell.masked_fill(~valid[t], 0.0)
            before = (hiddens[t], None if cells is None else cells[t])
            d_into = (d_entered[t], d_product[t][:, :gates])
            direct, d_cell = CELLS[ctx.kind].backward(
                ctx.saved[t], before, d_hidden, d_cell, d_into, same
            )
            if look is not None:
                d_context = _times(d_entered[t], out)  # type: ignore[arg-type]
                if d_seen is not None:
                    d_context += d_seen[t]
                d_contexts[t] = d_context  # type: ignore[index]
                d_product[t][:, gates:] = look.backward(ctx.queries[t], weights[t], d_context)
            d_hidden = _times(d_product[t], up)
            if direct is not None:
                d_hidden += direct
            if stays is not None:
                d_hidden += stays[0]
                d_cell = None if d_cell is None else d_cell + stays[1]
        return _Recur._sums(ctx, d_entered, d_product, d_contexts, d_hidden, d_cell)

    @staticmethod
    def _sums(
        ctx: Any, d_entered: Tensor, d_product: Tensor, d_contexts: Any, d_hidden: Any, d_cell: Any
    ) -> Any:
        """What is one product over all steps: the gradients of matrices and values."""
        matrix, context, hiddens, _, _, seen, weights = ctx.saved_tensors
        look, low, width = ctx.look, ctx.low, hiddens.shape[2]

        def outer(left: Tensor, right: Tensor) -> Tensor:
            total: Tensor = left.flatten(0, 1).to(low).t() @ right.flatten(0, 1).to(low)
            return total.to(matrix.dtype)

        d_matrix = outer(d_product, hiddens[:-1])
        d_bias = d_product[..., 2 * width : 3 * width].sum((0, 1)) if ctx.kind == "gru" else None
        d_attention: tuple[Any, ...] = (None, None, None, None)
        if look is not None:
            d_values = torch.bmm(weights.permute(1, 2, 0), d_contexts.transpose(0, 1))
            d_attention = (look.d_score, outer(d_entered, seen), look.d_keys(), d_values)
        d_given = d_entered.to(ctx.entered_dtype)
        return (None,) * 4 + (d_given, d_hidden, d_cell, d_matrix, d_bias, *d_attention)


def recur(
    kind: str,
    entered: Tensor,
    hidden: Tensor,
    cell: Tensor | None,
    matrix: Tensor,
    bias: Tensor,
    valid: Tensor | None = None,
    inside: AttentionInside | None = None,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None, Attended | None]:
    """Run cells over T steps: entered (T,B,G) = W x + b of all steps, matrix (G,H) and bias (G) of U.

    hidden, cell (B,H): where it starts. valid (T,B,1): at other places the state stays as it is.
    -> hidden states (T,B,H), last hidden and cell (B,H), all cells (T,B,H; to look at, without a
    gradient), and with an attention `inside` its contexts (T,B,C) and weights (T,B,S).
    """
    gates, width = entered.shape[-1], hidden.shape[1]
    inner = None
    if kind == "gru":  # only the candidate's is inside a product: see `recurrent.gru_step`
        inner = bias[2 * width :]
        bias = torch.cat([bias[: 2 * width], torch.zeros_like(inner)])
    entered = entered + bias.to(entered.dtype)
    cpu_autocast = entered.device.type == "cpu" and torch.is_autocast_enabled("cpu")
    low = torch.get_autocast_dtype("cpu") if cpu_autocast else hidden.dtype
    attention: tuple[Any, ...] = (None, None, None, None)
    padding = None
    if inside is not None:
        matrix = torch.cat([matrix, inside.query])
        attention = (inside.score, inside.context, inside.keys, inside.values)
        padding = inside.padding
    assert matrix.shape == (gates + (0 if inside is None else len(inside.query)), width)
    with torch.autocast("cpu", enabled=False):
        hiddens, last, cells, seen, weights = _Recur.apply(
            kind, low, valid, padding, entered, hidden, cell, matrix, inner, *attention
        )
    attended = None if seen is None else Attended(seen, weights)
    return hiddens, hiddens[-1], last, cells, attended
