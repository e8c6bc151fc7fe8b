"""A model's verbs of writing: continue a text, answer a message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from budgerigar.api.chat import conversation
from budgerigar.api.checks import checked_text, sampling_options
from budgerigar.api.translation import refuse_translator
from budgerigar.generation.streaming import generate_texts, stream_text
from budgerigar.text.chat_template import checked_messages

if TYPE_CHECKING:
    from budgerigar.api.model import Model


class Writes:
    """What `Model` has for text in, text out."""

    def generate(self: Model, prompt: str = "", **options: Any) -> str:  # type: ignore[misc]
        """The continuation of `prompt`, without it. Options: see `SamplingOptions`."""
        return "".join(self.stream(prompt, **options))

    def stream(self: Model, prompt: str = "", **options: Any) -> Iterator[str]:  # type: ignore[misc]
        """The same continuation piece by piece, as it is made; never half a character."""
        refuse_translator(self, "continue a text")
        return stream_text(
            self.network,
            self.tokenizer,
            checked_text(prompt, "continue several with generate_many"),
            sampling_options(options),
            starts_documents=self.start_id is not None,
        )

    def generate_many(  # type: ignore[misc]
        self: Model, prompts: Sequence[str], samples: int = 1, **options: Any
    ) -> list[Any]:
        """Continue several prompts as one batch, `samples` times each -> `Generation` each.

        Each is the text that it would be alone: the batch is invisible.
        """
        refuse_translator(self, "continue a text")
        explain, show_end = options.pop("explain", 0), options.pop("show_end", False)
        return generate_texts(
            self.network,
            self.tokenizer,
            [
                checked_text(prompt)
                for prompt in ([prompts] if isinstance(prompts, str) else prompts)
            ],
            sampling_options(options),
            samples=samples,
            starts_documents=self.start_id is not None,
            explain=explain,
            show_end=show_end,
        )

    def chat(  # type: ignore[misc]
        self: Model,
        messages: str | Sequence[Mapping[str, Any]],
        template: str | None = None,
        **options: Any,
    ) -> str:
        """The answer to a message, or to a list of {"role": …, "content": …}, the last the user's.

        template: Jinja2, instead of the model's own. Options: see `SamplingOptions`; an answer has at
        most 512 tokens unless `max_new_tokens` says otherwise. `api.conversation` keeps a chat going.
        """
        return "".join(conversation(self, checked_messages(messages), template, **options).answer())
