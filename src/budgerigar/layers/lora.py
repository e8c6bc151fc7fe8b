"""Low-rank adapters (Hu et al. 2021): what is learnt of a matrix that itself stays as it is.

y = x W^T + (alpha / r) (x A^T) B^T, W (N,K) frozen, A (r,K) random, B (N,r) zeros at first: before
its first update the network is the one that it began with, to the last bit. W may be quantised
(`layers/packed_linear.py`): the gradient goes through it to x, and it takes no more memory than
for running. With r = 8 the matrices of SmolLM2-135M have 2.4 million weights to learn in place of
106 million, and an optimizer keeps its averages for those alone.

Shapes: N outputs, K inputs, r rank.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from budgerigar.errors import UserError
from budgerigar.layers.linear import Linear
from budgerigar.layers.packed_linear import PackedLinear

GROUPS = {
    "attention": ("query", "key", "value", "output"),
    "feed-forward": ("up", "gate", "down"),
}
"""names for several matrices of a layer at once"""
TARGETS = tuple(name for names in GROUPS.values() for name in names)
"""the matrices of a layer that can be adapted"""
DOWN, UP = "lora_down", "lora_up"


class LoraLinear(nn.Module):
    """A frozen linear layer, and beside it one of rank r that is trained. (..., K) -> (..., N)."""

    def __init__(self, base: nn.Linear | PackedLinear, rank: int, alpha: float) -> None:
        super().__init__()
        self.base, self.rank, self.alpha = base, rank, alpha
        self.in_features, self.out_features = base.in_features, base.out_features
        for parameter in base.parameters():
            parameter.requires_grad_(False)
        device = next((t.device for t in [*base.parameters(), *base.buffers()]), None)
        self.lora_down = nn.Parameter(torch.zeros(rank, self.in_features, device=device))
        self.lora_up = nn.Parameter(torch.zeros(self.out_features, rank, device=device))

    @property
    def scale(self) -> float:
        """alpha / r: what the product of the two is multiplied by."""
        return self.alpha / self.rank

    @property
    def weight(self) -> Tensor:
        """The matrix that both are together, float32 (N,K); made anew at each call."""
        return torch.addmm(self.base.weight, self.lora_up, self.lora_down, alpha=self.scale)

    @property
    def bias(self) -> Tensor | None:
        """The frozen layer's."""
        return self.base.bias

    def forward(self, x: Tensor) -> Tensor:
        low = F.linear(F.linear(x, self.lora_down), self.lora_up)
        return self.base(x) + self.scale * low


def add_adapters(
    network: nn.Module, rank: int, alpha: float, targets: tuple[str, ...], seed: int = 0
) -> int:
    """Freeze `network`, and put adapters beside the matrices of its layers that `targets` names.

    A is drawn from `seed`, uniformly within 1 / sqrt(K) as a linear layer of torch's; torch's own
    generator is left alone. Returns how many matrices have one now.

    Raises:
        UserError: no layer has a matrix of that name.
    """
    for parameter in network.parameters():
        parameter.requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    found = list(_adaptable(network, targets))
    if not found:
        raise UserError(
            f"no layer of this model has a matrix named {' or '.join(targets)}, so there is nothing to "
            "put adapters on (--lora-targets)"
        )
    for parent, name, linear in found:
        adapted = LoraLinear(linear, rank, alpha)
        bound = 1 / math.sqrt(linear.in_features)
        drawn = torch.empty(adapted.lora_down.shape).uniform_(-bound, bound, generator=generator)
        with torch.no_grad():
            adapted.lora_down.copy_(drawn)
        setattr(parent, name, adapted)
    return len(found)


def _adaptable(
    network: nn.Module, targets: tuple[str, ...]
) -> Iterator[tuple[nn.Module, str, Any]]:
    for path, parent in network.named_modules():
        if not path.startswith(("encoder.", "decoder.")) or isinstance(parent, LoraLinear):
            continue
        for name, child in parent.named_children():
            if name in targets and isinstance(child, nn.Linear | PackedLinear):
                yield parent, name, child


def targets_of(words: str | None) -> tuple[str, ...]:
    """ "attention,up" -> ("query", "key", "value", "output", "up"); None: all of `TARGETS`.

    Raises:
        UserError: names what is no matrix and no group of them.
    """
    if words is None:
        return TARGETS
    named = [word.strip() for word in words.split(",") if word.strip()]
    unknown = [word for word in named if word not in (*GROUPS, *TARGETS)]
    if unknown or not named:
        what = f"{unknown[0]!r} is none" if unknown else "none are named"
        raise UserError(
            f"lora_targets: {what} of a layer's matrices: {', '.join(TARGETS)}; or "
            f"{' and '.join(GROUPS)} for several at once"
        )
    chosen = {name for word in named for name in GROUPS.get(word, (word,))}
    return tuple(name for name in TARGETS if name in chosen)


def has_adapters(network: nn.Module) -> bool:
    """Whether some matrix of `network` has an adapter."""
    return any(isinstance(module, LoraLinear) for module in network.modules())


def is_adapter(name: str) -> bool:
    """Whether a weight of that name belongs to an adapter."""
    return name.endswith((f".{DOWN}", f".{UP}"))


def merged(network: nn.Module) -> nn.Module:
    """The network with each adapter multiplied out and added to its matrix, in float32.

    Itself where it has none; else a copy that shares all other weights. Matrices without an adapter
    stay quantised where they are.
    """
    if not has_adapters(network):
        return network
    shared: list[Tensor] = [*network.parameters(), *network.buffers()]
    copied = copy.deepcopy(network, {id(tensor): tensor for tensor in shared})
    parents: list[Any] = list(copied.modules())
    for parent in parents:
        for name, child in list(parent.named_children()):
            if isinstance(child, LoraLinear):
                setattr(parent, name, _one(child))
    return copied


@torch.no_grad()
def _one(adapted: LoraLinear) -> Linear:
    with torch.device("meta"):
        linear = Linear(adapted.in_features, adapted.out_features, adapted.bias is not None)
    linear.weight = nn.Parameter(adapted.weight)
    if adapted.bias is not None:
        linear.bias = nn.Parameter(adapted.bias.detach().clone())
    return linear.train(adapted.training)
