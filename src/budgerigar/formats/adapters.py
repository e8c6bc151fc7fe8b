"""Adapters in files: a run that keeps what it changed of a base, and finds that base again.

adapters.safetensors   the adapters' two matrices each, and nothing of the base
config.json            beside what every run says, `adapters`: rank, alpha, targets, the base's path
                       and its fingerprint

The base stays where it is. It is known again by its weights, so that it may be moved and put back;
another model of the same shape is refused, for the adapters would be nonsense on it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from budgerigar.errors import UserError
from budgerigar.layers.lora import add_adapters, merged

ADAPTERS = "adapters.safetensors"
WEIGHTS = "model.safetensors"
_WHOLE = 256 << 20  # bytes of a file that are read altogether
_SAMPLE = (
    1 << 20
)  # of a longer one: so many bytes at each of 256 places, beginning and end included


def weights_file(folder: str | Path, config: Mapping[str, Any] | None = None) -> Path:
    """Where a run keeps its weights: its adapters' file, where it has some."""
    adapted = "adapters" in config if config is not None else (Path(folder) / ADAPTERS).is_file()
    return Path(folder) / (ADAPTERS if adapted else WEIGHTS)


def described(
    base: str | Path, rank: int, alpha: float, targets: tuple[str, ...]
) -> dict[str, Any]:
    """The part `adapters` of a config.json."""
    base = Path(base).resolve()
    return {
        "rank": rank,
        "alpha": alpha,
        "targets": list(targets),
        "base": str(base),
        "base_fingerprint": fingerprint(base),
    }


def fingerprint(path: str | Path) -> str:
    """SHA-256 of a model's weights, hexadecimal: of its file, or of the files of its folder.

    A file of up to 256 MB is read whole; of a longer one, its length, and a megabyte at each of 256
    places, so that a large model is told from its siblings within a second.
    """
    path = Path(path)
    files = [path] if path.is_file() else sorted(path.glob("*.safetensors"))
    digest = hashlib.sha256()
    for file in files:
        size = file.stat().st_size
        digest.update(f"{size}\n".encode())
        with file.open("rb") as opened:
            for start, length in _parts(size):
                opened.seek(start)
                digest.update(opened.read(length))
    return digest.hexdigest()


def _parts(size: int) -> list[tuple[int, int]]:
    """(start, length) of what is read of a file of that size."""
    if size <= _WHOLE:
        return [(start, _SAMPLE) for start in range(0, size, _SAMPLE)]
    count = _WHOLE // _SAMPLE
    return [(i * (size - _SAMPLE) // (count - 1), _SAMPLE) for i in range(count)]


def load_base_of(config: Mapping[str, Any], folder: Path, device: str = "cpu") -> Any:
    """The base of the run in `folder`, as `load_any` gives it.

    Raises:
        UserError: it is gone, or another model lies there now.
    """
    from budgerigar.formats.load import load_any

    told = config["adapters"]
    base = Path(told["base"])
    if not base.exists():
        raise UserError(
            f"{folder} holds only what it changed of {base}, and that is not there. Put the model back "
            f'there, or write its new place into {folder / "config.json"} ("adapters", "base").'
        )
    if fingerprint(base) != told["base_fingerprint"]:
        raise UserError(
            f"{folder} holds what it changed of the model at {base}, and another one lies there now "
            "(its weights have another SHA-256). Put the one back that it was trained on."
        )
    return load_any(base, device)


def with_new_adapters(network: nn.Module, told: Mapping[str, Any], seed: int = 0) -> nn.Module:
    """`network`, frozen, with the adapters that a config.json describes, before their first update."""
    network = merged(network)  # adapters of its own belong to what is frozen
    add_adapters(network, int(told["rank"]), float(told["alpha"]), tuple(told["targets"]), seed)
    return network


def load_adapted(folder: Path, config: Mapping[str, Any], device: str = "cpu") -> nn.Module:
    """The network of a run that keeps adapters: its base, and they beside it.

    Raises:
        UserError: the base is gone or another one, or the adapters do not fit it.
    """
    from budgerigar.formats.tensors import load_network_tensors, read_tensors

    path = Path(folder) / ADAPTERS
    tensors = read_tensors(path)
    try:
        network = with_new_adapters(load_base_of(config, folder).network, config["adapters"])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{Path(folder) / 'config.json'} is damaged: what it says of its adapters cannot be used "
            f"({error!r})"
        ) from error
    load_network_tensors(network, tensors, path)
    return network.to(device).eval()
