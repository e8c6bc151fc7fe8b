"""One layer at one position: what each sublayer adds to the residual stream, and what its units say.

The block of Vaswani et al. 2017 (section 3.1): sublayers that add to a vector which runs through
(He et al. 2016), with norms (Xiong et al. 2020 compare their places). A feed-forward is a memory:
unit i writes its value times column i of W_out (Geva et al. 2021), which pushes for the tokens that
this column raises (Geva et al. 2022); here by its direct path to the logits, as in `attribution`.

Shapes: T positions, D d_model, F d_ff, V vocab_size, W width of the output matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.inspection.attribution import output_directions
from budgerigar.inspection.paths import SUBLAYERS, Path, freeze, path_of
from budgerigar.inspection.stream import Stream, divergence, double, position_of, stream_of
from budgerigar.layers.taps import Replacement, Taps
from budgerigar.models.modes import without_dropout

if TYPE_CHECKING:
    from budgerigar.inspection.traces import Trace

_CHUNK = 8192  # tokens of the vocabulary at a time


@dataclass(frozen=True)
class Stage:
    """The residual stream at one place of the block: its length, its cosine to the block's input."""

    name: str
    vector: np.ndarray
    length: float
    cosine: float


@dataclass(frozen=True)
class Added:
    """What one sublayer adds, as it is added (after a sandwich or output norm).

    length: its own; along: its projection on the residual that it is added to (negative: it takes
    away); cosine: between the two; before: that residual's length.
    """

    name: str
    vector: np.ndarray
    length: float
    along: float
    cosine: float
    before: float


@dataclass(frozen=True)
class Unit:
    """One unit of the feed-forward.

    value: after the activation (and the gate); length: of what it writes, abs(value) times that of its
    column of W_out; up, down: the tokens whose logits it raises and lowers most on its direct path,
    (id, change of the logit); empty where there is no such path.
    """

    number: int
    value: float
    length: float
    up: tuple[tuple[int, float], ...]
    down: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class BlockAt:
    """One block at one position: `block_at`.

    place: where the norms stand; stages: in order, the block's input the first, its output the last;
    silent: units whose value is exactly 0 (a ReLU's), of n_units.
    """

    of: str
    layer: int
    position: int
    place: str
    residual: bool
    parallel: bool
    stages: tuple[Stage, ...]
    added: tuple[Added, ...]
    units: tuple[Unit, ...]
    n_units: int
    silent: int


def block_at(
    trace: Trace,
    layer: int,
    position: int = -1,
    of: str | None = None,
    units: int = 10,
    words: int = 5,
) -> BlockAt:
    """Layer `layer` of the stack `of` (None: the one that makes the logits) at one position.

    units: how many of the feed-forward's, by the length of what they write; words: how many tokens for
    each. `UserError` for a model without a residual stream, or no such layer or position.
    """
    stream = stream_of(trace, of)
    block = stream.block(layer)
    place = _place(trace, stream, position)
    vectors = _stages(trace, block, place)
    first = vectors[0][1]
    stages = tuple(
        Stage(name, vector, _length(vector), _cosine(vector, first)) for name, vector in vectors
    )
    hidden = _at(trace, f"{block.feed_forward.name}.hidden", place)
    return BlockAt(
        stream.name,
        layer,
        place,
        block.place,
        bool(block.residual),
        bool(block.parallel),
        stages,
        tuple(_all_added(trace, block, place)),
        tuple(_units(trace, stream, layer, place, hidden, units, words)),
        len(hidden),
        int((hidden == 0).sum()),
    )


def _place(trace: Trace, stream: Stream, position: int) -> int:
    """A position of the stack: an encoder's before a decoder counts the source's tokens."""
    if stream.name == "encoder" and stream.network.decoder is not None:
        n = trace.tensor("encoder.0.residual_before").shape[1]
        if not -n <= position < n:
            raise UserError(
                f"there is no position {position}: the source has positions 0 to {n - 1}"
            )
        return position % n
    return position_of(trace, position)


def _at(trace: Trace, name: str, place: int) -> np.ndarray:
    return np.asarray(trace.tap(name)[place].astype(np.float64))


def _sublayers(block: Any) -> list[str]:
    return [name for name in SUBLAYERS if getattr(block, name) is not None]


def _ends(block: Any) -> list[str]:
    """Names of the taps of the stream after each sublayer; of a parallel block one for both."""
    if block.parallel:
        return [f"{block.name}.residual_after"]
    middle = [f"{block.name}.residual_middle", f"{block.name}.residual_after"]
    return middle if block.cross_attention is None else [f"{block.name}.residual_crossing", *middle]


def _stages(trace: Trace, block: Any, place: int) -> list[tuple[str, np.ndarray]]:
    """(name, vector) in order; a post norm's input and output are two places."""
    found = [("input", _at(trace, f"{block.name}.residual_before", place))]
    ends = [_at(trace, name, place) for name in _ends(block)]
    if block.parallel:
        return [*found, ("after attention and feed-forward", ends[0])]
    for sublayer, end in zip(_sublayers(block), ends, strict=True):
        name = sublayer.replace("_", "-")
        if block.place == "post":
            added = _at(trace, f"{getattr(block, sublayer).name}.output", place)
            summed = found[-1][1] + added if block.residual else added
            found.append((f"plus {name}", summed))
            name = f"{name}'s norm"
        found.append((f"after {name}", end))
    return found


