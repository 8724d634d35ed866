"""The family rope's rows of benchmark.py."""

import torch
from benchmark import Row


def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def eager_rope(q, k, cos, sin):
    # transformers' apply_rotary_pos_emb, on [batch, tokens, heads, head_dim]
    cos, sin = cos.unsqueeze(2), sin.unsqueeze(2)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def qwen3(x, weight):
    wide = x.to(torch.float32)
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return weight * wide.to(x.dtype)


def eager_normed(q, k, q_weight, k_weight, cos, sin):
    return eager_rope(qwen3(q, q_weight), qwen3(k, k_weight), cos, sin)


def make(tokens, heads, k_heads, head_dim, weights):
    def arguments(draw):
        angle = torch.cat([draw(1, tokens, head_dim // 2, dtype=torch.float32)] * 2, -1)
        given = {"q": draw(1, tokens, heads, head_dim), "k": draw(1, tokens, k_heads, head_dim)}
        given |= {"cos": angle.cos().to(draw.dtype), "sin": angle.sin().to(draw.dtype)}
        return given | ({"q_weight": draw(head_dim), "k_weight": draw(head_dim)} if weights else {})

    return arguments


def rope(tokens):
    return Row(
        f"rope, Qwen3-8B: {tokens} tokens",
        make(tokens, 32, 8, 128, False),
        lambda kernel, q, k, cos, sin: kernel.rope(q, k, cos, sin),
        eager_rope,
    )


def qk_norm_rope(tokens):
    return Row(
        f"qk_norm_rope, Qwen3-8B: {tokens} tokens",
        make(tokens, 32, 8, 128, True),
        lambda kernel, q, k, q_weight, k_weight, cos, sin: kernel.qk_norm_rope(
            q, k, q_weight, k_weight, cos, sin, round_first=True
        ),
        eager_normed,
    )


ROWS = [rope(128), rope(8192), qk_norm_rope(128), qk_norm_rope(1024), qk_norm_rope(8192)]
