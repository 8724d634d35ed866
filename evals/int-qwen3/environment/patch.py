"""Puts `fused.rms_norm` into a Qwen3 model of transformers, and takes it out again."""


def patch(model):
    """The number of norms that go through the kernel from now on."""
    raise NotImplementedError


def restore(model):
    """The number of norms that were put back."""
    raise NotImplementedError
