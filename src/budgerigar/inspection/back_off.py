"""How an n-gram reached each probability of a text: the context it matched, what each length adds.

An interpolated n-gram mixes all lengths: with w_k what length k hands down to the shorter context and
own_k its own part, the probability of a token is

    p = own_n + w_n (own_{n-1} + w_{n-1} (… + w_1 1/V))

so length k adds own_k times all the w above it, and the last bit comes from "any token at all". Every
number is read from the tables that the model uses; `difference` says how far their sum is from the
probability that the model itself gave.

Shapes: T tokens of the text, n order, V vocab_size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.inspection.labels import Word, spell
from budgerigar.models.ngram import NgramModel
from budgerigar.models.ngram_explain import BackoffStep, Explanation

if TYPE_CHECKING:
    from budgerigar.inspection.traces import Trace


@dataclass(frozen=True)
class TokenBackOff:
    """A predicted token: what was known of those before it, and where its probability is from."""

    position: int
    label: str
    context: tuple[str, ...]
    """labels of the tokens that could matter: at most n - 1, none before the document opened"""
    explanation: Explanation
    order: int
    """n"""

    @property
    def probability(self) -> float:
        """What the model gave the token."""
        return self.explanation.probability

    @property
    def nats(self) -> float:
        """-ln of that."""
        return -math.log(self.explanation.probability)

    @property
    def steps(self) -> tuple[BackoffStep, ...]:
        """From the longest usable context to none at all."""
        return self.explanation.steps

    @property
    def context_matched(self) -> int:
        """Tokens of the longest context that the training text goes on from."""
        return self.explanation.matched

    @property
    def matched(self) -> int:
        """Length of the longest n-gram, context and token, that was seen; 0: not even the token."""
        return max((step.order for step in self.steps if step.count > 0), default=0)

    @cached_property
    def parts(self) -> np.ndarray:
        """(n + 1,): what each length adds to the probability; entry 0 is "any token at all"."""
        found = np.zeros(self.order + 1)
        handed = 1.0
        for step in self.steps:
            found[step.order] = handed * step.own
            handed *= step.weight
        found[0] = handed * self.explanation.uniform
        return found

    @property
    def shares(self) -> np.ndarray:
        """(n + 1,): the same as shares of the probability."""
        return np.asarray(self.parts / self.parts.sum())


class BackOff:
    """An n-gram over a text. Made by `back_off`; draws itself in a terminal."""

    def __init__(self, trace: Trace, tokenizer: Any, tokens: list[TokenBackOff | None]) -> None:
        self.trace, self.tokenizer, self.tokens = trace, tokenizer, tokens

    @property
    def order(self) -> int:
        """n."""
        return int(self.trace.network.config.order)

    @property
    def smoothing(self) -> str:
        """ "kneser-ney" or "witten-bell"."""
        return str(self.trace.network.config.smoothing)

    @property
    def vocab_size(self) -> int:
        """V."""
        return int(self.trace.network.vocab_size)

    @property
    def about(self) -> str:
        """Model and text in one line, for titles."""
        return self.trace.about

    @property
    def predicted(self) -> list[TokenBackOff]:
        """All but the first token, which nothing predicts."""
        return [token for token in self.tokens if token is not None]

    @cached_property
    def difference(self) -> float:
        """max abs(p explained - p of the model's logits) / p, over the text."""
        logits = self.trace.logits.double()
        given = [
            math.exp(float(logits[token.position - 1, token.explanation.token]))
            for token in self.predicted
        ]
        return max(
            (abs(t.probability - p) / p for t, p in zip(self.predicted, given, strict=True)),
            default=0.0,
        )

    def at(self, word: Word, occurrence: int | None = None) -> list[TokenBackOff]:
        """The tokens of a word of the text, or the one at a position.

        Raises:
            UserError: the text has no such word, or it is the token that nothing predicts.
        """
        places = self.trace.spelling.find(word, occurrence)
        found = [token for place in places if (token := self.tokens[place]) is not None]
        if not found:
            raise UserError(
                f"nothing predicts {self.trace.labels[places[0]]!r}, with which the text begins; "
                "name a later word or position"
            )
        return found

    def likeliest(self, token: TokenBackOff, top: int = 5) -> list[tuple[str, float]]:
        """What the model thought likeliest at that place: (label, probability)."""
        row = self.trace.logits[token.position - 1].double().exp()
        best = row.topk(min(top, len(row)))
        ids, chances = best.indices.tolist(), best.values.tolist()
        return list(zip(self.labels_of(ids), chances, strict=True))

    def labels_of(self, ids: Sequence[int]) -> list[str]:
        """Readable names of single tokens."""
        return [spell(self.tokenizer, [number]).labels[0] for number in ids]

    def joined(self, labels: Sequence[str]) -> str:
        """Labels of neighbours as one piece of text."""
        apart = self.tokenizer.kind == "word" or any(" " in label for label in labels)
        return (" " if apart else "").join(labels)

    def __repr__(self) -> str:
        from budgerigar.inspection.back_off_text import strip_text

        return strip_text(self)

    def step_text(self, word: Word, occurrence: int | None = None) -> str:
        """One token's table: each length, what it knew, what it adds; a word's tokens in turn."""
        from budgerigar.inspection.back_off_text import explained, step_text

        tables = [step_text(self, token) for token in self.at(word, occurrence)]
        return "\n\n".join([*tables, "\n".join(explained(self))])

    def heatmap(self, path: str | Path, word: Word | None = None) -> Path:
        """Write PNG, SVG or PDF: nats and, below, the share of each length, token by token; the
        tokens of `word` are marked."""
        from budgerigar.inspection import plots
        from budgerigar.inspection.back_off_plots import back_off_figure

        svg = Path(path).suffix.lower() == ".svg"
        return plots.save(back_off_figure(self, self._marked(word), text_only=svg), path)

    def _marked(self, word: Word | None) -> list[int]:
        return [] if word is None else [token.position for token in self.at(word)]

    def html(self, path: str | Path, word: Word | None = None, *, full: bool = False) -> Path:
        """Write the page of `budgie explore` as one offline file; it begins with the table of `word`
        (of several tokens: its first)."""
        from budgerigar.inspection.export import write_page

        chosen = {"query": self._marked(word)[0]} if word is not None else {}
        state = {"view": "backoff", "selection": chosen}
        return write_page(self.trace, path, full=full, state=state)


def back_off(trace: Trace, tokenizer: Any) -> BackOff:
    """What an n-gram did over the text of `trace`.

    Raises:
        UserError: the trace is of another kind of model.
    """
    network: Any = trace.network
    if not isinstance(network, NgramModel):
        raise UserError(
            f"this model ({type(network).__name__}) is no n-gram: it does not look contexts up, so "
            "it backs off from none. `budgie train FILE --recipe ngram` makes one"
        )
    found: list[TokenBackOff | None] = []
    labels, ids = trace.labels, trace.ids
    reach = network.config.order - 1
    with progress.track("looking contexts up", len(ids), "tokens") as job:
        for place, token in enumerate(ids):
            if place == 0:
                found.append(None)
                continue
            told = network.explain(ids[max(0, place - max(reach, 1)) : place], token)
            context = tuple(labels[place - len(told.context) : place])
            found.append(TokenBackOff(place, labels[place], context, told, reach + 1))
            job.advance()
    return BackOff(trace, tokenizer, found)
