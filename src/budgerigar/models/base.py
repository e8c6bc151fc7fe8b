"""What every next-token model offers, from the n-gram to the Transformer: `start` and `step`.

What a model carries from step to step is its story: the n-gram its last n - 1 tokens, an RNN a
hidden vector, an LSTM a hidden vector and a cell, the Transformer its keys and values. Generation,
scoring and evaluation are written once, against these two protocols.

Shapes: B batch, T positions, V vocab_size.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, Self, runtime_checkable

import torch
from torch import Tensor, nn

from budgerigar.errors import UserError


@runtime_checkable
class State(Protocol):
    """What a model carries forward for a batch of rows. `step` consumes it: use the new one."""

    @property
    def lengths(self) -> Tensor:
        """(B,) int64: tokens read so far, per row."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes carried, all rows together."""
        ...

    def select(self, rows: Tensor) -> Self:
        """A copy with the given rows (R,) int64, in that order; a row may occur twice."""
        ...


@runtime_checkable
class NextTokenModel(Protocol):
    """A model that reads tokens from left to right and says what comes next."""

    @property
    def config(self) -> Any:
        """Its configuration, as in models/configs.py."""
        ...

    @property
    def vocab_size(self) -> int:
        """V."""
        ...

    @property
    def context_length(self) -> int | None:
        """Most positions that a state may hold; None: no limit."""
        ...

    @property
    def device(self) -> torch.device:
        """Where its tensors live."""
        ...

    def start(
        self,
        batch_size: int,
        source: Tensor | None = None,
        source_lengths: Tensor | None = None,
        taps: Any = None,
    ) -> State:
        """The state before the first token. An encoder-decoder reads its source here."""
        ...

    def step(
        self,
        tokens: Tensor,
        state: Any,
        lengths: Tensor | None = None,
        all_positions: bool = False,
        taps: Any = None,
    ) -> tuple[Tensor, Any]:
        """Read `tokens` (B, T) int64, of which row b has `lengths[b]` real ones (right-padded).

        -> logits float32 of the token to come after each row's last real one (B, V), or after
        each (B, T, V) with `all_positions`; and the new state. T > 1 is prefill; any cutting of a
        text into steps gives the same logits.
        """
        ...


class Network(nn.Module):
    """What every model with a table of token embeddings says of itself."""

    config: Any
    embedding: Any

    @property
    def vocab_size(self) -> int:
        """V."""
        return int(self.config.vocab_size)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        table = self.embedding.tokens
        packed = getattr(table, "matrix", None)  # a quantised table's weight is made at each call
        weight: Tensor = table.weight if packed is None else packed.codes
        return weight.device


def begin_with_frequencies(network: Any, counts: Any) -> None:
    """Set the output's bias, if there is one, to the log of how often each token occurs.

    counts (V,): in the training text; a token that does not occur counts as half of one. Without it
    the first hundred updates teach that through whatever is at hand: an LSTM's gates and cells grow
    until they saturate, and stay so. Of the recipe `lstm` on Tiny Shakespeare the validation loss
    after 200 updates was 2.30 without and 2.07 nats with it.
    """
    bias = getattr(getattr(network, "head", None), "bias", None)
    if bias is None:
        return
    shares = torch.as_tensor(counts, dtype=torch.float64).clamp(min=0.5)
    with torch.no_grad():
        bias.copy_((shares / shares.sum()).log())


def check_ids(ids: Iterable[int], vocab_size: int, where: str = "") -> None:
    """`UserError` for the first id that a vocabulary of that size lacks; `where`: found in what."""
    wrong = next((i for i in ids if not 0 <= i < vocab_size), None)
    if wrong is not None:
        raise UserError(
            f"token id {wrong}{where and f' in {where}'} does not exist: this model knows ids 0 to "
            f"{vocab_size - 1}. The text was probably encoded with another model's tokenizer."
        )
