"""The grid of dials, and a small sample of it in which every pair of settings occurs."""

from __future__ import annotations

import itertools
import random
from typing import Any

from budgerigar.layers.config import TransformerConfig

GRID: dict[str, list[Any]] = {
    "positions": ["sinusoidal", "learned", "rotary", "relative", "alibi", "none"],
    "norm": ["layer", "rms"],
    "norm_place": ["pre", "post", "sandwich", "output"],
    "activation": [
        "relu",
        "gelu",
        "gelu-tanh",
        "silu",
        "squared-relu",
        "swiglu",
        "geglu",
        "geglu-tanh",
    ],
    "n_kv_heads": [None, 2, 1],
    "attention_window": [None, 4],
    "sink_tokens": [0, 2],
    "sink_logit": [False, True],
    "attention_softcap": [None, 8.0],
    "qk_norm": ["none", "head", "full"],
    "parallel_residual": [False, True],
    "relative_shared": [True, False],
    "tied_embeddings": [True, False],
}
SMALL = {
    "vocab_size": 17,
    "context_length": 24,
    "d_model": 16,
    "n_heads": 4,
    "n_layers": 2,
    "init_std": 0.3,
}


def config_of(dials: dict[str, Any], **more: Any) -> TransformerConfig:
    """A small model with these dials."""
    return TransformerConfig(**{**SMALL, **dials, **more})


def whole_grid() -> list[dict[str, Any]]:
    """Every valid combination of positions, norm, place, activation, grouping, window and sinks."""
    names = list(GRID)[:7]
    rows = (
        dict(zip(names, row, strict=True)) for row in itertools.product(*(GRID[n] for n in names))
    )
    return [row for row in rows if not config_of(row).problems()]


def pairwise_sample(seed: int = 0) -> list[dict[str, Any]]:
    """Greedy covering: valid combinations until each valid pair of settings has occurred."""
    rng = random.Random(seed)
    names = list(GRID)

    def pairs(row: dict[str, Any]) -> set[tuple[str, str, str, str]]:
        cells = [(n, repr(row[n])) for n in names]
        return {(*a, *b) for a, b in itertools.combinations(cells, 2)}

    def draw() -> dict[str, Any]:
        while True:
            row = {n: rng.choice(GRID[n]) for n in names}
            if not config_of(row).problems():
                return row

    reachable = set().union(*(pairs(draw()) for _ in range(6000)))
    sample: list[dict[str, Any]] = []
    while reachable:
        best = max((draw() for _ in range(60)), key=lambda row: len(pairs(row) & reachable))
        if gained := pairs(best) & reachable:
            reachable -= gained
            sample.append(best)
    return sample
