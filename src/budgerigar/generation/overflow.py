"""What happens when the context is full: three rules, stated once, the same cached and uncached.

- `rewindow` (default): the oldest half of the window is dropped and the rest is read again from
  position 0. The window therefore depends on the number of tokens alone, not on where the prompt
  ended, nor on caching, nor on other rows of the batch.
- `error`: stop with a message.
- `sinks`: the cache rolls (StreamingLLM, Xiao et al. 2023); only for models whose attention has a
  window and whose positions are relative, so that old keys may be forgotten one by one.

Lengths are numbers of tokens.
"""

from __future__ import annotations

from typing import Any, Literal

from budgerigar.errors import UserError

OnOverflow = Literal["rewindow", "error", "sinks"]


def kept_tokens(context_length: int) -> int:
    """How many of the newest tokens stay when a full window loses its oldest half."""
    return context_length - max(1, context_length // 2)


def window_length(n_tokens: int, context_length: int | None) -> int:
    """Length of the window over the newest of `n_tokens` tokens under the rule `rewindow`.

    It grows to `context_length`; the next token cuts it to the newest half and joins it; and so on.
    """
    if context_length is None or n_tokens <= context_length:
        return n_tokens
    kept = kept_tokens(context_length)
    return kept + (n_tokens - context_length - 1) % (context_length - kept) + 1


def refuse_overflow(n_tokens: int, context_length: int, n_new: int) -> UserError:
    """The error of the rule `error`, for a text of `n_tokens` of which `n_new` are generated."""
    where = f"after {n_new} new tokens" if n_new else f"by the prompt of {n_tokens} tokens"
    return UserError(
        f"the context of {context_length} tokens is full {where}, and on_overflow is 'error'. "
        "Use a shorter prompt or a smaller max_new_tokens, or on_overflow 'rewindow', which drops "
        "the oldest half and goes on."
    )


def check_sinks(network: Any, cached: bool) -> None:
    """Refuse the rule `sinks` for a model that has no rolling cache, saying why."""
    why = ""
    if not cached:
        why = "without a cache there is nothing to roll"
    elif not hasattr(network, "roll"):
        why = "this kind of model has no cache that rolls"
    elif not network.can_roll:
        why = (
            "it needs an attention_window in every layer, so that old tokens are no longer looked "
            "at, and rotary, relative, alibi or no positions, so that they can be dropped"
        )
    if why:
        raise UserError(f"on_overflow 'sinks' cannot be used here: {why}. Use 'rewindow'.")
