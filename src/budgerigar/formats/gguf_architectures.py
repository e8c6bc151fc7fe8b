"""What GGUF files of each architecture mean: their metadata as our dials, their tensors as our weights.

llama (Llama 1 to 3, Mistral, SmolLM2, TinyLlama …), qwen2 and gpt2. Matrices are stored as ours are,
(outputs, inputs). Of llama, queries and keys are stored for rotary pairs side by side, so their rows
are put back in our order; qwen2 has our order already.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from budgerigar.errors import UserError
from budgerigar.formats.families.family import affine, table
from budgerigar.formats.families.values import Values
from budgerigar.formats.gguf_file import GgufFile
from budgerigar.formats.gguf_rotary import FREQUENCIES, rotary_from
from budgerigar.formats.weight_rules import AS_IS, Interleaved, Part, Rule, Transform
from budgerigar.layers.config import TransformerConfig

# What is said of the model that changes nothing here, or is read elsewhere.
_NO_DIALS = frozenset(
    ("vocab_size", "attention.causal", "attention.value_length", "rope.dimension_count_swa",
     "tensor_data_layout", "attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon")
)  # fmt: skip
# Dials of other members of a family; what they mean when they have this value is: not there.
_ABSENT = {
    "expert_count": 0,
    "expert_used_count": 0,
    "logit_scale": 1.0,
    "residual_scale": 1.0,
    "embedding_scale": 1.0,
    "attention.clamp_kqv": 0.0,
    "attention.max_alibi_bias": 0.0,
    "attn_logit_softcapping": 0.0,
    "final_logit_softcapping": 0.0,
    "use_parallel_residual": False,
}


@dataclass(frozen=True)
class Architecture:
    """One value of `general.architecture`."""

    name: str
    learned_positions: bool = False
    """GPT-2: a table of positions, LayerNorm, no gate, fused queries, keys and values"""
    interleaved: bool = False
    """queries and keys are stored for rotary pairs side by side"""

    # -- reading -----------------------------------------------------------------------------
    def config(self, file: GgufFile) -> TransformerConfig:
        """Our dials for the file's metadata; the tensors that are there decide on biases and head.

        Raises:
            UserError: lists everything that is missing, wrong or has no dial here.
        """
        v = self._values(file)
        _refuse_vast(v, file)
        config = self._gpt2(v, file) if self.learned_positions else self._llama(v, file)
        v.check()
        return config.validate()

    def _values(self, file: GgufFile) -> Values:
        """The metadata of this architecture without their prefix; equal values per layer as one."""
        prefix = f"{self.name}."
        said = {k.removeprefix(prefix): x for k, x in file.metadata.items() if k.startswith(prefix)}
        v = Values({key: _one(value) for key, value in said.items()}, file.where)
        for key, usual in _ABSENT.items():
            v.unless(key, usual, f"models of kind {self.name} have no such part here")
        return v

    def _shared(self, v: Values, file: GgufFile) -> dict[str, Any]:
        """Dials that all architectures have."""
        tokens = file.metadata.get("tokenizer.ggml.tokens")
        rows = file.shape("token_embd.weight")[0] if "token_embd.weight" in file.entries else 1
        return {
            "vocab_size": len(tokens) if isinstance(tokens, list) and tokens else rows,
            "context_length": v.whole("context_length"),
            "d_model": v.whole("embedding_length"),
            "n_layers": v.whole("block_count"),
            "n_heads": v.whole("attention.head_count"),
            "d_ff": v.whole("feed_forward_length"),
            "tied_embeddings": "output.weight" not in file.entries,
            "initialisation": "normal",
        }

    def _gpt2(self, v: Values, file: GgufFile) -> TransformerConfig:
        v.unless("attention.head_count_kv", v.whole("attention.head_count"), "one per head here")
        return TransformerConfig(
            **self._shared(v, file),
            positions="learned",
            activation="gelu-tanh",
            norm_epsilon=v.number("attention.layer_norm_epsilon"),
        )

    def _llama(self, v: Values, file: GgufFile) -> TransformerConfig:
        shared = self._shared(v, file)
        heads = max(shared["n_heads"], 1)
        width = v.whole("attention.key_length", None) or shared["d_model"] // heads
        v.unless("attention.value_length", width, "values are as wide as keys here")
        v.unless("rope.dimension_count", width, "heads of this family are turned whole")
        scaling, base = rotary_from(v, file, width)
        return TransformerConfig(
            **shared,
            d_head=width,
            n_kv_heads=v.whole("attention.head_count_kv", shared["n_heads"]),
            rotary_base=base,
            rotary_scaling=scaling,
            norm="rms",
            norm_bias=False,
            norm_epsilon=v.number("attention.layer_norm_rms_epsilon"),
            activation="swiglu",
            attention_scale=v.number("attention.scale", None) or "sqrt",
            attention_window=v.whole("attention.sliding_window", None) or None,
            qkv_bias="blk.0.attn_q.bias" in file.entries,
            output_bias="blk.0.attn_output.bias" in file.entries,
            ff_bias="blk.0.ffn_up.bias" in file.entries,
        )

    def unread(self, file: GgufFile) -> list[str]:
        """Keys of this architecture that nothing here knows."""
        prefix = f"{self.name}."
        keys = [k.removeprefix(prefix) for k in file.metadata if k.startswith(prefix)]
        return [key for key in keys if key not in _KNOWN]

    def ignored(self, name: str) -> str | None:
        """Why nothing is lost without a tensor of that name; None where something is."""
        return "divisors of the rotary frequencies, now a dial" if name == FREQUENCIES else None

    # -- weights -----------------------------------------------------------------------------
    def rules(self, config: TransformerConfig) -> list[Rule]:
        """A rule for each weight; the same for reading and writing."""
        bias = self.learned_positions
        rules = [table("embedding.tokens.weight", ("token_embd.weight",))]
        if self.learned_positions:
            rules.append(Rule("embedding.positions.weight", ("position_embd.weight",)))
        rules += affine("decoder.final_norm", ("output_norm",), bias)
        rules += [] if config.tied_embeddings else [table("head.weight", ("output.weight",))]
        for layer in range(config.n_layers):
            ours, theirs = f"decoder.{layer}", f"blk.{layer}"
            rules += affine(f"{ours}.attention_norm", (f"{theirs}.attn_norm",), bias)
            rules += affine(f"{ours}.feed_forward_norm", (f"{theirs}.ffn_norm",), bias)
            rules += self._attention(config, f"{ours}.self_attention", theirs)
            gate = ("gate",) if config.gated else ()
            for part in (*gate, "up", "down"):
                one = f"{ours}.feed_forward.{part}"
                rules += affine(one, (f"{theirs}.ffn_{part}",), config.ff_bias)
        return rules

    def _attention(self, config: TransformerConfig, ours: str, theirs: str) -> list[Rule]:
        c = config
        rules = affine(f"{ours}.output", (f"{theirs}.attn_output",), c.output_bias)
        if self.learned_positions:
            sizes = (c.n_heads * c.head_width,) * 3
            for i, part in enumerate(("query", "key", "value")):
                for leaf in ("weight", "bias"):
                    name = (f"{theirs}.attn_qkv.{leaf}",)
                    rules.append(Rule(f"{ours}.{part}.{leaf}", name, Part(i, sizes)))
            return rules
        for part, heads in (("query", c.n_heads), ("key", c.kv_heads), ("value", 0)):
            turned: Transform = Interleaved(heads) if self.interleaved and heads else AS_IS
            for leaf in ("weight", "bias") if c.qkv_bias else ("weight",):
                name = (f"{theirs}.attn_{part[0]}.{leaf}",)
                rules.append(Rule(f"{ours}.{part}.{leaf}", name, turned))
        return rules

    # -- writing -----------------------------------------------------------------------------
    def metadata(self, config: TransformerConfig) -> dict[str, Any]:
        """The architecture's metadata for our dials: what `config` reads back."""
        c = config
        values: dict[str, Any] = {
            "context_length": c.context_length,
            "embedding_length": c.d_model,
            "block_count": c.n_layers,
            "feed_forward_length": c.ff_width,
            "attention.head_count": c.n_heads,
        }
        if self.learned_positions:
            values["attention.layer_norm_epsilon"] = c.norm_epsilon
        else:
            values |= {
                "attention.head_count_kv": c.kv_heads,
                "attention.layer_norm_rms_epsilon": c.norm_epsilon,
                "attention.key_length": c.head_width,
                "attention.value_length": c.head_width,
                "rope.dimension_count": c.head_width,
                "rope.freq_base": float(c.rotary_base),
                "vocab_size": c.vocab_size,
            }
        return {f"{self.name}.{key}": value for key, value in values.items()}


