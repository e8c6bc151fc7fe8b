"""Which device, precision and wrapper a run computes with."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from budgerigar.errors import UserError
from budgerigar.training.allocator import keep_freed_memory
from budgerigar.training.recipe import TrainingRecipe


@dataclass(frozen=True)
class Compute:
    """Where and how the numbers are computed."""

    device: torch.device
    precision: str
    compile: bool

    def autocast(self) -> AbstractContextManager[Any]:
        """The context of a forward pass: bfloat16 products, or nothing."""
        if self.precision != "bfloat16":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    def forward_of(self, network: torch.nn.Module) -> Callable[..., torch.Tensor]:
        """What to call for logits; compiling wraps the call, never the network that is saved."""
        return torch.compile(network) if self.compile else network


def choose_device(name: str) -> torch.device:
    """ "auto" is CUDA where there is one, else the CPU.

    Raises:
        UserError: CUDA was asked for and there is none.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError(
            "There is no CUDA device that this installation of torch can use. Leave --device out to "
            "train on the CPU, or install torch with CUDA."
        )
    return device


def computes_bfloat16(device: torch.device) -> bool:
    """Whether the hardware multiplies in bfloat16 itself; where it is emulated it is slower.

    Measured on a CPU with AVX512-BF16, forward and backward, one core: 61 ms a step in float32 and
    41 ms in bfloat16 at 128 wide, 183 and 119 ms at 192 wide.
    """
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported()
    ask: Callable[[], dict[str, Any]] = getattr(torch.cpu, "get_capabilities", dict)  # torch 2.13
    capabilities = ask()
    return any(capabilities.get(name) for name in ("avx512_bf16", "amx_bf16"))


def choose_compute(settings: TrainingRecipe) -> Compute:
    """Resolve "auto" in a recipe's device and precision."""
    device = choose_device(settings.device)
    if device.type == "cpu":
        keep_freed_memory()
    precision = settings.precision
    if precision == "auto":
        precision = "bfloat16" if computes_bfloat16(device) else "float32"
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")  # TF32 for what stays in float32
    return Compute(device, precision, settings.compile)
