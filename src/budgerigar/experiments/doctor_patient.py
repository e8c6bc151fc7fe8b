"""What a doctor examines: the parts of a model, each read by itself, so that one broken part does not
hide the others. A part that cannot be read is a fault, and None here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.formats.adapters import weights_file
from budgerigar.formats.families import family_of
from budgerigar.formats.families.values import Values
from budgerigar.formats.gguf_architectures import architecture_of
from budgerigar.formats.gguf_file import GgufFile, is_gguf
from budgerigar.formats.names import find_named
from budgerigar.formats.run import load_tokenizers, read_config, resolve_run
from budgerigar.formats.safetensors_files import INDEX, SINGLE, SafetensorsFile, SafetensorsFolder
from budgerigar.formats.weight_rules import TensorSource
from budgerigar.layers.lora import merged
from budgerigar.models.configs import config_from_dict
from budgerigar.text.declared_tokens import Declarations

RUN, HUGGING_FACE, GGUF = "a run of ours", "Hugging Face folder", "GGUF file"
_OURS = ("recipe.toml", "metrics.jsonl", "tokenizer_extras.json", "checkpoints")
_CTRANSLATE2 = {"shared_vocabulary.json", "target_vocabulary.json"}
_DAMAGED = "Copy or download it again from where it came."


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong: severity "error", "warning" or "note"."""

    name: str
    evidence: str
    advice: str
    severity: str = "error"


class NotMadeError(Exception):
    """Why a check was not made."""


@dataclass
class Patient:
    """The parts of a model that could be read; `faults` says why others could not."""

    path: Path
    form: str
    text: str | None = None
    config: Any = None
    """our dials (models.configs.KINDS)"""
    values: dict[str, Any] = field(default_factory=dict)
    """config.json, or a GGUF file's metadata"""
    said: Declarations | None = None
    tokenizer: Any = None
    source_tokenizer: Any = None
    tensors: TensorSource | None = None
    whole: bool = False
    """whether all weights are there"""
    problems: Callable[[], list[str]] | None = None
    """tensors that are missing, unused or of another shape, from headers"""
    load: Callable[[], Any] | None = None
    """the network"""
    faults: list[Fault] = field(default_factory=list)
    measured: dict[str, float] = field(default_factory=dict)
    _network: Any = None

    @contextmanager
    def reading(self, name: str, advice: str = _DAMAGED) -> Iterator[None]:
        """What goes wrong inside becomes a fault of that name."""
        try:
            yield
        except UserError as error:
            self._fault(name, str(error), advice)
        except Exception as error:  # a part that is broken in a way that no reader foresaw
            self._fault(name, f"{type(error).__name__}: {error}", advice)

    def _fault(self, name: str, evidence: str, advice: str) -> None:
        if all(evidence != fault.evidence for fault in self.faults):
            self.faults.append(Fault(name, evidence, advice))

    def need_config(self) -> Any:
        """Our dials, or a reason to leave a check out."""
        if self.config is None:
            raise NotMadeError("what kind of model this is could not be read")
        return self.config

    def need_tokenizer(self) -> Any:
        """The tokenizer, likewise."""
        if self.tokenizer is None:
            raise NotMadeError("the tokenizer could not be read")
        return self.tokenizer

    def need_network(self) -> Any:
        """The network with its weights, loaded once."""
        if self.load is None or not self.whole:
            raise NotMadeError("the model cannot be loaded")
        if self._network is None:
            self._network = self.load()
        return self._network


def patient_of(path: str | Path, text: str | None = None) -> Patient:
    """The parts of what lies at `path`.

    Raises:
        UserError: there is nothing of that name, or nothing of a model in it.
    """
    path = find_named(path) or path
    with redirect_stderr(StringIO()):  # remarks of the readers are checks of their own here
        if str(path).strip() and Path(path).is_file():
            return _gguf(Path(path), text)
        folder = resolve_run(path)
        names = {one.name for one in folder.iterdir()}
        found = [name for name in names if name.endswith((".safetensors", ".gguf", ".spm"))]
        known = {"config.json", "tokenizer.json", "vocab.txt", "vocab.json", INDEX, *_OURS}
        if not found and not names & known:
            raise UserError(f"{folder} holds nothing of a model: no config.json, no weights.")
        if "model.bin" in names and names & _CTRANSLATE2:
            raise UserError(
                f"{folder} is a CTranslate2 folder, which is not examined: give what it was made from."
            )
        if "config.json" not in names and len(found) == 1 and found[0].endswith(".gguf"):
            return _gguf(folder / found[0], text)
        return (_run if _is_ours(folder, names) else _hugging_face)(folder, text)


def _is_ours(folder: Path, names: set[str]) -> bool:
    """Whether the folder was a run; where config.json cannot say, the other files do."""
    try:
        values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return bool(names & set(_OURS)) and "tokenizer_config.json" not in names
    return isinstance(values, dict) and "format_version" in values


