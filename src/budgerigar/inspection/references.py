"""The text that a switched-off head's mean is taken from, where nobody gave one.

A decoder writes it itself (`editing`). An encoder reads generated stories. An encoder-decoder reads
generated sentence pairs in its own direction; where its vocabularies do not hold them, random words of
its vocabulary with the translations that it makes of them, or the sources that were given.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.inspection.editing import Reference
from budgerigar.inspection.kept import OfNetwork
from budgerigar.inspection.pair_traces import pair_inputs, source_side, start_of
from budgerigar.inspection.role_probes import Probe, Reader, pairs, stories
from budgerigar.said import said

N_PAIRS, N_STORIES = 16, 8
_kept: OfNetwork[Reference] = OfNetwork()


def usual(reader: Reader) -> Reference:
    """What an encoder or an encoder-decoder reads for it; the same as long as its weights stay."""
    return _kept.get(reader.network, lambda: _usual(reader))


def _usual(reader: Reader) -> Reference:
    if not reader.paired:
        return _read(reader, stories(reader, "encoder", N_STORIES))
    probe = pairs(reader, N_PAIRS)
    if probe.reason is None:
        return _read(reader, probe)
    sources = [example.source or [] for example in probe.examples]
    return Reference(
        _translated(reader, sources),
        said("{n} sources of random tokens and the model's own translations", n=len(sources)),
    )


def _read(reader: Reader, probe: Probe) -> Reference:
    return Reference([reader.inputs(example) for example in probe.examples], probe.on)


def of_sources(reader: Reader, text: str) -> Reference:
    """The lines of `text` as sources, with the model's own translations.

    Raises:
        UserError: there is no line, or one that the model cannot read.
    """
    source = reader.source_tokenizer or reader.tokenizer
    lines = [[int(t) for t in source.encode(line)] for line in text.splitlines() if line.strip()]
    if not lines:
        raise UserError(
            said("the reference text is empty; mean and resample need at least one token")
        )
    words = said("{n} given sources and the model's own translations", n=len(lines))
    return Reference(_translated(reader, lines), words)


def _translated(reader: Reader, sources: Sequence[list[int]]) -> list[dict[str, Tensor]]:
    """A pass over each source and what the model makes of it, step by step the likeliest token."""
    from budgerigar.generation.beam import search
    from budgerigar.generation.translation_options import TranslationOptions

    network, tokenizer = reader.network, reader.tokenizer
    start = start_of(network, tokenizer)
    read = [source_side(network, reader.source_tokenizer or tokenizer, ids) for ids in sources]
    most = max(1, min(reader.longest, 2 * max(map(len, read))))
    found = search(
        network,
        read,
        TranslationOptions(beam_size=1, max_length=most),
        start_id=start,
        end_id=tokenizer.end_id,
        forbidden=getattr(tokenizer, "never_seen", None),
    )
    room = (network.context_length or most + 1) - 1
    rows = [[start, *(int(token) for token in best[0].ids)][: 1 + room] for best in found]
    return [pair_inputs(network, *both) for both in zip(read, rows, strict=True)]
