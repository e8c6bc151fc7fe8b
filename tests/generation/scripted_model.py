"""A next-token model whose probabilities are given by a function: the truth is known exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from budgerigar.errors import UserError

Table = Callable[[tuple[int, ...]], Sequence[float]]


@dataclass
class ScriptedState:
    histories: list[tuple[int, ...]]
    dead: bool = False

    @property
    def lengths(self) -> Tensor:
        return torch.tensor([len(h) for h in self.histories])

    @property
    def nbytes(self) -> int:
        return 0

    def select(self, rows: Tensor) -> ScriptedState:
        return ScriptedState([self.histories[i] for i in rows.tolist()])


class ScriptedModel:
    """`table(history)` gives the probabilities of the next token; logits are their logarithms."""

    def __init__(self, table: Table, vocab_size: int, context_length: int | None = None) -> None:
        self.table, self.vocab_size, self.context_length = table, vocab_size, context_length
        self.device = torch.device("cpu")
        self.config = None
        self.widths: list[int] = []  # batch size of every step
        self.read = 0  # tokens read in all

    def start(self, batch_size: int, source=None, source_lengths=None, taps=None) -> ScriptedState:
        return ScriptedState([() for _ in range(batch_size)])

    def step(self, tokens, state, lengths=None, all_positions=False, taps=None):
        assert not state.dead, "a consumed state was used again"
        assert not all_positions
        state.dead = True
        n = [tokens.shape[1]] * len(tokens) if lengths is None else lengths.tolist()
        self.widths.append(len(tokens))
        self.read += sum(n)
        histories = [
            h + tuple(row[:k])
            for h, row, k in zip(state.histories, tokens.tolist(), n, strict=True)
        ]
        if self.context_length is not None:
            assert max(map(len, histories)) <= self.context_length, "more than the context holds"
        with np.errstate(divide="ignore"):
            logits = np.log(np.array([self.table(h) for h in histories], dtype=np.float64))
        return torch.from_numpy(logits).float(), ScriptedState(histories)


def hashed_table(vocab_size: int, seed: int = 0, sharpness: float = 2.0) -> Table:
    """Different random probabilities after every different history."""

    def table(history: tuple[int, ...]) -> np.ndarray:
        rng = np.random.default_rng([seed, *history])
        weights = np.exp(sharpness * rng.standard_normal(vocab_size))
        return weights / weights.sum()

    return table


class PieceTokenizer:
    """Tokens with given bytes; enough of a tokenizer for generation. The last id may be `<end>`."""

    imported = False
    opening_id = None

    def __init__(self, pieces: list[bytes], end: bool = False) -> None:
        self._pieces = pieces
        self.vocab_size = len(pieces) + end
        self.end_id = len(pieces) if end else None
        self.special_ids = {"<end>": len(pieces)} if end else {}
        self.start_ids = (len(pieces),) if end else ()
        self.end_ids = frozenset(self.start_ids)
        self.never_seen = np.zeros(self.vocab_size, dtype=bool)

    def encode(self, text: str) -> list[int]:
        ids, rest = [], text.encode()
        while rest:
            piece = max(
                (p for p in self._pieces if p and rest.startswith(p)), key=len, default=None
            )
            if piece is None:
                raise UserError(f"cannot encode {rest!r}")
            ids.append(self._pieces.index(piece))
            rest = rest[len(piece) :]
        return ids

    def token_bytes(self, token: int, first: bool = False) -> bytes:
        return self._pieces[token] if token < len(self._pieces) else b""

    def decode(self, ids: Sequence[int]) -> str:
        return b"".join(map(self.token_bytes, ids)).decode("utf-8", errors="replace")


def fixed_continuation(ids: Sequence[int], vocab_size: int, prompt_length: int = 1) -> Table:
    """A table that surely continues with `ids`, then repeats the last one."""

    def table(history: tuple[int, ...]) -> np.ndarray:
        p = np.zeros(vocab_size)
        p[ids[min(len(history) - prompt_length, len(ids) - 1)]] = 1
        return p

    return table
