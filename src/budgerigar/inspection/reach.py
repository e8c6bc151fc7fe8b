"""How far back the gradient of a prediction reaches, for any next-token model with embeddings.

Measured is the norm of d log p(next token) / d e(s): how strongly the log-probability that the model
gives to the token which really follows would answer to a small change of the embedding of the input
token s, by the distance of s (1: the token directly before the one predicted). It is the quantity
whose fading makes recurrent networks hard to train (Hochreiter 1991; Bengio, Simard & Frasconi 1994;
Pascanu, Mikolov & Bengio 2013).

Why the log-probability and not the bare logit: a constant added to all logits changes no prediction,
and a logit's gradient would count it. Why the geometric mean over predictions: a prediction that is
nearly certain has a small gradient everywhere, and an unsure one a large one; the geometric mean,
divided by that of distance 1, compares each prediction with itself, so no few of them decide.

What it does not say: a gradient is about small changes. A saturated unit can hold a word for ever
with a gradient near zero, and a gradient that arrives need not be of use. Its absolute size depends on
the scale of the embeddings (a normalised layer divides it by the length of what it normalises), so
models are compared by shape, each divided by its own nearest token.

Shapes: N predictions, W tokens before each, T tokens of the text, D width of an embedding.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.models.base import check_ids
from budgerigar.models.modes import without_dropout
from budgerigar.said import said

Of = Literal["log-probability", "logit"]
POSITIONS = 32
DISTANCE = 256
_SCALE = 2.0**60
_ROWS = 32  # predictions in one pass, fewer where their logits are many
_LOGITS = 2**25
_READ = 1024  # tokens read at once where a state is carried


@dataclass(frozen=True)
class Reach:
    """Gradient norms by distance, distance 1 first.

    norms: (N,W) float64; row n is one prediction, column d - 1 the input token d places before it.
    Empty for a model without gradients. sees: tokens that the model can see at all; None: no limit.
    carried: what stands before the W tokens had been read into the state; otherwise it saw only them.
    """

    name: str
    norms: np.ndarray
    sees: int | None = None
    carried: bool = False
    of: Of = "log-probability"

    @property
    def distances(self) -> np.ndarray:
        """(W,): 1 … W."""
        return np.arange(1, self.norms.shape[1] + 1)

    @property
    def n_positions(self) -> int:
        """N."""
        return len(self.norms)

    @cached_property
    def mean(self) -> np.ndarray:
        """(W,): the geometric mean over predictions; 0 where most gradients are exactly 0."""
        found = np.zeros(self.norms.shape[1])
        for column, values in enumerate(self.norms.T):
            there = values[values > 0]
            if 2 * len(there) >= len(values) and len(there):
                found[column] = np.exp(np.log(there).mean())
        return found

    @cached_property
    def shares(self) -> np.ndarray:
        """(W,): the mean, divided by that of the nearest token."""
        nearest = self.mean[0] if len(self.mean) else 0.0
        return self.mean / nearest if nearest else self.mean

    @cached_property
    def band(self) -> np.ndarray:
        """(2,W): a quarter of the predictions has less, a quarter more (as shares of `mean[0]`)."""
        quarters = np.quantile(self.norms, (0.25, 0.75), axis=0)
        return np.asarray(quarters / self.mean[0] if self.mean[0] else quarters)

    def last_above(self, share: float) -> int:
        """The largest distance up to which the mean stays at `share` of the nearest or above.

        Smoothed over a fifth of the distance to either side, so that one quiet place does not end it.
        """
        smooth = self.smooth()
        below = np.flatnonzero(smooth < share)
        return int(below[0]) if len(below) else len(smooth)

    def smooth(self) -> np.ndarray:
        """(W,): shares, each the geometric mean over a fifth of its distance to either side."""
        found = self.shares.copy()
        for column in range(len(found)):
            wide = (column + 1) // 5
            near = self.shares[max(0, column - wide) : column + wide + 1]
            if self.shares[column] > 0:
                found[column] = np.exp(np.log(near[near > 0]).mean())
        return found

    def within(self, distance: int) -> float:
        """The share of a prediction's whole gradient (sum of norms) within `distance`; the mean."""
        whole = self.norms.sum(1)
        near = self.norms[:, :distance].sum(1)
        return float(np.mean(near[whole > 0] / whole[whole > 0])) if (whole > 0).any() else 1.0

    def __repr__(self) -> str:
        from budgerigar.inspection.reach_text import reach_table

        return reach_table([self])


