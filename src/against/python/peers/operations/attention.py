"""Attention, forward, beside torch's scaled_dot_product_attention by each of its backends."""

from ..library import Skip
from .adapter import Adapter, wide

BACKENDS = {"cudnn": "CUDNN_ATTENTION", "flash": "FLASH_ATTENTION", "efficient": "EFFICIENT_ATTENTION"}


class Attention(Adapter):
    """o = softmax(scale * q k^T) v of [batch, tokens, heads, head_dim], and lse where it is asked for."""

    names = ("attention",)
    # One rounding of the probabilities, one of the result.
    rounds = 2.0
    # All are tried; the row has the fastest.
    eager = tuple(BACKENDS)

    def __init__(self, case):
        super().__init__(case)
        self.scale, self.causal = self.value("scale"), int(self.value("causal", default=0.0))
        self.outputs = ("o", "lse") if self.has("lse") else ("o",)

    def seen(self, queries, keys):
        """How many keys each query sees."""
        import torch

        if not self.causal:
            return torch.full((queries,), keys)
        return (torch.arange(queries) + 1 + (keys - queries if self.causal == 2 else 0)).clamp(0, keys)

    def reference(self, t):
        import torch

        q, k, v = (t[name].transpose(1, 2) for name in ("q", "k", "v"))
        o = torch.zeros(q.shape, dtype=torch.float64, device=q.device)
        lse = torch.zeros(q.shape[:3], dtype=torch.float64, device=q.device)
        seen = self.seen(q.shape[2], k.shape[2]).to(q.device)
        hidden = torch.arange(k.shape[2], device=q.device) >= seen[:, None]
        # A head at a time: the scores of all would not fit.
        for batch in range(q.shape[0]):
            for head in range(q.shape[1]):
                kv = head // (q.shape[1] // k.shape[1])
                scores = self.scale * wide(q[batch, head]) @ wide(k[batch, kv]).T
                scores.masked_fill_(hidden, -torch.inf)
                lse[batch, head] = scores.logsumexp(-1)
                # A query that sees no key has NaN here, and 0 by definition.
                o[batch, head] = scores.softmax(-1).nan_to_num_(0.0) @ wide(v[batch, kv])
        return {"o": o.transpose(1, 2), "lse": lse}

    def given(self, t):
        queries, keys = t["q"].shape[1], t["k"].shape[1]
        if self.has("lse"):
            raise Skip("torch's attention answers no logarithm of the divisor")
        if int(self.seen(queries, keys).min()) == 0:
            raise Skip("torch's attention gives NaN where a query sees no key")
        return tuple(t[name].transpose(1, 2) for name in ("q", "k", "v"))

    def formulas(self):
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.nn.attention.bias import causal_lower_right

        scale, causal = self.scale, self.causal

        def sdpa(q, k, v):
            """With the backend that torch chooses."""
            square = q.shape[2] == k.shape[2]
            mask = causal_lower_right(q.shape[2], k.shape[2]) if causal == 2 and not square else None
            o = torch.nn.functional.scaled_dot_product_attention(
                q, k, v, attn_mask=mask, is_causal=causal != 0 and mask is None, scale=scale, enable_gqa=q.shape[1] != k.shape[1]
            )
            return (o.transpose(1, 2),)

        def by(name):
            def formula(q, k, v):
                if not q.is_cuda:
                    raise NotImplementedError(name)
                with sdpa_kernel(getattr(SDPBackend, BACKENDS[name])):
                    return sdpa(q, k, v)

            return formula

        return {"sdpa": sdpa, **{name: by(name) for name in BACKENDS}}

    def compiled(self):
        # torch.compile would call the same kernels, and has nothing to fuse.
        return {"compile": [], "compile-max": []}


ADAPTERS = [Attention]
