"""First values of the weights, from one generator, in the order of their names.

Rules by what a matrix does: it reads the residual stream (query, key, value, up, gate), writes to
it (output, down), or stands at the ends (embeddings, head).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from budgerigar.layers.config import TransformerConfig

WRITERS = ("self_attention.output.weight", "cross_attention.output.weight", "down.weight")


def initialise(model: nn.Module, config: TransformerConfig, seed: int) -> None:
    """Fill every parameter. Norm weights stay 1 (or 0 with an offset), biases and sinks 0."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            if parameter.dim() > 1:
                _fill(name, parameter, config, generator)
            elif name.endswith("bias") or "sink_logit" in name:
                parameter.zero_()


def _fill(name: str, weight: Tensor, config: TransformerConfig, generator: torch.Generator) -> None:
    kind = config.initialisation
    if kind == "t5":
        _normal(weight, _t5_deviation(name, config), generator)
    elif kind == "xavier":
        if "embedding" in name:
            _normal(weight, weight.shape[-1] ** -0.5, generator)
        else:
            bound = math.sqrt(6 / sum(weight.shape))
            weight.copy_(torch.empty(weight.shape).uniform_(-bound, bound, generator=generator))
    elif kind == "zero-output" and name.endswith(WRITERS):
        weight.zero_()
    elif kind == "depth-scaled" and name.endswith(WRITERS):
        _normal(weight, config.init_std / math.sqrt(_sublayers(name, config)), generator)
    else:
        _normal(weight, config.init_std, generator)


def _sublayers(name: str, config: TransformerConfig) -> int:
    """How many sublayers write to the residual stream that this weight writes to."""
    if name.startswith("encoder"):
        return 2 * config.encoder_layers
    return (3 if config.assembly == "encoder-decoder" else 2) * config.decoder_layers


def _t5_deviation(name: str, config: TransformerConfig) -> float:
    """Mesh TensorFlow's choices, which fold 1/sqrt(d_head) into the queries (Raffel et al. 2020)."""
    width, heads = config.d_model, config.n_heads * config.head_width
    if "embedding" in name:
        return 1.0
    if name.endswith("query.weight"):
        return (width * config.head_width) ** -0.5
    if name.endswith("attention.output.weight"):
        return heads**-0.5
    if name.endswith("down.weight"):
        return config.ff_width**-0.5
    return width**-0.5


def _normal(weight: Tensor, deviation: float, generator: torch.Generator) -> None:
    weight.copy_(torch.empty(weight.shape).normal_(0.0, deviation, generator=generator))
