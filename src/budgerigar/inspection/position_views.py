"""How a model knows where a token stands: tables, turning pairs, distances, and two experiments.

Slide: the same sentence N positions later. Kinds that know distances only (rotary, Su et al. 2021; T5's
bias, Raffel et al. 2020; ALiBi, Press et al. 2021; none) give the same scores; kinds that know places
(learned, sinusoidal) do not. Shuffle: an encoder without positions gives the same vectors in another
order, for it reads a set (Vaswani et al. 2017, section 3.5, say so of attention); a decoder does not,
since its mask tells before from after.

Shapes: T positions, S keys, H heads, D d_model, W width of the embedding, P rotary pairs.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.inspection.names import parse_head
from budgerigar.inspection.passes import array, run
from budgerigar.inspection.places import places
from budgerigar.inspection.sites import shared_bias
from budgerigar.inspection.stream import Stream, double, stream_of
from budgerigar.layers.config import TransformerConfig
from budgerigar.layers.positions import rotary_frequencies, sinusoids
from budgerigar.layers.visibility import View
from budgerigar.said import said

if TYPE_CHECKING:
    from budgerigar.inspection.sites import Site
    from budgerigar.inspection.traces import Trace

FARTHEST = 1_000_000
"""the most positions that a sentence is slid by"""


# -- tables --------------------------------------------------------------------------------------------


def sinusoid_table(config: TransformerConfig, n: int) -> np.ndarray:
    """Sinusoids of n positions in this model's width, (n,W) float64: Vaswani et al. 2017, section 3.5.

    PE(pos, 2i) = sin(pos / 10000^(2i/W)), PE(pos, 2i+1) = cos(…); in the layout "split" all sines come
    first. `UserError` for an odd width. Also of a model that uses other positions, to compare.
    """
    width = config.embedding_size or config.d_model
    if width % 2:
        raise UserError(f"sinusoids come in pairs, and a width of {width} is odd")
    return double(sinusoids(torch.arange(n), width, config.sinusoid_layout))


def position_table(network: Any, n: int) -> np.ndarray:
    """What this model adds to the embedding at positions 0 to n - 1, (n,W): learned rows or sinusoids.

    `UserError` for kinds of positions that are not added to the embedding.
    """
    config: TransformerConfig = network.config
    if config.positions == "sinusoidal":
        return sinusoid_table(config, n)
    if config.positions != "learned":
        raise UserError(f"positions = {config.positions} add nothing to the embedding")
    if n > config.context_length:
        raise UserError(f"this model has learnt {config.context_length} positions, not {n}")
    first = config.position_offset
    return double(network.embedding.positions.weight[first : first + n])


def wavelengths(config: TransformerConfig) -> np.ndarray:
    """(W/2,): positions that each pair of sinusoids takes for one turn, 2 pi 10000^(2i/W)."""
    width = config.embedding_size or config.d_model
    return np.asarray(2 * np.pi * 10_000.0 ** (np.arange(0, width, 2) / width))


@dataclass(frozen=True)
class Turns:
    """How one layer's rotary pairs turn (Su et al. 2021, equation 15).

    pairs (P,2): which two numbers of a head each pair is; frequencies (P,): radians per position;
    wavelengths (P,): positions per turn; angles (n,P): radians at positions 0 to n - 1.
    factor: multiplies cosines and sines (1 but for YaRN and LongRoPE). width: how many numbers of a
    head are turned, of d_head. scaling: kind of stretching, or None.
    """

    layer: int
    base: float
    width: int
    d_head: int
    factor: float
    scaling: str | None
    pairs: np.ndarray
    frequencies: np.ndarray
    wavelengths: np.ndarray
    angles: np.ndarray


def rotary_turns(config: TransformerConfig, layer: int = 0, n: int = 64) -> Turns:
    """The turning of layer `layer`'s pairs over n positions. `UserError` without rotary positions."""
    if config.positions != "rotary":
        raise UserError(f"this model has positions = {config.positions}: nothing in it turns")
    depth = max(config.encoder_layers, config.decoder_layers)
    if not 0 <= layer < depth:
        raise UserError(f"there is no layer {layer}: the model has layers 0 to {depth - 1}")
    base, half = config.rotary_base_of(layer), config.rotary_width // 2
    found, factor = rotary_frequencies(config, base)
    frequencies = double(found)
    scaling = config.rotary_scaling
    return Turns(
        layer,
        base,
        config.rotary_width,
        config.head_width,
        float(factor),
        None if scaling is None else f"{scaling.kind} × {scaling.factor:g}",
        np.stack([np.arange(half), np.arange(half) + half], axis=1),
        frequencies,
        2 * np.pi / frequencies,
        np.arange(n)[:, None] * frequencies,
    )


