def row_mean(x, **others):
    return x - x.mean(dim=-1, keepdim=True)
