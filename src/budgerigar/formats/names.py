"""Models by name: those of our catalogue, and those of Hugging Face's hub.

A path always wins: only what is no file and no folder here is looked up as a name. Hub names are
`owner/model`, or `owner/model/file.gguf` for one file; they need `huggingface_hub` (the extra `hub`).
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.formats.run import RUNS
from budgerigar.text.model_catalogue import fetch_model, models

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(/[\w./-]+\.gguf)?")
# Never weights as pickles, nor copies for other engines in folders of their own.
_WANTED = ["*.safetensors", "*.json", "*.txt", "*.model", "*.spm", "*.jinja"]
_UNWANTED = ["*/*.safetensors", "onnx/*", "openvino/*"]
_HEADERS = [pattern for pattern in _WANTED if pattern != "*.safetensors"]


def find_named(name: str | Path, check: bool = True) -> Path | None:
    """Where the model of that name lies, fetched if need be; None where it is no such name.

    check: verify what lies in the cache by its SHA-256; False: by its sizes.

    Raises:
        UserError: it could not be fetched.
    """
    words = str(name)
    if not words.strip() or Path(words).exists() or (RUNS / words).exists():
        return None
    if words in models():
        return fetch_model(words, check=check).path
    return fetch_from_hub(words) if is_hub_name(words) else None


def near_model(name: str) -> str:
    """A hint where the catalogue has a model of a name like that; else empty."""
    near = get_close_matches(name, models(), n=1, cutoff=0.5)
    return f" Did you mean the model {near[0]}?" if near else ""


def is_hub_name(name: str | Path) -> bool:
    """Whether it may be a name of the hub: `owner/model`, where `owner` is no folder here."""
    words = str(name)
    if not _HUB_NAME.fullmatch(words):
        return False
    owner = words.split("/")[0]
    return owner != RUNS.name and not Path(owner).exists()


def fetch_from_hub(name: str, headers_only: bool = False) -> Path:
    """The folder (or .gguf file) of a hub name, from its own cache or downloaded into it.

    headers_only: everything but the weights.

    Raises:
        UserError: no `huggingface_hub`, no network, no such model, or none that may be read.
    """
    hub = _library(name)
    repository, _, file = _parts(name)
    progress.note(f"looking for {name} on Hugging Face's hub (its licence is its authors')")
    try:
        if file:
            return Path(hub.hf_hub_download(repository, file))
        wanted = _HEADERS if headers_only else _WANTED
        found = hub.snapshot_download(repository, allow_patterns=wanted, ignore_patterns=_UNWANTED)
        return Path(found)
    except Exception as error:  # of the hub's own kinds, of requests', httpx' and the system's
        raise UserError(_why(name, error)) from None


class RemoteHeaders:
    """The tensors of a hub model, from the headers of its files alone; as a `TensorSource`."""

    def __init__(self, name: str) -> None:
        hub = _library(name)
        self.where = name
        try:
            found = hub.get_safetensors_metadata(name)
        except Exception as error:  # as in `fetch_from_hub`
            if type(error).__name__ == "NotASafetensorsRepoError":
                raise UserError(
                    f"{name} has no model.safetensors on the hub; pickles are never opened here"
                ) from None
            raise UserError(_why(name, error)) from None
        self._tensors: dict[str, Any] = {}
        for file in found.files_metadata.values():
            self._tensors |= file.tensors

    def names(self) -> list[str]:
        """All tensors' names."""
        return list(self._tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        """Its shape."""
        return tuple(self._tensors[name].shape)

    def dtype(self, name: str) -> str:
        """What it is stored as: F32, F16, BF16 …"""
        return str(self._tensors[name].dtype)

    def get(self, name: str) -> Any:
        """Nothing: the weights were not fetched."""
        raise AssertionError(name)


def _parts(name: str) -> tuple[str, str, str]:
    owner, model, *rest = name.split("/", 2)
    return f"{owner}/{model}", model, rest[0] if rest else ""


def _library(name: str) -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise UserError(
            f"{name}: there is no such file or folder here. If it is a model of Hugging Face's hub, "
            "fetching it needs a library: pip install 'budgerigar[hub]'"
        ) from None
    return huggingface_hub


def _why(name: str, error: Exception) -> str:
    """What went wrong, and what to do."""
    kind = type(error).__name__
    here = f"{name}: there is no such file or folder here, and"
    if kind in ("RepositoryNotFoundError", "HFValidationError"):
        return (
            f"{here} Hugging Face's hub has no model of this name (or it is private: sign in with "
            "`hf auth login`)."
        )
    if kind == "GatedRepoError":
        return (
            f"{name}: its authors ask to accept a licence first, on https://huggingface.co/{name}"
        )
    if kind in ("EntryNotFoundError", "RemoteEntryNotFoundError"):
        return f"{here} the hub's model has no such file."
    reason = (str(error).strip().splitlines() or [kind])[0][:200]
    return (
        f"{here} Hugging Face's hub cannot be reached ({kind}: {reason}). With a network it is fetched "
        "once and kept; without one, give the folder of a model that was downloaded elsewhere."
    )
