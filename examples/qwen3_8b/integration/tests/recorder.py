"""torch.cuda's graphs on the CPU: a capture records the ops, a replay does them again into the tensors of the capture."""

import contextlib
import types
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class _Recording(TorchDispatchMode):
    def __init__(self, ops):
        super().__init__()
        self.ops = ops

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        # Reading a value, and a tensor of values from the host.
        assert func.overloadpacket not in (torch.ops.aten._local_scalar_dense, torch.ops.aten.lift_fresh), func
        # A capture executes nothing: what is changed in place keeps its values.
        out = args[0] if func._schema.is_mutable else func(*args, **kwargs)
        if "empty" in str(func):
            return out.zero_()
        self.ops.append((func, args, kwargs, out))
        return out


class CUDAGraph:
    def __init__(self):
        self.ops, self.capture = [], contextlib.ExitStack()

    def capture_begin(self, capture_error_mode):
        # What transformers asks, and makes masks then that it leaves out otherwise.
        self.capture.enter_context(mock.patch("torch.cuda.is_current_stream_capturing", lambda: True))
        self.capture.enter_context(_Recording(self.ops))

    def capture_end(self):
        self.capture.close()

    def replay(self):
        for func, args, kwargs, out in self.ops:
            again = func(*args, **kwargs)
            for old, new in zip(tree_leaves(out), tree_leaves(again)):
                if isinstance(old, torch.Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)

    def reset(self):
        self.ops.clear()


class Nothing:
    """A stream or an event."""

    def __getattr__(self, name):
        return lambda *_: None


def standing_in():
    """For qwen3_kernels.graphs.cuda."""
    nothing = lambda *_: contextlib.nullcontext()  # noqa: E731
    return types.SimpleNamespace(
        CUDAGraph=CUDAGraph, Event=Nothing, Stream=Nothing, current_stream=Nothing, device=nothing, stream=nothing,
        is_current_stream_capturing=lambda: False,
    )  # fmt: skip
