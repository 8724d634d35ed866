"""Emulates a GPU on the CPU, so that scripts run completely, including timing (whose figures mean nothing).

Tensors on "cuda" are CPU tensors, a graph replay calls the captured function again, and nvcc is a program that compiles plain
C++ (fake_nvcc). test_card.py has the tests that need a GPU.
"""

import contextlib
import pathlib
import sys
import time
import types

import torch
from torch.overrides import TorchFunctionMode

NVCC = pathlib.Path(__file__).with_name("fake_nvcc")
L2 = 1 << 16  # small, so that the rings are


def _on_cpu(value):
    if value == "cuda" or (isinstance(value, torch.device) and value.type == "cuda"):
        return "cpu"
    return value


class Redirect(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = {k: _on_cpu(v) if k == "device" else v for k, v in (kwargs or {}).items()}
        return function(*[_on_cpu(a) if isinstance(a, (str, torch.device)) else a for a in args], **kwargs)


class Event:
    def __init__(self, enable_timing=False):
        self.at = None

    def record(self):
        self.at = time.perf_counter()

    def synchronize(self):
        pass

    def elapsed_time(self, other):
        return (other.at - self.at) * 1e3


class Stream:
    cuda_stream = 0

    def wait_stream(self, other):
        pass


class Graph:
    def replay(self):
        self.turn()


@contextlib.contextmanager
def graph(made):
    """The scripts capture a function `turn`, which the replay calls again."""
    made.turn = sys._getframe(2).f_locals["turn"]
    yield


@contextlib.contextmanager
def installed(monkeypatch):
    for name, value in {
        "is_available": lambda: True,
        "get_device_name": lambda *_: "a fake card",
        "get_device_capability": lambda *_: (9, 0),
        "get_device_properties": lambda *_: types.SimpleNamespace(L2_cache_size=L2),
        "synchronize": lambda *_: None,
        "current_stream": lambda *_: Stream(),
        "stream": lambda _: contextlib.nullcontext(),
        "Stream": Stream,
        "Event": Event,
        "CUDAGraph": Graph,
        "graph": graph,
        "_sleep": lambda _: None,
        "current_device": lambda: 0,
        "set_stream": lambda _: None,
        "default_generators": (torch.default_generator,),
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    # Dynamo looks for the card behind all this.
    monkeypatch.setattr(torch, "compile", lambda function, dynamic=None, mode=None: function)
    monkeypatch.setenv("NVCC", str(NVCC))
    with Redirect():
        yield
