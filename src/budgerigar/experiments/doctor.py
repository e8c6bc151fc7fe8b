"""`budgie doctor`: the classic faults of a model's files, each tried, what was found said in words.

It works as far as it can on what is broken: a check that another fault makes impossible is listed as
not made, with the reason. Faults are "error" (it does not load, or its output is wrong) or "warning"
(its output may be wrong, here or in another program); "note" is worth knowing and no fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from budgerigar.errors import UserError
from budgerigar.experiments import doctor_tokens as tokens
from budgerigar.experiments import doctor_weights as weights
from budgerigar.experiments.doctor_patient import Fault, NotMadeError, Patient, patient_of

Check = Callable[[Patient], Iterable[Fault]]
CHECKS: dict[str, Check] = {
    "missing, unused or misshapen tensors": weights.tensors_fit,
    "numbers that are infinite or none": weights.numbers,
    "tie flag against tensors": weights.tie,
    "vocabulary against tokenizer": tokens.vocabulary,
    "pre-tokenizer": tokens.pre_tokenizer,
    "end tokens": tokens.ends,
    "special tokens": tokens.specials,
    "chat template": tokens.template,
    "BOS twice": tokens.twice,
    "generation defaults": tokens.generation,
    "context beyond training": weights.context,
    "rotary order": weights.rotary_order,
    "output layer left random": weights.random_head,
}
"""in the order in which they are made, cheap ones first"""
_LEVELS = ("error", "warning", "note")


@dataclass
class Diagnosis:
    """What `examine` found.

    examined: checks that were made; skipped: those that were not, and why; measured: what was
    measured on the way ("perplexity as stored": 12.3).
    """

    path: str
    form: str
    faults: list[Fault] = field(default_factory=list)
    examined: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    measured: dict[str, float] = field(default_factory=dict)

    @property
    def healthy(self) -> bool:
        """Whether there is no fault; notes are none."""
        return all(fault.severity == "note" for fault in self.faults)

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        return {"healthy": self.healthy, **asdict(self)}

    def lines(self) -> list[str]:
        """The report in words, the worst first."""
        lines = [f"{self.path}: {self.form}"]
        for fault in self.faults:
            lines.append(f"  {fault.severity}: {fault.name}: {fault.evidence}")
            lines += [f"    {fault.advice}"] if fault.advice else []
        lines += [f"  measured: {name} {value:,.4g}" for name, value in self.measured.items()]
        lines += [f"  not checked: {name}: {why}" for name, why in self.skipped.items()]
        counts = [sum(fault.severity == level for fault in self.faults) for level in _LEVELS]
        said = ", ".join(
            f"{n} {level}{'' if n == 1 else 's'}"
            for n, level in zip(counts, _LEVELS, strict=True)
            if n
        )
        return [*lines, f"{len(self.examined)} checks made: {said or 'nothing wrong was found'}"]


def examine(path: str | Path, text: str | None = None) -> Diagnosis:
    """Try every fault on a run's folder, a Hugging Face folder or a GGUF file.

    text: what perplexity is measured on, in the model's language (None: a few English sentences).

    Raises:
        UserError: there is nothing of that name, or nothing in it that could be examined.
    """
    patient = patient_of(path, text)
    found = Diagnosis(str(patient.path), patient.form, faults=list(patient.faults))
    for name, check in CHECKS.items():
        try:
            found.faults += check(patient)
            found.examined.append(name)
        except NotMadeError as why:
            found.skipped[name] = str(why)
        except UserError as error:
            found.skipped[name] = _first_line(error)
        except Exception as error:  # whatever broken files lead to is no reason to stop
            found.skipped[name] = f"{type(error).__name__}: {_first_line(error)}"
    found.measured = patient.measured
    found.faults.sort(key=lambda fault: _LEVELS.index(fault.severity))
    if not found.examined and not found.faults:
        raise UserError(f"{patient.path}: nothing in it could be examined.")
    return found


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else ""
