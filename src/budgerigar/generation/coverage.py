"""How much attention each token of the source has received: what the coverage penalty counts.

Shapes: B sources, W places, N open hypotheses in all, S source positions.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.layers.taps import Taps
from budgerigar.models.beams import Beams


class Attention:
    """Cross-attention received so far by each source token, per hypothesis.

    Of a model with several layers the last but one counts, mean over its heads: the layer that
    aligns best (Garg et al. 2019). It is read through a tap, from any model that names its weights
    `decoder.<layer>.cross_attention.weights`. roots: hypotheses that a source begins with.
    """

    def __init__(
        self, network: object, source: Tensor, lengths: Tensor | None, roots: int = 1
    ) -> None:
        depth = getattr(getattr(network, "config", None), "decoder_layers", 1)
        self.name = f"decoder.{max(0, depth - 2)}.cross_attention.weights"
        n, width = source.shape
        self.received = np.zeros((n, roots, width))  # (B,W,S) float64
        self.lengths = [width] * n if lengths is None else lengths.tolist()
        self._weights: Tensor | None = None

    def taps(self) -> Taps:
        """Taps for the next step."""
        self._weights = None
        return Taps(replace={self.name: self._look})

    def _look(self, weights: Tensor) -> Tensor:
        self._weights = weights
        return weights

    def add(self, beams: Beams, is_open: np.ndarray) -> None:
        """Count the step that was just taken, for the open hypotheses (B,W)."""
        if self._weights is None:
            raise UserError(
                "a coverage penalty needs cross-attention, which this model has not; leave it out"
            )
        weights = beams.by_hypothesis(self._weights).mean(1)  # (N,S)
        self.received[is_open] += weights.double().cpu().numpy()

    def of(self, source: int, place: int) -> np.ndarray:
        """What each token of a source got from one hypothesis, (length of the source,)."""
        return self.received[source, place, : self.lengths[source]]

    def follow(self, parents: np.ndarray) -> None:
        """Go on with hypotheses (B,W) that continue `parents`."""
        self.received = np.take_along_axis(self.received, parents[:, :, None], 1)
