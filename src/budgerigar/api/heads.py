"""What a model's heads do, of a model as a user has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from budgerigar.errors import UserError

if TYPE_CHECKING:
    from budgerigar.inspection.role_results import HeadRoles


class HasHeads:
    """The verb of a model whose heads can be measured."""

    def roles(self, *, untrained: bool = True) -> HeadRoles:
        """Which head does what, with evidence: `str()` is a table; see `head_roles`."""
        return head_roles(self, untrained=untrained)


def head_roles(model: Any, *, untrained: bool = True) -> HeadRoles:
    """Which head does what, on texts of its own; see `inspection.roles`. `str()` is a table.

    untrained: measure an untrained copy too, which takes as long again.

    Raises:
        UserError: the model has no attention.
    """
    from budgerigar.inspection.roles import head_roles as measured

    if model.role == "vectors":
        raise UserError(f"{model.name} is a table of word vectors; it has no heads")
    return measured(
        model.network,
        model.tokenizer,
        source_tokenizer=model.source_tokenizer,
        start_id=None if model.translates else model.start_id,
        untrained=untrained,
    )
