"""Filling the gaps of a text with a `Model`: who can, and how a text with gaps is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from budgerigar.api.checks import checked_text
from budgerigar.api.translation import translates
from budgerigar.errors import UserError
from budgerigar.generation.fill import Filled, fill_text
from budgerigar.training.objectives import SPAN_CORRUPTION

if TYPE_CHECKING:
    from budgerigar.api.model import Model


def fill(model: Model, text: str, top_k: int = 5) -> Filled:
    """The gaps of `text`, each written `[MASK]`, filled; `top_k` guesses of each.

    Raises:
        UserError: the model fills no gaps, or there is none.
    """
    need_filler(model)
    starts = model.start_id is not None
    given = checked_text(text)
    return fill_text(model.network, model.tokenizer, given, top_k=top_k, starts_documents=starts)


def fills_spans(model: Model) -> bool:
    """Whether it is an encoder-decoder that learnt to fill in spans (T5), imported or ours."""
    from budgerigar.text.fill_in_tokens import sentinel_ids

    if not translates(model.network):
        return False
    if model.recipe is None:
        return bool(sentinel_ids(model.tokenizer))
    return (model.settings.get("text") or {}).get("objective") == SPAN_CORRUPTION


def need_filler(model: Model) -> None:
    """`UserError` unless the model fills gaps."""
    from budgerigar.text.fill_in_tokens import sentinel_ids

    if getattr(model.config, "assembly", None) == "encoder-only":
        if model.config.n_classes or not model.config.token_head:
            raise UserError(
                f"{model.name} has no output layer over its vocabulary, so it fills in no words. "
                f"What this one can: {getattr(model, 'verbs', 'embed, look')}."
            )
        return
    if translates(model.network) and sentinel_ids(model.tokenizer):
        return
    raise UserError(
        f"{model.name} fills no gaps: it "
        f"{'translates' if model.translates else 'continues a text from left to right'}. `budgie train "
        "FILE --recipe bert-tiny` (single words) and `--recipe t5-tiny` (spans) make models that do. "
        f"What this one can: {'translate' if model.translates else 'generate'}, evaluate, look."
    )
