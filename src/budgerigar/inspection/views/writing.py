"""Generation, token by token, with what the model carries from one to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from budgerigar.generation.generate import Event, generate_ids
from budgerigar.generation.options import SamplingOptions
from budgerigar.generation.requests import forbidden_mask
from budgerigar.generation.sampling import Process, process_logits, processors
from budgerigar.generation.streaming import TextStream, forbidden_ids
from budgerigar.inspection.pair_traces import PairTrace
from budgerigar.inspection.views.look import Look
from budgerigar.inspection.views.sides import Names
from budgerigar.layers.cache import TransformerState
from budgerigar.models.rnn_state import RnnState

_SHOWN = 10  # likeliest tokens of each step


def generate(
    look: Look,
    count: int = 20,
    temperature: float = 0.8,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Go on from the text, or from the beginning of a translation, one token at a time.

    Of a pair: its target where that is a beginning ("prefix": true), else from the start.

    {"tokens": [TOKEN], "text": str (what they spell), "finish": "end"|"length",
     "start_tokens": int (read before the first), "start_bytes": int (carried then),
     "carries": {"kind": "cache"|"hidden"|"tokens", "words": str, "per_token": bytes (that a cache
       grows by; 0: what is carried does not grow), "layers": int, "kv_heads": int|null,
       "d_head": int|null, "source_bytes": int (of a source, which do not grow)},
     "context_length": int|null, "words": {str(id): label}}

    TOKEN: {"id", "label", "piece" (what became certain of the text with it), "p": the model's own
     probability, "chance": with which it was drawn (after temperature, top_k and top_p), "rank",
     "p_end": float|null, "read": tokens that the model held when it chose, "bytes": carried then (of a
     cache: what is filled, not what is kept free), "rewound": bool (the context was full and had lost
     its oldest half), "top_ids": i4 (n <= 10), "top_p": f4 (n), "top_chance": f4 (n)}
    """
    options = SamplingOptions(
        max_new_tokens=count, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed
    ).validate()
    prompt, source, end_ids = _asked(look)
    forbidden, watched = forbidden_ids(look.tokenizer), _Watched(look.network)
    chain = processors(options, forbidden_mask(look.network, forbidden))
    events = generate_ids(
        watched,
        [prompt],
        options,
        forbidden=forbidden,
        end_ids=end_ids,
        show_end=bool(end_ids),
        sources=None if source is None else [source],
    )
    opens = set(look.tokenizer.special_ids.values()).issuperset(prompt)
    stream, names = TextStream(look.tokenizer, (), opens), Names(look.tokenizer)
    tokens, finish, pieces = list[dict[str, Any]](), "length", list[str]()
    for event in events:
        piece = "" if event.finish == "end" else stream.push(event.token)
        if event.finish is not None:
            finish, piece = event.finish, piece + stream.flush()
        pieces.append(piece)
        tokens.append({**_token(event, watched, chain, temperature == 0, names), "piece": piece})
    start = watched.first or _Held(0, 0)
    return {
        "tokens": tokens,
        "text": "".join(pieces),
        "finish": finish,
        "start_tokens": start.tokens,
        "start_bytes": start.used,
        "carries": _carries(watched.state, look),
        "context_length": look.network.context_length,
        "words": names.words,
    }


def _asked(look: Look) -> tuple[list[int], list[int] | None, list[int]]:
    """Ids to go on from, a source's ids, and those that end a text."""
    trace = look.trace
    if isinstance(trace, PairTrace):
        written = trace.targets[:-1] if trace.prefix else []
        return [trace.ids[0], *written], trace.source_ids, look.end_ids
    return list(trace.ids), None, look.end_ids


@dataclass(frozen=True)
class _Held:
    """Tokens that a state has read, and the bytes in use for them."""

    tokens: int
    used: int


class _Watched:
    """A view of a network that remembers its last state and logits."""

    def __init__(self, network: Any) -> None:
        self.network = network
        self.first: _Held | None = None
        self.state: Any = None
        self.logits: Tensor | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "network":
            raise AttributeError(name)
        return getattr(self.network, name)

    def step(self, *args: Any, **named: Any) -> Any:
        """As the network's, remembered."""
        self.logits, self.state = self.network.step(*args, **named)
        self.first = self.first or self.held
        return self.logits, self.state

    @property
    def held(self) -> _Held:
        """What the state holds now."""
        return _Held(int(self.state.lengths[0]), used_bytes(self.state))


def used_bytes(state: Any) -> int:
    """Bytes that one row's state needs; of a cache's buffers only what is filled."""
    if not isinstance(state, TransformerState):
        return int(state.nbytes)
    return state.longest * _per_token(state) + _of_source(state)


def _per_token(state: Any) -> int:
    if not isinstance(state, TransformerState):
        return 0
    layers = [layer for layer in state.layers if layer.key is not None]
    return sum(layer.nbytes // layer.key.shape[2] for layer in layers if layer.key is not None)


def _of_source(state: Any) -> int:
    if isinstance(state, TransformerState):
        return sum(key.nbytes + value.nbytes for key, value in state.cross)
    return state.source.nbytes if isinstance(state, RnnState) else 0


def _token(
    event: Event, watched: _Watched, chain: list[tuple[str, Process]], greedy: bool, names: Names
) -> dict[str, Any]:
    """One TOKEN, from the logits that it was chosen by."""
    assert watched.logits is not None
    logits = watched.logits[-1:].float()
    chances = logits.double().softmax(-1)[0]
    after = process_logits(logits, chain)
    if greedy:
        drawn = torch.zeros_like(chances)
        drawn[event.token] = 1.0
    else:
        drawn = after.double().softmax(-1)[0]
    best = chances.topk(min(_SHOWN, len(chances)))
    ids = best.indices.cpu().numpy()
    names.add([event.token, *ids])
    held = watched.held
    return {
        "id": event.token,
        "label": names.words[str(event.token)],
        "p": float(chances[event.token]),
        "chance": float(drawn[event.token]),
        "rank": 1 + int((chances > chances[event.token]).sum()),
        "p_end": event.p_end,
        "read": held.tokens,
        "bytes": held.used,
        "rewound": event.rewound,
        "top_ids": ids,
        "top_p": best.values.cpu().numpy(),
        "top_chance": drawn[best.indices].cpu().numpy(),
    }


_WORDS = {
    "cache": "keys and values of every layer: they grow with every token",
    "hidden": "a hidden state: it stays the same size, however long the text is",
    "tokens": "the last tokens alone",
}


def _carries(state: Any, look: Look) -> dict[str, Any]:
    """What the model carries from one token to the next."""
    config = look.config
    if isinstance(state, TransformerState):
        kind, layers, heads, width = "cache", len(state.layers), config.kv_heads, config.head_width
    else:
        recurrent = look.kind in ("recurrent", "rnn-encoder-decoder")
        kind, heads, width = ("hidden" if recurrent else "tokens"), None, None
        layers = len(state.layers) if recurrent else 1
    return {
        "kind": kind,
        "words": _WORDS[kind],
        "per_token": _per_token(state),
        "layers": layers,
        "kv_heads": heads,
        "d_head": width,
        "source_bytes": _of_source(state),
    }
