"""The block: attention, then a feed-forward, each added to the residual stream; and stacks of them.

Shapes: B batch, T positions, S source or key positions, D d_model.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from budgerigar.layers.attention import Attention
from budgerigar.layers.cache import LayerCache
from budgerigar.layers.config import TransformerConfig
from budgerigar.layers.elementwise import dropout
from budgerigar.layers.feed_forward import FeedForward
from budgerigar.layers.norm import Norm, build_norm
from budgerigar.layers.positions import RelativeBias, Rotary
from budgerigar.layers.taps import Taps, tap
from budgerigar.layers.visibility import View


class Block(nn.Module):
    """One layer of an encoder or a decoder; with `cross`, attention to a source stands between.

    Where the norms go (`norm_place`): pre, x + f(norm(x)); post, norm(x + f(x)) (Vaswani et al. 2017);
    sandwich, x + norm(f(norm(x))); output, x + norm(f(x)).
    """

    def __init__(
        self,
        config: TransformerConfig,
        layer: int,
        name: str,
        cross: bool = False,
        both_ways: bool = False,
    ) -> None:
        super().__init__()
        self.name = name
        self.place, self.residual, self.parallel = (
            config.norm_place,
            config.residual,
            config.parallel_residual,
        )
        self.dropout = config.dropout_residual
        self.self_attention = Attention(
            config, layer, f"{name}.self_attention", both_ways=both_ways
        )
        self.cross_attention = (
            Attention(config, layer, f"{name}.cross_attention", cross=True) if cross else None
        )
        self.feed_forward = FeedForward(config, f"{name}.feed_forward")
        self.attention_norm = build_norm(config, layer)
        self.cross_attention_norm = build_norm(config, layer) if cross else None
        self.feed_forward_norm = None if self.parallel else build_norm(config, layer)
        if self.place == "sandwich":
            self.attention_output_norm = build_norm(config, layer)
            self.cross_attention_output_norm = build_norm(config, layer) if cross else None
            self.feed_forward_output_norm = build_norm(config, layer)

    def _enter(self, x: Tensor, norm: Norm | None) -> Tensor:
        """What a sublayer reads."""
        return norm(x) if norm is not None and self.place in ("pre", "sandwich") else x

    def _leave(self, x: Tensor, added: Tensor, norm: Norm | None, after: Norm | None) -> Tensor:
        """The residual stream after a sublayer added `added` to `x`."""
        if self.place == "output" and norm is not None:
            added = norm(added)
        if after is not None:
            added = after(added)
        if self.dropout and self.training:
            added = dropout(added, self.dropout)
        x = x + added if self.residual else added
        return norm(x) if self.place == "post" and norm is not None else x

    def forward(
        self,
        x: Tensor,
        view: View,
        *,
        angles: tuple[Tensor, Tensor] | None = None,
        bias: Tensor | None = None,
        memory: tuple[Tensor, Tensor] | None = None,
        memory_view: View | None = None,
        cache: LayerCache | None = None,
        slots: Tensor | int = 0,
        taps: Taps | None = None,
    ) -> Tensor:
        """(B,T,D) -> (B,T,D)."""
        x = tap(taps, f"{self.name}.residual_before", x)
        read = self._enter(x, self.attention_norm)
        added = self.self_attention(
            read, view, angles=angles, bias=bias, cache=cache, slots=slots, taps=taps
        )
        if self.parallel:
            added = added + self.feed_forward(read, taps)
            x = self._leave(x, added, self.attention_norm, None)
            return tap(taps, f"{self.name}.residual_after", x)
        x = self._leave(x, added, self.attention_norm, self._after("attention"))
        if self.cross_attention is not None and memory is not None and memory_view is not None:
            x = tap(taps, f"{self.name}.residual_crossing", x)
            read = self._enter(x, self.cross_attention_norm)
            added = self.cross_attention(read, memory_view, memory=memory, taps=taps)
            x = self._leave(x, added, self.cross_attention_norm, self._after("cross_attention"))
        x = tap(taps, f"{self.name}.residual_middle", x)
        added = self.feed_forward(self._enter(x, self.feed_forward_norm), taps)
        x = self._leave(x, added, self.feed_forward_norm, self._after("feed_forward"))
        return tap(taps, f"{self.name}.residual_after", x)

    def _after(self, sublayer: str) -> Norm | None:
        """The sandwich's second slice."""
        return getattr(self, f"{sublayer}_output_norm") if self.place == "sandwich" else None


