def l2_normalize(x, eps, **others):
    return x / x.norm(dim=-1, keepdim=True).clamp(min=eps)
