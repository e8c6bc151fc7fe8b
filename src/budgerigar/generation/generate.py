"""The one loop from a model to tokens, for every model that has `start` and `step`.

An n-gram, a recurrent network and a Transformer are run by the same lines: read the prompts, choose
a token per row, give it back, until each row is finished. Prompts of many lengths share a batch
(right-padded, with lengths); a finished row leaves it; and what a request gets does not depend on
who shares its batch. Per token the only thing that waits for the device is reading the chosen ids.

Shapes: B batch, T positions, V vocab_size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.generation.explain import Candidate, candidates
from budgerigar.generation.overflow import refuse_overflow, window_length
from budgerigar.generation.requests import (
    Watch,
    check_counts,
    check_requests,
    forbidden_mask,
    pad,
)
from budgerigar.generation.sampling import (
    Draws,
    Process,
    SamplingOptions,
    choose_at_random,
    choose_greedily,
    process_logits,
    processors,
)
from budgerigar.models.modes import without_dropout

MOST_GROUPS = 8  # batches running side by side before their rows are read anew as one

Finish = Literal["end", "length", "stop"]


@dataclass(frozen=True, slots=True)
class Event:
    """One new token of one request."""

    request: int
    """index of the prompt"""
    token: int
    """id; an end id comes with finish 'end' and belongs to no text"""
    finish: Finish | None = None
    """why the request ended with this token, if it did"""
    p_end: float | None = None
    """the model's own probability of an end id at this step, on request"""
    candidates: tuple[Candidate, ...] = ()
    """the likeliest tokens of this step, on request"""
    rewound: bool = False
    """the context was full before this token and lost its oldest part"""


@dataclass(slots=True)
class _Row:
    """One unfinished request: all its tokens, and how many of the newest the model has read."""

    request: int
    tokens: list[int]
    draws: Draws
    window: int = 0
    n_new: int = 0
    rewound: bool = False


@dataclass
class Memory:
    """What a model has read of one text, kept from call to call, so that nothing is read twice.

    tokens: the text so far. read: how many of them the state has read; window: how many of those it
    still holds (all, until the context was full).
    """

    tokens: list[int] = field(default_factory=list)
    read: int = 0
    window: int = 0
    state: Any = None

    def keep(self, row: _Row, state: Any) -> None:
        """Take over what the model has just read: all of the row's tokens."""
        self.tokens, self.read, self.window, self.state = (
            row.tokens,
            len(row.tokens),
            row.window,
            state,
        )


@dataclass(slots=True)
class _Group:
    """Rows that run as one batch: the model's state and its logits (B, V) for their next tokens."""

    rows: list[_Row]
    state: Any
    logits: Tensor
    seen: Tensor | None = None  # (B, V) bool: generated so far, for the repetition penalty


@dataclass
class _Loop:
    """What stays the same over all steps."""

    network: Any
    options: SamplingOptions
    chain: list[tuple[str, Process]]
    end_ids: frozenset[int]
    cached: bool
    watch: Watch | None
    explain: int
    show_end: bool
    sources: Sequence[Sequence[int]] | None
    memory: Memory | None = None
    context: int | None = field(init=False)

    def __post_init__(self) -> None:
        self.context = self.network.context_length


def generate_ids(
    network: Any,
    prompts: Sequence[Sequence[int]],
    options: SamplingOptions | None = None,
    *,
    forbidden: np.ndarray | Tensor | None = None,
    end_ids: Sequence[int] = (),
    cached: bool = True,
    samples: Sequence[int] | None = None,
    watch: Watch | None = None,
    explain: int = 0,
    show_end: bool = False,
    sources: Sequence[Sequence[int]] | None = None,
    memory: Memory | None = None,
) -> Iterator[Event]:
    """Continue `prompts` (lists of ids, none empty); yields an `Event` per new token.

    Rows are independent: (prompt, options.seed, sample number) decides a continuation. `samples`
    gives each prompt its sample number (default 0), for several continuations of one prompt.
    `forbidden` (V,) bool: ids never chosen. `end_ids`: a request ends at any of them.
    `cached=False` reads the whole window again for each token: the slow twin, for comparison.
    `explain=n`: the n likeliest tokens in each event; `show_end`: the probability of the end.
    `sources`: ids per request, for an encoder-decoder. `memory`: the one prompt goes on from the text
    that it holds, which is not read again, and the memory goes on with it, also if the caller stops
    in the middle. Stop texts need text: see `streaming`.
    """
    options = (options or SamplingOptions()).validate()
    numbers = list(samples) if samples is not None else [0] * len(prompts)
    check_requests(network, prompts, options, end_ids, cached, watch)
    check_counts(network, len(prompts), numbers, sources)
    mask = forbidden_mask(network, forbidden)
    loop = _Loop(
        network=network,
        options=options,
        chain=processors(options, mask),
        end_ids=frozenset(end_ids),
        cached=cached,
        watch=watch,
        explain=explain,
        show_end=show_end,
        sources=sources,
        memory=memory,
    )
    if memory is not None:
        assert len(prompts) == 1, "a memory is of one text"
        assert cached
        memory.tokens += prompts[0]
        prompts = [memory.tokens]
    rows = [
        _Row(i, memory.tokens if memory else list(prompt), Draws(options.seed, number))
        for i, (prompt, number) in enumerate(zip(prompts, numbers, strict=True))
    ]
    return _run(loop, rows)


