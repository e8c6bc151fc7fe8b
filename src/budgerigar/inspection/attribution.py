"""Direct logit attribution: a logit as the sum of what each part of the model wrote towards it.

logit(t) = sum over parts c of frozen(c) . W_U[t] + b[t] (Elhage et al. 2021; the difference of two
tokens' logits as in Wang et al. 2022). Parts: the embeddings, each head of each layer, the biases of
the attentions, each feed-forward, the biases of the norms, the output's own bias. `paths` says which
scales are frozen; the sums are exact, and `difference` shows how far they are from the model's logit.

A direct path only: what a head does by way of later layers is counted with those.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from budgerigar.inspection.names import parse_head
from budgerigar.inspection.paths import Origin, Path, path_of
from budgerigar.inspection.stream import double, output_matrix
from budgerigar.models.base import check_ids

if TYPE_CHECKING:
    from budgerigar.inspection.traces import Trace


@dataclass(frozen=True)
class Part:
    """One part and what it adds to the logit (or to the difference of two logits)."""

    origin: Origin
    logit: float

    @property
    def name(self) -> str:
        """`L2.H3`, `L2 feed-forward`, `token` …"""
        return self.origin.name


@dataclass(frozen=True)
class Attribution:
    """A logit taken apart.

    position: the row of logits; token: whose logit; against: minus whose (None: no other's)
    parts: in the order of the forward pass, the output's bias the last
    logit: the model's own; total: the sum of the parts; difference: abs(total - logit) / the largest
    of abs(logit) at this position
    cap: what a final soft-cap makes of the sum, as a factor (token's, against's); 1 without a cap.
    It is frozen like the norms, so the parts sum to the capped logit
    """

    position: int
    token: int
    against: int | None
    parts: tuple[Part, ...]
    logit: float
    total: float
    difference: float
    cap: tuple[float, float]

    def strongest(self, n: int | None = None) -> list[Part]:
        """The parts by the size of what they add, largest first."""
        return sorted(self.parts, key=lambda part: -abs(part.logit))[:n]

    def by_layer(self) -> list[tuple[str, float]]:
        """("embedding", …), ("L0 attention", …), ("L0 feed-forward", …), …, ("biases", …): sums."""
        sums: dict[str, float] = {}
        for part in self.parts:
            sums[_group(part.origin)] = sums.get(_group(part.origin), 0.0) + part.logit
        biases = sums.pop("biases", None)  # last, wherever the first of them came
        return [*sums.items(), *([] if biases is None else [("biases", biases)])]


def attribute_logit(
    trace: Trace,
    position: int = -1,
    token: int | None = None,
    against: int | None = None,
    path: Path | None = None,
) -> Attribution:
    """Take apart the logit of `token` at the row `position`, or logit(token) - logit(against).

    token: an id; None: the one that the model thinks likeliest there. position: counted from the end
    where negative. path: `path_of(trace, position)`, where several tokens of one position are asked
    for. `UserError` for a model without a residual stream or without logits.
    """
    path = path_of(trace, position) if path is None else path
    logits = double(trace.logits[path.position])
    token = int(logits.argmax()) if token is None else token
    wanted = [token] if against is None else [token, against]
    check_ids(wanted, len(logits), "the question")
    directions, biases, caps = output_directions(path, wanted)
    signs = np.array([1.0, -1.0][: len(wanted)])
    shares = (path.vectors @ directions.T) @ signs  # (n,)
    parts = [Part(o, float(s)) for o, s in zip(path.origins, shares, strict=True)]
    if path.stream.network.head.bias is not None:
        parts.append(Part(Origin("head bias", "output bias"), float(biases @ signs)))
    own, total = float(logits[wanted] @ signs), sum(part.logit for part in parts)
    largest = float(np.abs(logits).max())
    apart = abs(total - own)
    return Attribution(
        path.position,
        token,
        against,
        tuple(parts),
        own,
        total,
        apart / largest if largest else apart,
        (float(caps[0]), float(caps[-1])),
    )


def output_directions(path: Path, tokens: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows (k,W) of the output matrix, biases (k,) and the soft-cap's factors (k,) of k tokens.

    The factor is multiplied into rows and biases: cap * tanh(raw / cap) / raw, at the raw logit that
    the parts sum to.
    """
    network = path.stream.network
    rows = output_matrix(network, tokens)
    head: Any = network.head
    biases = np.zeros(len(rows))
    if head.bias is not None:
        biases = double(head.bias[tokens]) * float(head.scale)
    factors = np.ones(len(rows))
    if head.softcap is not None:
        raw = rows @ path.total + biases
        capped = head.softcap * np.tanh(raw / head.softcap)
        factors = np.divide(capped, raw, out=factors, where=raw != 0)
    return rows * factors[:, None], biases * factors, factors


def attribute_by_key(
    trace: Trace,
    head: str,
    position: int = -1,
    token: int | None = None,
    against: int | None = None,
    kind: str = "self",
    path: Path | None = None,
) -> np.ndarray:
    """One head's part, by the key position that it was read from: (S,), their sum is the part.

    A head adds sum over keys j of weight[j] * value[j] W_O: each key's share goes the same way to the
    logit. head: "L2.H3"; kind: "self" or "cross".
    """
    path = path_of(trace, position) if path is None else path
    site = trace.site(path.stream.name, kind)
    layer, number = parse_head(head, len(site.modules), site.modules[0].n_heads)
    seen = trace.attention(head, path.stream.name, kind)
    if site.blank:
        return np.zeros(len(seen.key_labels))
    width = seen.module.d_head
    columns = double(seen.module.output.weight)[:, number * width : (number + 1) * width]
    read = seen.weights[path.position][:, None] * seen.values.astype(np.float64)  # (S,E)
    found = token if token is not None else int(trace.logits[path.position].argmax())
    wanted = [found] if against is None else [found, against]
    check_ids(wanted, trace.logits.shape[-1], "the question")
    directions, _, _ = output_directions(path, wanted)
    signs = np.array([1.0, -1.0][: len(wanted)])
    pushed = path.push(layer, f"{kind}_attention", read @ columns.T)
    return np.asarray((pushed @ directions.T) @ signs)


def _group(origin: Origin) -> str:
    """What a part is summed with."""
    if origin.kind in ("token", "position", "type"):
        return "embedding"
    if origin.kind == "head":
        return (
            f"L{origin.layer} {'cross-attention' if origin.attention == 'cross' else 'attention'}"
        )
    if origin.kind == "feed-forward":
        return f"L{origin.layer} feed-forward"
    return "biases"