LLAMA = Architecture("llama", interleaved=True)
QWEN2 = Architecture("qwen2")
GPT2 = Architecture("gpt2", learned_positions=True)
ARCHITECTURES = {one.name: one for one in (LLAMA, QWEN2, GPT2)}

_KNOWN = _NO_DIALS | _ABSENT.keys() | {
    "context_length", "embedding_length", "block_count", "feed_forward_length",
    "attention.head_count", "attention.head_count_kv", "attention.key_length", "attention.scale",
    "attention.sliding_window", "rope.dimension_count", "rope.freq_base", "rope.scale_linear",
    "rope.scaling.type", "rope.scaling.factor", "rope.scaling.original_context_length",
    "rope.scaling.attn_factor", "rope.scaling.finetuned", "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow", "rope.scaling.yarn_log_multiplier",
}  # fmt: skip


def architecture_of(file: GgufFile) -> Architecture:
    """What a file holds.

    Raises:
        UserError: it is no model, or of an architecture that is not known here.
    """
    name = file.metadata.get("general.architecture")
    if name not in ARCHITECTURES:
        kind = file.metadata.get("general.type", "model")
        what = f"a {kind} of architecture {name!r}" if name else "no model that says what it is"
        raise UserError(
            f"{file.where} holds {what}; read here are {', '.join(ARCHITECTURES)} (Llama, Mistral, "
            "SmolLM2, Qwen2, GPT-2 and others of these shapes)."
        )
    if file.metadata.get("general.type", "model") != "model":
        raise UserError(
            f"{file.where} holds a {file.metadata['general.type']}, not a model. Give the model's own "
            "file."
        )
    return ARCHITECTURES[name]


def _refuse_vast(v: Values, file: GgufFile) -> None:
    """Refuse sizes that the file's tensors cannot have, before anything is made of them."""
    most = {"block_count": len(file.entries), "attention.key_length": file.n_parameters}
    sizes = ("embedding_length", "feed_forward_length", "attention.head_count")
    for name, limit in (most | dict.fromkeys(sizes, file.n_parameters)).items():
        if v.whole(name, 0) > limit:
            v.refuse(f"{name} = {v.values[name]:,}, which is more than the file holds ({limit:,})")
    v.check()


def _one(value: Any) -> Any:
    """A value per layer as one, where all are equal."""
    if isinstance(value, list) and value and all(x == value[0] for x in value):
        return value[0]
    return value
