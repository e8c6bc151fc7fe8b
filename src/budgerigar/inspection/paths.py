"""What the residual stream at one position is a sum of, and how each part reaches the logits.

Everything between a sublayer's output and the logits is linear but for the norms (and BERT's extra
activation, and a soft-cap). With the scale of each norm frozen at the value that it had in this pass,
all is linear, and the logit is a sum over parts (Elhage et al. 2021, "A Mathematical Framework for
Transformer Circuits"). Frozen are
- the final norm, and an embedding's norm;
- sandwich and output norms, which act on what a sublayer adds;
- post norms, which act on the whole stream: every earlier part passes through each of them;
- the gate of BERT's output transform: an activation is z times a gate, and the gate stays.
The sums are exact: a frozen map gives each part what it would give it at this very vector. What a
part would do if it were really taken away is another question, which switching off answers.

All in float64, from the values that the model computed. Shapes: n parts, D d_model, H heads, E d_head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from budgerigar.inspection.stream import Stream, double, ending_stream, position_of
from budgerigar.layers.norm import Norm
from budgerigar.layers.positions import sinusoids

if TYPE_CHECKING:
    from budgerigar.inspection.traces import Trace

SUBLAYERS = {
    "self_attention": "attention",
    "cross_attention": "cross_attention",
    "feed_forward": "feed_forward",
}
"""parts of a block, in order -> what their norms' names begin with"""


@dataclass(frozen=True)
class Origin:
    """Where a part comes from.

    kind: "token", "position", "type" (of the embedding), "head", "attention bias", "feed-forward",
    "norm bias", "transform bias". attention: "self" or "cross", of heads and attention biases.
    """

    kind: str
    name: str
    layer: int | None = None
    head: int | None = None
    attention: str = ""


@dataclass(frozen=True)
class Frozen:
    """A norm whose scale stays as it was at one vector: v -> (v - mean(v)) * gain, plus `shift`.

    centred: the mean is taken off (LayerNorm). gain, shift (D,).
    """

    centred: bool
    gain: np.ndarray
    shift: np.ndarray | None

    def __call__(self, vectors: np.ndarray) -> np.ndarray:
        """(n,D) -> (n,D), without the shift."""
        centred = vectors - vectors.mean(axis=-1, keepdims=True) if self.centred else vectors
        return centred * self.gain


def freeze(norm: Norm, at: np.ndarray) -> Frozen:
    """`norm` frozen at the vector `at` (D,): there, and for parts that sum to it, it is exact."""
    centred = norm.kind == "layer"
    spread = at - at.mean() if centred else at
    gain = np.full(at.shape, 1.0 / np.sqrt((spread**2).mean() + norm.epsilon))
    if norm.weight is not None:
        gain = gain * (double(norm.weight) + (1.0 if norm.offset else 0.0))
    return Frozen(centred, gain, None if norm.bias is None else double(norm.bias))


Linear = Callable[[np.ndarray], np.ndarray]


class Path:
    """The parts of one position's vector, and the frozen maps that lead from each place to the end.

    origins: n; vectors (n,W): what has become of each part. Made by `path_of`.
    """

    def __init__(self, stream: Stream, position: int) -> None:
        self.stream, self.position = stream, position
        self.origins: list[Origin] = []
        self.vectors: np.ndarray = np.zeros((0, 0))
        self.maps: list[Linear] = []
        self._joined: dict[tuple[int, str], tuple[list[Linear], int]] = {}

    @property
    def total(self) -> np.ndarray:
        """(W,): the sum of the parts, which is the stream's own vector."""
        return np.asarray(self.vectors.sum(axis=0))

    def add(self, origins: list[Origin], vectors: np.ndarray) -> None:
        """Further parts (k,D)."""
        self.origins += origins
        self.vectors = np.concatenate([self.vectors, vectors]) if len(self.vectors) else vectors

    def change(self, linear: Linear, shift: np.ndarray | None, origin: Origin) -> None:
        """Let all parts pass through a linear map; its constant `shift` (D,) is a part of its own."""
        self.vectors = linear(self.vectors)
        self.maps.append(linear)
        if shift is not None:
            self.add([origin], shift[None])

    def norm(self, norm: Norm | None, name: str, layer: int | None = None) -> None:
        """Let all parts pass through a norm, frozen at their sum."""
        if norm is not None:
            frozen = freeze(norm, self.total)
            self.change(frozen, frozen.shift, Origin("norm bias", name, layer))

    def join(self, layer: int, sublayer: str, added: Path) -> None:
        """Add what a sublayer wrote, with the maps (its own norms) that it passed through."""
        self.add(added.origins, added.vectors)
        self._joined[layer, sublayer] = (added.maps, len(self.maps))

    def push(self, layer: int, sublayer: str, vectors: np.ndarray) -> np.ndarray:
        """(k,D) written by a sublayer ("self_attention" …) -> (k,W), what reaches the output matrix."""
        own, place = self._joined[layer, sublayer]
        for linear in [*own, *self.maps[place:]]:
            vectors = linear(vectors)
        return vectors


