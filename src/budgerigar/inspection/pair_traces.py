"""A trace of an encoder-decoder: a source, its translation, and three kinds of attention.

At row t the decoder has read the start token and t tokens of the translation, and predicts token t.
Cross-attention answers "where does the model look while it writes this word?", so its rows are
named by the token being predicted. Rows of the decoder's self-attention are named by the token just
read, as everywhere else, because the same tokens stand along its columns.

Shapes: T rows (the translation's tokens and `<end>`), S source tokens (`<end>` the last).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.inspection.labels import Spelling, shorten, spell, visible
from budgerigar.inspection.matrix import PREDICTED_AXIS, SOURCE_AXIS
from budgerigar.inspection.passes import run
from budgerigar.inspection.places import places
from budgerigar.inspection.sites import Site, shared_bias
from budgerigar.inspection.traces import Trace
from budgerigar.layers.visibility import View
from budgerigar.models.base import check_ids
from budgerigar.models.blank_source import WithoutSource
from budgerigar.models.modes import without_source
from budgerigar.said import said

if TYPE_CHECKING:
    from budgerigar.inspection.alignments import WordAlignment
    from budgerigar.inspection.surprise import TokenSurprise

START_LABEL, NEXT_LABEL = "<start>", "<next>"
Text = str | Sequence[int]


class PairTrace(Trace):
    """What one pass over a source and its translation did. Made by `trace_pair`.

    `ids` are the tokens read (the start token first), `targets` the tokens predicted at each row,
    `<end>` the last (unless the model's own translation never came to it). own: whether the model
    made the translation itself. prefix: it is only a beginning; the last row predicts what would
    come next.
    """

    def __init__(
        self,
        network: Any,
        source_ids: list[int],
        targets: list[int],
        spellings: tuple[Spelling, Spelling, Spelling],
        passed: tuple[Tensor, dict[str, Tensor], dict[str, Tensor]],
        name: str,
        *,
        prefix: bool = False,
        own: bool = False,
        no_source: bool = False,
    ) -> None:
        """spellings: of the tokens read, of those predicted, of the source; passed: logits (1,T,V),
        values, inputs.
        """
        logits, values, inputs = passed
        read, self.predicted, self.source_spelling = spellings
        sites = _sites(network, inputs, values, spellings, no_source)
        ids = [int(token) for token in inputs["tokens"][0]]
        super().__init__(network, ids, read, logits[0], values, sites, name, inputs=inputs)
        self.source_ids, self.targets = source_ids, targets
        self.prefix, self.own, self.no_source = prefix, own, no_source

    @property
    def source(self) -> str:
        """The source's text."""
        return self.source_spelling.text

    @property
    def text(self) -> str:
        """The translation's text."""
        return self.predicted.text

    @property
    def source_labels(self) -> list[str]:
        """S readable names of the source's tokens."""
        return list(self.source_spelling.labels)

    @property
    def target_labels(self) -> list[str]:
        """T readable names of the tokens predicted, row by row."""
        return list(self.predicted.labels)

    @property
    def about(self) -> str:
        """Model, source and translation in one line, for titles."""
        sides = [shorten(visible(t.strip(" "), spaces=False), 40) for t in (self.source, self.text)]
        words = f"“{sides[0]}” → “{sides[1]}{' …' if self.prefix else ''}”"
        words += " (the model's own translation)" if self.own else ""
        words += " (the source is switched off)" if self.no_source else ""
        return ": ".join(part for part in (self.name, words) if part)

    def surprise(self, top: int = 5) -> list[TokenSurprise]:
        """Nats, rank and the likeliest tokens of each token of the translation, `<end>` included."""
        from budgerigar.inspection.surprise import surprise

        ids = [self.ids[0], *(self.targets[:-1] if self.prefix else self.targets)]
        labels = [START_LABEL, *self.target_labels]
        pieces = ["", *self.predicted.pieces]
        return surprise(self.logits, ids, labels[: len(ids)], top, pieces[: len(ids)])

    def guesses(self, row: int | None = None, top: int = 5) -> list[tuple[int, float]]:
        """The likeliest tokens at a row: (token id, probability); None: after the text given.

        After a complete translation that is the row that predicts `<end>`.
        """
        place = self.predicted.find(len(self.targets) - 1 if row is None else row)[0]
        chances = torch.softmax(self.logits[place].double(), dim=-1)
        best = chances.topk(min(top, len(chances)))
        return list(zip(best.indices.tolist(), best.values.tolist(), strict=True))

    def alignment(
        self, head: str | None = None, **spans: Sequence[tuple[int, int]]
    ) -> WordAlignment:
        """Which source word each word of the translation looks at; see `alignments.align`.

        head: "L1.H2", a layer's mean as "L1", "all" heads' mean, or None: the mean over the heads of
        the last layer but one (Garg et al. 2019), the only one where there is one. source_spans,
        target_spans: the characters of each word, where they are known.
        """
        from budgerigar.inspection.alignments import align

        return align(self, head, **spans)


def trace_pair(
    network: Any,
    tokenizer: Any,
    source: Text,
    target: Text | None = None,
    *,
    source_tokenizer: Any = None,
    prefix: bool = False,
    no_source: bool = False,
    record: Sequence[str] = ("*",),
    name: str = "",
    options: Any = None,
    ran: tuple[Tensor, dict[str, Tensor]] | None = None,
) -> PairTrace:
    """Run an encoder-decoder once over `source` and `target` and keep what happened.

    source, target: text, or ids without start and end. target None: the model's own translation
    (searched for with `options`, `TranslationOptions`). prefix: `target` is only a beginning, the
    last row is about what comes next. no_source: blank what comes from the source, see
    `modes.without_source`. source_tokenizer: where it is another than the target's. ran: as of `trace`.
    """
    _check_kind(network)
    reader = source_tokenizer or tokenizer
    source_ids = source_side(network, reader, source)
    no_source = no_source or is_blanked(network)
    seen = without_source(network) if no_source and not is_blanked(network) else network
    start, end = start_of(network, tokenizer), tokenizer.end_id
    own = target is None
    if target is None:
        targets, prefix = _own_translation(seen, tokenizer, source_ids, start, options), False
    else:
        targets = encoded(tokenizer, target)
        if isinstance(target, str) or targets[-1:] != [end]:
            targets = [*targets, end]
    check_ids(targets, network.vocab_size, "the translation")
    _check_length(network, len(targets), said("translation"))
    read = [start, *targets[:-1]]
    inputs = pair_inputs(network, source_ids, read)
    logits, values = ran or run(seen, inputs, record)
    spellings = (
        _renamed(spell(tokenizer, read), 0, START_LABEL),
        _renamed(spell(tokenizer, targets), -1, NEXT_LABEL)
        if prefix
        else spell(tokenizer, targets),
        spell(reader, source_ids),
    )
    found = PairTrace(
        seen,
        source_ids,
        targets,
        spellings,
        (logits, values, inputs),
        name,
        prefix=prefix,
        own=own,
        no_source=no_source,
    )
    found.tokenizer, found.source_tokenizer = tokenizer, reader
    return found


def is_blanked(network: Any) -> bool:
    """Whether `network` is a view without its source, or a view of such a view."""
    while network is not None:
        if isinstance(network, WithoutSource):
            return True
        network = getattr(network, "network", None)
    return False


def source_side(network: Any, tokenizer: Any, source: Text, cut: bool = False) -> list[int]:
    """Ids of a source as the encoder reads them, `<end>` the last.

    Beyond the context: `UserError`, or (cut) only its beginning.
    """
    ids = encoded(tokenizer, source)
    if ids and ids[-1] == tokenizer.end_id and not isinstance(source, str):
        ids = ids[:-1]
    known = getattr(network.config, "source_vocab_size", None) or network.vocab_size
    check_ids(ids, known, "the source")
    limit = network.context_length
    if cut and limit is not None:
        ids = ids[: limit - 1]
    _check_length(network, len(ids) + 1, said("source"))
    return [*ids, tokenizer.end_id]


def start_of(network: Any, tokenizer: Any) -> int:
    """The id that the decoder starts from."""
    start = getattr(network.config, "decoder_start", None)
    return int(tokenizer.end_id if start is None else start)


def pair_inputs(network: Any, source_ids: Sequence[int], read: Sequence[int]) -> dict[str, Tensor]:
    """What one pass is given: tokens (1,T) and source (1,S)."""
    device = network.device
    return {
        "tokens": torch.tensor([list(read)], device=device),
        "source": torch.tensor([list(source_ids)], device=device),
    }


def encoded(tokenizer: Any, text: Text) -> list[int]:
    """Ids of a text, or the ids given."""
    return [int(token) for token in (tokenizer.encode(text) if isinstance(text, str) else text)]


def _check_kind(network: Any) -> None:
    assembly = getattr(network.config, "assembly", None)
    if assembly != "encoder-decoder":
        what = assembly or type(network).__name__
        raise UserError(f"this model ({what}) reads no source text; only an encoder-decoder does")


def _check_length(network: Any, n: int, what: str) -> None:
    limit = network.context_length
    if limit is not None and n > limit:
        raise UserError(
            said(
                "the {what} has {n} tokens with its <end>, this model sees at most {most} at once; "
                "look at a shorter sentence",
                what=what,
                n=n,
                most=limit,
            )
        )


def _renamed(spelling: Spelling, position: int, label: str) -> Spelling:
    labels = list(spelling.labels)
    labels[position] = label
    return replace(spelling, labels=tuple(labels))


def _own_translation(
    network: Any, tokenizer: Any, source_ids: list[int], start: int, options: Any
) -> list[int]:
    """The best hypothesis, with its `<end>` where it came to it."""
    from budgerigar.generation.beam import search
    from budgerigar.generation.translation_options import TranslationOptions

    forbidden = getattr(tokenizer, "never_seen", None)
    found = search(
        network,
        [source_ids],
        options or TranslationOptions(),
        start_id=start,
        end_id=tokenizer.end_id,
        forbidden=forbidden,
    )[0]
    best = found[0]
    ids = [int(token) for token in best.ids]
    return [*ids, tokenizer.end_id] if best.finished or not ids else ids


def _sites(
    network: Any,
    inputs: dict[str, Tensor],
    values: dict[str, Tensor],
    spellings: tuple[Spelling, Spelling, Spelling],
    no_source: bool,
) -> list[Site]:
    """The kinds of attention that ran, with the views that the forward pass had."""
    read, predicted, source = spellings
    device = inputs["tokens"].device
    rows = torch.arange(inputs["tokens"].shape[1], device=device)[None]
    columns = torch.arange(inputs["source"].shape[1], device=device)[None]
    sites = []
    for place in places(network):
        if f"{place.modules[0].name}.query" not in values:
            continue
        if place.kind == "cross":
            view = View(rows, columns, causal=False)
            if no_source:
                view.key_valid = torch.zeros_like(columns, dtype=torch.bool)
            site = Site(place.of, place.kind, place.modules, view, None, predicted, source)
            sites.append(
                replace(
                    site,
                    query_axis=PREDICTED_AXIS,
                    key_axis=SOURCE_AXIS,
                    predicts=True,
                    blank=no_source,
                )
            )
            continue
        along, spelling = (columns, source) if place.of == "encoder" else (rows, read)
        view = View(along, along, causal=place.of == "decoder")
        bias = shared_bias(network, place.of, view)
        sites.append(Site(place.of, place.kind, place.modules, view, bias, spelling, spelling))
    return sites
