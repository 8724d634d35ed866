"""The kernel's functions in plain torch, for the tests alone: with it they need no card.

It is as strict as the kernel about shapes, dtypes and gradients, and computes as it does: in float32, rounded once (or
before the weight as well, with round_first). In float32 and float64 that is the stock modules' own arithmetic, so a
wiring that is right is right to the last bits.
"""

import torch


def _same_dtype(name, x, *others):
    for other in others:
        if other is not None and other.dtype != x.dtype:
            raise RuntimeError(f"{name}: {other.dtype} beside {x.dtype}")


def _wide(x):
    return x if x.dtype == torch.float64 else x.float()


def rms_norm(x, weight=None, eps=1e-6, weight_offset=0.0, round_first=False):
    _same_dtype("rms_norm", x, weight)
    if weight is not None and weight.shape != x.shape[-1:]:
        raise RuntimeError(f"rms_norm: a weight of {tuple(weight.shape)} for rows of {x.shape[-1]}")
    # float32 even for float64 inputs, as in the stock modules.
    normed = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps)
    if round_first:
        normed = normed.to(x.dtype)
        if weight is not None:
            normed = (weight + weight_offset if weight_offset else weight) * normed
        return normed.contiguous()
    if weight is not None:
        normed = normed * (weight_offset + weight.float())
    return normed.to(x.dtype).contiguous()


def add_rms_norm(x, residual, weight=None, eps=1e-6, weight_offset=0.0, round_first=False):
    _same_dtype("add_rms_norm", x, residual)
    if x.shape != residual.shape:
        raise RuntimeError(f"add_rms_norm: {tuple(x.shape)} and {tuple(residual.shape)}")
    total = residual + x
    return rms_norm(total, weight, eps, weight_offset, round_first), total


def _turn(x, cos, sin, rotary_dim, heads_first):
    if x is None:
        return None
    if x.dim() not in (3, 4):
        raise RuntimeError(f"rope: {x.dim()} dimensions")
    turned, rest = _wide(x[..., :rotary_dim]), x[..., rotary_dim:]
    where = -3 if heads_first else -2
    half = rotary_dim // 2
    cos, sin = (torch.cat((t[..., :half],) * 2, dim=-1).unsqueeze(where).to(turned.dtype) for t in (cos, sin))
    first, second = turned[..., :half], turned[..., half:]
    turned = turned * cos + torch.cat((-second, first), dim=-1) * sin
    out = torch.cat((turned.to(x.dtype), rest), dim=-1)
    # In token order in memory, like the kernel's output.
    return out.transpose(-3, -2).contiguous().transpose(-3, -2) if heads_first else out


def rope(q, k, cos, sin, rotary_dim=None, heads_first=False, inverse=False):
    _same_dtype("rope", q, k)
    if cos.dtype not in (q.dtype, torch.float32):
        raise RuntimeError(f"rope: a table in {cos.dtype} for {q.dtype}")
    tokens = q.shape[-2 if heads_first else -3]
    if cos.shape[-2] != tokens:
        raise RuntimeError(f"rope: a table of {cos.shape[-2]} tokens for {tokens}")
    if q.dim() == 4 and cos.dim() == 3 and cos.shape[0] not in (1, q.shape[0]):
        raise RuntimeError(f"rope: a table of {cos.shape[0]} batches for {q.shape[0]}")
    rotary_dim = q.shape[-1] if rotary_dim is None else rotary_dim
    sin = -sin if inverse else sin
    q, k = (_turn(x, cos, sin, rotary_dim, heads_first) for x in (q, k))
    return q if k is None else (q, k)


def qk_norm_rope(
    q,
    k,
    q_weight,
    k_weight,
    cos,
    sin,
    eps=1e-6,
    rotary_dim=None,
    weight_offset=0.0,
    round_first=False,
    heads_first=False,
):
    tensors = (q, k, q_weight, k_weight)
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors):
        raise RuntimeError("qk_norm_rope has no gradient; call it under torch.no_grad()")
    q = rms_norm(q, q_weight, eps, weight_offset, round_first)
    k = None if k is None else rms_norm(k, k_weight, eps, weight_offset, round_first)
    return rope(q, k, cos, sin, rotary_dim, heads_first)


def swiglu(gate, up):
    _same_dtype("swiglu", gate, up)
    if gate.shape != up.shape:
        raise RuntimeError(f"swiglu: {tuple(gate.shape)} and {tuple(up.shape)}")
    return (torch.nn.functional.silu(_wide(gate)) * _wide(up)).to(gate.dtype)
