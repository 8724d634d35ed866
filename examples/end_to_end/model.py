"""The model's trees: as it comes, with the kernels, and in fp32."""

import contextlib
import copy
from typing import Optional

import torch


def build(subject, config: str, weights: Optional[str], device: str, dtype: torch.dtype) -> torch.nn.Module:
    """On the card and in the dtype from the first byte on: a float32 copy of 8 billion parameters does not fit twice."""
    before = torch.get_default_dtype()
    torch.manual_seed(0)
    torch.set_default_dtype(dtype)
    try:
        # Each library's loader handles devices differently.
        with contextlib.nullcontext() if weights else torch.device(device):
            tree = subject.build(config, weights)
    finally:
        torch.set_default_dtype(before)
    tree = tree.to(device)
    tree.eval().requires_grad_(False)
    if not weights:
        vary_norms(tree)
    return tree


@torch.no_grad()
def vary_norms(tree: torch.nn.Module) -> None:
    """Norms come with weights of one, which would hide an element that is multiplied by another's weight."""
    for name, parameter in tree.named_parameters():
        if parameter.ndim == 1 and name.endswith("weight") and "norm" in name:
            parameter.copy_(1 + 0.1 * torch.randn_like(parameter))


def sharing(tree: torch.nn.Module) -> torch.nn.Module:
    """A second tree of modules over the same parameters and buffers. Compiled code holds on to the tree that it was
    compiled from, so patching and restoring one tree between calls would time guards and recompilations."""
    memo = {}
    for tensor in [*tree.parameters(), *tree.buffers()]:
        memo[id(tensor)] = tensor
    return copy.deepcopy(tree, memo)


def bytes_of(tree: torch.nn.Module) -> int:
    seen = {}
    for tensor in [*tree.parameters(), *tree.buffers()]:
        seen[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
    return sum(seen.values())


@contextlib.contextmanager
def in_fp32(tree: torch.nn.Module):
    """The tree in fp32 for a while, the same numbers: in place, because both do not fit beside each other. What is
    narrower comes back as it was, for widening loses nothing."""
    narrow = [tensor for tensor in [*tree.parameters(), *tree.buffers()] if tensor.is_floating_point()]
    narrow = [(tensor, tensor.dtype) for tensor in narrow if tensor.dtype in (torch.bfloat16, torch.float16)]
    try:
        for tensor, _ in narrow:
            tensor.data = tensor.data.float()
        yield tree
    finally:
        for tensor, dtype in narrow:
            tensor.data = tensor.data.to(dtype)


def fits_in_fp32(tree: torch.nn.Module, device: str) -> bool:
    """With some left for activations; a case whose own do not fit says so when it is tried."""
    if device != "cuda":
        return True
    parameters = sum(p.numel() for p in tree.parameters())
    free, _ = torch.cuda.mem_get_info()
    cached = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
    return free + cached > 2.2 * parameters + 4 * 2**30
