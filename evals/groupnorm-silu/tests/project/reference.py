"""What is right, in double precision."""

import torch


def groupnorm_silu(x, weight, bias, groups, eps, **others):
    values = x.reshape(x.shape[0], int(groups), -1)
    variance, mean = torch.var_mean(values, dim=-1, keepdim=True, correction=0)
    normal = ((values - mean) / torch.sqrt(variance + eps)).reshape(x.shape)
    return torch.nn.functional.silu(normal * weight[:, None] + bias[:, None])
