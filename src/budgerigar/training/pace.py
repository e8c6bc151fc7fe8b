"""How fast the last steps were, and whether something slowed them down."""

from __future__ import annotations


class Pace:
    """Tokens per second of the last steps, and whether they fell to half of what they had been."""

    SPAN = 30  # steps

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forget all; the next steps set the pace."""
        self._recent: list[tuple[int, float]] = []
        self._best = 0.0
        self._age = 0

    def add(self, tokens: int, seconds: float) -> None:
        """Count one step."""
        self._recent.append((tokens, seconds))
        del self._recent[: -self.SPAN]
        self._age += 1
        if self._age % self.SPAN == 0:
            self._best = max(self._best, self.tokens_per_second())

    def tokens_per_second(self) -> float:
        """Throughput of the last steps."""
        seconds = sum(s for _, s in self._recent)
        return sum(t for t, _ in self._recent) / seconds if seconds else 0.0

    def seconds_per_step(self) -> float:
        """Mean duration of the last steps."""
        return sum(s for _, s in self._recent) / max(len(self._recent), 1)

    def halved(self) -> bool:
        """True when a whole span ran at less than half the best span's throughput."""
        whole = self._age % self.SPAN == 0 and self._age > self.SPAN
        return whole and self.tokens_per_second() < 0.5 * self._best