# -- a folder in the form of the hub --------------------------------------------------------------
def _hugging_face(folder: Path, text: str | None) -> Patient:
    from budgerigar.formats import hugging_face as hub

    patient = Patient(folder, HUGGING_FACE, text)
    with patient.reading("a description that cannot be read"):
        patient.values = Values.read(folder / "config.json").values
    with patient.reading("declarations that cannot be read"):
        patient.said = Declarations(folder)
    _read_folder(patient, folder)
    with patient.reading("a tokenizer that cannot be read", "Add the files of the tokenizer."):
        patient.tokenizer, patient.source_tokenizer = hub.tokenizers_of(folder)
    if not patient.values:
        return patient
    if not patient.whole:  # the dials may be there without the weights
        with patient.reading("a model that is not known here", ""):
            values = Values(patient.values, str(folder / "config.json"))
            patient.config = family_of(values).config_from(values, patient.tensors)
        return patient
    with patient.reading("a model that is not known here", ""):
        described = hub.describe(folder)
        patient.config = described.config
        patient.problems = lambda: hub.problems(described)
        patient.load = lambda: hub.load_weights(described)[0]
    return patient


class _Held:
    """The tensors of those shards that are there."""

    def __init__(self, folder: Path, files: Iterable[SafetensorsFile]) -> None:
        self.where, self._home = str(folder), {n: file for file in files for n in file.names()}

    def names(self) -> Iterable[str]:
        return self._home.keys()

    def shape(self, name: str) -> tuple[int, ...]:
        return self._home[name].shape(name)

    def dtype(self, name: str) -> str:
        return self._home[name].dtype(name)

    def get(self, name: str) -> Tensor:
        return self._home[name].get(name)


def _read_folder(patient: Patient, folder: Path) -> None:
    """Weights: whole, or of the shards that are there."""
    missing = _missing_shards(folder)
    if missing:
        patient.faults.append(
            Fault(
                "a shard named but missing",
                f"{INDEX} names {', '.join(missing)}, which {_is(missing)} not there",
                "Download what is missing. A program that goes on without it fills those weights with "
                "random numbers.",
            )
        )
        shards = []
        for path in sorted(folder.glob("*.safetensors")):
            with patient.reading("weights that cannot be read"):
                shards.append(SafetensorsFile(path))
        patient.tensors = _Held(folder, shards)
        return
    with patient.reading("weights that cannot be read"):
        patient.tensors = SafetensorsFolder(folder)
        patient.whole = True


def _is(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _missing_shards(folder: Path) -> list[str]:
    """Files that the index names and the folder lacks."""
    if (folder / SINGLE).is_file() or not (folder / INDEX).is_file():
        return []
    try:
        homes = json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"].values()
        return sorted({str(home) for home in homes if not (folder / str(home)).is_file()})
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return []


# -- a GGUF file -----------------------------------------------------------------------------------
def _gguf(path: Path, text: str | None) -> Patient:
    from budgerigar.formats import gguf_model
    from budgerigar.formats.weight_rules import match, shapes_of
    from budgerigar.models.transformer import Transformer
    from budgerigar.text.imported_tokenizer import tokenizer_from_gguf

    if not is_gguf(path) and path.suffix != ".gguf":
        raise UserError(
            f"{path} is a file of a kind that cannot be examined: give a .gguf file, or the folder of "
            "a run or a model."
        )
    patient = Patient(path, GGUF, text)
    with patient.reading("a file that cannot be read"):
        patient.tensors = file = GgufFile(path)
        patient.values = file.metadata
    if patient.tensors is None:
        return patient
    from budgerigar.experiments.doctor_tokens import knows_pre_tokenizer

    if knows_pre_tokenizer(file.metadata):  # else a check of its own says so
        with patient.reading("a tokenizer that cannot be read"):
            patient.tokenizer = tokenizer_from_gguf(file.metadata, file.where)

    def problems() -> list[str]:
        rules = architecture_of(file).rules(patient.config)
        shapes = shapes_of(Transformer.unfilled(patient.config))
        return match(shapes, rules, file, architecture_of(file).ignored).problems

    with patient.reading("a model that is not known here", ""):
        described = gguf_model.describe_gguf(path)
        patient.config, patient.whole = described.config, True
        patient.problems = problems
        patient.load = lambda: gguf_model.load_weights(described)[0]
    return patient


# -- a run of ours ---------------------------------------------------------------------------------
def _run(folder: Path, text: str | None) -> Patient:
    from budgerigar.formats.run import load_network

    patient = Patient(folder, RUN, text)
    with patient.reading("a description that cannot be read"):
        patient.values = read_config(folder)
        patient.config = config_from_dict(patient.values["model"])
    with patient.reading("a tokenizer that cannot be read"):
        patient.tokenizer, patient.source_tokenizer = load_tokenizers(folder)
    path = weights_file(folder, patient.values)
    if not path.is_file():
        patient.faults.append(
            Fault(
                "no weights",
                f"{path.name} is not there",
                "Training may have been stopped before its first evaluation: go on with `budgie train "
                f"--resume {folder}`.",
            )
        )
        return patient
    with patient.reading("weights that cannot be read"):
        patient.tensors = SafetensorsFile(path)
        patient.whole = True
    if patient.config is not None and patient.whole:
        config = patient.values
        patient.load = lambda: merged(load_network(folder, config))
    return patient
