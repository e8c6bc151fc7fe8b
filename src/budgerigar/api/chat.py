"""Conversations with a model: which template, which options, and the refusals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from budgerigar.api.checks import sampling_options
from budgerigar.api.translation import refuse_translator
from budgerigar.errors import UserError
from budgerigar.generation.chat import NO_TEMPLATE, Conversation
from budgerigar.text.chat_template import checked_messages

if TYPE_CHECKING:
    from budgerigar.api.model import Model

MOST_NEW_TOKENS = 512  # of an answer, unless something else is asked for


def conversation(
    model: Model,
    messages: str | Sequence[Mapping[str, Any]] = (),
    template: str | None = None,
    **options: Any,
) -> Conversation:
    """A conversation that goes on from `messages`; `.say(text)` streams the answer to a text.

    template: Jinja2, instead of the model's own. Options: see `SamplingOptions`.

    Raises:
        UserError: the model has no template and none was given, or is not one that answers.
    """
    refuse_translator(model, "answer a message")
    if model.role != "text":
        model.chat("")  # says what this role can
    source = model.tokenizer.chat_template if template is None else template
    if template is not None and not template.strip():
        raise UserError("the chat template that was given is empty: it makes nothing of a message")
    if not source:
        raise UserError(NO_TEMPLATE.format(name=model.name))
    chosen = sampling_options({"max_new_tokens": MOST_NEW_TOKENS, **options})
    given = checked_messages(messages) if messages else []
    return Conversation(model.network, model.tokenizer, source, chosen, given)
