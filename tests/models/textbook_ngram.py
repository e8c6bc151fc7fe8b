"""An n-gram by the book: dictionaries, one probability at a time, nothing shared with the package.

Chen & Goodman 1999: eq. 26 and section 4 (modified Kneser-Ney, interpolated), section 2.6
(Witten-Bell). Slow and plain on purpose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

History = tuple[int, ...]


class TextbookNgram:
    """p(token | history), with histories that start at their document's `<end>`."""

    def __init__(
        self,
        tokens: Sequence[int],
        vocab_size: int,
        order: int,
        smoothing: str,
        end_id: int | None = None,
    ) -> None:
        self.vocab_size, self.order, self.smoothing = vocab_size, order, smoothing
        events: list[tuple[History, int]] = []
        history: list[int] = []
        for place, token in enumerate(tokens):
            if not (place == 0 and token == end_id):
                events.append((tuple(history), token))
            history = [token] if token == end_id else [*history, token]
        self.tables: dict[int, Counter[tuple[History, int]]] = {}
        for length in range(1, order + 1):
            table: Counter[tuple[History, int]] = Counter()
            neighbours: dict[tuple[History, int], set[object]] = {}
            for number, (past, token) in enumerate(events):
                if len(past) < length - 1:
                    continue
                key = (past[len(past) - length + 1 :], token)
                table[key] += 1
                # With nothing before it, each occurrence counts as a neighbour of its own.
                left: object = past[-length] if len(past) >= length else ("opening", number)
                neighbours.setdefault(key, set()).add(left)
            if smoothing == "kneser-ney" and length < order:
                table = Counter({key: len(found) for key, found in neighbours.items()})
            self.tables[length] = table

    def discounts(self, length: int) -> tuple[float, float, float]:
        """D1, D2, D3+."""
        sizes = Counter(self.tables[length].values())
        n1, n2, n3, n4 = (sizes[c] for c in (1, 2, 3, 4))
        if n1 and n2 and n3:
            y = n1 / (n1 + 2 * n2)
            found = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
            if min(found) > 0:
                return found
        return 0.5, 1.0, 1.5

    def probability(self, token: int, history: Sequence[int]) -> float:
        """`history` must not reach across an `<end>` that opens a document."""
        past = tuple(history)[-(self.order - 1) :] if self.order > 1 else ()
        return self._interpolated(token, past)

    def _interpolated(self, token: int, past: History) -> float:
        length = len(past) + 1
        below = 1 / self.vocab_size if length == 1 else self._interpolated(token, past[1:])
        followers = {w: c for (c_past, w), c in self.tables[length].items() if c_past == past}
        if not followers:
            return below
        count, total = followers.get(token, 0), sum(followers.values())
        if self.smoothing == "witten-bell":
            return (count + len(followers) * below) / (total + len(followers))
        d = (0.0, *self.discounts(length))
        freed = sum(d[min(c, 3)] for c in followers.values())
        return (count - d[min(count, 3)] + freed * below) / total
