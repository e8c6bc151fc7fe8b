"""Attention (Vaswani et al. 2017, section 3.2): the one kind that every model here is made of.

Shapes: B batch, T query positions, S key positions, H heads, K key-value heads (H a multiple of K),
D d_model, E d_head.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from budgerigar.layers.cache import LayerCache
from budgerigar.layers.config import TransformerConfig
from budgerigar.layers.elementwise import rotate
from budgerigar.layers.linear import Linear
from budgerigar.layers.norm import Norm
from budgerigar.layers.positions import RelativeBias, alibi_bias, alibi_slopes
from budgerigar.layers.taps import Taps, tap
from budgerigar.layers.visibility import View


def attention(queries: Tensor, keys: Tensor, values: Tensor, visible: Tensor) -> Tensor:
    """softmax(Q K^T / sqrt(E), where visible) V: equation 1, the reference for the rest.

    queries (..., T, E), keys and values (..., S, E), visible (..., T, S) boolean -> (..., T, E).
    """
    scores = queries @ keys.transpose(-2, -1)  # how well each query fits each key
    scaled = scores / queries.shape[-1] ** 0.5  # keeps the spread at 1 whatever the width
    masked = scaled.masked_fill(~visible, float("-inf"))  # a weight of exactly 0
    weights = torch.softmax(masked, dim=-1)  # each row sums to 1
    return weights @ values  # the average of the values, by weight


class AttentionSteps(NamedTuple):
    """Every step between queries and head output; a step that a model lacks equals the one before."""

    scores: Tensor  # (B,H,T,S) q . k
    scaled: Tensor  # times the scale
    capped: Tensor  # cap * tanh(scaled / cap)
    biased: Tensor  # plus position bias
    masked: Tensor  # -inf where invisible
    weights: Tensor  # softmax over the keys; rows without a visible key are zero
    head_output: Tensor  # (B,H,T,E) weights @ values


def attention_steps(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    scale: float,
    softcap: float | None = None,
    bias: Tensor | None = None,
    visible: Tensor | None = None,
    sink_logit: Tensor | None = None,
    taps: Taps | None = None,
    name: str = "",
) -> AttentionSteps:
    """`attention` with all the dials, one step at a time, in the precision of the tensors given.

    queries (B,H,T,E), keys and values (B,K,S,E), bias (B|1,H,T,S), visible (B|1,1,T,S) boolean,
    sink_logit (H,). Query head h uses key-value head h // (H / K).
    """
    group = queries.shape[1] // keys.shape[1]
    keys, values = keys.repeat_interleave(group, 1), values.repeat_interleave(group, 1)
    scores = tap(taps, f"{name}.scores", queries @ keys.transpose(-2, -1))
    scaled = scores * scale
    capped = scaled if softcap is None else softcap * torch.tanh(scaled / softcap)
    biased = capped if bias is None else capped + bias.to(capped.dtype)  # ALiBi's is float32
    masked = biased if visible is None else biased.masked_fill(~visible, float("-inf"))
    weights = tap(taps, f"{name}.weights", _softmax(masked, sink_logit))
    return AttentionSteps(scores, scaled, capped, biased, masked, weights, weights @ values)


def _softmax(masked: Tensor, sink_logit: Tensor | None) -> Tensor:
    """Softmax over the last dimension; rows of -inf give zeros; the sink takes its share of the sum."""
    if sink_logit is not None:
        sink = sink_logit[None, :, None, None].expand(*masked.shape[:3], 1).to(masked.dtype)
        return torch.softmax(torch.cat([masked, sink], dim=-1), dim=-1)[..., :-1]
    blind = (masked == float("-inf")).all(-1, keepdim=True)
    return torch.softmax(masked.masked_fill(blind, 0.0), dim=-1).masked_fill(blind, 0.0)


def in_full(x: Tensor) -> Tensor:
    """x in float32 under autocast on a CPU; see `float32_attention`."""
    return x.float() if x.dtype == torch.bfloat16 and torch.is_autocast_enabled("cpu") else x


def float32_attention() -> AbstractContextManager[Any]:
    """Keeps autocast on a CPU away from the fused kernel, which is slower in bfloat16 there.

    Forward and backward of 12 x 4 heads, 64 positions: 6.7 ms in bfloat16, 1.6 ms in float32.
    """
    if torch.is_autocast_enabled("cpu"):
        return torch.autocast("cpu", enabled=False)
    return nullcontext()


class Attention(nn.Module):
    """Queries from x, keys and values from x (self) or from a memory (cross). (B,T,D) -> (B,T,D)."""

    def __init__(
        self,
        config: TransformerConfig,
        layer: int,
        name: str,
        cross: bool = False,
        both_ways: bool = False,
    ) -> None:
        super().__init__()
        self.name, self.cross = name, cross
        self.n_heads, self.n_kv_heads, self.d_head = (
            config.n_heads,
            config.kv_heads,
            config.head_width,
        )
        self.scale, self.softcap = config.scale, config.attention_softcap
        # a window reaches back from the query: an encoder and a source have none
        self.window = None if cross or both_ways else config.window_of(layer)
        self.sink_tokens = config.sink_tokens
        self.dropout = config.dropout_attention
        queries, keys = self.n_heads * self.d_head, self.n_kv_heads * self.d_head
        self.query = Linear(config.d_model, queries, bias=config.qkv_bias)
        self.key = Linear(config.d_model, keys, bias=config.qkv_bias)
        self.value = Linear(config.d_model, keys, bias=config.qkv_bias)
        self.output = Linear(queries, config.d_model, bias=config.output_bias)
        self.query_norm, self.key_norm = self._norms(config)
        self.sink_logit = nn.Parameter(torch.zeros(self.n_heads)) if config.sink_logit else None
        alibi = config.positions == "alibi" and not cross
        with torch.device("cpu"):  # computed, not loaded: also where weights have no memory yet
            slopes = alibi_slopes(self.n_heads) if alibi else None
        self.register_buffer("slopes", slopes, persistent=False)
        self.relative_bias: RelativeBias | None = None  # set by the stack where a layer has its own

    def _norms(self, config: TransformerConfig) -> tuple[Norm | None, Norm | None]:
        if config.qk_norm == "none":
            return None, None
        heads = (1, 1) if config.qk_norm == "head" else (self.n_heads, self.n_kv_heads)
        settings = ("rms", config.norm_epsilon, config.norm_weight, False, config.norm_offset)
        query, key = (Norm(n * self.d_head, *settings) for n in heads)
        return query, key

    # -- projections -----------------------------------------------------------------------------
    def _split(self, x: Tensor, heads: int) -> Tensor:
        """(B,T,heads*E) -> (B,heads,T,E), in the precision that attention is computed in."""
        return in_full(x).view(*x.shape[:2], heads, self.d_head).transpose(1, 2)

    def _normed(self, x: Tensor, heads: int, norm: Norm | None) -> Tensor:
        """(B,T,heads*E) -> (B,heads,T,E), normalised per head or over all heads."""
        if norm is not None and norm.width != self.d_head:
            return self._split(norm(in_full(x)), heads)
        split = self._split(x, heads)
        return split if norm is None else norm(split)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (B,H,T,E), keys and values (B,K,T,E), normalised, not yet rotated."""
        parts = (self.query, self.key, self.value)
        # Training: one product of (H+2K)E columns for three narrow ones.
        if torch.is_grad_enabled() and all(isinstance(part, Linear) for part in parts):
            weight = torch.cat([part.weight for part in parts])
            bias = None if self.query.bias is None else torch.cat([part.bias for part in parts])
            widths = [part.out_features for part in parts]
            query, key, value = F.linear(x, weight, bias).split(widths, dim=-1)
        else:  # running: packing would copy the weights at every token; or they are quantised
            query, key, value = self.query(x), self.key(x), self.value(x)
        return (
            self._normed(query, self.n_heads, self.query_norm),
            self._normed(key, self.n_kv_heads, self.key_norm),
            self._split(value, self.n_kv_heads),
        )

    def memory(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Cross-attention's keys and values (B,K,S,E), computed once per source (B,S,D)."""
        key = self._normed(self.key(source), self.n_kv_heads, self.key_norm)
        return key, self._split(self.value(source), self.n_kv_heads)

    # -- forward -----------------------------------------------------------------------------------
    def forward(
        self,
        x: Tensor,
        view: View,
        *,
        angles: tuple[Tensor, Tensor] | None = None,
        bias: Tensor | None = None,
        memory: tuple[Tensor, Tensor] | None = None,
        cache: LayerCache | None = None,
        slots: Tensor | int = 0,
        taps: Taps | None = None,
    ) -> Tensor:
        """x (B,T,D). `angles`: cosines, sines of x's positions. `cache`: write at `slots`, see all."""
        if memory is None:
            query, key, value = self.project(x)
        else:
            query = self._normed(self.query(x), self.n_heads, self.query_norm)
            key, value = memory
        query, key = self._rotated(query, key, angles, taps)
        value = tap(taps, f"{self.name}.value", value)
        if cache is not None:
            key, value = cache.write(key, value, slots, view.key_positions.shape[-1])
            if taps is not None:  # all keys that the queries saw, not only the new ones
                taps.look(f"{self.name}.key", key)
                taps.look(f"{self.name}.value", value)
        head_output = self._attend(query, key, value, view, bias, taps)
        head_output = tap(taps, f"{self.name}.head_output", head_output)
        merged = head_output.transpose(1, 2).flatten(2)
        return tap(taps, f"{self.name}.output", self.output(merged))

    def _rotated(
        self,
        query: Tensor,
        key: Tensor,
        angles: tuple[Tensor, Tensor] | None,
        taps: Taps | None,
    ) -> tuple[Tensor, Tensor]:
        query = tap(taps, f"{self.name}.query_unrotated", query)
        key = tap(taps, f"{self.name}.key_unrotated", key)
        if angles is not None:
            query, key = rotate(query, *angles), rotate(key, *angles)
        return tap(taps, f"{self.name}.query", query), tap(taps, f"{self.name}.key", key)

    def position_bias(self, view: View) -> Tensor | None:
        """This layer's own additive bias (B|1,H,T,S): ALiBi, or T5's where tables are not shared."""
        if isinstance(self.slopes, Tensor):
            return alibi_bias(self.slopes, view.query_positions, view.key_positions)
        if self.relative_bias is not None:
            return self.relative_bias(view.query_positions, view.key_positions)
        return None

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        view: View,
        bias: Tensor | None,
        taps: Taps | None,
    ) -> Tensor:
        if bias is None:
            bias = self.position_bias(view)
        mask = view.mask(self.window, self.sink_tokens)
        if self.explicit(bias, taps):
            if mask is None and view.aligned:
                mask = view.visible()[:, None]
            return self._explicit(query, key, value, mask, bias, taps)
        return self._fused(query, key, value, view, mask, bias)

    def explicit(self, bias: Tensor | None = None, taps: Taps | None = None) -> bool:
        """Whether the steps are taken one by one, because the fused kernel cannot do what is asked."""
        learned = torch.is_grad_enabled() and (
            (bias is not None and bias.requires_grad) or self.sink_logit is not None
        )
        replaced = taps is not None and (
            taps.replaces(f"{self.name}.scores") or taps.replaces(f"{self.name}.weights")
        )
        dropped = self.training and self.dropout > 0
        return self.softcap is not None or learned or replaced or dropped

    def _explicit(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        bias: Tensor | None,
        taps: Taps | None,
    ) -> Tensor:
        steps = self._steps(query, key, value, mask, bias, taps)
        if not (self.training and self.dropout):
            return steps.head_output
        weights = F.dropout(steps.weights, self.dropout)
        return weights @ value.repeat_interleave(self.n_heads // self.n_kv_heads, 1)

    def _fused(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        view: View,
        mask: Tensor | None,
        bias: Tensor | None,
    ) -> Tensor:
        """The same through torch's fused kernel."""
        causal = mask is None and view.aligned and query.shape[2] > 1
        grouped = self.n_kv_heads != self.n_heads
        plain = mask is None and bias is None and self.sink_logit is None
        if grouped and plain and query.shape[2] == 1:  # a group of heads stands as T positions
            folded = query.reshape(
                -1, self.n_kv_heads, self.n_heads // self.n_kv_heads, self.d_head
            )
            out = F.scaled_dot_product_attention(folded, key, value, scale=self.scale)
            return out.reshape(query.shape)
        seen = mask
        if bias is not None or self.sink_logit is not None:
            if causal:
                seen, causal = view.visible()[:, None], False
            key, value, mask = self._with_bias(query, key, value, seen, bias)
        with float32_attention():
            out = F.scaled_dot_product_attention(
                query, key, value, mask, is_causal=causal, scale=self.scale, enable_gqa=grouped
            )
        if seen is not None and view.blind_rows():
            out = out.masked_fill(~seen.any(-1, keepdim=True), 0.0)
        return out

    def _with_bias(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        visible: Tensor | None,
        bias: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One additive mask of bias and visibility; the sink is a key and value of zeros, biased."""
        heads, length = query.shape[1], query.shape[2]
        total = query.new_zeros(1, 1, length, key.shape[2]) if bias is None else bias
        if visible is not None:
            total = total.masked_fill(~visible, float("-inf"))
        if self.sink_logit is not None:
            key, value = F.pad(key, (0, 0, 0, 1)), F.pad(value, (0, 0, 0, 1))
            rows = total.expand(total.shape[0], heads, *total.shape[2:])
            sink = self.sink_logit[None, :, None, None].expand(total.shape[0], heads, length, 1)
            total = torch.cat([rows, sink.to(rows.dtype)], dim=-1)
        return key, value, total.to(query.dtype)

    def steps_from_taps(
        self, query: Tensor, key: Tensor, value: Tensor, view: View, bias: Tensor | None = None
    ) -> AttentionSteps:
        """Recompute every step from the tensors that the model used (taps query, key, value)."""
        if bias is None:
            bias = self.position_bias(view)
        visible = view.visible(self.window, self.sink_tokens)[:, None]
        return self._steps(query, key, value, visible, bias)

    def _steps(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        visible: Tensor | None,
        bias: Tensor | None,
        taps: Taps | None = None,
    ) -> AttentionSteps:
        """`attention_steps` with this layer's dials."""
        return attention_steps(
            query,
            key,
            value,
            scale=self.scale,
            softcap=self.softcap,
            bias=bias,
            visible=visible,
            sink_logit=self.sink_logit,
            taps=taps,
            name=self.name,
        )
