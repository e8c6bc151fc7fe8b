"""AdamW for everything, or Muon for the hidden matrices beside it; clipping over both.

`Optimizers` hides which are in use: `step(factor)` applies one update with every peak rate times
`factor`; `state_tensors` and `load_state_tensors` name state by weight, so checkpoints survive a
change of grouping.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from budgerigar.errors import UserError
from budgerigar.formats.tensors import plain_name
from budgerigar.training.device import computes_bfloat16
from budgerigar.training.recipe import TrainingRecipe

# Newton-Schulz coefficients (a, b, c) of each iteration s -> a s + b s^3 + c s^5; the last repeats.
# "quintic" is Jordan's (2024): steep at 0, and it need not converge exactly. "polar" is the Polar
# Express (Amsel et al. 2025): the best polynomial for each iteration, so fewer are needed.
COEFFICIENTS = {
    "quintic": ((3.4445, -4.7750, 2.0315),),
    "polar": (
        (8.156554524902461, -22.48329292557795, 15.878769915207462),
        (4.042929935166739, -2.808917465908714, 0.5000178451051316),
        (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
        (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
        (2.3465413258596377, -1.7097828382687081, 0.42323551169305323),
    ),
}
_HIDDEN_MATRIX = re.compile(r"(^|\.)(encoder|decoder)\.\d+\..*\bweight$")


def orthogonalise(matrices: Tensor, steps: int = 5, kind: str = "quintic") -> Tensor:
    """The nearest (semi-)orthogonal matrices, roughly: singular values end near 1.

    Args:
        matrices: (N, rows, columns) float; all are done in one batch of products.
        steps: Newton-Schulz iterations.
        kind: which of COEFFICIENTS.
    """
    table = COEFFICIENTS[kind]
    rounds = [table[min(step, len(table) - 1)] for step in range(steps)]
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    slack = 1.02 if kind == "polar" else 1.0  # its polynomials fit singular values below 1 / 1.02
    x = x / (torch.linalg.matrix_norm(x, keepdim=True) * slack + 1e-7)
    if x.shape[-1] >= 2 * x.shape[-2]:
        x = _iterate_on_gram(x, rounds)
    else:
        for a, b, c in rounds:
            gram = x @ x.mT
            x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


def _iterate_on_gram(x: Tensor, rounds: list[tuple[float, float, float]]) -> Tensor:
    """The same iterations for wide x (N, n, m), on n x n matrices alone.

    Every iterate is a polynomial q(G) x of G = x x^T, and polynomials of G commute, so q and
    q G q are all that need be carried: for m = 4 n that is 40 % less arithmetic (and measured).
    """
    gram, product, factor = x @ x.mT, None, None
    for a, b, c in rounds:
        if factor is not None:
            gram = factor @ (gram @ factor)
        factor = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        factor.diagonal(dim1=-2, dim2=-1).add_(a)
        product = factor if product is None else factor @ product
    assert product is not None
    return product @ x


class Muon:
    """Momentum, orthogonalised (Jordan 2024), same-shaped matrices in one batch.

    Momentum and weights are float32; the iterations are in bfloat16 where the run's products are, as
    Jordan's: 36 of 256 x 256 and 12 of 256 x 512 take 86 ms of one core instead of 206.
    Queries, keys and values are separate weights, so each is orthogonalised by itself.
    """

    def __init__(self, named: list[tuple[str, Tensor]], settings: TrainingRecipe) -> None:
        self.named = named
        self.settings = settings
        self.momentum = settings.muon_momentum
        self.usable: Tensor | None = None
        half = settings.precision != "float32" and computes_bfloat16(named[0][1].device)
        self._dtype = torch.bfloat16 if half else torch.float32
        # Matrices of one shape, and those that are its transpose, share a batch.
        self._batches: dict[tuple[int, int], list[tuple[Tensor, Tensor, bool]]] = {}
        self.buffers: dict[str, Tensor] = {}
        for shape, members in _by_shape(named).items():
            stacked = torch.zeros(len(members), *shape, device=members[0][1].device)
            for row, (name, _, flipped) in enumerate(members):
                self.buffers[name] = stacked[row].mT if flipped else stacked[row]
            self._batches[shape] = [(weight, stacked, flipped) for _, weight, flipped in members]

    @torch.no_grad()
    def step(self, rate: float, momentum: float) -> None:
        """One update with learning rate `rate`."""
        decay = 1.0 - rate * self.settings.muon_weight_decay
        for members in self._batches.values():
            weights = [weight for weight, _, _ in members]
            buffer = members[0][1]
            gradients = torch.stack([_gradient(w, flipped) for w, _, flipped in members])
            if self.usable is not None:  # a GPU's way to skip: nothing new comes in
                gradients = torch.where(self.usable, gradients, torch.zeros_like(gradients))
            buffer.lerp_(gradients, 1.0 - momentum)
            update = orthogonalise(
                gradients.lerp_(buffer, momentum).to(self._dtype),
                self.settings.muon_steps,
                self.settings.muon_iteration,
            )
            if decay != 1.0:
                torch._foreach_mul_(weights, decay)
            for row, (weight, _, flipped) in enumerate(members):
                rows, columns = weight.shape
                direction = update[row].mT if flipped else update[row]
                weight.add_(direction, alpha=-rate * max(1.0, rows / columns) ** 0.5)

    def momentum_at(self, step: int) -> float:
        """Momentum of the update number `step`; it may rise from 0.85 at the start."""
        rise = self.settings.muon_momentum_warmup
        share = min(step / rise, 1.0) if rise else 1.0
        return 0.85 + (self.momentum - 0.85) * share if rise else self.momentum


class Optimizers:
    """The optimizers of one network under one recipe."""

    def __init__(self, network: nn.Module, settings: TrainingRecipe) -> None:
        self.settings = settings
        named = [(plain_name(n), p) for n, p in network.named_parameters() if p.requires_grad]
        self.parameters = [parameter for _, parameter in named]
        hidden = [n for n, p in named if settings.optimizer == "muon" and is_hidden_matrix(n, p)]
        self._names = {id(parameter): name for name, parameter in named}
        self.muon = (
            Muon([(n, p) for n, p in named if n in set(hidden)], settings) if hidden else None
        )
        self.adamw = _adamw([(n, p) for n, p in named if n not in set(hidden)], settings)
        self.updates = 0

    def step(self, factor: float) -> None:
        """Apply one update with all peak rates times `factor`; gradients stay as they are."""
        for group in self.adamw.param_groups:
            group["lr"] = group["peak"] * factor
        self.adamw.step()
        if self.muon is not None:
            momentum = self.muon.momentum_at(self.updates)
            self.muon.step(self.settings.muon_learning_rate * factor, momentum)
        self.updates += 1

    def skip_if_not_finite(self, norm: Tensor) -> None:
        """On a GPU: make the next update a no-op, without waiting, when the norm is NaN or inf."""
        self.adamw.found_inf = (~torch.isfinite(norm)).float()  # type: ignore[attr-defined]
        if self.muon is not None:
            self.muon.usable = torch.isfinite(norm)

    def zero_grad(self) -> None:
        """Drop all gradients; the next backward pass writes new ones without adding."""
        for parameter in self.parameters:
            parameter.grad = None

    def clip(self) -> Tensor:
        """Scale the whole gradient down to norm `clip`; returns its norm before, a scalar tensor."""
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        norms = torch._foreach_norm(gradients)
        norm = torch.linalg.vector_norm(torch.stack(norms))
        if self.settings.clip:
            if norm.device.type == "cpu":  # reading a number is free here, so skip idle products
                scale = self.settings.clip / (float(norm) + 1e-6)
                if scale < 1.0:
                    torch._foreach_mul_(gradients, scale)
            else:
                scale_tensor = (self.settings.clip / (norm + 1e-6)).clamp(max=1.0)
                torch._foreach_mul_(gradients, scale_tensor)
        return norm

    def state_tensors(self) -> dict[str, Tensor]:
        """All state by weight name, e.g. `decoder.0.attention_norm.weight/exp_avg`."""
        found: dict[str, Tensor] = {"updates": torch.tensor(self.updates)}
        for parameter, state in self.adamw.state.items():
            for key, value in state.items():
                found[f"{self._names[id(parameter)]}/{key}"] = torch.as_tensor(value)
        if self.muon is not None:
            found.update({f"{n}/momentum": b for n, b in self.muon.buffers.items()})
        return found

    def load_state_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """The reverse of `state_tensors`.

        Raises:
            UserError: the state is of another optimizer or model.
        """
        self.updates = int(tensors["updates"])
        wanted = {f"{n}/momentum" for n in self.muon.buffers} if self.muon else set()
        missing = sorted(name for name in wanted if name not in tensors)
        if missing:
            raise UserError(
                f"The checkpoint holds no optimizer state for {missing[0].split('/')[0]}: it was "
                "written with other optimizer settings. Resume with the recipe the run began with."
            )
        for name in wanted:
            self.muon.buffers[name.removesuffix("/momentum")].copy_(tensors[name])  # type: ignore[union-attr]
        for group in self.adamw.param_groups:
            for parameter in group["params"]:
                self._load_adamw(parameter, tensors)

    def _load_adamw(self, parameter: Tensor, tensors: Mapping[str, Tensor]) -> None:
        prefix = f"{self._names[id(parameter)]}/"
        state: dict[str, Any] = {}
        for key in ("step", "exp_avg", "exp_avg_sq"):
            if prefix + key in tensors:
                value = tensors[prefix + key].clone()
                on_cpu = key == "step" and not self.adamw.defaults["fused"]
                state[key] = value if on_cpu else value.to(parameter.device)
        if state:
            self.adamw.state[parameter] = state


def is_hidden_matrix(name: str, parameter: Tensor) -> bool:
    """Whether Muon takes this weight: a matrix inside a layer, not an embedding or the head."""
    inside = _HIDDEN_MATRIX.search(name) is not None and "relative_bias" not in name
    return parameter.ndim == 2 and inside


def _gradient(weight: Tensor, flipped: bool) -> Tensor:
    assert weight.grad is not None
    return weight.grad.mT if flipped else weight.grad


def _by_shape(
    named: list[tuple[str, Tensor]],
) -> dict[tuple[int, int], list[tuple[str, Tensor, bool]]]:
    """Group weights by their shape with rows <= columns; the flag says which are flipped to it."""
    groups: dict[tuple[int, int], list[tuple[str, Tensor, bool]]] = {}
    for name, weight in named:
        rows, columns = weight.shape
        shape = (min(rows, columns), max(rows, columns))
        groups.setdefault(shape, []).append((name, weight, rows > columns))
    return groups


def _adamw(named: list[tuple[str, Tensor]], s: TrainingRecipe) -> torch.optim.AdamW:
    """AdamW with matrices decayed and vectors not, and own rates for embeddings and head."""
    groups: dict[tuple[float, float], list[Tensor]] = {}
    for name, parameter in named:
        peak = s.learning_rate
        if name.startswith("embedding.") and s.embedding_learning_rate is not None:
            peak = s.embedding_learning_rate
        if name.startswith(("head.", "class_head.")) and s.head_learning_rate is not None:
            peak = s.head_learning_rate
        decay = s.weight_decay if parameter.ndim >= 2 else 0.0
        groups.setdefault((peak, decay), []).append(parameter)
    parameters = [
        {"params": members, "lr": peak, "peak": peak, "weight_decay": decay}
        for (peak, decay), members in groups.items()
    ]
    # Fused: one pass over each tensor in C++ instead of a dozen (measured in tests/training).
    return torch.optim.AdamW(
        parameters, lr=s.learning_rate, betas=(s.beta1, s.beta2), eps=s.epsilon, fused=True
    )