class Stack(nn.Module):
    """Blocks 0, 1, 2, … and the final norm; shares rotary angles and relative bias among them."""

    def __init__(
        self, config: TransformerConfig, name: str, depth: int, cross: bool = False
    ) -> None:
        super().__init__()
        self.name, self.depth = name, depth
        self.causal = name == "decoder"
        self.recompute = False  # in training keep each layer's input alone, the rest is made anew
        for layer in range(depth):
            block = Block(config, layer, f"{name}.{layer}", cross, both_ways=not self.causal)
            self.add_module(str(layer), block)
        self.final_norm = build_norm(config) if config.has_final_norm else None
        self.bases = [config.rotary_base_of(layer) for layer in range(depth)]
        rotary = sorted(set(self.bases)) if config.positions == "rotary" else []
        self.rotary = nn.ModuleDict({str(i): Rotary(config, base) for i, base in enumerate(rotary)})
        self.rotary_of = [str(rotary.index(base)) if rotary else "" for base in self.bases]
        self.relative_bias: RelativeBias | None = None
        if config.positions == "relative" and config.relative_shared:
            self.relative_bias = RelativeBias(config, not self.causal)
        elif config.positions == "relative":
            for block in self.blocks():
                block.self_attention.relative_bias = RelativeBias(config, not self.causal)

    def blocks(self) -> Iterator[Block]:
        """The layers, bottom first."""
        for layer in range(self.depth):
            yield self.get_submodule(str(layer))  # type: ignore[misc]

    def angles(self, positions: Tensor) -> list[tuple[Tensor, Tensor] | None]:
        """Cosines and sines (B|1,1,T,width/2) for each layer, one computation per rotary base."""
        if not self.rotary:
            return [None] * self.depth
        turned = {}
        for key, rotary in self.rotary.items():
            cosines, sines = rotary.angles(positions)  # type: ignore[operator]
            turned[key] = (cosines[:, None], sines[:, None])
        return [turned[key] for key in self.rotary_of]

    def bias(self, view: View) -> Tensor | None:
        """The relative bias that all layers share, (B|1,H,T,S)."""
        if self.relative_bias is None:
            return None
        return self.relative_bias(view.query_positions, view.key_positions)

    def forward(
        self,
        x: Tensor,
        view: View,
        positions: Tensor,
        *,
        memories: list[tuple[Tensor, Tensor]] | None = None,
        memory_view: View | None = None,
        caches: list[LayerCache] | None = None,
        slots: Tensor | int = 0,
        taps: Taps | None = None,
    ) -> Tensor:
        """x (B,T,D), `positions` (B|1,T) for rotary angles -> (B,T,D)."""
        angles, bias = self.angles(positions), self.bias(view)
        anew = self.recompute and self.training and torch.is_grad_enabled() and taps is None
        for layer, block in enumerate(self.blocks()):
            x = (partial(checkpoint, block, use_reentrant=False) if anew else block)(
                x,
                view,
                angles=angles[layer],
                bias=bias,
                memory=memories[layer] if memories else None,
                memory_view=memory_view,
                cache=caches[layer] if caches else None,
                slots=slots,
                taps=taps,
            )
        if self.final_norm is not None:
            x = tap(taps, f"{self.name}.final_norm", self.final_norm(x))
        return x
