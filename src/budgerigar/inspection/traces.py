"""A trace: one forward pass with all that happened in it, recomputed where one looks.

The model runs as it always does (fused attention included) and its taps are kept: queries, keys,
values, head outputs, residuals. The steps of attention are then recomputed from these very tensors,
for the layers looked at only, and `difference` says how far the result is from the model's own.

Shapes: T query positions, S key positions, H heads, E d_head, D d_model, V vocab_size.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.inspection.heads import Head, mask_of
from budgerigar.inspection.kept import weights_version
from budgerigar.inspection.labels import Spelling, Word, shorten, spell, visible
from budgerigar.inspection.matrix import Mask
from budgerigar.inspection.names import parse_head
from budgerigar.inspection.passes import array, pass_inputs, run
from budgerigar.inspection.places import choose
from budgerigar.inspection.sites import Site, sites_of
from budgerigar.layers.attention import AttentionSteps
from budgerigar.models.base import check_ids
from budgerigar.said import said

if TYPE_CHECKING:
    from budgerigar.inspection.gates import LayerGates
    from budgerigar.inspection.links import Links
    from budgerigar.inspection.surprise import TokenSurprise

_KEPT_BYTES = 2**28  # of recomputed steps at the same time, or one layer where one is larger


class Trace:
    """What one forward pass did. Made by `trace`; belongs to the weights the model had then."""

    def __init__(
        self,
        network: Any,
        ids: list[int],
        spelling: Spelling,
        logits: Tensor,
        values: dict[str, Tensor],
        sites: list[Site],
        name: str = "",
        start_added: bool = False,
        inputs: dict[str, Tensor] | None = None,
    ) -> None:
        self.network, self.ids, self.spelling, self.logits = network, ids, spelling, logits
        self.name, self.start_added, self.sites = name, start_added, sites
        self.inputs = inputs or {}
        self.tokenizer: Any = None
        self.source_tokenizer: Any = None
        self.asked: tuple[Any, dict[str, Any]] | None = None
        """the model that was asked for this trace, and the question as the page has it, where known"""
        self._values = values
        self._version = weights_version(network)
        self._steps: OrderedDict[tuple[str, str, int], AttentionSteps] = OrderedDict()
        self._masks: dict[tuple[str, str, int | None], Mask] = {}

    # -- facts -----------------------------------------------------------------------------------
    @property
    def text(self) -> str:
        """What the tokens spell."""
        return self.spelling.text

    @property
    def labels(self) -> list[str]:
        """T readable names of the tokens read."""
        return list(self.spelling.labels)

    @property
    def about(self) -> str:
        """Model and text in one line, for titles."""
        words = shorten(visible(self.text.strip(" "), spaces=False), 60)
        added = f" (the model's {self.labels[0]} put before it)" if self.start_added else ""
        return ": ".join(part for part in (self.name, f"“{words}”{added}") if part)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        names = [head for site in self.sites for head in self.names(site.of, site.kind)]
        ends = f"{names[0]} to {names[-1]}" if names else "no heads"
        tokens = f"{len(self)} token{'' if len(self) == 1 else 's'}"
        return f"Trace of {tokens}, {ends}, {self.about}"

    # -- attention -------------------------------------------------------------------------------
    def site(self, of: str | None = None, kind: str | None = None) -> Site:
        """The attention meant by `of` ("encoder", "decoder") and `kind` ("self", "cross")."""
        purpose = (
            "attention to look at. --surprise shows what its tokens cost, --reach how far it sees"
        )
        found: Site = choose(self.sites, self.network, of, kind, purpose)
        return found

    def names(self, of: str | None = None, kind: str | None = None) -> list[str]:
        """The heads' names, L0.H0 first."""
        return [
            f"L{layer}.H{head}"
            for layer, module in enumerate(self.site(of, kind).modules)
            for head in range(module.n_heads)
        ]

    def attention(self, name: str, of: str | None = None, kind: str | None = None) -> Head:
        """The head `name` ("L2.H3"). `UserError` when there is none of that name."""
        site = self.site(of, kind)
        layer, head = parse_head(name, len(site.modules), site.modules[0].n_heads)
        return self._head(site, layer, head)

    def heads(
        self, layer: int | None = None, of: str | None = None, kind: str | None = None
    ) -> Iterator[Head]:
        """All heads, or those of one layer."""
        site = self.site(of, kind)
        depth = len(site.modules)
        if layer is not None and not 0 <= layer < depth:
            raise UserError(f"there is no layer {layer}: the model has layers 0 to {depth - 1}")
        for number in range(depth) if layer is None else [layer]:
            for head in range(site.modules[number].n_heads):
                yield self._head(site, number, head)

    def links(
        self,
        query: Word,
        key: Word,
        *,
        query_occurrence: int | None = None,
        key_occurrence: int | None = None,
        of: str | None = None,
        kind: str | None = None,
        untrained: bool = True,
    ) -> Links:
        """Every head by the weight with which `query` looks at `key`; see `links.rank`."""
        from budgerigar.inspection.links import rank

        kind = self._cross_first(of, kind)  # from a word of the translation to one of the source
        return rank(
            self,
            query,
            key,
            query_occurrence,
            key_occurrence,
            of=of,
            kind=kind,
            untrained=untrained,
        )

    def _cross_first(self, of: str | None, kind: str | None) -> str | None:
        """`kind`, or "cross" where nothing is said and there is such a thing."""
        crossing = any(site.kind == "cross" for site in self.sites)
        return "cross" if of is None and kind is None and crossing else kind

    def _head(self, site: Site, layer: int, head: int) -> Head:
        return Head(self, site, layer, head, self.steps(site, layer))

    def steps(self, site: Site, layer: int) -> AttentionSteps:
        """The recomputed steps of one layer, all heads: (1,H,T,S) each."""
        key = (site.of, site.kind, layer)
        if key not in self._steps:
            self.check_unchanged()
            module = site.modules[layer]
            query, keys, values = (
                self._values[f"{module.name}.{part}"].float() for part in ("query", "key", "value")
            )
            with torch.no_grad():
                self._steps[key] = module.steps_from_taps(query, keys, values, site.view, site.bias)
            size = sum(step.nbytes for step in self._steps[key])
            while len(self._steps) > max(1, _KEPT_BYTES // size):
                self._steps.popitem(last=False)
        return self._steps[key]

    def mask(self, site: Site, layer: int) -> Mask:
        """Which cells a layer hides and why; computed once for all layers with the same window."""
        module = site.modules[layer]
        key = (site.of, site.kind, module.window)
        if key not in self._masks:
            mask = mask_of(site.view, module.window, module.sink_tokens)
            self._masks[key] = Mask.whole("source", mask.codes.shape) if site.blank else mask
        return self._masks[key]

    @property
    def recorded(self) -> set[str]:
        """Names of the values that were recorded."""
        return set(self._values)

    def tensor(self, name: str) -> Tensor:
        """One recorded value as the model computed it, its batch dimension (1) the first."""
        if name not in self._values:
            raise UserError(f"no value named {name}; trace.values() lists what was recorded")
        return self._values[name]

    def tap(self, name: str) -> np.ndarray:
        """The same as an array without the batch dimension."""
        return array(self.tensor(name)[0])

    def check_unchanged(self) -> None:
        """`UserError` when the model was trained on or loaded anew since this trace was made."""
        if weights_version(self.network) != self._version:
            raise UserError(
                "the model's weights changed since this trace was made, so its steps can no longer "
                "be recomputed; make a new trace"
            )

    # -- values and predictions ------------------------------------------------------------------
    def values(self, pattern: str = "*") -> dict[str, np.ndarray]:
        """Recorded values whose names match a shell pattern, in the order of the forward pass."""
        found = {n: array(v[0]) for n, v in self._values.items() if fnmatchcase(n, pattern)}
        if not found:
            names = ", ".join(list(self._values)[:12])
            raise UserError(f"no recorded value matches {pattern!r}; there are {names}, …")
        return found

    def gates(self, layer: int = 0) -> LayerGates:
        """The gates of one layer of a recurrent language model; see `inspection.gates`."""
        from budgerigar.inspection.gates import gates_of

        return gates_of(self, layer)

    def surprise(self, top: int = 5) -> list[TokenSurprise]:
        """Nats, rank and the likeliest `top` tokens of each position, all from the one pass."""
        from budgerigar.inspection.surprise import surprise

        if getattr(self.network.config, "assembly", None) == "encoder-only":
            raise UserError(
                "an encoder-only model sees the tokens that it would have to predict, so none of "
                "them can surprise it; a decoder-only model has surprises"
            )
        return surprise(self.logits, self.ids, self.labels, top, self.spelling.pieces)

    # -- pictures --------------------------------------------------------------------------------
    def heatmap(
        self,
        path: str | Path,
        head: str | None = None,
        layer: int | None = None,
        of: str | None = None,
        kind: str | None = None,
    ) -> Path:
        """Write PNG, SVG or PDF: one head, one layer, or (neither given) all heads as a grid.

        Of a translator's kinds of attention, cross-attention unless `of` or `kind` is given.
        """
        from budgerigar.inspection import plots

        kind = self._cross_first(of, kind)

        svg = Path(path).suffix.lower() == ".svg"
        if head is not None:
            figure = plots.head_figure(self.attention(head, of, kind).matrix(), text_only=svg)
        elif layer is not None:
            figure = plots.layer_figure([h.matrix() for h in self.heads(layer, of, kind)], svg)
        else:
            site = self.site(of, kind)
            rows = [
                [h.matrix() for h in self.heads(number, of, kind)]
                for number in range(len(site.modules))
            ]
            figure = plots.grid_figure(rows, self.about, svg)
        return plots.save(figure, path)

    def html(
        self,
        path: str | Path,
        of: str | None = None,
        kind: str | None = None,
        *,
        head: str | None = None,
        full: bool = False,
    ) -> Path:
        """Write one offline HTML file: the page of `budgie explore` about this text.

        of, kind, head: the attention that is shown at first. full: every number as float32, not as
        float16 and 16-bit fractions, and everything that a smaller file leaves out.
        """
        from budgerigar.inspection.export import head_state, write_page

        state: dict[str, Any] | None = None
        if head is not None:
            state = head_state(self.attention(head, of, kind))
        elif of is not None or kind is not None:
            site = self.site(of, kind)
            state = {"view": "grid", "selection": {"of": site.of, "kind": site.kind}}
        return write_page(self, path, full=full, state=state)

    def _repr_html_(self) -> str:
        """In a notebook: the text and every head over it."""
        from budgerigar.inspection.export import frame, look_of, page_of

        return frame(page_of(look_of(self), steps=False, packed=True))


def trace(
    network: Any,
    tokenizer: Any,
    text_or_ids: str | Sequence[int],
    start_id: int | None = None,
    *,
    source: str | Sequence[int] | None = None,
    source_tokenizer: Any = None,
    record: Sequence[str] = ("*",),
    name: str = "",
    ran: tuple[Tensor, dict[str, Tensor]] | None = None,
) -> Trace:
    """Run `network` once over a text and keep what happened.

    start_id: put before the text where the model learnt documents that start with it; ids that
    begin with it already are left alone. Where it stands again inside given ids, a new document
    starts, as in training. record: patterns of further values to keep beside those that attention
    needs. name: the model's, for titles. source: what an encoder-decoder reads, the text being its
    translation; see `pair_traces.trace_pair`. ran: what `passes.run` gave, where the pass was run
    already, beside others.
    """
    if source is not None:
        from budgerigar.inspection.pair_traces import trace_pair

        reader = source_tokenizer or tokenizer
        return trace_pair(
            network,
            tokenizer,
            source,
            text_or_ids,
            source_tokenizer=reader,
            record=record,
            name=name,
            ran=ran,
        )
    ids, added = _ids(tokenizer, text_or_ids, start_id)
    check_ids(ids, network.vocab_size)
    spelling = spell(tokenizer, ids)
    limit = getattr(network, "context_length", None)
    if limit is not None and len(ids) > limit:
        raise UserError(
            said(
                "the text has {n} tokens, this model sees at most {most} at once; look at a shorter "
                "piece of it",
                n=len(ids),
                most=limit,
            )
        )
    inputs = pass_inputs(network, ids, start_id)
    logits, values = ran or run(network, inputs, record)
    sites = sites_of(network, inputs, values, spelling)
    found = Trace(network, ids, spelling, logits[0], values, sites, name, added, inputs)
    found.tokenizer = tokenizer
    return found


def _ids(
    tokenizer: Any, text_or_ids: str | Sequence[int], start_id: int | None
) -> tuple[list[int], bool]:
    """Ids to read, and whether `start_id` was put before them."""
    if isinstance(text_or_ids, str):
        ids = [int(token) for token in tokenizer.encode(text_or_ids)]
    else:
        ids = [int(token) for token in text_or_ids]
    added = start_id is not None and ids[:1] != [start_id]
    if added and start_id is not None:
        ids = [start_id, *ids]
    if not ids:
        raise UserError(said("there is no text to look at: give at least one character"))
    return ids, added