def reach(
    network: Any,
    ids: Sequence[int],
    *,
    distance: int | None = None,
    positions: int = POSITIONS,
    carried: bool | None = None,
    of: Of = "log-probability",
    name: str = "",
) -> Reach:
    """Gradient norms of predictions spread evenly over the text `ids` (T).

    distance: tokens W before each prediction [256, or what the model and half of the text allow].
    carried: a recurrent model had read all that stands before them, as in a stream [yes for models
    whose state never runs full]; otherwise each prediction sees W tokens and no more. Gradients
    begin `_SCALE` times too large, so that float32 holds them until they are 1e-56 of the first.

    Raises:
        UserError: a model that reads pairs or fills gaps, or too short a text.
    """
    sees = window_of(network)
    if not hasattr(network, "parameters"):
        return Reach(name, np.zeros((0, 0)), sees)
    _check(network, of)
    width = _width(network, len(ids), distance)
    check_ids(ids, network.vocab_size)
    carries = network.context_length is None
    if carried and not carries:
        raise UserError(
            f"this model ({type(network).__name__}) sees at most {network.context_length} tokens and "
            "carries no state beyond them: measure it within its window"
        )
    carries = carries if carried is None else carried
    frozen = _frozen(network)
    first, last = width, len(ids) - 1  # ids[end] is predicted from the `width` ids before it
    count = max(1, min(positions, last - first + 1))
    ends = np.unique(np.linspace(first, last, count).round().astype(int)).tolist()
    tokens = torch.tensor(list(ids), device=frozen.device)
    rows = []
    many = _ROWS if carries else max(1, min(_ROWS, _LOGITS // (width * network.vocab_size)))
    chunks = [ends[at : at + many] for at in range(0, len(ends), many)]
    with without_dropout(frozen):
        states = _States(frozen, tokens) if carries else None
        with progress.track(_doing(name), len(ends), "predictions") as job:
            for chunk in chunks:
                state = None if states is None else states.before([end - width for end in chunk])
                rows.append(_norms(frozen, tokens, chunk, width, state, of))
                job.advance(len(chunk))
    return Reach(name, np.concatenate(rows), sees, carries, of)


def window_of(network: Any) -> int | None:
    """Tokens before a prediction that the model can see at all; None: no limit.

    An n-gram and a feed-forward model see n - 1, a Transformer its context.
    """
    order = getattr(network.config, "order", None)
    if order is not None:
        return int(order) - 1
    limit = getattr(network, "context_length", None)
    return None if limit is None else int(limit)


def _check(network: Any, of: str) -> None:
    if of not in ("log-probability", "logit"):
        raise UserError(f"{of!r} has no gradient here; choose log-probability or logit")
    config = network.config
    pairs = hasattr(config, "n_encoder_layers") and not hasattr(config, "assembly")
    if pairs or getattr(config, "assembly", "decoder-only") != "decoder-only":
        raise UserError(
            f"this model ({type(network).__name__}) reads pairs or fills gaps; the reach of a "
            "prediction is measured on models that continue a text"
        )


def _width(network: Any, length: int, asked: int | None) -> int:
    """W: as asked; else what fits, but half of the text is left to be predicted."""
    if length < 3:
        raise UserError(
            said("the text is too short to measure a distance in: give at least 3 tokens")
        )
    limit = network.context_length
    if asked is None:
        return max(1, min(DISTANCE, length // 2, limit or DISTANCE))
    most = length - 1 if limit is None else min(length - 1, limit)
    if not 1 <= asked <= most:
        why = "this model's context" if most == limit else f"a text of {length} tokens"
        raise UserError(f"{asked} tokens back cannot be measured: {why} allows 1 to {most}")
    return asked


def _frozen(network: Any) -> Any:
    """A copy in float32 whose weights ask for no gradient."""
    frozen = copy.deepcopy(network)
    frozen.float()
    frozen.requires_grad_(False)
    return frozen


def _doing(name: str) -> str:
    return f"gradients of {name}" if name else "gradients"


class _States:
    """The states that a model had at places of a text, in one pass over it."""

    def __init__(self, network: Any, tokens: Tensor) -> None:
        self.network, self.tokens = network, tokens
        self.at, self.state = 0, network.start(1)

    @torch.no_grad()
    def before(self, places: list[int]) -> Any:
        """The state before each of `places` (ascending, none before those of the last call)."""
        parts = []
        for place in places:
            while self.at < place:
                piece = self.tokens[self.at : min(place, self.at + _READ)]
                self.state = self.network.step(piece[None], self.state)[1]
                self.at += len(piece)
            parts.append(self.state.select(torch.zeros(1, dtype=torch.long)))
        return _stacked(parts)


def _stacked(parts: list[Any]) -> Any:
    """One state of N rows from N states of one row."""
    whole = parts[0].select(torch.zeros(len(parts), dtype=torch.long))
    tensors = [part.tensors() for part in parts]
    whole.load_tensors({name: torch.cat([t[name] for t in tensors]) for name in tensors[0]})
    return whole


def _norms(
    network: Any, tokens: Tensor, ends: list[int], width: int, state: Any, of: Of
) -> np.ndarray:
    """(N,W): gradient norms of the predictions of tokens[ends], the nearest token first."""
    read = torch.stack([tokens[end - width : end] for end in ends])  # (N,W)
    leaf: list[Tensor] = []

    def fresh(_module: Any, _given: Any, vectors: Tensor) -> Tensor:
        leaf.append(vectors.detach().requires_grad_())
        return leaf[-1]

    # the copy is ours, so a hook; taps would make a recurrent layer compute its gates to show them
    hook = network.embedding.register_forward_hook(fresh)
    try:
        with torch.enable_grad():
            whole = network.forward(read) if state is None else None
            logits = network.step(read, state)[0] if whole is None else whole[:, -1]  # (N,V)
            if of == "log-probability":
                logits = logits.log_softmax(-1)
            wanted = logits.gather(1, tokens[ends][:, None])  # rows do not see each other
            (gradient,) = torch.autograd.grad(wanted, leaf, torch.full_like(wanted, _SCALE))
    finally:
        hook.remove()
    norms = gradient.cpu().double().norm(dim=-1) / _SCALE  # (N,W,D) -> (N,W)
    return np.asarray(norms.flip(1))
