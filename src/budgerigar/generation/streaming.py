"""From tokens to text: streaming that never splits a character, and stop texts across tokens.

`stream_text` yields pieces as they become certain; `generate_texts` gives whole continuations. Both
put every token through one `TextStream`, so that "".join(pieces) equals the whole by construction.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from budgerigar.errors import UserError
from budgerigar.generation.generate import Event, Finish, generate_ids
from budgerigar.generation.options import SamplingOptions
from budgerigar.generation.stopping import StopMatcher

if TYPE_CHECKING:
    from budgerigar.text.tokenizers import Tokenizer


class TextStream:
    """Tokens in, text out: whole characters only, nothing that may still become a stop text.

    first: no text stands before the tokens. (SentencePiece puts a space before a text, which is no
    part of it; before a continuation it is.)
    """

    def __init__(
        self, tokenizer: Tokenizer, stops: Sequence[str] = (), first: bool = False
    ) -> None:
        self._tokenizer, self._first = tokenizer, first
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._matcher = StopMatcher(stops)

    @property
    def stopped(self) -> bool:
        """A stop text was met."""
        return self._matcher.stopped

    def push(self, token: int) -> str:
        """The text that became certain with this token; often a character, sometimes nothing."""
        data = self._tokenizer.token_bytes(token, self._first)
        self._first = self._first and token in self._tokenizer.special_ids.values()
        return self._matcher.push(self._decoder.decode(data))

    def flush(self) -> str:
        """What was still held back, once no token follows; half a character becomes U+FFFD."""
        last = self._matcher.push(self._decoder.decode(b"", final=True))
        return last + self._matcher.flush()


@dataclass
class Generation:
    """One continuation."""

    prompt: str
    text: str = ""
    """the continuation only: without the prompt, the end token and the stop text"""
    tokens: list[int] = field(default_factory=list)
    """ids of the continuation; an end id is not among them, the tokens of a stop text are"""
    finish: Finish = "length"
    """end: the model ended its document; stop: a stop text; length: max_new_tokens"""
    seed: int = 0
    sample: int = 0
    """sample number; (prompt, options, sample) gives this continuation again"""
    rewound: int = 0
    """how often the context was full and lost its oldest half"""
    steps: list[Event] = field(default_factory=list)
    """one event per token, when `explain` or `show_end` asked for them"""


def prompt_ids(
    tokenizer: Tokenizer, prompt: str, starts_documents: bool | None = None
) -> list[int]:
    """Ids of a prompt, at least one.

    What stands before a text that the model reads (`<end>`, where it learnt documents; the authors'
    `<s>`) stands before the prompt too, once, and an empty prompt is just that. `starts_documents`:
    whether there is such a thing; None: whenever the tokenizer has one. Without it an empty prompt
    starts from the authors' token for that, from a newline, or from the first piece seen in training
    when the text had no newline.
    """
    ids = list(tokenizer.encode(prompt)) if prompt else []
    start = tokenizer.start_ids
    if starts_documents and not start and tokenizer.end_id is not None:
        start = (tokenizer.end_id,)
    if start and starts_documents is not False:
        return [*start, *ids]
    return ids or [_first_piece(tokenizer)]


def _first_piece(tokenizer: Tokenizer) -> int:
    """The id that an empty prompt starts from, where there are no documents."""
    if tokenizer.opening_id is not None:
        return tokenizer.opening_id
    usable = ~np.asarray(tokenizer.never_seen, dtype=bool)
    usable[list(tokenizer.special_ids.values())] = False
    try:
        newline = list(tokenizer.encode("\n"))
    except UserError:  # a plain list of characters that has no newline
        newline = []
    if len(newline) == 1 and usable[newline[0]]:
        return newline[0]
    if not usable.any():
        raise UserError("nothing to start from: this tokenizer has no piece seen in training")
    return int(usable.argmax())


def forbidden_ids(tokenizer: Tokenizer) -> np.ndarray:
    """Ids (V,) bool that are never generated: never seen in training, or special but the end.

    What an imported model may write is its authors' to say: nothing is forbidden to it.
    """
    forbidden = np.array(tokenizer.never_seen, dtype=bool)
    if not tokenizer.imported:
        special = [i for i in tokenizer.special_ids.values() if i not in tokenizer.end_ids]
        forbidden[special] = True
    return forbidden


class Watcher:
    """Feeds each new token to its request's `TextStream`, and tells the loop of stop texts."""

    def __init__(
        self, tokenizer: Tokenizer, stops: Sequence[str], prompts: Sequence[Sequence[int]]
    ) -> None:
        special = set(tokenizer.special_ids.values())
        self.streams = [TextStream(tokenizer, stops, special.issuperset(ids)) for ids in prompts]
        self._fresh = [""] * len(prompts)

    def __call__(self, request: int, token: int) -> bool:
        self._fresh[request] += self.streams[request].push(token)
        return self.streams[request].stopped

    def take(self, event: Event) -> str:
        """The text that became certain with this event."""
        text, self._fresh[event.request] = self._fresh[event.request], ""
        return text if event.finish is None else text + self.streams[event.request].flush()


def stream_text(
    network: Any,
    tokenizer: Tokenizer,
    prompt: str = "",
    options: SamplingOptions | None = None,
    *,
    cached: bool = True,
    sample: int = 0,
    starts_documents: bool | None = None,
    source: Sequence[int] | None = None,
) -> Iterator[str]:
    """Yield the continuation of `prompt` in pieces, as soon as each is certain; none is empty."""
    options = options or SamplingOptions()
    prompts = [prompt_ids(tokenizer, prompt, starts_documents)]
    watcher = Watcher(tokenizer, options.stops, prompts)
    events = generate_ids(
        network,
        prompts,
        options,
        forbidden=forbidden_ids(tokenizer),
        end_ids=sorted(tokenizer.end_ids),
        cached=cached,
        samples=[sample],
        watch=watcher,
        sources=None if source is None else [source],
    )
    return (piece for piece in map(watcher.take, events) if piece)


def generate_texts(
    network: Any,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    options: SamplingOptions | None = None,
    *,
    samples: int = 1,
    cached: bool = True,
    starts_documents: bool | None = None,
    explain: int = 0,
    show_end: bool = False,
    sources: Sequence[Sequence[int]] | None = None,
) -> list[Generation]:
    """Continue each prompt `samples` times: all samples of the first prompt, then of the next."""
    options = options or SamplingOptions()
    results = [
        Generation(prompt, seed=options.seed, sample=number)
        for prompt in prompts
        for number in range(samples)
    ]
    lines = [prompt_ids(tokenizer, prompt, starts_documents) for prompt in prompts]
    ids = [line for line in lines for _ in range(samples)]
    watcher = Watcher(tokenizer, options.stops, ids)
    events = generate_ids(
        network,
        ids,
        options,
        forbidden=forbidden_ids(tokenizer),
        end_ids=sorted(tokenizer.end_ids),
        cached=cached,
        samples=[result.sample for result in results],
        watch=watcher,
        explain=explain,
        show_end=show_end,
        sources=None if sources is None else [line for line in sources for _ in range(samples)],
    )
    for event in events:
        result = results[event.request]
        result.text += watcher.take(event)
        result.rewound += event.rewound
        if event.finish != "end":
            result.tokens.append(event.token)
        if event.finish is not None:
            result.finish = event.finish
        if explain or show_end:
            result.steps.append(event)
    return results