@torch.inference_mode()
def _run(loop: _Loop, rows: list[_Row]) -> Iterator[Event]:
    """Yield events until every row is finished; dropout is off meanwhile."""
    if not rows or loop.options.max_new_tokens == 0:
        return
    with without_dropout(loop.network):
        groups = _begin(loop, rows) if loop.memory is None else [_resume(loop, rows[0])]
        while groups:
            following: list[_Group] = []
            for group in groups:
                chosen, events = _choose(loop, group)
                yield from events
                going = [i for i, event in enumerate(events) if event.finish is None]
                if going:
                    following += _advance(loop, group, chosen, going)
            groups = _merge(loop, following)
            if loop.memory is not None and groups:
                loop.memory.keep(groups[0].rows[0], groups[0].state)


# -- one step --------------------------------------------------------------------------------------
def _choose(loop: _Loop, group: _Group) -> tuple[Tensor, list[Event]]:
    """The next id of each row (B,), and what happened to each."""
    greedy = loop.options.temperature == 0
    logits = process_logits(group.logits, loop.chain, group.seen)
    if greedy:
        chosen = choose_greedily(logits)
    else:
        chosen = choose_at_random(logits, [row.draws.next() for row in group.rows])
    chosen = _marked(group.logits, chosen)
    p_end: Sequence[float | None] = [None] * len(group.rows)
    if loop.show_end:
        p_end = group.logits.softmax(-1)[:, sorted(loop.end_ids)].sum(-1).tolist()
    why: Sequence[tuple[Candidate, ...]] = [()] * len(group.rows)
    if loop.explain:
        why = candidates(group.logits, loop.chain, group.seen, loop.explain, greedy)
    if group.seen is not None:
        group.seen.scatter_(1, chosen.clamp(min=0).unsqueeze(1), True)
    events = []
    for row, token, p, reasons in zip(group.rows, chosen.tolist(), p_end, why, strict=True):
        if token < 0:
            raise _damaged(row)
        row.tokens.append(token)
        row.n_new += 1
        events.append(Event(row.request, token, _finish(loop, row, token), p, reasons, row.rewound))
        row.rewound = False
    return chosen, events


def _marked(logits: Tensor, chosen: Tensor) -> Tensor:
    """`chosen` (B,), with -1 where the model's logits (B, V) left nothing to choose from.

    A NaN or an infinite logit draws the greedy choice to itself and a random one off the end.
    """
    inside = chosen.clamp(max=logits.shape[-1] - 1)
    sound = logits.gather(1, inside.unsqueeze(1)).squeeze(1).isfinite() & (inside == chosen)
    return chosen.masked_fill(~sound, -1)


def _damaged(row: _Row) -> UserError:
    where = f"after {row.n_new} new tokens" if row.n_new else "after the prompt"
    return UserError(
        f"the model's logits are not numbers (NaN or infinite) {where}: its weights are damaged. "
        "Use an earlier checkpoint."
    )


def _finish(loop: _Loop, row: _Row, token: int) -> Finish | None:
    """Why this row ends with `token`, if it does."""
    if token in loop.end_ids:
        return "end"
    if loop.watch is not None and loop.watch(row.request, token):
        return "stop"
    return "length" if row.n_new >= loop.options.max_new_tokens else None


def _advance(loop: _Loop, group: _Group, chosen: Tensor, going: list[int]) -> list[_Group]:
    """Let the model read the chosen ids of the rows `going`; rows that overflow part company."""
    full = [i for i in going if group.rows[i].window == loop.context]
    if full and loop.options.on_overflow == "error":
        row = group.rows[full[0]]
        raise refuse_overflow(len(row.tokens), row.window, row.n_new)
    if not loop.cached:
        return [_read_windows(loop, group, going)]
    following: list[_Group] = []
    if full and loop.options.on_overflow == "rewindow":
        following.append(_read_windows(loop, group, full))
    elif full:
        part, ids = _part(group, chosen, full)
        part.state = loop.network.roll(part.state)
        for row, length in zip(part.rows, part.state.lengths.tolist(), strict=True):
            row.window, row.rewound = length, True
        following.append(_read(loop, part, ids))
    going = [i for i in going if i not in full] if full else going
    if going:
        if len(going) < len(group.rows):
            group, chosen = _part(group, chosen, going)
        following.append(_read(loop, group, chosen))
    return following