def _all_added(trace: Trace, block: Any, place: int) -> list[Added]:
    """What each sublayer adds, to the stream as it stands before that sublayer."""
    names = [f"{block.name}.residual_before", *_ends(block)]
    found = []
    for number, sublayer in enumerate(_sublayers(block)):
        before = _at(trace, names[0 if block.parallel else number], place)
        vector = _at(trace, f"{getattr(block, sublayer).name}.output", place)
        norms = {"output": f"{SUBLAYERS[sublayer]}_norm",
                 "sandwich": f"{SUBLAYERS[sublayer]}_output_norm"}  # fmt: skip
        norm = getattr(block, norms.get(block.place, ""), None)
        if norm is not None:
            frozen = freeze(norm, vector)
            vector = frozen(vector) + (0.0 if frozen.shift is None else frozen.shift)
        cosine, length = _cosine(vector, before), _length(vector)
        name = sublayer.replace("_", "-")
        found.append(Added(name, vector, length, length * cosine, cosine, _length(before)))
    return found


def _length(vector: np.ndarray) -> float:
    return float(np.linalg.norm(vector))


def _cosine(one: np.ndarray, other: np.ndarray) -> float:
    """0 where one of them is zero."""
    product = _length(one) * _length(other)
    return float(one @ other) / product if product else 0.0


# -- units of the feed-forward -----------------------------------------------------------------------


def _units(
    trace: Trace,
    stream: Stream,
    layer: int,
    place: int,
    hidden: np.ndarray,
    units: int,
    words: int,
) -> list[Unit]:
    columns = double(stream.block(layer).feed_forward.down.weight)  # (D,F)
    lengths = np.abs(hidden) * np.linalg.norm(columns, axis=0)
    chosen = np.argsort(-lengths, kind="stable")[:units]
    written = (columns[:, chosen] * hidden[chosen]).T  # (k,D)
    changes = np.zeros((len(chosen), 0))
    if stream.ends and len(chosen):
        path = path_of(trace, place)
        changes = word_changes(path, path.push(layer, "feed_forward", written))
    found = []
    for k, number in enumerate(chosen):
        up, down = (
            _extremes(changes[k], words) if words and changes[k].any() else (np.array([], int),) * 2
        )
        found.append(
            Unit(
                int(number),
                float(hidden[number]),
                float(lengths[number]),
                tuple((int(t), float(changes[k, t])) for t in up if changes[k, t] > 0),
                tuple((int(t), float(changes[k, t])) for t in down if changes[k, t] < 0),
            )
        )
    return found


def _extremes(values: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Places of the `count` largest and smallest of (V,), the outermost first."""
    count = min(count, len(values))
    low = np.argpartition(values, count - 1)[:count]
    high = np.argpartition(values, -count)[-count:]
    return high[np.argsort(-values[high])], low[np.argsort(values[low])]


def word_changes(path: Path, pushed: np.ndarray) -> np.ndarray:
    """What vectors (k,W) that reached the output matrix (`Path.push`) add to each logit: (k,V)."""
    vocab_size = path.stream.network.vocab_size
    found = []
    for start in range(0, vocab_size, _CHUNK):
        rows, _, _ = output_directions(path, list(range(start, min(start + _CHUNK, vocab_size))))
        found.append(pushed @ rows.T)
    return np.concatenate(found, axis=1)


# -- without its residual ----------------------------------------------------------------------------


@dataclass(frozen=True)
class WithoutResidual:
    """The same text through the model with one layer's residual connection switched off.

    after (T,D): what that layer gives then; logits (T,V) of the whole model (float32; None for a model
    without logits over tokens); cosine (T,): between the layer's output with and without;
    divergence (T,): KL(with || without) of the predictions in nats, None without logits.
    """

    after: np.ndarray
    logits: Tensor | None
    cosine: np.ndarray
    divergence: np.ndarray | None


def without_residual(trace: Trace, layer: int, of: str | None = None) -> WithoutResidual:
    """Run the text again; in layer `layer` each sublayer's output stands alone, nothing is carried by.

    The norms stay where they are. A model that has no residual gives what it gave before.
    """
    stream = stream_of(trace, of)
    block = stream.block(layer)
    after = f"{block.name}.residual_after"
    taps = Taps((after,), _alone(block))
    with without_dropout(trace.network), torch.no_grad():
        logits = trace.network.forward(**trace.inputs, taps=taps)
    own, found = trace.tap(after), taps.values[after][0].float().cpu().numpy()
    cosines = np.array([_cosine(a, b) for a, b in zip(own, found, strict=True)])
    if getattr(trace.network, "head", None) is None:
        return WithoutResidual(found, None, cosines, None)
    return WithoutResidual(found, logits[0], cosines, divergence(trace.logits, logits[0]))


def _alone(block: Any) -> dict[str, Replacement]:
    """Replacements that let the sublayers' outputs stand alone: each is noted as it passes."""
    noted: dict[str, Tensor] = {}

    def note(name: str) -> Replacement:
        def keep(value: Tensor) -> Tensor:
            noted[name] = value
            return value

        return keep

    def leave(name: str) -> Replacement:
        prefix = SUBLAYERS[name]

        def alone(value: Tensor) -> Tensor:
            added = noted[name]
            if block.parallel:
                return noted["self_attention"] + noted["feed_forward"]
            norm, after = getattr(block, f"{prefix}_norm"), block._after(prefix)
            left: Tensor = block._leave(torch.zeros_like(value), added, norm, after)
            return left

        return alone

    names = _sublayers(block)
    found = {f"{getattr(block, name).name}.output": note(name) for name in names}
    ends = names[-1:] if block.parallel else names
    return found | {tap: leave(name) for tap, name in zip(_ends(block), ends, strict=True)}
