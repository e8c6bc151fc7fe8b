"""From one form of a model to another; what was written is read again and compared with what was read.

hugging-face   a folder that `transformers` loads (float32)
gguf           one file for llama.cpp and all built on it (f32, f16 or q8_0), Llama and GPT-2 shapes
run            a folder of ours
ctranslate2    a translator's folder for the library of that name (float32)
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.formats.atomic import folder_aside
from budgerigar.formats.load import load_any
from budgerigar.formats.run import Loaded, save_model
from budgerigar.layers.config import TransformerConfig
from budgerigar.layers.lora import merged

FORMS = ("hugging-face", "gguf", "run", "ctranslate2")
TYPES = ("f32", "f16", "q8_0")
ROWS, WIDTH = 2, 32  # of the tokens that both are asked about
FAR_OFF = 0.1  # beyond any rounding: the two are not the same model


@dataclass(frozen=True)
class Conversion:
    """A model that was written in another form, and how far its answers are from those of before."""

    path: Path
    form: str
    shape: str
    """the family or architecture that says what it is"""
    difference: float | None
    """largest difference of a logit, relative to the largest; None where nothing here can read it"""
    agreement: float | None
    """share of the positions where both put the same token first; None where no token is predicted"""
    n_positions: int
    notes: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """It in words, the comparison last."""
        what = (
            f"{self.path}: {self.form}, {self.shape}" if self.shape else f"{self.path}: {self.form}"
        )
        if self.difference is None:
            return [what, *self.notes]
        compared = (
            f"read again: largest difference of the logits {self.difference:.2g} of the largest"
        )
        if self.agreement is not None:
            same = round(self.agreement * self.n_positions)
            compared += f"; the same best token at {same} of {self.n_positions} positions"
        return [what, *self.notes, compared]


def convert(
    path: str | Path, out: str | Path, to: str | None = None, kind: str | None = None
) -> Conversion:
    """Write the model at `path` as a new folder or file `out`, and compare the two.

    `to`: one of FORMS; None goes by the name, .gguf a GGUF file, others a Hugging Face folder.
    `kind`: numbers of a GGUF file's matrices, one of TYPES (None: f16).

    Raises:
        UserError: something is at `out`, the form has no counterpart for a dial of the model (named),
            or what was written is not the same model; nothing is left at `out` then.
    """
    out = Path(out)
    form = _form(out, to, kind)
    if out.exists() or out.is_symlink():
        raise UserError(f"{out} exists already; choose another name or remove it first.")
    loaded = load_any(path)
    _refuse(loaded, form)
    _check(loaded, form)
    if form == "ctranslate2":
        return _ctranslate2(loaded, out)
    asked = questions(loaded)
    before, predicts = answers(loaded, asked), _predicts(loaded.network)
    shape, notes = _WRITERS[form](loaded, out, kind or "f16")  # whole or not at all
    del loaded  # never two models in memory
    try:
        difference = _difference(out, before, after := answers(load_any(out), asked))
    except BaseException:
        _remove(out)
        raise
    same = (before.argmax(-1) == after.argmax(-1)).float()
    agreement = float(same.mean()) if predicts else None
    return Conversion(out, form, shape, difference, agreement, same.numel(), notes)


def _form(out: Path, to: str | None, kind: str | None) -> str:
    form = to or ("gguf" if out.suffix == ".gguf" else "hugging-face")
    if form not in FORMS:
        raise UserError(f"{form!r} is no form that models are written in: {', '.join(FORMS)}.")
    if kind is not None and form != "gguf":
        raise UserError(
            f"a type of numbers is chosen for gguf alone; {form} is written in float32."
        )
    if kind is not None and kind.lower() not in TYPES:
        raise UserError(
            f"GGUF files are written with {', '.join(TYPES)}; {kind!r} is none of them."
        )
    return form


def _refuse(loaded: Loaded, form: str) -> None:
    if form == "run" and not {"imported", "adapters"} & set(loaded.config):
        raise UserError(f"{loaded.folder} is a run's folder already: copy it as it is.")
    if not isinstance(getattr(loaded.network, "config", None), TransformerConfig):
        raise UserError(
            f"{loaded.folder} is of kind {loaded.config['kind']}, and open forms of models are for "
            "Transformers: this one has no counterpart there."
        )


def _check(loaded: Loaded, form: str) -> None:
    """Raise a `UserError` before any work where a form cannot say what the model is; it names the
    dials without a counterpart, and the forms that can."""
    try:
        _lacking(loaded, form)
    except UserError as error:
        others = [other for other in FORMS if other not in (form, "run") and _fits(loaded, other)]
        if not others:
            raise
        ways = " or ".join(f"--to {other}" for other in others)
        raise UserError(f"{error}\nWhat it can be written as: {ways}.") from None


def _lacking(loaded: Loaded, form: str) -> None:
    from budgerigar.formats import ctranslate2_out, gguf_out, hugging_face_out

    if form == "hugging-face":
        hugging_face_out.family_fit(loaded)
    elif form == "gguf":
        gguf_out.fit_gguf(loaded.network.config)
    elif form == "ctranslate2":
        ctranslate2_out.check(loaded.network.config)


def _fits(loaded: Loaded, form: str) -> bool:
    try:
        _lacking(loaded, form)
    except UserError:
        return False
    return True


def _remove(out: Path) -> None:
    if out.is_dir():
        shutil.rmtree(out, ignore_errors=True)
    else:
        out.unlink(missing_ok=True)


# -- writing ---------------------------------------------------------------------------------------
def _hugging_face(loaded: Loaded, out: Path, kind: str) -> tuple[str, list[str]]:
    from budgerigar.formats.hugging_face_out import save_hugging_face

    written = save_hugging_face(loaded, out)
    return written.architecture, written.notes


def _gguf(loaded: Loaded, out: Path, kind: str) -> tuple[str, list[str]]:
    from budgerigar.formats.gguf_out import save_gguf

    written = save_gguf(loaded, out, kind.upper())
    stored = ", ".join(f"{number:,} values {name}" for name, number in written.stored.items())
    return f"{written.architecture} ({stored})", written.notes


def _run(loaded: Loaded, out: Path, kind: str) -> tuple[str, list[str]]:
    save_as_run(loaded, out)
    return "", []


def save_as_run(
    loaded: Loaded, out: Path, beside: Callable[[Path], object] = lambda _: None
) -> None:
    """Write a model as a folder of ours, in float32. `beside` puts more into it before it appears."""
    config = {key: value for key, value in loaded.config.items() if key != "adapters"}
    with folder_aside(out, f"make the folder {out}") as aside:
        save_model(
            aside,
            merged(loaded.network),  # with adapters: one network of them and their base
            loaded.tokenizer,
            config,
            source_tokenizer=loaded.source_tokenizer,
        )
        beside(aside)


def _ctranslate2(loaded: Loaded, out: Path) -> Conversion:
    """Written, and scored by the library itself where it is here."""
    from budgerigar.formats import ctranslate2_out as to

    to.save_ctranslate2(loaded, out)
    if not to.has_library():
        note = "Not compared: that takes the library itself, `pip install ctranslate2`."
        return Conversion(out, "ctranslate2", to.NAME, None, None, 0, [note])
    try:
        target_pieces, source_pieces = to.vocabularies(loaded)
        ends = loaded.tokenizer.end_id, loaded.source_tokenizer.end_id
        target, source = (_ids_without(end, loaded, side) for side, end in enumerate(ends))
        theirs = to.their_scores(
            out, [source_pieces[i] for i in source], [target_pieces[i] for i in target]
        )
        difference = _difference(out, to.our_scores(loaded, source, target), theirs)
    except BaseException:
        _remove(out)
        raise
    note = "Its log-probabilities of tokens are compared, by the library itself."
    return Conversion(out, "ctranslate2", to.NAME, difference, None, len(theirs), [note])


def _ids_without(end: int, loaded: Loaded, side: int) -> list[int]:
    """Tokens of the target (side 0) or source (1) without their ends."""
    tokenizer = (loaded.tokenizer, loaded.source_tokenizer)[side]
    width = max(1, min(WIDTH, loaded.network.config.context_length - 1))
    drawn = _tokens(tokenizer.vocab_size, width, side)[0]
    return [int(i) for i in drawn if int(i) != end]


_Writer = Callable[[Loaded, Path, str], tuple[str, list[str]]]
_WRITERS: dict[str, _Writer] = {"hugging-face": _hugging_face, "gguf": _gguf, "run": _run}


# -- comparing -------------------------------------------------------------------------------------
def questions(loaded: Loaded) -> dict[str, Tensor]:
    """Tokens (B,T) that a model and what it was written as are asked about.

    Of the model's own vocabularies: that of what was written may have names for padding too.
    """
    config = loaded.network.config
    limits = [config.vocab_size, loaded.tokenizer.vocab_size]
    width = max(1, min(WIDTH, config.context_length or WIDTH))
    found = {"tokens": _tokens(min(limits), width, 0)}
    if config.assembly == "encoder-decoder":
        source = [config.source_vocab_size or config.vocab_size, loaded.source_tokenizer.vocab_size]
        found["source"] = _tokens(min(source), width, 1)
    return found


@torch.inference_mode()
def answers(loaded: Loaded, asked: dict[str, Tensor]) -> Tensor:
    """What a model makes of `asked`: logits (B,T,V), or vectors (B,T,D)."""
    network = loaded.network
    found: Tensor = network(**{name: ids.to(network.device) for name, ids in asked.items()})
    return found.cpu()


def _tokens(below: int, width: int, seed: int) -> Tensor:
    """(B,T) drawn evenly from ids under `below`."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, below, (ROWS, width), generator=generator)


def _predicts(network: Any) -> bool:
    """Whether it gives logits; an encoder without an output layer gives vectors."""
    heads = (getattr(network, "head", True), getattr(network, "class_head", None))
    return any(head is not None for head in heads)


def _difference(out: Path, before: Tensor, after: Tensor) -> float:
    """The largest, relative to the largest number; or an error where these are two models."""
    if before.shape != after.shape:
        raise UserError(
            f"{out}: what was written gives {tuple(after.shape)} numbers and the model "
            f"{tuple(before.shape)}; it was removed."
        )
    difference = float((before - after).abs().max()) / (float(before.abs().max()) or 1.0)
    if not difference <= FAR_OFF:  # also where it is no number
        raise UserError(
            f"{out}: the logits of what was written differ by {difference:.3g} of the largest, which "
            "is another model; it was removed. `budgie doctor` says what is wrong with the source."
        )
    return difference