def _read(loop: _Loop, group: _Group, chosen: Tensor) -> _Group:
    """One step of the model: every row reads its chosen id (B,)."""
    group.logits, group.state = loop.network.step(chosen.unsqueeze(1), group.state)
    for row in group.rows:
        row.window += 1
    return group


def _part(group: _Group, chosen: Tensor, rows: list[int]) -> tuple[_Group, Tensor]:
    """Some rows of a group as a group of their own, with their chosen ids."""
    index = torch.tensor(rows, device=chosen.device)
    part = _Group(
        [group.rows[i] for i in rows],
        group.state.select(index),
        group.logits,
        _select(group.seen, rows),
    )
    return part, chosen[index]


def _read_windows(loop: _Loop, group: _Group, chosen_rows: list[int]) -> _Group:
    """A new group of some of the rows, whose current windows are read from position 0."""
    rows = [group.rows[i] for i in chosen_rows]
    before = [row.window for row in rows]
    new = _prefill(loop, rows, _select(group.seen, chosen_rows))
    for row, window in zip(rows, before, strict=True):
        row.rewound = row.window <= window
    return new


def _select(seen: Tensor | None, rows: list[int]) -> Tensor | None:
    return None if seen is None else seen[rows]


def _begin(loop: _Loop, rows: list[_Row]) -> list[_Group]:
    """Read the prompts. For a rolling cache, one longer than the context is read on its own."""
    for row in rows:
        row.rewound = loop.context is not None and len(row.tokens) > loop.context
    if loop.options.on_overflow != "sinks":
        return [_prefill(loop, rows)]
    short = [row for row in rows if not row.rewound]
    groups = [_prefill(loop, short)] if short else []
    return [*groups, *(_prefill_rolling(loop, row) for row in rows if row.rewound)]


def _resume(loop: _Loop, row: _Row) -> _Group:
    """Read what the memory has not read yet; all that fits, where it would not fit in."""
    memory = loop.memory
    assert memory is not None
    new = row.tokens[memory.read :]
    state, memory.state = memory.state, None  # an interrupted step leaves nothing usable
    full = loop.context is not None and memory.window + len(new) > loop.context
    if state is None or full or not new:
        if full and loop.options.on_overflow == "error":
            raise refuse_overflow(len(row.tokens), loop.context or 0, 0)
        group = _begin(loop, [row])[0]
    else:
        tokens, _ = pad([new], loop.network.device)
        logits, state = loop.network.step(tokens, state)
        row.window = memory.window + len(new)
        seen = loop.options.repetition_penalty != 1
        group = _Group([row], state, logits, torch.zeros_like(logits).bool() if seen else None)
    memory.keep(row, group.state)
    return group


def _prefill_rolling(loop: _Loop, row: _Row) -> _Group:
    """Fill the cache, roll it, fill it again: as if the prompt had come token by token."""
    assert loop.context is not None
    group = _prefill(loop, [row], first=loop.context)
    done = loop.context
    while done < len(row.tokens):
        group.state = loop.network.roll(group.state)
        room = loop.context - int(group.state.lengths[0])
        tokens, _ = pad([row.tokens[done : done + room]], loop.network.device)
        group.logits, group.state = loop.network.step(tokens, group.state)
        done += room
    row.window = int(group.state.lengths[0])
    return group


def _merge(loop: _Loop, groups: list[_Group]) -> list[_Group]:
    """Rows that overflow one by one would end up each alone; reading all anew joins them."""
    if len(groups) <= MOST_GROUPS or loop.options.on_overflow != "rewindow":
        return groups
    marks = [group.seen for group in groups if group.seen is not None]
    rows = [row for group in groups for row in group.rows]
    return [_prefill(loop, rows, torch.cat(marks) if marks else None)]


def _prefill(
    loop: _Loop, rows: list[_Row], seen: Tensor | None = None, first: int | None = None
) -> _Group:
    """Read each row's window (or its `first` tokens) from position 0, as one padded batch."""
    if first is None:
        windows = [row.tokens[-window_length(len(row.tokens), loop.context) :] for row in rows]
    else:
        windows = [row.tokens[:first] for row in rows]
    for row, window in zip(rows, windows, strict=True):
        row.window = len(window)
    tokens, lengths = pad(windows, loop.network.device)
    if loop.sources is None:
        state = loop.network.start(len(rows))
    else:
        source, source_lengths = pad(
            [loop.sources[row.request] for row in rows], loop.network.device
        )
        state = loop.network.start(len(rows), source=source, source_lengths=source_lengths)
    logits, state = loop.network.step(tokens, state, lengths=lengths)
    if seen is None and loop.options.repetition_penalty != 1:
        seen = torch.zeros_like(logits, dtype=torch.bool)
    return _Group(rows, state, logits, seen)
