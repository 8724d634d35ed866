import torch


def short_conv(x, weight, **others):
    before = torch.cat([torch.zeros_like(x[:1]).expand(3, -1), x])
    return sum(weight[:, k] * before[k : k + len(x)] for k in range(4))
