"""Random tokens, twice: what a second copy costs, which heads look back for it, what it costs without.

Olsson et al. 2022. Nothing but looking back helps with such a text: the tokens have no order that
weights could know. The heads that are counted as induction heads are then switched off (their outputs
set to 0), and beside them as many others of the same layers: that tells whether it is they who do it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.experiments.why import word_maps
from budgerigar.experiments.why.in_context import head_scores
from budgerigar.experiments.why.word_maps import Mean, mean_of
from budgerigar.inspection.induction import THRESHOLD, uniform_score
from budgerigar.inspection.names import parse_head
from budgerigar.layers.taps import Replacement, Taps
from budgerigar.models.transformer import Transformer


@dataclass(frozen=True)
class Repeats:
    """Nats per token; a text is one measurement."""

    first: Mean
    """the first copy, its first token left out"""
    second: Mean
    scores: dict[str, float]
    """induction score of each head, the best first"""
    alike: float
    """the score of a head that looks at everything alike"""
    without: Mean | None = None
    """the second copy without the induction heads; None: there are none"""
    without_others: Mean | None = None
    """and without as many other heads of the same layers"""

    @property
    def heads(self) -> int:
        """How many are called induction heads."""
        return sum(score >= THRESHOLD for score in self.scores.values())

    @property
    def rests_on_heads(self) -> bool:
        """Whether their loss costs more than twice what that of the others does."""
        if self.without is None or self.without_others is None:
            return False
        others = max(0.0, self.without_others.mean - self.second.mean)
        return self.without.mean - self.second.mean > max(2 * others, 2 * self.without.error)


def fits(network: Transformer, length: int) -> None:
    """`UserError` where the model cannot read `length` tokens at once."""
    if length > network.context_length:
        raise UserError(
            f"this model reads {network.context_length} tokens, and a text here has {length}: give one "
            "with a longer context"
        )


def measure(
    network: Transformer, tokenizer: Any, n_texts: int, length: int, generator: torch.Generator
) -> Repeats:
    """Read `n_texts` texts of `length` different tokens, twice (fewer where there are not so many)."""
    special = set(tokenizer.special_ids.values())
    usual = torch.tensor([i for i in range(tokenizer.vocab_size) if i not in special])
    length = min(length, len(usual) // 2)
    fits(network, len(tokenizer.start_ids) + 2 * length)
    words = usual[word_maps.repeated(n_texts, len(usual), length, generator)]
    start = torch.tensor(tokenizer.start_ids, dtype=torch.long).expand(n_texts, -1)
    texts = torch.cat([start, words], dim=1).to(network.device)
    with progress.track("random tokens, twice", total=4 * n_texts, unit="texts") as job:
        both = _losses(network, texts, length, job)
        totals = dict[str, float]()
        for text in texts:
            for head, score in head_scores(network, text[None])[0].items():
                totals[head] = totals.get(head, 0.0) + score / n_texts
            job.advance(1)
        order = dict(sorted(totals.items(), key=lambda item: -item[1]))
        found = [head for head, score in order.items() if score >= THRESHOLD]
        cut = []
        for heads in (found, _others(network, found, generator)):
            off = switched_off(network, heads)
            cut.append(mean_of(_losses(network, texts, length, job, off)[1]) if heads else None)
    first, second = map(mean_of, both)
    return Repeats(first, second, order, uniform_score(texts[0].cpu()), *cut)


@torch.inference_mode()
def _losses(
    network: Transformer,
    texts: Tensor,
    length: int,
    job: progress.Tracker,
    taps: Taps | None = None,
) -> tuple[list[float], list[float]]:
    """Mean nats per token of each text's first copy (but its first token) and of its second."""
    first, second = [], []
    for text in texts:
        logits = network(text[None], taps=taps)[0, :-1].float()
        loss = F.cross_entropy(logits, text[1:], reduction="none")
        first.append(float(loss[-2 * length + 1 : -length].mean()))
        second.append(float(loss[-length:].mean()))
        job.advance(1)
    return first, second


def switched_off(network: Transformer, heads: Sequence[str]) -> Taps:
    """Taps that set the outputs of these heads to 0."""
    rows: dict[int, list[int]] = {}
    for name in heads:
        layer, head = parse_head(name, network.config.n_layers, network.config.n_heads)
        rows.setdefault(layer, []).append(head)

    def silence(which: list[int]) -> Replacement:
        return lambda out: out.index_fill(1, torch.tensor(which, device=out.device), 0.0)

    return Taps(
        replace={
            f"decoder.{layer}.self_attention.head_output": silence(which)
            for layer, which in rows.items()
        }
    )


def _others(network: Transformer, heads: Sequence[str], generator: torch.Generator) -> list[str]:
    """As many heads of each layer as stand in `heads`, drawn from the rest of it."""
    drawn: list[str] = []
    layers = [parse_head(h, network.config.n_layers, network.config.n_heads)[0] for h in heads]
    for layer in sorted(set(layers)):
        rest = [f"L{layer}.H{n}" for n in range(network.config.n_heads)]
        rest = [name for name in rest if name not in heads]
        order = torch.randperm(len(rest), generator=generator).tolist()
        drawn += [rest[n] for n in order[: layers.count(layer)]]
    return drawn