def path_of(trace: Trace, position: int) -> Path:
    """The parts of the vector (W,) that is multiplied with the output matrix at `position`.

    In the order of the forward pass; before the output's bias and soft-cap. `UserError` for a model
    without a residual stream or without an output layer over tokens.
    """
    stream = ending_stream(trace)
    path = Path(stream, position_of(trace, position))
    _embed(path, trace)
    for layer, block in enumerate(stream.stack.blocks()):
        _block(path, trace, layer, block)
    path.norm(stream.stack.final_norm, "final norm's bias")
    _transform(path)
    return path


def _embed(path: Path, trace: Trace) -> None:
    embedding, place = path.stream.network.embedding, path.position
    tokens, positions = trace.inputs["tokens"], trace.inputs.get("positions")
    at = torch.tensor([place]) if positions is None else positions[0, place : place + 1].cpu()
    with torch.no_grad():
        token = double(embedding.tokens(tokens[0, place : place + 1])) * float(embedding.scale)
        path.add([Origin("token", "token")], token)
        if embedding.positions is not None:
            row = embedding.positions.weight[(at + embedding.offset).to(path.stream.network.device)]
            path.add([Origin("position", "position")], double(row))
        if embedding.layout is not None:
            row = sinusoids(at, token.shape[1], embedding.layout)
            path.add([Origin("position", "position")], double(row))
        if embedding.types is not None:
            path.add([Origin("type", "token type")], double(embedding.types.weight[:1]))
    path.norm(embedding.norm, "embedding norm's bias")
    if embedding.projection is not None:
        matrix = double(embedding.projection.weight)
        path.change(lambda v: v @ matrix.T, None, Origin("token", ""))


def _block(path: Path, trace: Trace, layer: int, block: Any) -> None:
    """One layer's parts join the stream, as `Block.forward` adds them."""
    for sublayer, prefix in SUBLAYERS.items():
        if getattr(block, sublayer) is None:
            continue
        added = Path(path.stream, path.position)
        added.add(*_written(path, trace, layer, block, sublayer))
        label = f"L{layer} {sublayer.replace('_', '-')} norm's bias"
        norm = None if block.parallel else getattr(block, f"{prefix}_norm")
        if block.place == "output":
            added.norm(norm, label, layer)
        if block.place == "sandwich":
            added.norm(getattr(block, f"{prefix}_output_norm"), label, layer)
        if not block.residual:
            path.change(np.zeros_like, None, Origin("token", ""))  # the stream ends here
        path.join(layer, sublayer, added)
        if block.place == "post":
            path.norm(norm, label, layer)


def _written(
    path: Path, trace: Trace, layer: int, block: Any, sublayer: str
) -> tuple[list[Origin], np.ndarray]:
    """Origins and vectors (k,D) of what one sublayer wrote, before any norm on it."""
    module, position = getattr(block, sublayer), path.position
    if sublayer == "feed_forward":
        row = trace.tap(f"{module.name}.output")[position : position + 1]
        return [Origin("feed-forward", f"L{layer} feed-forward", layer)], row.astype(np.float64)
    kind = sublayer.removesuffix("_attention")
    crosses = block.cross_attention is not None
    where = f" {kind}" if crosses else ""
    heads = [
        Origin("head", f"L{layer}.H{head}{where}", layer, head, kind)
        for head in range(module.n_heads)
    ]
    output = trace.tap(f"{module.name}.head_output")[:, position].astype(np.float64)  # (H,E)
    by_head = double(module.output.weight).reshape(-1, *output.shape)  # (D,H,E)
    vectors = np.einsum("he,dhe->hd", output, by_head)
    if module.output.bias is not None:
        heads.append(
            Origin("attention bias", f"L{layer}{where} attention's bias", layer, None, kind)
        )
        vectors = np.concatenate([vectors, double(module.output.bias)[None]])
    blank = any(site.blank for site in trace.sites if site.kind == kind)
    if blank:  # the source is switched off: the whole output is zero, its bias too
        vectors = np.zeros_like(vectors)
    return heads, vectors


def _transform(path: Path) -> None:
    """What stands between the stack and the output matrix: a projection, or BERT's transform."""
    head = path.stream.network.head
    if head.transform is None:
        return
    matrix, bias = double(head.transform.weight), head.transform.bias
    shift = None if bias is None else double(bias)
    path.change(lambda v: v @ matrix.T, shift, Origin("transform bias", "output transform's bias"))
    if head.transform_norm is None:
        return
    gate = _gate(head.activation, path.total)
    path.change(lambda v: v * gate, None, Origin("token", ""))
    path.norm(head.transform_norm, "output transform's norm bias")


def _gate(activation: Callable[..., Any], at: np.ndarray) -> np.ndarray:
    """activation(z) / z: of a ReLU 0 or 1, of a GELU the normal distribution's Phi(z)."""
    activated = activation(torch.from_numpy(at)).numpy()
    return np.divide(activated, at, out=np.full_like(at, 0.5), where=at != 0)


def frozen_scales(config: Any) -> list[str]:
    """Which scales an attribution holds as they were, in words."""
    found = ["embedding norm"] if config.embedding_norm else []
    if config.norm_place != "pre":
        found.append(f"{config.norm_place} norms")
    if config.has_final_norm:
        found.append("final norm")
    if config.head_transform:
        found += ["output transform's activation", "output transform's norm"]
    return found + (["soft-cap"] if config.logit_softcap is not None else [])
