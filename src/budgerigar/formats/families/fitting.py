"""Which family can say all that a configuration of ours says; what has no counterpart where none can.

What a family would make of the config.json that it writes for us is compared with what we have, dial
by dial, as far as a dial changes logits. So a fit is exact by construction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.formats.families.family import Family
from budgerigar.formats.families.values import Values
from budgerigar.layers.config import RotaryScaling, TransformerConfig

FILLABLE = ("norm_weight", "norm_bias", "qkv_bias", "output_bias", "ff_bias", "head_bias")
"""what a family has and we lack can be given as ones or zeros, which change nothing"""


@dataclass(frozen=True)
class Fit:
    """How a family says a configuration of ours."""

    family: Family
    asked: TransformerConfig
    """ours"""
    values: dict[str, Any]
    """its config.json"""
    config: TransformerConfig
    """what its reader makes of that: ours, perhaps with biases and scales that change nothing"""
    lacking: list[str]
    """dials without a counterpart, in words; empty where it fits"""

    @property
    def query_factor(self) -> float:
        """What the weights of queries are to be multiplied by: another scale of the scores, as T5 has
        it, is only another length of the queries."""
        return self.asked.scale / self.config.scale


class _Names:
    """The names of the tensors that will be written, for `config_from`."""

    where = "weights to be written"

    def __init__(self, names: Iterable[str]) -> None:
        self._names = list(names)

    def names(self) -> Iterable[str]:
        return self._names

    def shape(self, name: str) -> tuple[int, ...]:
        raise AssertionError("only names are known")

    def dtype(self, name: str) -> str:
        return "F32"

    def get(self, name: str) -> Tensor:
        raise AssertionError("only names are known")


def fit(family: Family, config: TransformerConfig) -> Fit:
    """Say `config` in the family's words, and what is lost."""
    if config.assembly == "encoder-decoder" and config.decoder_start is None:
        config = config.replace(decoder_start=0)  # the tokenizer decides it; any id will do here
    values = family.config_to(config)
    written = _Names(rule.theirs[0] for rule in family.rules(config))
    given = Values(values, f"the {family.name} family")
    back = family.config_from(given, written)
    # another scale of the scores goes into the queries, see `Fit.query_factor`
    scaled = config if config.qk_norm != "none" else config.replace(attention_scale=back.scale)
    return Fit(family, config, values, back, differences(scaled, back))


def best_fit(families: Iterable[Family], config: TransformerConfig) -> Fit:
    """The first family that fits.

    Raises:
        UserError: none does; the nearest is named, with the dials that it has no counterpart for.
    """
    alike: list[Fit] = []
    for family in families:
        if family.assembly != config.assembly:
            continue
        try:
            found = fit(family, config)
        except UserError as error:  # it cannot even be written down
            found = Fit(family, config, {}, config, [str(error).replace("\n", " ")])
        if not found.lacking:
            return found
        alike.append(found)
    nearest = min(alike, key=lambda found: len(found.lacking))
    names = ", ".join(found.family.name for found in alike)
    lines = "\n".join(f"  - {words}" for words in nearest.lacking)
    instead = "\n`budgie eject` writes this model as one PyTorch file of its own."
    raise UserError(
        f"No family of open models that is {config.assembly} ({names}) can say what this model is. "
        f"The nearest is {nearest.family.name}, which has no counterpart for:\n{lines}"
        + (instead if config.assembly == "decoder-only" else "")
    )


def differences(ours: TransformerConfig, theirs: TransformerConfig) -> list[str]:
    """Dials that differ and change logits, in words; fillable ones aside."""
    mine, other = meaning(ours), meaning(theirs)
    if ours.positions == theirs.positions:
        mine, other = mine | _positions(ours), other | _positions(theirs)
    found = []
    for dial in dict.fromkeys([*mine, *other]):
        a, b = mine.get(dial), other.get(dial)
        fillable = (dial in FILLABLE and not a and bool(b)) or (dial, a, b) == ("token_types", 0, 1)
        if a != b and not fillable:
            found.append(f"{dial} = {_shown(a)} (there: {_shown(b)})")
    return found


def _shown(value: Any) -> str:
    """A value as one writes it; one that holds in every layer once."""
    if isinstance(value, tuple):
        values = [_shown(one) for one in value]
        return ", ".join(values if len({*values}) > 1 else values[:1]) or "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, RotaryScaling):
        return f"{value.kind}, factor {value.factor:g} of {value.original_context_length:,} tokens"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def meaning(c: TransformerConfig) -> dict[str, Any]:
    """The dials that decide the logits, each said in one way; what has no effect is left out."""
    depth = range(max(c.encoder_layers, c.decoder_layers))
    norms = tuple(c.norm_of(layer) for layer in depth)
    found: dict[str, Any] = {
        name: getattr(c, name)
        for name in (
            "assembly", "vocab_size", "context_length", "d_model", "n_heads", "positions",
            "token_types", "norm_epsilon", "norm_weight", "norm_place", "residual",
            "parallel_residual", "sink_logit", "qk_norm", "attention_softcap", "activation",
            "qkv_bias", "output_bias", "ff_bias", "embedding_norm", "embedding_size",
            "token_head", "pooler", "n_classes", "logit_softcap", "head_scale",
        )
    }  # fmt: skip
    found |= {
        "n_encoder_layers": c.encoder_layers,
        "n_decoder_layers": c.decoder_layers,
        "norm": norms,
        "norm_bias": "layer" in norms and c.norm_bias,
        "norm_offset": c.norm_offset and c.norm_weight,
        "final_norm": c.has_final_norm,
        "n_kv_heads": c.kv_heads,
        "d_head": c.head_width,
        "attention_scale": c.scale,
        "attention_window": tuple(c.window_of(layer) for layer in range(c.decoder_layers)),
        "d_ff": c.ff_width,
        "embedding_scale": _embedding_scale(c),
    }
    if any(found["attention_window"]) and c.sink_tokens:
        found["sink_tokens"] = c.sink_tokens
    if c.token_head:
        names = ("tied_embeddings", "head_bias", "head_transform")
        found |= {name: getattr(c, name) for name in names}
    if c.n_classes:
        found["pooling"] = c.pooling
    if c.assembly == "encoder-decoder":
        found["shared_embeddings"] = c.shared_embeddings
        found["source_vocab_size"] = c.source_vocab_size or c.vocab_size
        found["decoder_start"] = c.decoder_start
    return found


def _embedding_scale(c: TransformerConfig) -> float:
    if c.embedding_scale == "sqrt":
        return float((c.embedding_size or c.d_model) ** 0.5)
    return 1.0 if c.embedding_scale == "none" else float(c.embedding_scale)


def _positions(c: TransformerConfig) -> dict[str, Any]:
    """The dials of this kind of positions."""
    depth = range(max(c.encoder_layers, c.decoder_layers))
    if c.positions == "sinusoidal":
        return {"sinusoid_layout": c.sinusoid_layout}
    if c.positions == "learned":
        return {"position_offset": c.position_offset}
    if c.positions == "rotary":
        bases = tuple(c.rotary_base_of(layer) for layer in depth)
        turned = {"rotary_base": bases, "rotary_fraction": c.rotary_width / c.head_width}
        return {**turned, "rotary_scaling": c.rotary_scaling}
    if c.positions == "relative":
        names = ("relative_buckets", "relative_max_distance", "relative_shared")
        return {name: getattr(c, name) for name in names}
    return {}
