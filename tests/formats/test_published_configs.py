"""config.json as well-known models are published with it: the dials and the number of weights.

The files are older than the names that `transformers` writes today, and leave out what was usual.
"""

from __future__ import annotations

from typing import Any

import pytest

from budgerigar.formats.families import family_of
from budgerigar.formats.families.values import Values
from budgerigar.formats.weight_rules import Rule
from budgerigar.layers import shapes
from budgerigar.layers.config import RotaryScaling, TransformerConfig

GPT2 = {
    "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
    "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12,
    "n_layer": 12, "n_positions": 1024, "resid_pdrop": 0.1, "summary_activation": None,
    "vocab_size": 50257, "task_specific_params": {"text-generation": {"do_sample": True}},
}  # fmt: skip
SMOLLM2 = {
    "architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
    "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 576,
    "initializer_range": 0.041666666666666664, "intermediate_size": 1536, "is_llama_config": True,
    "max_position_embeddings": 8192, "mlp_bias": False, "model_type": "llama",
    "num_attention_heads": 9, "num_hidden_layers": 30, "num_key_value_heads": 3, "pretraining_tp": 1,
    "rms_norm_eps": 1e-05, "rope_interleaved": False, "rope_scaling": None, "rope_theta": 100000,
    "tie_word_embeddings": True, "torch_dtype": "bfloat16", "vocab_size": 49152,
}  # fmt: skip
LLAMA3 = {
    "architectures": ["LlamaForCausalLM"], "head_dim": 64, "hidden_act": "silu",
    "eos_token_id": [128001, 128008, 128009], "hidden_size": 2048, "intermediate_size": 8192,
    "max_position_embeddings": 131072, "model_type": "llama", "num_attention_heads": 32,
    "num_hidden_layers": 16, "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 500000.0,
    "rope_scaling": {
        "factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192, "rope_type": "llama3",
    },
    "tie_word_embeddings": True, "vocab_size": 128256,
}  # fmt: skip
LLAMA2 = {
    "architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "hidden_size": 4096,
    "intermediate_size": 11008, "max_position_embeddings": 4096, "model_type": "llama",
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
    "rms_norm_eps": 1e-05, "rope_scaling": None, "tie_word_embeddings": False, "vocab_size": 32000,
}  # fmt: skip
MISTRAL = {
    "architectures": ["MistralForCausalLM"], "hidden_act": "silu", "hidden_size": 4096,
    "intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "mistral",
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": 4096,
    "tie_word_embeddings": False, "vocab_size": 32000,
}  # fmt: skip
QWEN2 = {
    "architectures": ["Qwen2ForCausalLM"], "hidden_act": "silu", "hidden_size": 896,
    "intermediate_size": 4864, "max_position_embeddings": 32768, "max_window_layers": 21,
    "model_type": "qwen2", "num_attention_heads": 14, "num_hidden_layers": 24,
    "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
    "sliding_window": 32768, "tie_word_embeddings": True, "use_sliding_window": False,
    "vocab_size": 151936,
}  # fmt: skip
BERT = {
    "architectures": ["BertForMaskedLM"], "attention_probs_dropout_prob": 0.1,
    "gradient_checkpointing": False, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
    "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072,
    "layer_norm_eps": 1e-12, "max_position_embeddings": 512, "model_type": "bert",
    "num_attention_heads": 12, "num_hidden_layers": 12, "pad_token_id": 0,
    "position_embedding_type": "absolute", "type_vocab_size": 2, "vocab_size": 30522,
}  # fmt: skip
DISTILBERT = {
    "activation": "gelu", "architectures": ["DistilBertForMaskedLM"], "attention_dropout": 0.1,
    "dim": 768, "dropout": 0.1, "hidden_dim": 3072, "initializer_range": 0.02,
    "max_position_embeddings": 512, "model_type": "distilbert", "n_heads": 12, "n_layers": 6,
    "pad_token_id": 0, "qa_dropout": 0.1, "sinusoidal_pos_embds": False, "tie_weights_": True,
    "vocab_size": 30522,
}  # fmt: skip
T5 = {
    "architectures": ["T5ForConditionalGeneration"], "d_ff": 2048, "d_kv": 64, "d_model": 512,
    "decoder_start_token_id": 0, "dropout_rate": 0.1, "eos_token_id": 1, "initializer_factor": 1.0,
    "is_encoder_decoder": True, "layer_norm_epsilon": 1e-06, "model_type": "t5", "n_positions": 512,
    "num_heads": 8, "num_layers": 6, "pad_token_id": 0, "relative_attention_num_buckets": 32,
    "vocab_size": 32128,
}  # fmt: skip
T5_V11 = {
    **T5, "d_ff": 1024, "feed_forward_proj": "gated-gelu", "num_decoder_layers": 8, "num_heads": 6,
    "num_layers": 8, "tie_word_embeddings": False,
}  # fmt: skip
OPUS = {
    "activation_dropout": 0.0, "activation_function": "swish", "add_bias_logits": False,
    "add_final_layer_norm": False, "architectures": ["MarianMTModel"], "attention_dropout": 0.0,
    "bad_words_ids": [[58100]], "bos_token_id": 0, "classif_dropout": 0.0, "d_model": 512,
    "decoder_attention_heads": 8, "decoder_ffn_dim": 2048, "decoder_layerdrop": 0.0,
    "decoder_layers": 6, "decoder_start_token_id": 58100, "decoder_vocab_size": 58101,
    "dropout": 0.1, "encoder_attention_heads": 8, "encoder_ffn_dim": 2048, "encoder_layerdrop": 0.0,
    "encoder_layers": 6, "eos_token_id": 0, "extra_pos_embeddings": 58101,
    "max_position_embeddings": 512, "model_type": "marian", "normalize_before": False,
    "normalize_embedding": False, "num_hidden_layers": 6, "pad_token_id": 58100,
    "scale_embedding": True, "share_encoder_decoder_embeddings": True,
    "static_position_embeddings": True, "vocab_size": 58101,
}  # fmt: skip
COUNTS: list[tuple[str, dict[str, Any], int]] = [
    ("gpt2", GPT2, 124_439_808),
    ("SmolLM2-135M", SMOLLM2, 134_515_008),
    ("Llama-3.2-1B", LLAMA3, 1_235_814_400),
    ("Llama-2-7b", LLAMA2, 6_738_415_616),
    ("Mistral-7B-v0.1", MISTRAL, 7_241_732_096),
    ("Qwen2.5-0.5B", QWEN2, 494_032_768),
    ("bert-base-uncased", BERT, 109_514_298),
    ("distilbert-base-uncased", DISTILBERT, 66_985_530),
    ("t5-small", T5, 60_506_624),
    ("t5-v1_1-small", T5_V11, 76_961_152),
    ("opus-mt-en-de", OPUS, 73_886_208 + 58_101),  # and a bias on the logits
]


