"""A conversation: messages in, answers out, and nothing read twice.

The model's keys and values stay from turn to turn; of a new turn only what the template puts after
the last answer is read. Where the template changes what came before (some take out an answer's
thoughts), or the context is full, the conversation is read anew from what remains of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.generation.generate import Memory, generate_ids
from budgerigar.generation.options import SamplingOptions
from budgerigar.generation.streaming import Watcher, forbidden_ids
from budgerigar.text.chat_template import ChatTemplate, Rendered

if TYPE_CHECKING:
    from budgerigar.text.tokenizers import Tokenizer


_QUESTION = "\U00100000"  # found again in a rendered chat


class Conversation:
    """One conversation with a model: `say` streams an answer, `messages` is all that was said.

    finish: why the last answer ended ("end", "length", "stop"; None: the caller stopped it).
    """

    def __init__(
        self,
        network: Any,
        tokenizer: Tokenizer,
        template: str,
        options: SamplingOptions | None = None,
        messages: Sequence[dict[str, Any]] = (),
    ) -> None:
        self._network, self._tokenizer = network, tokenizer
        self._template = ChatTemplate(template, tokenizer.special_ids, tokenizer.names)
        self._options = (options or SamplingOptions()).validate()
        self._written: list[int] = []
        self._opening = [dict(message) for message in messages]
        self._end_ids, self._stops = self._turn_ends()
        if self._options.max_new_tokens == 0:
            raise UserError("max_new_tokens is 0: an answer needs at least one token")
        self.reset()

    def reset(self) -> None:
        """Forget what was said; the messages that it was made with stay."""
        self.messages = [dict(message) for message in self._opening]
        self.finish: str | None = None
        self._turn = self._hidden = 0  # turns: of all, the oldest that the model no longer sees
        self._forget()

    def say(self, text: str) -> Iterator[str]:
        """The answer to `text`, piece by piece; leaving off keeps what was said so far."""
        self.messages.append({"role": "user", "content": text})
        return self.answer()

    def answer(self) -> Iterator[str]:
        """The answer to the messages as they are, the last of them the user's."""
        try:
            new = self._new_ids()
        except UserError:
            self._take_back()
            raise
        said: list[str] = []
        options = replace(self._options, stop=(*self._options.stops, *self._stops))
        try:
            for piece in self._stream(new, options):
                shown = piece if said else piece.lstrip()  # templates say where an answer begins
                if shown:
                    said.append(shown)
                    yield shown
        finally:
            self._turn += 1
            if said or self.finish is not None:
                self.messages.append({"role": "assistant", "content": "".join(said)})
                self._said = "".join(said)
            else:  # nothing was answered: an error, or stopped at once
                self._take_back()

    # -- the loop ----------------------------------------------------------------------------------
    def _stream(self, new: list[int], options: SamplingOptions) -> Iterator[str]:
        self.finish, self._written = None, []
        watcher = Watcher(self._tokenizer, options.stops, [new])
        events = generate_ids(
            self._network,
            [new],
            options,
            forbidden=forbidden_ids(self._tokenizer),
            end_ids=sorted(self._end_ids),
            samples=[self._turn],
            watch=watcher,
            memory=self._memory,
        )
        for event in events:
            self._written.append(event.token)
            if event.rewound:
                progress.note(
                    f"the context of {self._network.context_length} tokens is full: the oldest part "
                    "of the conversation is no longer seen"
                )
            self.finish = event.finish
            yield watcher.take(event)

    # -- what has to be read -----------------------------------------------------------------------
    def _new_ids(self) -> list[int]:
        """Ids to be read before the answer; the memory is emptied where it no longer fits."""
        going_on = bool(self._memory.tokens) and self._memory.window == self._memory.read
        rendered = self._template.render(self._seen(), mark_answer=going_on)
        new = self._following(rendered) if going_on else None
        if new is None:
            self._forget()
            new = self._whole(rendered)
        new = self._made_to_fit(new)
        self._prompt = self._rendered_text or rendered.text
        return new

    def _following(self, rendered: Rendered) -> list[int] | None:
        """Ids after the last answer; None where what stands before is not what was read."""
        head = rendered.before_answer_end
        if not rendered.marked or not head.startswith(self._prompt):
            return None
        if head[len(self._prompt) :].strip() != self._said.strip():
            return None
        parts = rendered.parts_after_answer()
        tokens = self._memory.tokens
        if self.finish == "stop":
            return self._after_stop(parts)
        if self.finish == "end" and self._memory.read < len(tokens):
            # the model has written an end but not read it: the template's own takes its place
            tokens.pop()
        return self._tokenizer.encode_parts(parts, inside=True)

    def _after_stop(self, parts: list[str | int]) -> list[int] | None:
        """The same after a text that ends a turn: the model wrote the beginning of what follows."""
        written = self._tokenizer.decode(self._written)
        for stop in self._stops:
            if written.endswith(stop) and parts and isinstance(parts[0], str):
                spaces = len(parts[0]) - len(parts[0].lstrip())
                start = parts[0].find(stop.strip(), 0, spaces + len(stop) + 1)
                if start >= 0:
                    rest = parts[0][start + len(stop.strip()) :]
                    return self._tokenizer.encode_parts([rest, *parts[1:]], inside=True)
        return None

    def _whole(self, rendered: Rendered) -> list[int]:
        """Ids of it all, with what opens a text before it: once, whoever put it there."""
        ids = self._tokenizer.encode_parts(rendered.parts())
        if not ids:
            raise UserError("the chat template makes nothing of these messages")
        start = list(self._tokenizer.start_ids)
        return ids if ids[: len(start)] == start else [*start, *ids]

    def _made_to_fit(self, new: list[int]) -> list[int]:
        """`new`, or the ids of a conversation without its oldest turns where all would be too long.

        Half of the context is kept free for what follows, so that this is seldom needed.
        """
        self._rendered_text = ""
        context = self._network.context_length
        room = min(self._options.max_new_tokens, (context or 0) // 2)
        if context is None or self._options.on_overflow != "rewindow":
            return new
        if len(self._memory.tokens) + len(new) + room <= context:
            return new
        fewest, ids, text = self._fewest_dropped(context // 2)
        if not fewest:
            return new
        dropped = len(self._seen()) - len(self._seen(fewest))
        self._hidden += fewest
        self._forget()
        self._rendered_text = text
        progress.note(
            f"the context of {context:,} tokens is full: the oldest {dropped} messages are no longer "
            f"seen, the other {len(ids):,} tokens are read again (on overflow: rewindow)"
        )
        return ids

    def _fewest_dropped(self, most: int) -> tuple[int, list[int], str]:
        """(turns to leave out so that at most `most` tokens are left, their ids, their text).

        All but the last turn where none is short enough; (0, …) where there is only one.
        """
        tried: dict[int, tuple[int, list[int], str]] = {}

        def without(n: int) -> tuple[int, list[int], str]:
            if n not in tried:
                rendered = self._template.render(self._seen(n))
                tried[n] = n, self._whole(rendered), rendered.text
            return tried[n]

        last = n_turns(self._seen()) - 1
        if last < 1:
            return 0, [], ""
        short = bisect_left(range(1, last), True, key=lambda n: len(without(n)[1]) <= most)
        return without(short + 1)

    def _seen(self, fewer: int = 0) -> list[dict[str, Any]]:
        """The messages that the model still sees, without so many more of the oldest turns."""
        return without_oldest_turns(self.messages, self._hidden + fewer)

    def _forget(self) -> None:
        self._memory = Memory()
        self._prompt = self._said = self._rendered_text = ""

    def _take_back(self) -> None:
        """After an error: the last question was never asked."""
        if self.messages and self.messages[-1].get("role") == "user":
            self.messages.pop()
        self._forget()

    # -- where a turn ends -------------------------------------------------------------------------
    def _turn_ends(self) -> tuple[frozenset[int], tuple[str, ...]]:
        """(ids, texts) at which an answer ends: the tokenizer's, and what the template puts there."""
        ends = self._tokenizer.end_ids
        asked = {"role": "user", "content": _QUESTION}
        chat = [asked, {"role": "assistant", "content": "b"}, asked]
        try:
            rendered = self._template.render(chat, mark_answer=True)
        except UserError:  # says why when there is something to answer
            return ends, ()
        parts = rendered.parts_after_answer()
        if parts and isinstance(parts[0], int):
            return ends | {parts[0]}, ()
        text = parts[0].split(_QUESTION)[0] if parts and isinstance(parts[0], str) else ""
        lines = text.lstrip().split("\n")
        stop = text[: len(text) - len(text.lstrip())] + lines[0].rstrip()
        return ends, (stop,) if lines[0].strip() else ()


def n_turns(messages: Sequence[dict[str, Any]]) -> int:
    """How many messages are the user's."""
    return sum(message.get("role") == "user" for message in messages)


def without_oldest_turns(messages: Sequence[dict[str, Any]], n: int) -> list[dict[str, Any]]:
    """Messages without the `n` oldest questions and what follows each.

    What stands before the first question (a system message) stays, and so does the last question.
    """
    asked = [i for i, message in enumerate(messages) if message.get("role") == "user"]
    n = min(n, len(asked) - 1)
    return list(messages) if n < 1 else [*messages[: asked[0]], *messages[asked[n] :]]


NO_TEMPLATE = (
    "{name} has no chat template: it is not a model that was taught to answer. `budgie generate` "
    "continues a text with it. If it was taught, give the template: --template FILE (Jinja2, as in "
    "a Hugging Face folder's chat_template.jinja)."
)