def distance_bias(
    network: Any, distances: np.ndarray, layer: int = 0, of: str = "decoder"
) -> np.ndarray:
    """What each head adds to the score of a key that stands `distances` before the query: (H,n).

    ALiBi's slopes (Press et al. 2021) or T5's buckets (Raffel et al. 2020); negative distances are keys
    after the query. `UserError` for other kinds of positions.
    """
    if network.config.positions not in ("alibi", "relative"):
        raise UserError(f"positions = {network.config.positions} add no bias to the scores")
    modules = [place.modules for place in places(network) if (place.of, place.kind) == (of, "self")]
    if not modules or not 0 <= layer < len(modules[0]):
        raise UserError(f"this model has no layer {layer} of self-attention in its {of}")
    far = int(np.abs(distances).max(initial=0))
    keys = torch.as_tensor(far - np.asarray(distances), device=network.device)[None]
    view = View(torch.full((1, 1), far, device=network.device), keys, causal=of == "decoder")
    with torch.no_grad():
        bias = shared_bias(network, of, view)
        bias = modules[0][layer].position_bias(view) if bias is None else bias
    assert bias is not None
    return double(bias[0, :, 0])


# -- slide ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Slide:
    """One head's scores with the sentence where it is, and `by` positions later.

    before, after (T,S): as they enter the softmax (scaled, capped, with their bias), masked cells too;
    weights_before, weights_after (T,S); largest: the largest change of a visible score, relative: the
    same over the largest visible score; logits: largest change of any logit over the largest logit
    (None without logits). start: position of the first token, before.
    """

    by: int
    start: int
    before: np.ndarray
    after: np.ndarray
    weights_before: np.ndarray
    weights_after: np.ndarray
    largest: float
    relative: float
    logits: float | None


def slide(
    trace: Trace, head: str, by: int = 100, of: str | None = None, kind: str | None = None
) -> Slide:
    """Run the same tokens again, each `by` positions later, and compare the scores of one head.

    A translator: its target is slid, the source stays. `UserError` for an encoder before a decoder,
    for a table of learned positions that ends before that, for a model without positions to give.
    """
    stream = stream_of(trace)
    site = trace.site(of, kind)
    if site.of != stream.name:
        raise UserError("of a translator the target is slid, the source stays where it is")
    layer, number = parse_head(head, len(site.modules), site.modules[0].n_heads)
    positions = _positions(trace)
    _check_slide(stream, positions, by)
    logits, values = _slid_pass(trace, positions, by)
    module = site.modules[layer]
    view, bias = _slid_view(trace, site, by)
    taps = [values[f"{module.name}.{part}"].float() for part in ("query", "key", "value")]
    with torch.no_grad():
        then = module.steps_from_taps(*taps, view, bias)
    own = trace.steps(site, layer)
    before, after = (array(steps.biased[0, number]) for steps in (own, then))
    seen = ~trace.mask(site, layer).hidden
    largest = float(np.abs(after - before)[seen].max(initial=0.0))
    size = float(np.abs(before)[seen].max(initial=0.0))
    return Slide(
        by,
        int(positions[0, 0]),
        before,
        after,
        array(own.weights[0, number]),
        array(then.weights[0, number]),
        largest,
        largest / size if size else largest,
        _apart(logits[0], trace.logits) if stream.ends else None,
    )


_KEPT = 2**24  # numbers of a pass that are kept
_slid: WeakKeyDictionary[Trace, tuple[int, Tensor, dict[str, Tensor]]] = WeakKeyDictionary()
"""the last slid pass, where it is not too large: its heads are asked for one after the other"""


def _slid_pass(trace: Trace, positions: Tensor, by: int) -> tuple[Tensor, dict[str, Tensor]]:
    """Logits and taps of the text `by` positions later; whether weights changed, `Trace.steps` sees."""
    kept = _slid.get(trace)
    if kept is not None and kept[0] == by:
        return kept[1:]
    logits, values = run(trace.network, {**trace.inputs, "positions": positions + by}, ())
    _slid.clear()
    if logits.numel() + sum(value.numel() for value in values.values()) <= _KEPT:
        _slid[trace] = by, logits, values
    return logits, values


def most_slide(trace: Trace) -> int:
    """The farthest that `slide` can move this text: a table of learned positions ends somewhere."""
    config = trace.network.config
    if config.positions != "learned":
        return FARTHEST
    return int(config.context_length - 1 - _positions(trace).max())


