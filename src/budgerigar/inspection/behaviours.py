"""What a model can do, in numbers, to be measured with and without a head.

copy   random tokens given twice: is the second half told from the first? (the task of induction heads;
       the first half cannot be told)
gap    stories that ask for a pet named before
loss   stories, or an encoder-decoder's translations, word by word
fill   stories with single tokens masked, of an encoder

All texts are made once, so that every measurement reads the same. Shapes: B texts, T positions, V
vocab_size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from budgerigar.evaluation.cloze import gap_ids
from budgerigar.inspection import role_gold as gold
from budgerigar.inspection.pair_traces import start_of
from budgerigar.inspection.places import predicts_words
from budgerigar.inspection.role_probes import N_STORIES, Probe, Reader, pairs, repeats
from budgerigar.models.modes import without_dropout
from budgerigar.said import said
from budgerigar.text.stories import cloze_set

N_GAPS = 60
GAP_FILLER = 12  # words at least between the pet and the gap
_BATCH = 16
_HIDDEN_EVERY = 7  # tokens, of the text that an encoder is to fill in


@dataclass(frozen=True)
class Ability:
    """One number. key: which; name: in words; unit: "share" (of tokens right) or "nats" (per token);
    n tokens asked; on: the texts.
    """

    key: str
    name: str
    unit: str
    value: float
    n: int
    on: str


@dataclass(frozen=True)
class _Row:
    """Tokens read and what is asked: targets (T), -1 where nothing is; source of an encoder-decoder."""

    tokens: list[int]
    targets: list[int]
    source: list[int] | None = None


@dataclass(frozen=True)
class _Task:
    key: str
    name: str
    on: str
    rows: list[_Row]


class Behaviours:
    """The texts for one model. `measure` reads them with it or with a view of it."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.tasks = [task for task in _tasks(reader) if task.rows]

    @property
    def batches(self) -> int:
        """Passes that one measurement takes."""
        return sum(-(-len(task.rows) // _BATCH) for task in self.tasks)

    def measure(self, network: Any = None, job: Any = None, share: float = 1.0) -> list[Ability]:
        """Share right and nats per token of each task. network: a view of the model; None: itself.

        job: progress, advanced by `share` for each of `batches`.
        """
        found = []
        for task in self.tasks:
            sums = np.zeros(3)
            for start in range(0, len(task.rows), _BATCH):
                batch = task.rows[start : start + _BATCH]
                sums += _score(network or self.reader.network, batch)
                if job is not None:
                    job.advance(share)
            nats, right, n = float(sums[0]), int(sums[1]), int(sums[2])
            for unit, value in (("share", right / n), ("nats", nats / n)):
                found.append(Ability(task.key, task.name, unit, value, n, task.on))
        return found


def _tasks(reader: Reader) -> list[_Task]:
    if reader.paired:
        return [_translation(reader, pairs(reader))]
    if reader.assembly == "encoder-only":
        return [_filling(reader)]
    return [_copying(reader, repeats(reader)), _gaps(reader), _telling(reader)]


# -- the tasks -------------------------------------------------------------------------------------


def _copying(reader: Reader, probe: Probe) -> _Task:
    rows = []
    opening = [] if reader.start_id is None else [reader.start_id]
    for example in probe.examples:
        r = len(example.ids) // 2
        # the first token of the second half comes as a surprise: that it repeats is not known yet
        asked = [-1] * (len(opening) + r) + example.ids[r + 1 :] + [-1]
        rows.append(_Row(opening + example.ids, asked))
    return _Task("copy", "copy of repeated tokens", probe.on, rows)


def _gaps(reader: Reader) -> _Task:
    rows: list[_Row] = []
    for language in ("en", "zh"):
        for story in cloze_set(N_GAPS, 1, GAP_FILLER, language=language):
            if not gold.holds(reader.tokenizer, story.text):
                continue
            ids, answer = gap_ids(reader.tokenizer, story, reader.start_id)
            if len(ids) <= (reader.network.context_length or len(ids)):
                rows.append(_Row(ids, [-1] * (len(ids) - 1) + [answer]))
        if rows:
            break
    return _Task(
        "gap", "pet in the gap of a story", said("{n} generated stories", n=len(rows)), rows
    )


def _telling(reader: Reader) -> _Task:
    rows = []
    opening = [] if reader.start_id is None else [reader.start_id]
    for ids in story_ids(reader):
        whole = [*opening, *ids]
        rows.append(_Row(whole[:-1], whole[1:]))
    return _Task("loss", "next token of stories", said("{n} generated stories", n=len(rows)), rows)


def _filling(reader: Reader) -> _Task:
    mask = getattr(reader.tokenizer, "mask_id", None)
    rows: list[_Row] = []
    if mask is None or not predicts_words(reader.network.config):
        return _Task("fill", "", "", rows)
    opening = [] if reader.start_id is None else [reader.start_id]
    closing = list(getattr(reader.tokenizer, "closing_ids", ()))
    for n, ids in enumerate(story_ids(reader)):
        hidden = set(range(n % _HIDDEN_EVERY, len(ids), _HIDDEN_EVERY))
        read = [int(mask) if at in hidden else token for at, token in enumerate(ids)]
        asked = [token if at in hidden else -1 for at, token in enumerate(ids)]
        around = [-1] * len(opening), [-1] * len(closing)
        rows.append(_Row([*opening, *read, *closing], [*around[0], *asked, *around[1]]))
    return _Task(
        "fill", "masked token of stories", said("{n} generated stories", n=len(rows)), rows
    )


def _translation(reader: Reader, probe: Probe) -> _Task:
    rows = []
    end, start = reader.tokenizer.end_id, start_of(reader.network, reader.tokenizer)
    closing = (reader.source_tokenizer or reader.tokenizer).end_id
    for example in probe.examples:
        targets = [*example.ids, end]
        source = [*(example.source or []), closing]
        rows.append(_Row([start, *targets[:-1]], targets, source))
    return _Task("loss", "next token of a translation", probe.on, rows)


def story_ids(reader: Reader, n: int = N_STORIES, seed: int = 1) -> list[list[int]]:
    """Stories of one language that the tokenizer holds, as ids that fit the model."""
    for language in ("en", "zh"):
        texts = [one.text for one in gold.story_texts(n, language, seed=seed)]
        held = [text for text in texts if gold.holds(reader.tokenizer, text)]
        if held:
            room = reader.longest - 2
            return [[int(t) for t in reader.tokenizer.encode(text)][:room] for text in held]
    return []


# -- scoring ---------------------------------------------------------------------------------------


@torch.inference_mode()
def _score(network: Any, batch: Sequence[_Row]) -> tuple[float, int, int]:
    """Sum of nats, tokens right, tokens asked."""
    with without_dropout(network):
        logits = _logits(network, batch)
    targets = _padded([row.targets for row in batch], -1).to(logits.device)
    asked = targets >= 0
    wanted, told = targets[asked], logits[asked].double()
    nats = -float(told.log_softmax(-1).gather(1, wanted[:, None]).sum())
    return nats, int((told.argmax(-1) == wanted).sum()), len(wanted)


def _logits(network: Any, batch: Sequence[_Row]) -> Tensor:
    """(B,T,V) of right-padded texts."""
    device = network.device
    lengths = torch.tensor([len(row.tokens) for row in batch], device=device)
    inputs: dict[str, Tensor] = {"tokens": _padded([row.tokens for row in batch], 0).to(device)}
    if batch[0].source is not None:
        sources = [row.source or [] for row in batch]
        inputs["source"] = _padded(sources, 0).to(device)
        inputs["source_lengths"] = torch.tensor([len(row) for row in sources], device=device)
    else:
        inputs["lengths"] = lengths
    logits: Tensor = network.forward(**inputs)
    return logits


def _padded(rows: Sequence[Sequence[int]], filling: int) -> Tensor:
    found = np.full((len(rows), max(map(len, rows))), filling, dtype=np.int64)
    for at, row in enumerate(rows):
        found[at, : len(row)] = row
    return torch.from_numpy(found)
