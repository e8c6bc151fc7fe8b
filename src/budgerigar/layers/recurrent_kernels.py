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


class _Elman:
    """One step and its gradient. See `recurrent.elman_step`."""

    @staticmethod
    def forward(
        entered: Tensor, product: Tensor, bias: None, before: Tensor, after: Tensor
    ) -> tuple[Tensor, ...]:
        """Writes the state (1,B,H) into `after`; returns what the gradient needs."""
        return (after[0].copy_(_tanh_(product.add_(entered))),)

    @staticmethod
    def backward(
        saved: tuple[Tensor, ...], before: Tensor, d_after: Tensor, d_entered: Tensor,
        d_product: Tensor,
    ) -> Tensor:  # fmt: skip
        """Fills the gradients of both inputs (B,H); returns that of `before` but for the product's."""
        (hidden,) = saved
        torch.mul(d_after[0], 1 - hidden.square(), out=d_entered)
        if d_product.data_ptr() != d_entered.data_ptr():
            d_product.copy_(d_entered)
        return torch.zeros_like(d_after)


class _Gru:
    """One step and its gradient, in place where it can be. See `recurrent.gru_step`."""

    @staticmethod
    def forward(
        entered: Tensor, product: Tensor, bias: Tensor, before: Tensor, after: Tensor
    ) -> tuple[Tensor, ...]:
        """Writes the state (1,B,H) into `after`; returns what the gradient needs."""
        wide = 2 * before.shape[2]
        gates = torch.sigmoid_(product[:, :wide].add_(entered[:, :wide]))
        reset, update = gates.chunk(2, dim=1)
        inner = product[:, wide:].add_(bias)
        candidate = _tanh_(torch.addcmul(entered[:, wide:], reset, inner))
        torch.lerp(candidate, before[0], update, out=after[0])
        return gates, inner, candidate

    @staticmethod
    def backward(
        saved: tuple[Tensor, ...], before: Tensor, d_after: Tensor, d_entered: Tensor,
        d_product: Tensor,
    ) -> Tensor:  # fmt: skip
        """Fills the gradients of both inputs (B,G); returns that of `before` but for the product's."""
        gates, inner, candidate = saved
        wide = gates.shape[1]
        reset, update = gates.chunk(2, dim=1)
        d_gates = d_entered[:, :wide]
        d_reset, d_update = d_gates.chunk(2, dim=1)
        d_candidate = torch.addcmul(d_after[0], d_after[0], update, value=-1)
        d_candidate.addcmul_(d_candidate, candidate.square(), value=-1)
        d_entered[:, wide:] = d_candidate
        torch.mul(d_candidate, inner, out=d_reset)
        torch.mul(d_after[0], before[0] - candidate, out=d_update)
        d_gates.mul_(torch.addcmul(gates, gates, gates, value=-1))  # sigmoid' = s - s^2
        d_product[:, :wide] = d_gates
        torch.mul(d_candidate, reset, out=d_product[:, wide:])
        return d_after * update


class _Lstm:
    """As `_Gru`, with states (2,B,H): hidden and cell. See `recurrent.lstm_step`."""

    @staticmethod
    def forward(
        entered: Tensor, product: Tensor, bias: None, before: Tensor, after: Tensor
    ) -> tuple[Tensor, ...]:
        width = before.shape[2]
        gates = product.add_(entered)
        torch.sigmoid_(gates[:, : 2 * width])
        _tanh_(gates[:, 2 * width : 3 * width])
        torch.sigmoid_(gates[:, 3 * width :])
        enter, forget, candidate, show = gates.chunk(4, dim=1)
        torch.mul(before[1], forget, out=after[1]).addcmul_(enter, candidate)
        squashed = _tanh_(after[1].clone())
        torch.mul(show, squashed, out=after[0])
        return gates, squashed

    @staticmethod
    def backward(
        saved: tuple[Tensor, ...], before: Tensor, d_after: Tensor, d_entered: Tensor,
        d_product: Tensor,
    ) -> Tensor:  # fmt: skip
        gates, squashed = saved
        enter, forget, candidate, show = gates.chunk(4, dim=1)
        d_enter, d_forget, d_candidate, d_show = d_entered.chunk(4, dim=1)
        d_squashed = d_after[0] * show
        d_cell = d_after[1] + d_squashed.addcmul_(d_squashed, squashed.square(), value=-1)
        torch.mul(d_cell, candidate, out=d_enter)
        torch.mul(d_cell, before[1], out=d_forget)
        torch.mul(d_cell, enter, out=d_candidate)
        torch.mul(d_after[0], squashed, out=d_show)
        width = enter.shape[1]
        for part in (slice(0, 2 * width), slice(3 * width, None)):
            gate = gates[:, part]
            d_entered[:, part].mul_(torch.addcmul(gate, gate, gate, value=-1))
        d_candidate.addcmul_(d_candidate, candidate.square(), value=-1)
        if d_product.data_ptr() != d_entered.data_ptr():
            d_product.copy_(d_entered)
        d_before = torch.empty_like(d_after)
        d_before[0] = 0.0
        torch.mul(d_cell, forget, out=d_before[1])
        return d_before


