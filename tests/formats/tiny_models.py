"""Tiny random models as `transformers` makes and saves them: one or more of each family."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import transformers

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

V = 61
_LLAMA: dict[str, Any] = {
    "vocab_size": V,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 96,
}
_BERT: dict[str, Any] = {k: v for k, v in _LLAMA.items() if k != "num_key_value_heads"}
_DISTIL: dict[str, Any] = {
    "vocab_size": V,
    "dim": 24,
    "hidden_dim": 40,
    "n_layers": 2,
    "n_heads": 4,
    "max_position_embeddings": 96,
}
_T5: dict[str, Any] = {
    "vocab_size": V,
    "d_model": 24,
    "d_kv": 5,
    "d_ff": 40,
    "num_layers": 2,
    "num_decoder_layers": 3,
    "num_heads": 4,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 20,
    "decoder_start_token_id": 0,
}
_MARIAN: dict[str, Any] = {
    "vocab_size": V,
    "d_model": 24,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 40,
    "decoder_ffn_dim": 40,
    "max_position_embeddings": 96,
    "scale_embedding": True,
    "activation_function": "swish",
    "pad_token_id": V - 1,
    "decoder_start_token_id": V - 1,
}
_LLAMA3: dict[str, Any] = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
_YARN: dict[str, Any] = {
    "rope_type": "yarn",
    "rope_theta": 1000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 24,
}

CASES: dict[str, Callable[[], Any]] = {
    "gpt2": lambda: transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=V, n_positions=96, n_embd=24, n_layer=2, n_head=3)
    ),
    "llama": lambda: transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**_LLAMA, head_dim=8, attention_bias=True, mlp_bias=True)
    ),
    "llama3": lambda: transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**_LLAMA, rope_parameters=_LLAMA3, tie_word_embeddings=True)
    ),
    "llama-yarn": lambda: transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**_LLAMA, rope_parameters=_YARN)
    ),
    "mistral": lambda: transformers.MistralForCausalLM(
        transformers.MistralConfig(**_LLAMA, sliding_window=5)
    ),
    "qwen2": lambda: transformers.Qwen2ForCausalLM(
        transformers.Qwen2Config(
            **{**_LLAMA, "num_hidden_layers": 3},
            use_sliding_window=True,
            sliding_window=6,
            max_window_layers=1,
            tie_word_embeddings=True,
        )
    ),
    "bert": lambda: transformers.BertForMaskedLM(transformers.BertConfig(**_BERT)),
    "bert-pretraining": lambda: transformers.BertForPreTraining(transformers.BertConfig(**_BERT)),
    "minilm": lambda: transformers.BertModel(transformers.BertConfig(**_BERT)),
    "bert-classes": lambda: transformers.BertForSequenceClassification(
        transformers.BertConfig(**{**_BERT, "num_labels": 5})
    ),
    "distilbert": lambda: transformers.DistilBertForMaskedLM(
        transformers.DistilBertConfig(**_DISTIL)
    ),
    "distilbert-base": lambda: transformers.DistilBertModel(
        transformers.DistilBertConfig(**_DISTIL)
    ),
    "t5": lambda: transformers.T5ForConditionalGeneration(transformers.T5Config(**_T5)),
    "t5-v1.1": lambda: transformers.T5ForConditionalGeneration(
        transformers.T5Config(
            **{**_T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
        )
    ),
    "marian": lambda: transformers.MarianMTModel(transformers.MarianConfig(**_MARIAN)),
    "marian-two": lambda: transformers.MarianMTModel(
        transformers.MarianConfig(
            **{**_MARIAN, "pad_token_id": 52, "decoder_start_token_id": 52},
            share_encoder_decoder_embeddings=False,
            decoder_vocab_size=53,
        )
    ),
}
DECODERS = ("gpt2", "llama", "llama3", "llama-yarn", "mistral", "qwen2")
ENCODERS = (
    "bert", "bert-pretraining", "minilm", "bert-classes", "distilbert", "distilbert-base",
)  # fmt: skip
TRANSLATORS = ("t5", "t5-v1.1", "marian", "marian-two")
_made: dict[str, Any] = {}


def theirs(name: str) -> Any:
    """The model of that name, every weight moved off its first value; a copy of its own."""
    if name not in _made:
        torch.manual_seed(sorted(CASES).index(name))
        model = CASES[name]().eval()
        with torch.no_grad():
            for weight in model.parameters():
                if weight.requires_grad:  # Marian's sinusoids stay what they are
                    weight.add_(torch.randn_like(weight) * 0.2)
            if hasattr(model, "final_logits_bias"):
                model.final_logits_bias.normal_()
        if name == "t5-v1.1":  # made tied by this release of transformers, as it never was
            model.lm_head.weight = torch.nn.Parameter(torch.randn(V, 24))
        _made[name] = model
    return copy.deepcopy(_made[name])


def saved(name: str, folder: Path) -> Path:
    """`theirs(name)` as it saves itself."""
    theirs(name).save_pretrained(folder)
    return folder


def ids(rows: int, width: int, seed: int = 0, below: int = 50) -> Tensor:
    """Random tokens (rows, width)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, below, (rows, width), generator=generator)
