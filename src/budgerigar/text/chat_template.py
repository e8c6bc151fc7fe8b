"""Chats as the authors of a model want them: their template, rendered where it can do no harm.

A template (Jinja2, Hugging Face's dialect) turns a list of messages into one text with special
tokens in it. Two things must not happen. The template, a program out of a file, must not reach or
exhaust the machine: it runs in a sandbox, in a process with limits (`template_worker`). And what a
user types must not become a special token, also `<|im_end|>`: before rendering, every place of a
message where a special token could begin gets another first character (one from Unicode's private
use area), which makes it text for whoever looks for special tokens afterwards, and is put back then.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from budgerigar.errors import UserError

SECONDS, BYTES, CHARACTERS = 5, 1 << 30, 1 << 22
_PRIVATE = range(0xF0000, 0xFFFFD)

Message = Mapping[str, Any]
"""{"role": "user", "content": "…"} and whatever else a template knows"""


class ChatTemplate:
    """A template and the special tokens that its text may hold.

    special_ids: content -> id. names: what the template knows each role by ("bos_token": "<s>").
    """

    def __init__(
        self, source: str, special_ids: Mapping[str, int], names: Mapping[str, str] | None = None
    ) -> None:
        self.source, self.names = source, dict(names or {})
        self._ids = {content: number for content, number in special_ids.items() if content}
        by_length = sorted(self._ids, key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, by_length)) or r"(?!)")
        self._beginnings = {name[:n] for name in self._ids for n in range(1, len(name))}
        self._longest = max(map(len, self._ids), default=1)

    def render(
        self,
        messages: Sequence[Message],
        add_generation_prompt: bool = True,
        mark_answer: bool = False,
    ) -> Rendered:
        """The chat as one text. mark_answer: remember where the last answer ends.

        Raises:
            UserError: the template is wrong, refuses these messages, or does what it must not.
        """
        firsts = sorted({name[0] for name in self._ids})
        stand_ins = _unused(len(firsts) + 1, [self.source, *_texts(messages)])
        table = dict(zip(firsts, stand_ins, strict=False))
        mark = stand_ins[-1]
        shielded = [self._shielded(message, table) for message in messages]
        if mark_answer:
            last = max(i for i, one in enumerate(shielded) if one.get("role") == "assistant")
            shielded[last] = {**shielded[last], "content": f"{shielded[last]['content']}{mark}"}
        variables = {
            **self.names,
            "messages": shielded,
            "add_generation_prompt": add_generation_prompt,
            "tools": None,
            "documents": None,
        }
        text = run_template(self.source, variables)
        return Rendered(text, self._special, self._ids, table, mark)

    def _shielded(self, value: Any, table: Mapping[str, str]) -> Any:
        """A copy in which no text can be taken for a special token or the beginning of one."""
        if isinstance(value, str):
            return self._shielded_text(value, table)
        if isinstance(value, Mapping):
            return {key: self._shielded(item, table) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._shielded(item, table) for item in value]
        return value

    def _shielded_text(self, text: str, table: Mapping[str, str]) -> str:
        places = {match.start() for match in re.finditer(f"(?={self._special.pattern})", text)}
        for length in range(1, min(self._longest, len(text) + 1)):
            if text[len(text) - length :] in self._beginnings:
                places.add(len(text) - length)
        parts = list(text)
        for place in places:
            parts[place] = table[text[place]]
        return "".join(parts)


class Rendered:
    """A rendered chat: `parts()` are its texts and the ids of its special tokens."""

    def __init__(
        self,
        text: str,
        special: re.Pattern[str],
        ids: Mapping[str, int],
        table: Mapping[str, str],
        mark: str,
    ) -> None:
        self._special, self._ids = special, ids
        self._back = str.maketrans({stand_in: first for first, stand_in in table.items()})
        before, found, after = text.partition(mark)
        self.marked = bool(found)
        self._text, self._after = before + after, after if found else ""

    @property
    def text(self) -> str:
        """All of it, special tokens by name: for people, not for tokenizers."""
        return self._text.translate(self._back)

    @property
    def before_answer_end(self) -> str:
        """What stands before the end of the marked answer."""
        return self._text[: len(self._text) - len(self._after)].translate(self._back)

    def parts(self) -> list[str | int]:
        """Texts, and ids of special tokens, in order."""
        return self._split(self._text)

    def parts_after_answer(self) -> list[str | int]:
        """The same of what follows the marked answer."""
        return self._split(self._after)

    def _split(self, text: str) -> list[str | int]:
        parts: list[str | int] = []
        done = 0
        for match in self._special.finditer(text):
            parts += [text[done : match.start()].translate(self._back), self._ids[match[0]]]
            done = match.end()
        return [part for part in [*parts, text[done:].translate(self._back)] if part != ""]


def run_template(source: str, variables: Mapping[str, Any], seconds: int = SECONDS) -> str:
    """Render in a process that has `seconds` of processor time and a bound on memory and output.

    Raises:
        UserError: what is wrong with the template, or why it refuses.
    """
    request = {
        "template": source,
        "variables": variables,
        "seconds": seconds,
        "bytes": BYTES,
        "most": CHARACTERS,
    }
    worker = Path(__file__).with_name("template_worker.py")
    try:
        done = subprocess.run(
            [sys.executable, "-P", str(worker)],
            input=json.dumps(request).encode(),
            capture_output=True,
            timeout=seconds * 12,  # of the clock, on a busy machine
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UserError(f"the chat template was still running after {seconds * 12} s.") from None
    if done.returncode != 0:
        raise UserError(
            f"the chat template had to be stopped: it needs more than {seconds} s or "
            f"{BYTES >> 20} MB. {_last_line(done.stderr)}".rstrip()
        )
    answer: dict[str, str] = json.loads(done.stdout)
    if "refused" in answer:
        raise UserError(f"the model's chat template refuses these messages: {answer['refused']}")
    if "error" in answer:
        raise UserError(f"the chat template cannot be used: {answer['error']}")
    return answer["text"]


def render_chat(
    template: str,
    messages: Sequence[Message],
    special_ids: Mapping[str, int],
    names: Mapping[str, str] | None = None,
    add_generation_prompt: bool = True,
) -> list[str | int]:
    """Texts and ids of special tokens of a chat: what `Tokenizer.encode_parts` takes."""
    return (
        ChatTemplate(template, special_ids, names).render(messages, add_generation_prompt).parts()
    )


def checked_messages(messages: object) -> list[dict[str, Any]]:
    """A list of messages, also from one text (the user's), or a `UserError` in words."""
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    listed = list(messages) if isinstance(messages, Iterable) else []
    for message in listed:
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise UserError(
                f"{message!r} is no message; one looks like "
                '{"role": "user", "content": "Hello"}, with role system, user or assistant'
            )
    if not listed:
        raise UserError("there is no message to answer")
    return [dict(message) for message in listed]


def _unused(count: int, texts: Iterable[str]) -> list[str]:
    """So many private characters that none of the texts has."""
    used = set().union(*map(set, texts))
    free = (chr(code) for code in _PRIVATE if chr(code) not in used)
    return [next(free) for _ in range(count)]


def _texts(value: Any) -> list[str]:
    """Every text inside messages."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [text for item in value for text in _texts(item)]
    return []


def _last_line(stderr: bytes) -> str:
    lines = stderr.decode(errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else ""
