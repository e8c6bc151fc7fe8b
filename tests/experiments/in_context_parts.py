"""A random generator, a small network and what each result of in-context learning must have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from budgerigar.cli.output import plain
from budgerigar.experiments.why.frame import WhyResult
from budgerigar.layers.config import TransformerConfig
from budgerigar.models.transformer import Transformer


def drawn(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def little(layers: int = 2, assembly: Any = "decoder-only", vocab_size: int = 20) -> Transformer:
    config = TransformerConfig(
        assembly=assembly, vocab_size=vocab_size, context_length=64, d_model=16, n_layers=layers,
        n_heads=2, d_ff=8,
    )  # fmt: skip
    return Transformer(config, 1).eval()


def checked_result(result: WhyResult, tmp_path: Path) -> None:
    page = result.text(width=80)
    for words in (str(result.without), str(result.with_part), result.verdict[:30]):
        assert words in page
    assert result.picture(tmp_path / "picture.png").stat().st_size > 5_000
    found = json.loads(json.dumps(plain(result.as_dict())))
    assert found["part"] == "in-context"
