"""One attention head of a trace: every step as an array, its rows in words, and pictures of itself.

Shapes: T query positions, S key positions, E d_head, D d_model. Rows are queries (the token that
looks), columns keys (the token looked at). A row of self-attention is labelled with the token that
was read there; what the model predicts at that row is the token after it, which is another thing.
A row of a translator's cross-attention is labelled with the token that it predicts.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.inspection.labels import Word
from budgerigar.inspection.matrix import MASKED, Mask, Matrix
from budgerigar.inspection.passes import array
from budgerigar.layers.additive_attention import AdditiveAttention
from budgerigar.layers.attention import AttentionSteps
from budgerigar.layers.visibility import View

if TYPE_CHECKING:
    from budgerigar.inspection.sites import Site
    from budgerigar.inspection.traces import Trace


class Head:
    """Head `L{layer}.H{head}` of one kind of attention. Arrays are float32 numpy."""

    def __init__(
        self, trace: Trace, site: Site, layer: int, head: int, steps: AttentionSteps
    ) -> None:
        self.trace, self.site, self.layer, self.head = trace, site, layer, head
        self._steps = steps
        self.module = site.modules[layer]

    @property
    def name(self) -> str:
        """`L2.H3`."""
        return f"L{self.layer}.H{self.head}"

    @property
    def kv_head(self) -> int:
        """The key-value head that this query head reads: head // (heads / kv heads)."""
        return self.head // (self.module.n_heads // self.module.n_kv_heads)

    @property
    def query_labels(self) -> list[str]:
        """T readable names of the tokens that look."""
        return list(self.site.query_spelling.labels)

    @property
    def key_labels(self) -> list[str]:
        """S readable names of the tokens looked at."""
        return list(self.site.key_spelling.labels)

    # -- the steps, (T,S) each -------------------------------------------------------------------
    @property
    def scores(self) -> np.ndarray:
        """q . k."""
        return self._step(self._steps.scores)

    @property
    def scaled(self) -> np.ndarray:
        """Scores times the scale, 1/sqrt(d_head) for most models."""
        return self._step(self._steps.scaled)

    @property
    def capped(self) -> np.ndarray:
        """After the soft-cap."""
        return self._step(self._steps.capped)

    @property
    def biased(self) -> np.ndarray:
        """Plus the position bias (ALiBi, T5)."""
        return self._step(self._steps.biased)

    @property
    def masked(self) -> np.ndarray:
        """-inf where the query may not look."""
        return self._step(self._steps.masked)

    @property
    def weights(self) -> np.ndarray:
        """Softmax of the row; exactly 0 where masked."""
        return self._step(self._steps.weights)

    @property
    def head_output(self) -> np.ndarray:
        """(T,E): weights @ values, recomputed."""
        return self._step(self._steps.head_output)

    # -- vectors ---------------------------------------------------------------------------------
    @property
    def queries(self) -> np.ndarray:
        """(T,E) as used, after rotation."""
        return self._tap("query", self.head)

    @property
    def keys(self) -> np.ndarray:
        """(S,E) as used, after rotation."""
        return self._tap("key", self.kv_head)

    @property
    def queries_unrotated(self) -> np.ndarray:
        """(T,E) before rotation; the same as `queries` in a model without rotary positions."""
        return self._tap(self._unrotated("query"), self.head)

    @property
    def keys_unrotated(self) -> np.ndarray:
        """(S,E) before rotation."""
        return self._tap(self._unrotated("key"), self.kv_head)

    @property
    def values(self) -> np.ndarray:
        """(S,E)."""
        return self._tap("value", self.kv_head)

    @cached_property
    def contribution(self) -> np.ndarray:
        """(T,D): what this head adds to the attention's output, head_output @ its slice of W_O.

        All heads of a layer and the output bias sum to the tap `…attention.output`. A norm after
        the attention (sandwich, output, post) is applied to that sum, not to one head. `UserError`
        for additive attention, whose output enters the decoder's cell as it is.
        """
        if isinstance(self.module, AdditiveAttention):
            raise UserError(
                "additive attention has no output projection: its head output, the average of what "
                "the encoder wrote, enters the decoder's cell as it is (head.head_output)"
            )
        self.trace.check_unchanged()
        width = self.module.d_head
        columns = slice(self.head * width, (self.head + 1) * width)
        return self.model_output @ array(self.module.output.weight)[:, columns].T

    @property
    def model_output(self) -> np.ndarray:
        """(T,E): the head output that the model itself computed and used; 0 without the source."""
        if self.site.blank:
            return np.zeros_like(self.head_output)
        return self._tap("head_output", self.head)

    @cached_property
    def difference(self) -> float:
        """max abs(recomputed - model's own head output) / max abs(model's own).

        Of a head that was switched off or replaced: how far that moved it.
        """
        own, again = self.model_output, self.head_output
        largest = float(np.abs(own).max(initial=0.0))
        apart = float(np.abs(again - own).max(initial=0.0))
        return apart / largest if largest else apart

    @property
    def mask_reason(self) -> np.ndarray:
        """(T,S) of str: why a cell is masked: "future", "window", "document", "padding"; else ""."""
        return self.mask.reasons

    @property
    def mask(self) -> Mask:
        """The same as one object that all heads with this view share."""
        return self.trace.mask(self.site, self.layer)

    # -- in words --------------------------------------------------------------------------------
    def row(
        self, word: Word, occurrence: int | None = None, top: int | None = None
    ) -> list[tuple[str, float]]:
        """What `word` looks at, strongest first. A word of several tokens: the mean of their rows."""
        rows = self.site.query_spelling.find(word, occurrence)
        weights = self.weights[rows].mean(axis=0)
        order = np.argsort(-weights, kind="stable")[:top]
        return [(self.key_labels[key], float(weights[key])) for key in order]

    def matrix(self) -> Matrix:
        """Weights and labels, ready to be drawn."""
        site = self.site
        alone = len(self.trace.sites) == 1 and not site.predicts
        group = "" if alone else f"{site.of}, {site.kind}-attention"
        return Matrix(
            self.weights,
            self.query_labels,
            self.key_labels,
            self.mask,
            name=self.name if alone else f"{self.name} ({group})",
            about=self.trace.about,
            query_axis=site.query_axis,
            key_axis=site.key_axis,
            group=group,
        )

    def step_text(self, word: Word, occurrence: int | None = None, top: int = 12) -> str:
        """The four steps for one query as text; see `steps.four_steps`."""
        from budgerigar.inspection.steps import four_steps

        return four_steps(self, word, occurrence, top)

    def heatmap(self, path: str | Path) -> Path:
        """Write this head as PNG, SVG or PDF, by the file's ending."""
        from budgerigar.inspection import plots

        svg = Path(path).suffix.lower() == ".svg"
        return plots.save(plots.head_figure(self.matrix(), text_only=svg), path)

    def __repr__(self) -> str:
        from budgerigar.inspection.terminal import heatmap

        return heatmap(self.matrix())

    def _repr_html_(self) -> str:
        from budgerigar.inspection.export import frame, head_page

        return frame(head_page(self))

    def _step(self, tensor: Tensor) -> np.ndarray:
        return array(tensor[0, self.head])

    def _unrotated(self, part: str) -> str:
        """The tap's name; an attention that knows no rotation records the vector once."""
        before = f"{part}_unrotated"
        return before if f"{self.module.name}.{before}" in self.trace.recorded else part

    def _tap(self, part: str, head: int) -> np.ndarray:
        return np.asarray(self.trace.tap(f"{self.module.name}.{part}")[head])


def mask_of(view: View, window: int | None, sink_tokens: int) -> Mask:
    """What row 0 of a view hides, and why."""
    visible = view.visible(window, sink_tokens)[0].cpu().numpy()
    reasons = list(MASKED)
    codes = np.where(visible, 0, 1 + reasons.index("window")).astype(np.uint8)
    if view.query_documents is not None and view.key_documents is not None:
        queries, keys = view.query_documents[0].cpu().numpy(), view.key_documents[0].cpu().numpy()
        codes[queries[:, None] != keys[None, :]] = 1 + reasons.index("document")
    if view.causal:
        # by index, not by position: positions restart with each document
        after = np.arange(visible.shape[1])[None, :] > np.arange(visible.shape[0])[:, None]
        codes[after & ~visible] = 1 + reasons.index("future")
    if view.key_valid is not None:
        codes[:, ~view.key_valid[0].cpu().numpy()] = 1 + reasons.index("padding")
    assert ((codes == 0) == visible).all(), "a mask without its reason"
    return Mask(codes)