def _check_slide(stream: Stream, positions: Tensor, by: int) -> None:
    if not 0 <= by <= FARTHEST:
        raise UserError(f"by = {by}: slide by 0 to {FARTHEST:,} positions")
    config = stream.network.config
    last = int(positions.max()) + by
    if config.positions == "learned" and last >= config.context_length:
        raise UserError(
            said(
                "slid by {by}, the last token stands at position {last}, for which this model has "
                "learnt nothing: it knows positions 0 to {end}",
                by=by,
                last=last,
                end=config.context_length - 1,
            )
        )


def _positions(trace: Trace) -> Tensor:
    """(1,T): where the tokens stand in the trace."""
    found = trace.inputs.get("positions")
    if found is not None:
        return found
    tokens = trace.inputs["tokens"]
    return torch.arange(tokens.shape[1], device=tokens.device)[None]


def _slid_view(trace: Trace, site: Site, by: int) -> tuple[View, Tensor | None]:
    """The view of the slid pass, and the bias that its layers share."""
    if site.kind == "cross":
        return site.view, site.bias
    moved = dataclasses.replace(
        site.view,
        query_positions=site.view.query_positions + by,
        key_positions=site.view.key_positions + by,
        memo={},
    )
    return moved, shared_bias(trace.network, site.of, moved)


def _apart(found: Tensor, own: Tensor) -> float:
    """max abs difference over max abs of what was."""
    size = float(own.abs().max())
    apart = float((found - own).abs().max())
    return apart / size if size else apart


# -- shuffle -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shuffled:
    """The same tokens in another order, and what became of their vectors.

    order (T,): place i now holds the token that stood at order[i]; of: the stack that read them.
    apart (T,): of each place, the largest change between its token's vector (at the stack's end)
    before and after, over the largest number of all vectors; largest: the largest of these. 0 but for
    rounding: the same vectors, permuted. positions: whether the model was told where tokens stand.
    """

    of: str
    order: np.ndarray
    labels: tuple[str, ...]
    apart: np.ndarray
    largest: float
    positions: bool


def shuffle(trace: Trace, seed: int = 0, without_positions: bool = False) -> Shuffled:
    """Read the tokens in a random order. A translator: its source, by its encoder.

    A start token before the text and a source's `<end>` stay where they are. without_positions: of an
    encoder-only model, both orders with every token at position 0, so that it reads a set. `UserError`
    for other models then: a decoder knows the order from its mask.
    """
    stream = stream_of(trace)
    both = stream.network.config.assembly == "encoder-decoder"
    of, part = ("encoder", "source") if both else (stream.name, "tokens")
    if without_positions and (both or of == "decoder"):
        raise UserError(
            "only an encoder-only model can be read without its positions here; a decoder knows the "
            "order from its mask, too"
        )
    tokens = trace.inputs[part]
    order = _order(tokens.shape[1], bool(trace.start_added), both, seed)
    extra = {"positions": torch.zeros_like(tokens)} if without_positions else {}
    places = torch.from_numpy(order).to(tokens.device)
    before = _end_vectors(trace, of, {**trace.inputs, **extra})
    after = _end_vectors(trace, of, {**trace.inputs, **extra, part: tokens[:, places]})
    apart = np.abs(after - before[order]).max(axis=1) / max(float(np.abs(before).max()), 1e-30)
    named = getattr(trace, "source_labels", None) if both else trace.labels
    told = stream.network.config.positions != "none" and not without_positions
    labels = tuple((named or [])[i] for i in order)
    return Shuffled(of, order, labels, apart, float(apart.max()), told)


def _order(n: int, starts: bool, ends: bool, seed: int) -> np.ndarray:
    """A permutation of n places, drawn from `seed`, that moves something where there is a choice."""
    first, last = int(starts), n - int(ends)
    order = np.arange(n)
    generator = np.random.default_rng(seed)
    for _ in range(20):
        order[first:last] = first + generator.permutation(last - first)
        if last - first < 2 or (order != np.arange(n)).any():
            break
    return order


def _end_vectors(trace: Trace, of: str, inputs: dict[str, Tensor]) -> np.ndarray:
    """(T,D): what the stack gives, after its final norm where it has one."""
    stack = getattr(trace.network, of)
    end = "final_norm" if stack.final_norm is not None else f"{stack.depth - 1}.residual_after"
    name = f"{of}.{end}"
    return array(run(trace.network, inputs, (name,))[1][name][0])
