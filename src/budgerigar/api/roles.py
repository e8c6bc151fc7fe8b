"""The refusal of verbs that are another role's."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from budgerigar.errors import UserError

if TYPE_CHECKING:
    from budgerigar.api.model import Model


def need_vectors(model: Model, verb: str) -> NoReturn:
    """`UserError`: the model has no word vectors; `verb` is what was asked for."""
    verbs = f"{'translate' if model.translates else 'generate'}, evaluate, look"
    verbs = getattr(model, "verbs", verbs)
    raise UserError(
        f"{model.name} holds no word vectors, so it cannot {verb}. `budgie train FILE --recipe "
        f"word-vectors` makes them. What this one can: "
        f"{verbs}."
    )
