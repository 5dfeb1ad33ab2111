"""The network: a small Llama with one vocabulary table for both ends (a tied embedding).

Names and shapes are those of Hugging Face's Llama, so that `state_dict()` is the checkpoint other programs read.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class Shape:
    vocab: int
    width: int  # of the hidden state, elements
    layers: int
    heads: int  # of queries; a head has width / heads elements
    kv_heads: int  # of keys and values: each serves heads / kv_heads heads of queries
    ffn: int
    context: int  # tokens
    theta: float = 10000.0  # RoPE's base
    epsilon: float = 1e-5

    @property
    def head_dim(self):
        return self.width // self.heads


class RMSNorm(nn.Module):
    """https://arxiv.org/abs/1910.07467"""

    def __init__(self, width, epsilon):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), self.epsilon)


def rope_tables(shape, length):
    """Cosines and sines of RoPE's angles, each (length, head_dim). https://arxiv.org/abs/2104.09864"""
    frequency = shape.theta ** -(torch.arange(0, shape.head_dim, 2, dtype=torch.float64) / shape.head_dim)
    angle = torch.outer(torch.arange(length, dtype=torch.float64), frequency).float()
    return torch.cat([angle, angle], 1).cos(), torch.cat([angle, angle], 1).sin()


def rotate(x, cos, sin):
    """Turns the pairs (i, i + head_dim / 2), as Hugging Face stores them; GGUF stores neighbours, see export.py."""
    left, right = x.chunk(2, -1)
    return x * cos.to(x.dtype) + torch.cat([-right, left], -1) * sin.to(x.dtype)


class Attention(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        kv_width = shape.kv_heads * shape.head_dim
        self.q_proj = nn.Linear(shape.width, shape.width, bias=False)
        self.k_proj = nn.Linear(shape.width, kv_width, bias=False)
        self.v_proj = nn.Linear(shape.width, kv_width, bias=False)
        self.o_proj = nn.Linear(shape.width, shape.width, bias=False)

    def forward(self, x, rope):
        batch, length, _ = x.shape
        split = lambda y: y.view(batch, length, -1, self.shape.head_dim).transpose(1, 2)
        q, k, v = rotate(split(self.q_proj(x)), *rope), rotate(split(self.k_proj(x)), *rope), split(self.v_proj(x))
        group = self.shape.heads // self.shape.kv_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        scores = q @ k.transpose(2, 3) * self.shape.head_dim**-0.5  # on CPUs faster than the fused kernel's backward pass
        ahead = torch.ones(length, length, dtype=torch.bool).triu(1)
        y = scores.masked_fill(ahead, float("-inf")).softmax(-1).to(v.dtype) @ v
        return self.o_proj(y.transpose(1, 2).reshape(batch, length, -1))


class MLP(nn.Module):
    """SwiGLU, https://arxiv.org/abs/2002.05202"""

    def __init__(self, shape):
        super().__init__()
        self.gate_proj = nn.Linear(shape.width, shape.ffn, bias=False)
        self.up_proj = nn.Linear(shape.width, shape.ffn, bias=False)
        self.down_proj = nn.Linear(shape.ffn, shape.width, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.input_layernorm = RMSNorm(shape.width, shape.epsilon)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = RMSNorm(shape.width, shape.epsilon)
        self.mlp = MLP(shape)

    def forward(self, x, rope):
        x = x + self.self_attn(self.input_layernorm(x), rope)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.embed_tokens = nn.Embedding(shape.vocab, shape.width)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = RMSNorm(shape.width, shape.epsilon)
        cos, sin = rope_tables(shape, shape.context)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def initialise(self, generator):
        """Small normal weights; those that end a branch are smaller still, so that the sum over the layers stays level."""
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                branch_end = name.endswith(("o_proj.weight", "down_proj.weight"))
                deviation = 0.02 / (2 * self.shape.layers) ** 0.5 if branch_end else 0.02
                weight.data.normal_(0.0, deviation, generator=generator)

    def forward(self, ids):
        """ids (batch, length) -> the last hidden states (batch, length, width), normalised. A position looks at itself and
        everything before."""
        x = self.embed_tokens(ids)
        if torch.is_autocast_enabled("cpu"):
            x = x.to(torch.bfloat16)
        rope = self.cos[: ids.shape[1]], self.sin[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x, rope)
        return self.norm(x)

    def logits(self, hidden):
        """The tied end: every row of the table the input was read from is scored."""
        return F.linear(hidden, self.embed_tokens.weight)