def _tanh_(x: Tensor) -> Tensor:
    """tanh in place, as 2 sigmoid(2 x) - 1: with torch on a CPU a fifth of the time of its tanh."""
    return x.mul_(2).sigmoid_().mul_(2).sub_(1)


CELLS: dict[str, Any] = {"elman": _Elman, "gru": _Gru, "lstm": _Lstm}


def _times(x: Tensor, matrix: Tensor) -> Tensor:
    """x @ matrix in the matrix's precision (bfloat16 under autocast), the result in x's."""
    return (x.to(matrix.dtype) @ matrix).to(x.dtype)


class Look:
    """The attention of one pass over a batch: a step, its gradient, and the sums over all steps.

    tanh(x) = 2 s - 1 with s = sigmoid(2 x), and a softmax does not see the constant; so the scores
    are s times 2 score, and the slope of tanh is 4 (s - s^2).
    """

    def __init__(self, score: Tensor, keys: Tensor, values: Tensor, padding: Tensor | None) -> None:
        self.score, self.keys, self.values = score, keys, values
        self.padding = None if padding is None else padding[:, None]  # (B,1,S)
        blind = None if padding is None else padding.all(1)[:, None, None]
        self.blind = blind if blind is not None and bool(blind.any()) else None

    def _together(self, queries: Tensor) -> Tensor:
        """s (B,W,S,A)."""
        return torch.add(2 * queries[:, :, None], self.keys[:, None], alpha=2).sigmoid_()

    def forward(self, queries: Tensor) -> tuple[Tensor, Tensor]:
        """W queries of each source (B,W,A) -> contexts (B,W,C), weights (B,W,S)."""
        scores = self._together(queries) @ (2 * self.score)
        if self.padding is not None:
            scores.masked_fill_(self.padding, float("-inf"))
        weights = torch.softmax(scores, dim=2)
        if self.blind is not None:  # a source without a real token: zeros, not NaN
            weights = weights.masked_fill(self.blind, 0.0)
        return torch.bmm(weights, self.values), weights

    def begin_backward(self) -> None:
        """Zero the sums over the steps."""
        self.d_score = torch.zeros_like(self.score)
        self.slopes = torch.zeros_like(self.keys)  # sum of d_scores * (s - s^2)

    def backward(self, query: Tensor, weights: Tensor, d_context: Tensor) -> Tensor:
        """-> d_query (B,A). The gradients of a row's scores sum to 0, as a softmax's do."""
        # a row times a matrix: five times faster here than the matrix times a column
        d_weights = torch.bmm(d_context[:, None], self.values.transpose(1, 2))[:, 0]
        along = (weights * d_weights).sum(1, keepdim=True)
        d_scores = weights * (d_weights - along)
        s = self._together(query[:, None])[:, 0]
        self.d_score += 2 * torch.bmm(d_scores[:, None], s).sum((0, 1))
        slope = s.addcmul_(s, s, value=-1)
        self.slopes.addcmul_(d_scores[:, :, None], slope)
        return torch.bmm(d_scores[:, None], slope)[:, 0] * (4 * self.score)

    def d_keys(self) -> Tensor:
        """The gradient of the keys, summed over the steps."""
        return self.slopes.mul_(4 * self.score)