def config_of(values: dict[str, Any]) -> TransformerConfig:
    given = Values(values, "config.json")
    return family_of(given).config_from(given).validate()


@pytest.mark.parametrize(("name", "values", "count"), COUNTS, ids=lambda value: str(value)[:20])
def test_the_number_of_weights_is_the_published_one(
    name: str, values: dict[str, Any], count: int
) -> None:
    config = config_of(values)
    assert shapes.parameters(config).total == count
    rules: list[Rule] = family_of(Values(values, "")).rules(config)
    assert len({rule.ours for rule in rules}) == len(rules)


def test_what_the_files_say_in_words_of_ours() -> None:
    llama3, mistral, qwen2 = config_of(LLAMA3), config_of(MISTRAL), config_of(QWEN2)
    assert llama3.rotary_scaling == RotaryScaling("llama3", 32.0, 8192)
    assert llama3.tied_embeddings
    assert not config_of(LLAMA2).tied_embeddings
    assert (config_of(LLAMA2).kv_heads, llama3.kv_heads, mistral.kv_heads) == (32, 8, 8)
    assert (mistral.window_of(0), mistral.window_of(31)) == (4096, 4096)
    assert config_of({**MISTRAL, "sliding_window": None}).window_of(0) is None
    assert qwen2.window_of(23) is None
    assert (qwen2.qkv_bias, qwen2.output_bias) == (True, False)
    windowed = config_of({**QWEN2, "use_sliding_window": True, "sliding_window": 512})
    assert [windowed.window_of(layer) for layer in (20, 21, 23)] == [None, 512, 512]
    t5, v11, opus = config_of(T5), config_of(T5_V11), config_of(OPUS)
    assert (t5.scale, t5.head_scale, t5.activation) == (1.0, 512**-0.5, "relu")
    assert (v11.head_scale, v11.tied_embeddings, v11.activation) == (1.0, False, "geglu-tanh")
    assert (opus.activation, opus.embedding_scale, opus.decoder_start) == ("silu", "sqrt", 58100)
