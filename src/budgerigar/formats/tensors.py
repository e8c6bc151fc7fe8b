"""Tensors in safetensors files: no pickle, tied tensors once, wrappers' prefixes never in names."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from budgerigar.errors import UserError
from budgerigar.layers.lora import has_adapters, is_adapter
from budgerigar.layers.packed_linear import unpacked


def plain_name(name: str) -> str:
    """A weight's name without what `torch.compile` or data parallelism put before it."""
    return name.replace("_orig_mod.", "").removeprefix("module.")


def unique_tensors(named: Iterable[tuple[str, Tensor]]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Split named tensors into those to store and aliases of them (tied weights).

    Returns:
        (first name -> tensor, other name -> first name).
    """
    kept: dict[str, Tensor] = {}
    aliases: dict[str, str] = {}
    seen: dict[tuple[int, torch.Size, torch.dtype], str] = {}
    for name, tensor in named:
        key = (tensor.data_ptr(), tensor.shape, tensor.dtype)
        if tensor.numel() and key in seen:
            aliases[name] = seen[key]
        else:
            seen[key] = name
            kept[name] = tensor
    return kept, aliases


def network_tensors(network: nn.Module) -> dict[str, Tensor]:
    """The weights a file holds: plain names, each tied tensor once, detached, on the CPU.

    Quantised matrices are written as the numbers that they stand for. Of a network with adapters these
    alone are written; `layers.lora.merged` makes one network of it and its base.
    """
    named = _named(network if has_adapters(network) else unpacked(network)).items()
    kept, _ = unique_tensors(named)
    return {name: tensor.detach().cpu() for name, tensor in kept.items()}


def load_network_tensors(network: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Put `tensors` into `network`; every name and shape must fit.

    Raises:
        UserError: lists what is missing, left over or of another shape, all at once.
    """
    state = _named(network)
    kept, aliases = unique_tensors(state.items())
    problems = []
    filled: dict[str, Tensor] = {}
    for name, tensor in kept.items():
        names = [name, *(other for other, first in aliases.items() if first == name)]
        found = next((tensors[n] for n in names if n in tensors), None)
        if found is None:
            problems.append(f"{name} is missing")
        elif found.shape != tensor.shape:
            problems.append(f"{name} is {tuple(found.shape)}, not {tuple(tensor.shape)}")
        else:
            filled.update(dict.fromkeys(names, found))
    problems += [f"{name} is not part of this model" for name in tensors if name not in state]
    if problems:
        shown = "\n  ".join(problems[:12]) + ("\n  …" if len(problems) > 12 else "")
        raise UserError(
            f"The weights in {path} do not fit the model that config.json beside them describes:\n"
            f"  {shown}\nEither file was changed or comes from another run."
        )
    original = getattr(network, "_orig_mod", network)
    original.load_state_dict(filled, strict=not has_adapters(original))


def _named(network: nn.Module) -> dict[str, Tensor]:
    """What of a network is kept in files, by plain names."""
    weights = {plain_name(name): tensor for name, tensor in network.state_dict().items()}
    if not has_adapters(network):
        return weights
    return {name: tensor for name, tensor in weights.items() if is_adapter(name)}


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None
) -> None:
    """Write a safetensors file, to be called inside `file_aside` or `folder_aside`."""
    separate = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # Tensors that are slices of one buffer must be copied apart: the format refuses shared memory.
    separate = {
        name: tensor.clone() if _is_slice(tensor) else tensor for name, tensor in separate.items()
    }
    try:
        save_file(separate, path, metadata=metadata or {})
    except SafetensorError as error:
        raise _as_os_error(error) from error
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(path, 0o666 & ~mask)  # the writer makes files that only their owner may read


def read_tensors(path: Path, device: str = "cpu") -> dict[str, Tensor]:
    """All tensors of a safetensors file.

    Raises:
        UserError: the file is not there, cut short or of another kind.
    """
    if not Path(path).is_file():
        raise UserError(f"{path} is missing, so this folder holds no weights that can be loaded.")
    try:
        with safe_open(path, framework="pt", device=device) as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise UserError(
            f"{path} cannot be read as a safetensors file ({error}). It is damaged or was cut "
            "short; copy it again from where it came."
        ) from error


def _is_slice(tensor: Tensor) -> bool:
    return tensor.untyped_storage().nbytes() != tensor.numel() * tensor.element_size()


def _as_os_error(error: SafetensorError) -> OSError:
    """The writer wraps the system's error as text; recover its number for a useful message."""
    text = str(error)
    for number in (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT, errno.EPERM):
        if f"os error {number}" in text or f"code: {number}," in text:
            return OSError(number, text)
    return OSError(0, text)