class _Recur(Function):
    """See `recur`. Time stands in front: states (T+1,P,B,H), P is 2 for an LSTM and 1 for others."""

    @staticmethod
    def forward(
        ctx: Any,
        kind: str,
        low: torch.dtype,
        valid: Tensor | None,
        opens: Tensor | None,
        padding: Tensor | None,
        entered: Tensor,
        start: Tensor,
        matrix: Tensor,
        bias: Tensor | None,
        *attention: Tensor,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        n, gates = len(entered), entered.shape[-1]
        states = torch.cat([start[None], start.new_empty(n, *start.shape)])
        look, down, into = None, matrix.to(low).t(), matrix
        if attention:
            score, context, keys, values = attention
            look, into = Look(score, keys, values, padding), context.to(low).t()
        saved, looked = [], []
        for t, (before, after, given) in enumerate(
            zip(states[:-1], states[1:], entered, strict=True)
        ):
            before = before if opens is None else before.masked_fill(opens[t], 0.0)
            product, given = _times(before[0], down), given.to(start.dtype)
            if look is not None:
                seen, weights = (x[:, 0] for x in look.forward(product[:, None, gates:]))
                given = given + _times(seen, into)
                looked.append((seen, weights, product[:, gates:]))
            saved.append(CELLS[kind].forward(given, product[:, :gates], bias, before, after))
            if valid is not None:
                torch.where(valid[t], after, before, out=after)
        context_all, weights_all, queries = (
            (torch.stack(part) for part in zip(*looked, strict=True))
            if looked
            else (None, None, None)
        )
        ctx.kind, ctx.low, ctx.look, ctx.saved = kind, low, look, saved
        ctx.entered_dtype, ctx.context = entered.dtype, attention[1] if attention else None
        ctx.save_for_backward(matrix, states, valid, opens, context_all, weights_all, queries)
        if weights_all is not None:
            ctx.mark_non_differentiable(weights_all)
        ctx.set_materialize_grads(False)
        return states[1:], context_all, weights_all

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_states: Any, d_seen: Any, _: Any) -> Any:
        matrix, states, valid, opens, seen, weights, queries = ctx.saved_tensors
        n, look, cell = len(states) - 1, ctx.look, CELLS[ctx.kind]
        gates = matrix.shape[0] if look is None else matrix.shape[0] - len(look.score)
        up, out, d_contexts = matrix.to(ctx.low), matrix, seen
        d_entered = states.new_empty(n, states.shape[2], gates)
        shared = look is None and ctx.kind != "gru"  # the others add both inputs
        d_product = d_entered if shared else states.new_empty(*d_entered.shape[:2], len(matrix))
        if look is not None:
            out, d_contexts = ctx.context.to(ctx.low), torch.empty_like(seen)
            look.begin_backward()
        d_state = torch.zeros_like(states[0])
        for t in range(n - 1, -1, -1):
            if d_states is not None:
                d_state = d_state + d_states[t]
            stays = None if valid is None else d_state.masked_fill(valid[t], 0.0)
            if valid is not None:
                d_state = d_state.masked_fill(~valid[t], 0.0)
            into = (d_entered[t], d_product[t][:, :gates])
            before = states[t] if opens is None else states[t].masked_fill(opens[t], 0.0)
            d_state = cell.backward(ctx.saved[t], before, d_state, *into)
            if look is not None:
                d_context = _times(d_entered[t], out)
                d_contexts[t] = d_context if d_seen is None else d_context.add_(d_seen[t])
                d_product[t][:, gates:] = look.backward(queries[t], weights[t], d_contexts[t])
            d_state[0] += _times(d_product[t], up)
            if stays is not None:
                d_state += stays
            if opens is not None:
                d_state.masked_fill_(opens[t], 0.0)
        return _Recur._sums(ctx, d_entered, d_product, d_contexts, d_state)

    @staticmethod
    def _sums(
        ctx: Any, d_entered: Tensor, d_product: Tensor, d_contexts: Any, d_start: Tensor
    ) -> tuple[Any, ...]:
        """What is one product over all steps: the gradients of matrices and values."""
        matrix, states, _, opens, seen, weights, _ = ctx.saved_tensors
        look, low, width = ctx.look, ctx.low, states.shape[3]

        def outer(left: Tensor, right: Tensor) -> Tensor:
            total: Tensor = left.flatten(0, 1).to(low).t() @ right.flatten(0, 1).to(low)
            return total.to(matrix.dtype)

        before = states[:-1, 0] if opens is None else states[:-1, 0].masked_fill(opens, 0.0)
        d_matrix = outer(d_product, before)
        d_bias = d_product[..., 2 * width : 3 * width].sum((0, 1)) if ctx.kind == "gru" else None
        d_attention: tuple[Any, ...] = ()
        if look is not None:
            d_values = torch.bmm(weights.permute(1, 2, 0), d_contexts.transpose(0, 1))
            d_attention = (look.d_score, outer(d_entered, seen), look.d_keys(), d_values)
        d_given = d_entered.to(ctx.entered_dtype)
        return (*(None,) * 5, d_given, d_start, d_matrix, d_bias, *d_attention)


def recur(
    kind: str,
    entered: Tensor,
    start: Tensor,
    matrix: Tensor,
    bias: Tensor,
    valid: Tensor | None = None,
    inside: AttentionInside | None = None,
    opens: Tensor | None = None,
) -> tuple[Tensor, Attended | None]:
    """Run cells over T steps: entered (T,B,G) = W x + b of all steps, matrix (G,H) and bias (G) of U.

    start (P,B,H): the state before, hidden and (LSTM) cell. valid (T,B,1): at other places the state
    stays as it is. -> states (T,P,B,H), and with an attention `inside` what it did, time in front.
    opens (T,B,1): places before which the state is zero. Gradients once; a second derivative is
    refused by torch.
    """
    gates, width = entered.shape[-1], start.shape[2]
    inner = None
    if kind == "gru":  # only the candidate's is inside a product: see `recurrent.gru_step`
        inner = bias[2 * width :]
        bias = torch.cat([bias[: 2 * width], torch.zeros_like(inner)])
    entered = entered + bias.to(entered.dtype)
    device = entered.device.type
    low = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else start.dtype
    attention: tuple[Tensor, ...] = ()
    padding = None
    if inside is not None:
        matrix = torch.cat([matrix, inside.query])
        attention = (inside.score, inside.context, inside.keys, inside.values)
        padding = inside.padding
    assert matrix.shape == (gates + (0 if inside is None else len(inside.query)), width)
    with torch.autocast(device, enabled=False):
        states, seen, weights = _Recur.apply(
            kind, low, valid, opens, padding, entered, start, matrix, inner, *attention
        )
    return states, None if seen is None else Attended(seen, weights)
