"""What a model's heads do, of a model as a user has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from budgerigar.errors import UserError

if TYPE_CHECKING:
    from budgerigar.inspection.born import Born
    from budgerigar.inspection.editing import How, Reference
    from budgerigar.inspection.role_results import HeadRoles
    from budgerigar.inspection.switched import Switched

MOST_CHECKPOINTS = 16


class HasHeads:
    """The verbs of a model whose heads can be measured. All answers print as tables."""

    def roles(self, *, untrained: bool = True) -> HeadRoles:
        """Which head does what, with evidence; see `head_roles`."""
        return head_roles(self, untrained=untrained)

    def roles_through_training(self, most: int = MOST_CHECKPOINTS) -> Born:
        """At which checkpoint each head came to have its role; see `born`."""
        return born(self, most)

    def without(
        self,
        off: str | Sequence[str],
        how: How | None = None,
        of: str | None = None,
        kind: str | None = None,
    ) -> Switched:
        """What the model can still do without these heads; see `switched`."""
        return switched(self, off, how, of, kind)


def head_roles(model: Any, *, untrained: bool = True) -> HeadRoles:
    """Which head does what, on texts of its own; see `inspection.roles`.

    untrained: measure an untrained copy too, which takes as long again.

    Raises:
        UserError: the model has no attention.
    """
    from budgerigar.inspection.roles import head_roles as measured

    return measured(model.network, model.tokenizer, untrained=untrained, **_settings(model))


def born(model: Any, most: int = MOST_CHECKPOINTS) -> Born:
    """The roles at up to `most` of the run's checkpoints, evenly spread; see `inspection.born`.

    Raises:
        UserError: the model has no attention, or none of its checkpoints is kept.
    """
    from budgerigar.inspection.born import Training, spread

    found, names = Training(model.tokenizer, **_settings(model)), spread(model.checkpoints, most)
    *_, last = found.through(names, lambda name: model.at_checkpoint(name).network)
    return last


def switched(
    model: Any,
    off: str | Sequence[str],
    how: How | None = None,
    of: str | None = None,
    kind: str | None = None,
) -> Switched:
    """Copying, the gap of stories, loss or translation with and without some heads.

    how: "mean", "resample" or "zero"; None: "mean".
    """
    from budgerigar.inspection.switched import switch_off

    settings = _settings(model)
    return switch_off(
        model.network, model.tokenizer, off, how or "mean", of=of, kind=kind, **settings
    )


def _settings(model: Any) -> dict[str, Any]:
    if model.role == "vectors":
        raise UserError(f"{model.name} is a table of word vectors; it has no heads")
    return {
        "source_tokenizer": model.source_tokenizer,
        "start_id": None if model.translates else model.start_id,
    }


def reference_of(model: Any, text: str | None) -> Reference | Sequence[int] | None:
    """What means are taken from; None: a decoder writes it itself."""
    from budgerigar.inspection import references
    from budgerigar.inspection.role_probes import Reader

    reader = Reader(model.network, model.tokenizer, **_settings(model))
    if text is None:
        return None if reader.assembly == "decoder-only" else references.usual(reader)
    if reader.paired:
        return references.of_sources(reader, text)
    ids: list[int] = model.encode(text)
    return ids
