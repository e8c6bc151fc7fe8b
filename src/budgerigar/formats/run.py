"""A run is a folder that is enough to run by itself.

config.json         format_version, kind, model (every dial), text (documents, sources by SHA-256)
tokenizer.json      the vocabulary (with two: the target's, and the source's as source_tokenizer.json)
model.safetensors   the best weights by validation (adapters.safetensors: what was changed of a base)
recipe.toml         everything that was asked for, resolved
metrics.jsonl       one line per measurement
checkpoints/        what resuming needs (see checkpoints.py)
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from budgerigar.errors import UserError
from budgerigar.formats.adapters import ADAPTERS, WEIGHTS, load_adapted, weights_file
from budgerigar.formats.atomic import disk_errors, file_aside, folder_aside, write_text
from budgerigar.formats.tensors import (
    load_network_tensors,
    network_tensors,
    read_tensors,
    write_tensors,
)
from budgerigar.layers.lora import has_adapters
from budgerigar.models.configs import NgramConfig, config_from_dict, config_to_dict
from budgerigar.models.word_vectors_config import WordVectorsConfig

FORMAT_VERSION = 1
SOURCE_PREFIX = "source_"  # of the files of a source's own tokenizer
RUNS = Path("runs")


@dataclass
class Loaded:
    """What a folder holds, ready to run (the network is in evaluation mode)."""

    network: Any
    tokenizer: Any
    config: dict[str, Any]
    recipe: dict[str, Any] | None
    folder: Path
    source_tokenizer: Any = (
        None  # of an encoder-decoder; the same object where there is one vocabulary
    )
    report: Any = None  # of an imported model: `weight_rules.LoadReport`


class RunFolder:
    """The files of one run. Making one never overwrites anything."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.config_path = self.path / "config.json"
        self.recipe_path = self.path / "recipe.toml"
        self.metrics_path = self.path / "metrics.jsonl"

    @property
    def weights_path(self) -> Path:
        """The file of the best weights so far."""
        return weights_file(self.path)

    @classmethod
    def create(
        cls,
        path: Path,
        config: dict[str, Any],
        recipe_toml: str,
        tokenizer: Any,
        source_tokenizer: Any = None,
    ) -> RunFolder:
        """Make a new run folder; it appears whole or not at all.

        Raises:
            UserError: something is there already, or the place cannot be written.
        """
        path = Path(path)
        cls.refuse_existing(path)
        with disk_errors(f"make the folder {path}"):
            path.parent.mkdir(parents=True, exist_ok=True)
        with folder_aside(path, f"make the run folder {path}") as aside:
            _write_config(aside / "config.json", config)
            (aside / "recipe.toml").write_text(recipe_toml, encoding="utf-8", newline="\n")
            save_tokenizers(aside, tokenizer, source_tokenizer)
        return cls(path)

    @staticmethod
    def refuse_existing(path: Path) -> None:
        """Raise a `UserError` when something is at `path` already."""
        if path.exists():
            raise UserError(
                f"{path} exists already, and a run never overwrites another. Go on with it by "
                f"`--resume {path}`, or choose another --out."
            )

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """An existing run folder.

        Raises:
            UserError: it is not one, naming what is missing.
        """
        folder = cls(path)
        if not folder.path.is_dir():
            raise UserError(f"There is no folder {path}. `budgie train` makes one under {RUNS}/.")
        if not folder.config_path.is_file():
            raise UserError(f"{path} is not a run folder: it has no config.json.{_inside(path)}")
        return folder

    def config(self) -> dict[str, Any]:
        """The content of config.json, checked for its version."""
        return read_config(self.path)

    def recipe(self) -> dict[str, Any] | None:
        """The content of recipe.toml; None when the folder has none (a converted model)."""
        if not self.recipe_path.is_file():
            return None
        try:
            return tomllib.loads(self.recipe_path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise UserError(f"{self.recipe_path} cannot be read: {error}") from error

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the run; a second process that wants it gets a `UserError`. A kill frees it."""
        from filelock import FileLock, Timeout

        lock = FileLock(str(self.path / ".lock"))
        with disk_errors(f"lock {self.path}"):
            try:
                lock.acquire(timeout=0)
            except Timeout as error:
                raise UserError(
                    f"Another process is training in {self.path}. Wait for it, or stop it first "
                    "(Ctrl-C there saves its state)."
                ) from error
        try:
            yield
        finally:
            lock.release()


def make_config(model_config: Any, text: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The content of a config.json: `model_config` is one of models.configs.KINDS."""
    model = config_to_dict(model_config)
    return {
        "format_version": FORMAT_VERSION,
        "kind": model["kind"],
        "model": model,
        "text": text,
        **more,
    }


def save_tokenizers(folder: Path, tokenizer: Any, source_tokenizer: Any = None) -> None:
    """Write the tokenizer, and beside it the source's where the source has one of its own."""
    tokenizer.save(folder)
    if has_own(tokenizer, source_tokenizer):
        source_tokenizer.save(folder, SOURCE_PREFIX)


def has_own(tokenizer: Any, source_tokenizer: Any) -> bool:
    """Whether the source is read with another vocabulary than the target's."""
    if source_tokenizer is None or source_tokenizer is tokenizer:
        return False
    return bool(source_tokenizer.fingerprint != tokenizer.fingerprint)


def load_tokenizers(folder: Path) -> tuple[Any, Any]:
    """(tokenizer, source's tokenizer) of a run folder; the same object where there is only one."""
    from budgerigar.text.tokenizers import Tokenizer

    tokenizer = Tokenizer.load(folder)
    if not (Path(folder) / f"{SOURCE_PREFIX}tokenizer.json").is_file():
        return tokenizer, tokenizer
    return tokenizer, Tokenizer.load(folder, SOURCE_PREFIX)


def save_model(
    folder: Path,
    network: Any,
    tokenizer: Any,
    config: dict[str, Any],
    extra: dict[str, str] | None = None,
    source_tokenizer: Any = None,
) -> None:
    """Write all a model needs to run into `folder`: weights, tokenizer, config.

    `config` is what `make_config` returns; `extra` goes into the weights file's metadata.
    """
    folder = Path(folder)
    with disk_errors(f"make the folder {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
    save_tokenizers(folder, tokenizer, source_tokenizer)
    save_weights(folder, network, extra)
    _write_config(folder / "config.json", config)


def save_weights(folder: Path, network: Any, extra: dict[str, str] | None = None) -> None:
    """Replace model.safetensors by the weights of `network`, atomically; of a network with adapters
    these alone are kept, as adapters.safetensors."""
    if hasattr(network, "state_tensors"):
        import torch

        arrays = network.state_tensors()
        tensors = {name: torch.as_tensor(array) for name, array in arrays.items()}
    else:
        tensors = network_tensors(network)
    name = ADAPTERS if isinstance(network, nn.Module) and has_adapters(network) else WEIGHTS
    with file_aside(Path(folder) / name) as aside:
        write_tensors(aside, tensors, {"format": "pt", **(extra or {})})


def read_config(folder: Path) -> dict[str, Any]:
    """config.json of a run folder, or a `UserError` that says what is wrong with it."""
    path = Path(folder) / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"{folder} is not a run folder: it has no config.json.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} cannot be read: {str(error)[:120]}") from error
    if not isinstance(config, dict) or "format_version" not in config:
        raise UserError(
            f"{path} is not one of Budgerigar's: it has no format_version. Give a folder that "
            "`budgie train` made."
        )
    _check_types(path, config)
    if config["format_version"] > FORMAT_VERSION:
        raise UserError(
            f"{path} has format version {config['format_version']}; this version of Budgerigar "
            f"reads up to {FORMAT_VERSION}. Update it: pip install -U budgerigar."
        )
    missing = [key for key in ("kind", "model") if key not in config]
    if missing:
        raise UserError(f"{path} lacks {' and '.join(missing)}; it is damaged.")
    return config


def _check_types(path: Path, config: dict[str, Any]) -> None:
    """Raise a `UserError` for a part of config.json that is something else than it should be."""
    text = config.get("text", {})
    parts = text if isinstance(text, dict) else {}
    fits = {
        "format_version": type(config["format_version"]) is int,
        "kind": isinstance(config.get("kind", ""), str),
        "model": isinstance(config.get("model", {}), dict),
        "text": isinstance(text, dict),
        "text.files": isinstance(parts.get("files", []), list),
        "text.sources": all(isinstance(source, dict) for source in parts.get("sources", [])),
    }
    wrong = [key for key, fitting in fits.items() if not fitting]
    if wrong:
        raise UserError(
            f"{path} is damaged: what it says for {', '.join(wrong)} is not what belongs there."
        )


def load_model(path: str | Path, device: str = "cpu") -> Loaded:
    """Load a run folder (a path, or "last") to run it.

    Raises:
        UserError: names the file that is missing, damaged or does not fit the others.
    """
    folder = resolve_run(path)
    run = RunFolder.open(folder)
    config = run.config()
    weights = weights_file(folder, config).name
    missing = [n for n in ("tokenizer.json", weights) if not (folder / n).is_file()]
    if missing:
        hint = _unfinished(run, config) if missing == [weights] else ""
        raise UserError(f"{folder} lacks {' and '.join(missing)}.{hint}")
    tokenizer, source_tokenizer = load_tokenizers(folder)
    network = load_network(folder, config, device)
    return Loaded(network, tokenizer, config, run.recipe(), folder, source_tokenizer)


def _unfinished(run: RunFolder, config: dict[str, Any]) -> str:
    """How to get the model that a run has not saved yet."""
    if not run.recipe_path.is_file():
        return ""
    if isinstance(config_from_dict(config["model"]), NgramConfig):
        return " Counting was stopped before its end: remove the folder and train again."
    return (
        " Training has not saved a model yet: where it is running, wait for its first evaluation; "
        f"else go on with `budgie train --resume {run.path}`."
    )


def load_network(folder: Path, config: dict[str, Any], device: str = "cpu") -> Any:
    """Build the network that `config` describes and fill it from model.safetensors, or its base's with
    adapters."""
    from budgerigar import models

    if "adapters" in config:
        return load_adapted(Path(folder), config, device)
    model_config = config_from_dict(config["model"])
    path = Path(folder) / WEIGHTS
    tensors = read_tensors(path)
    if isinstance(model_config, NgramConfig):
        from budgerigar.models.ngram import NgramModel

        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        return NgramModel.from_tensors(arrays, model_config)
    if isinstance(model_config, WordVectorsConfig):
        from budgerigar.models.word_vectors import WordVectors

        return WordVectors.from_tensors(tensors, model_config)
    network = models.build(model_config, seed=0)
    load_network_tensors(network, tensors, path)
    return network.to(device).eval()


def resolve_run(name: str | Path) -> Path:
    """The folder a RUN argument means: a path, a name under runs/, or "last" (the newest).

    Raises:
        UserError: there is none.
    """
    if str(name) == "last":
        folders = [p.parent for p in RUNS.glob("*/config.json")]
        if not folders:
            raise UserError(
                f"There is no run under {RUNS.resolve()} yet. Make one: budgie train FILE."
            )
        return max(folders, key=_last_change)
    if not isinstance(name, str | Path) or not str(name).strip():
        words = "an empty name" if isinstance(name, str) else repr(name)
        raise UserError(f"A run was asked for by {words}. Give its folder, or `last`.")
    for candidate in (Path(name), RUNS / name):
        if candidate.is_dir():
            return candidate
    known = sorted(p.parent.name for p in RUNS.glob("*/config.json"))
    hint = f" Runs here: {', '.join(known[-8:])}." if known else ""
    raise UserError(f"There is no run folder {name}.{hint}")


def _inside(path: Path) -> str:
    """The runs that a folder holds which is none itself."""
    names = sorted(p.parent.name for p in Path(path).glob("*/config.json"))
    return f" It holds runs: {', '.join(names[-8:])}." if names else ""


def _last_change(folder: Path) -> float:
    files = ("config.json", WEIGHTS, ADAPTERS, "metrics.jsonl")
    return max((folder / f).stat().st_mtime for f in files if (folder / f).exists())


def _write_config(path: Path, config: dict[str, Any]) -> None:
    write_text(path, json.dumps(config, indent=2, ensure_ascii=False) + "\n")
