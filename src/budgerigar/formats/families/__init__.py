"""The families of models that are read and written: each a shape in words of ours and a table of
weight names. None has a forward pass of its own: all are settings of the one Transformer.
"""

from __future__ import annotations

from budgerigar.errors import UserError
from budgerigar.formats.families.bert import BERT, DISTILBERT
from budgerigar.formats.families.family import Family
from budgerigar.formats.families.gpt2 import GPT2
from budgerigar.formats.families.llama import LLAMA
from budgerigar.formats.families.marian import MARIAN
from budgerigar.formats.families.t5 import T5
from budgerigar.formats.families.values import Values

FAMILIES: tuple[Family, ...] = (GPT2, LLAMA, BERT, DISTILBERT, T5, MARIAN)


def family_of(values: Values) -> Family:
    """The family of a config.json, by its architecture, else by its model_type.

    Raises:
        UserError: none of them; the known ones are listed.
    """
    architectures = values.words("architectures")
    model_type = values.text("model_type", "")
    for family in FAMILIES:
        if model_type in family.model_types or set(architectures) & set(family.architectures):
            if architectures and not set(architectures) & set(family.architectures):
                known = ", ".join(family.architectures)
                raise UserError(
                    f"{values.where}: {architectures[0]} has another output layer than the models of "
                    f"the {family.name} family that are known here ({known})"
                )
            return family
    named = architectures[0] if architectures else model_type
    what = f"{named} is no model" if named else "neither architectures nor model_type names a model"
    known = "; ".join(f"{f.name} ({', '.join(f.architectures)})" for f in FAMILIES)
    raise UserError(f"{values.where}: {what} of a family that is known here: {known}")
