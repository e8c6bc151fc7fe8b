"""The text that an ejected model is made from: the model. eject_running.py has the rest.

`%if NAME`, `%elif NAME`, `%else`, `%end` stand on lines of their own and keep only the lines that
this model needs; `{{name}}` is replaced. What is left is meant to be read from top to bottom.
"""

from budgerigar.formats.eject_running import RUNNING

MODEL = '''\
"""{{title}}

{{summary}}: {{parameters}} parameters.
One plain PyTorch file, this model only. It needs torch, safetensors and tokenizers.

    python {{file}} "{{prompt}}"

reads {{where}}.

Shapes: B batch, T positions, D model width, H heads{{kv_legend}}, E head width, V vocabulary.
"""

import argparse
%if never_seen
import json
%end
%if uses_math
import math
%end
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn

FOLDER = {{folder}}
V = {{vocab_size}}  # tokens in the vocabulary
CONTEXT = {{context_length}}  # most positions the model can read at once
LAYERS = {{n_layers}}
D = {{d_model}}  # width of the residual stream
H = {{n_heads}}  # heads: independent attentions side by side
%if grouped
K = {{kv_heads}}  # key-value heads: {{group}} query heads share each
%end
E = {{head_width}}  # width of a head
INNER = {{ff_width}}  # width inside the feed-forward
%if mixed_windows
# Positions that the layers look back, in turns, itself included; None: all.
WINDOWS = {{windows}}  # fmt: skip
%end
%if several_bases
# Rotary bases of the layers, in turns: how slowly the slowest pair turns.
ROTARY_BASES = {{rotary_bases}}  # fmt: skip
%end
%if documents
END = {{end_id}}  # the token between documents: it opens a text and ends it
%end
%if ends
ENDS = {{end_ids}}  # tokens at which a text ends
%end


%if norm_offset
class Norm(nn.Module):
    """RMSNorm whose scale is 1 + weight."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], 1 + self.weight, {{epsilon}})


%end
def norm(width: int = D) -> nn.Module:
    """{{norm_words}}"""
    return {{norm_call}}


%if sinusoidal
def sinusoids(n: int) -> Tensor:
    """Positions as sines and cosines of wavelengths 2 pi to 20,000 pi: (T,D)."""
    pair = torch.arange(0, D, 2)
    angles = torch.arange(n)[:, None] * torch.exp(pair * (-math.log(10_000.0) / D))  # (T,D/2)
%if split
    return torch.cat([angles.sin(), angles.cos()], dim=-1)
%else
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)  # sin, cos, sin, ...
%end


%end
%if rotary
%if scaled_rotary
# Radians per position of each pair of dimensions{{per_layer}}, stretched: {{scaling_words}}.
FREQUENCIES = {{frequencies}}  # fmt: skip


%end
def angles(n: int{{base_parameter}}) -> tuple[Tensor, Tensor]:
    """Cosines and sines (T,{{pairs}}) of how far each pair of dimensions is turned at each position."""
%if scaled_rotary
    frequencies = torch.tensor(FREQUENCIES{{of_base}}, dtype=torch.float64)
%else
    pair = torch.arange(0, {{rotary_width}}, 2, dtype=torch.float64)
    frequencies = {{rotary_base}} ** (-pair / {{rotary_width}})  # from 1 radian per position down
%end
    turned = torch.arange(n)[:, None] * frequencies
    return {{cosines}}.float(), {{sines}}.float()


def rotate(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Turn pairs (i, i + {{pairs}}) of x (B,heads,T,E): q . k then depends on distances alone."""
%if whole_rotary
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cosines - second * sines, second * cosines + first * sines], dim=-1)
%else
    first, second, rest = x.split([{{pairs}}, {{pairs}}, E - {{rotary_width}}], dim=-1)
    turned = [first * cosines - second * sines, second * cosines + first * sines]
    return torch.cat([*turned, rest], dim=-1)
%end


%end
%if relative
def buckets(n: int) -> Tensor:
    """A number (T,T) for each distance from key to query: exact when near, logarithmic when far."""
    distance = (torch.arange(n)[:, None] - torch.arange(n)).clamp(min=0)
    exact = {{relative_buckets}} // 2
    ratio = torch.log(distance.clamp(min=1).float() / exact) / math.log({{relative_max}} / exact)
    far = exact + (ratio * ({{relative_buckets}} - exact)).long()
    return torch.where(distance < exact, distance, far.clamp(max={{relative_buckets}} - 1))


%end
%if alibi
%if uneven_slopes
SLOPES = {{slopes}}  # fmt: skip


%end
def distance_penalty(n: int) -> Tensor:
    """Minus slope times distance (H,T,T): each head forgets at a speed of its own (ALiBi)."""
%if power_of_two
    slopes = torch.tensor([2 ** (-8 * (head + 1) / H) for head in range(H)])
%else
    slopes = torch.tensor(SLOPES)
%end
    distance = (torch.arange(n)[:, None] - torch.arange(n)).abs()
    return -slopes[:, None, None] * distance


%end
def visible(n: int{{window_parameter}}) -> Tensor:
    """(T,T): each query (row) sees the keys (columns) {{visible_words}}."""
    query, key = torch.arange(n)[:, None], torch.arange(n)
%if windowed
    seen = key <= query
%if mixed_windows
    if window is None:
        return seen
%end
%if sinks
    return seen & ((key > query - {{window}}) | (key < {{sink_tokens}}))
%else
    return seen & (key > query - {{window}})
%end
%else
    return key <= query
%end


class Attention(nn.Module):
    """Each position asks those before it, and takes the average of their values by weight."""

    def __init__(self{{layer_argument}}) -> None:
        super().__init__()
%if uses_layer
        self.layer = layer
%end
        self.query = nn.Linear(D, H * E{{qkv_bias}})
        self.key = nn.Linear(D, {{kv}} * E{{qkv_bias}})
        self.value = nn.Linear(D, {{kv}} * E{{qkv_bias}})
        self.output = nn.Linear(H * E, D{{output_bias}})
%if qk_norm
        self.query_norm = {{query_norm}}
        self.key_norm = {{key_norm}}
%end
%if sink_logit
        self.sink_logit = nn.Parameter(torch.zeros(H))  # a term of its own in each softmax
%end
%if relative_own
        self.relative_bias = nn.Embedding({{relative_buckets}}, H)
%end

    def forward(self, x: Tensor{{bias_parameter}}) -> Tensor:
        B, T, _ = x.shape
%if qk_norm_full
        q = self.query_norm(self.query(x)).view(B, T, H, E).transpose(1, 2)  # (B,H,T,E)
        k = self.key_norm(self.key(x)).view(B, T, {{kv}}, E).transpose(1, 2)  # (B,{{kv}},T,E)
%else
        q = self.query(x).view(B, T, H, E).transpose(1, 2)  # (B,H,T,E)
        k = self.key(x).view(B, T, {{kv}}, E).transpose(1, 2)  # (B,{{kv}},T,E)
%end
        v = self.value(x).view(B, T, {{kv}}, E).transpose(1, 2)  # (B,{{kv}},T,E)
%if qk_norm_head
        q, k = self.query_norm(q), self.key_norm(k)
%end
%if rotary
        cosines, sines = angles(T{{base_argument}})
        q, k = rotate(q, cosines, sines), rotate(k, cosines, sines)
%end
%if grouped
        k = k.repeat_interleave({{group}}, dim=1)  # (B,H,T,E): {{group}} heads ask the same keys
        v = v.repeat_interleave({{group}}, dim=1)
%end
        scores = q @ k.transpose(-2, -1){{scale}}  # (B,H,T,T): how well each query fits each key
%if softcap
        scores = {{softcap}} * torch.tanh(scores / {{softcap}})
%end
%if alibi
        scores = scores + distance_penalty(T)
%elif relative_own
        scores = scores + self.relative_bias(buckets(T)).permute(2, 0, 1)
%elif relative_shared
        scores = scores + bias
%end
        scores = scores.masked_fill(~visible(T{{window_argument}}), float("-inf"))
%if sink_logit
        sink = self.sink_logit.view(1, H, 1, 1).expand(B, H, T, 1)
        weights = torch.softmax(torch.cat([scores, sink], dim=-1), dim=-1)[..., :-1]
%else
        weights = torch.softmax(scores, dim=-1)  # each row sums to 1
%end
        merged = (weights @ v).transpose(1, 2).reshape(B, T, H * E)  # heads side by side
        return self.output(merged)  # (B,T,D)


class FeedForward(nn.Module):
    """Each position by itself: wider, {{activation_words}}, back to D."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(D, INNER{{ff_bias}})
%if gated
        self.gate = nn.Linear(D, INNER{{ff_bias}})
%end
        self.down = nn.Linear(INNER, D{{ff_bias}})

    def forward(self, x: Tensor) -> Tensor:
%if gated
        return self.down({{activated_gate}} * self.up(x))
%else
        return self.down({{activated}})
%end


class Block(nn.Module):
    """One layer: {{block_words}}."""

    def __init__(self{{layer_argument}}) -> None:
        super().__init__()
        self.attention_norm = norm()
        self.self_attention = Attention({{layer_value}})
%if sandwich
        self.attention_output_norm = norm()
%end
%if sequential
        self.feed_forward_norm = norm()
%end
        self.feed_forward = FeedForward()
%if sandwich
        self.feed_forward_output_norm = norm()
%end

    def forward(self, x: Tensor{{bias_parameter}}) -> Tensor:
%if parallel
        read = self.attention_norm(x)
        return x + self.self_attention(read{{bias}}) + self.feed_forward(read)
%elif pre
        x = {{plus}}self.self_attention(self.attention_norm(x){{bias}})
        return {{plus}}self.feed_forward(self.feed_forward_norm(x))
%elif post
        x = self.attention_norm({{plus}}self.self_attention(x{{bias}}))
        return self.feed_forward_norm({{plus}}self.feed_forward(x))
%elif output
        x = {{plus}}self.attention_norm(self.self_attention(x{{bias}}))
        return {{plus}}self.feed_forward_norm(self.feed_forward(x))
%else
        read = self.self_attention(self.attention_norm(x){{bias}})
        x = {{plus}}self.attention_output_norm(read)
        read = self.feed_forward(self.feed_forward_norm(x))
        return {{plus}}self.feed_forward_output_norm(read)
%end


class Model(nn.Module):
    """Token ids in, scores (logits) for the next token at every position out."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.ModuleDict({"tokens": nn.Embedding(V, D)})
%if learned
        self.embedding["positions"] = nn.Embedding({{position_rows}}, D)
%end
%if token_types
        self.embedding["types"] = nn.Embedding({{token_types}}, D)
%end
%if embedding_norm
        self.embedding["norm"] = norm()
%end
        self.decoder = nn.ModuleDict({str(i): Block({{layer_call}}) for i in range(LAYERS)})
%if final_norm
        self.decoder["final_norm"] = norm()
%end
%if relative_shared
        self.decoder["relative_bias"] = nn.Embedding({{relative_buckets}}, H)
%end
        self.head = nn.Linear(D, V, bias={{head_bias}})
%if tied
        self.head.weight = self.embedding["tokens"].weight  # one matrix for both ends
%end

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens (B,T) -> logits (B,T,V)."""
%if uses_length
        T = tokens.shape[1]
%end
        x = self.embedding["tokens"](tokens){{embedding_scale}}  # (B,T,D)
%if learned
        x = x + self.embedding["positions"](torch.arange({{position_range}}))
%end
%if sinusoidal
        x = x + sinusoids(T)
%end
%if token_types
        x = x + self.embedding["types"].weight[0]
%end
%if embedding_norm
        x = self.embedding["norm"](x)
%end
%if relative_shared
        bias = self.decoder["relative_bias"](buckets(T)).permute(2, 0, 1)  # (H,T,T), for all layers
%end
        for i in range(LAYERS):
            x = self.decoder[str(i)](x{{bias}})
%if final_norm
        x = self.decoder["final_norm"](x)
%end
%if plain_logits
        return self.head(x)
%else
        logits = self.head(x)
%if head_scale
        logits = logits * {{head_scale}}
%end
%if logit_softcap
        logits = {{logit_softcap}} * torch.tanh(logits / {{logit_softcap}})
%end
        return logits
%end


'''

ACTIVATIONS = {  # of a feed-forward: in code, and in words
    "relu": ("F.relu({})", "negative ones cut to 0 (ReLU)"),
    "gelu": ("F.gelu({})", "negative ones faded out (GELU)"),
    "gelu-tanh": (
        'F.gelu({}, approximate="tanh")', "negative ones faded out (GELU, by tanh)"
    ),
    "silu": ("F.silu({})", "negative ones faded out (SiLU)"),
    "squared-relu": ("F.relu({}).square()", "negative ones cut to 0, the rest squared"),
    "swiglu": ("F.silu({})", "what passes decided by a gate (SwiGLU)"),
    "geglu": ("F.gelu({})", "what passes decided by a gate (GEGLU)"),
    "geglu-tanh": (
        'F.gelu({}, approximate="tanh")', "what passes decided by a gate (GEGLU, by tanh)"
    ),
}  # fmt: skip

TEMPLATE = MODEL + RUNNING
