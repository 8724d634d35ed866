"""The benchmark clock of `kernels bench`, for any callable that launches on torch's current stream.

A callable is captured in a CUDA graph over enough sets of inputs that no launch finds data of the previous round in the L2.
The harness replays the graph between copies of the same number of bytes, and times both with CUDA events. It reports medians,
the spread, and the times of the copy in the same run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from . import _native
from .errors import Error

if TYPE_CHECKING:
    import torch

__all__ = ["Card", "Copy", "Ruler", "Timing", "cards"]


@dataclass(frozen=True)
class Card:
    """A GPU, as described by its driver."""

    name: str
    arch: int
    """Compute capability without the point: 90."""
    sms: int
    l2_bytes: int
    memory_bytes: int
    driver: str | None
    cuda: str
    """The CUDA version that the driver speaks."""
    peak_gbs: float | None
    """Peak memory bandwidth by clock and bus width, GB/s."""


def cards() -> tuple[Card, ...]:
    """The GPUs of this machine. Raises GpuError if there is no driver or no GPU."""
    return tuple(_card(entry) for entry in json.loads(_native.cards()))


@dataclass(frozen=True)
class Copy:
    """A copy that reads half of the bytes and writes half: microseconds, and the method (the fastest of several)."""

    median: float
    p10: float
    p90: float
    min: float
    samples: int
    bytes: int
    by: str

    @property
    def gbs(self) -> float:
        """GB/s, reads and writes together."""
        return self.bytes / self.median / 1e3

    def spread(self) -> dict[str, float]:
        return _spread(self)


@dataclass(frozen=True)
class Timing:
    """Microseconds per launch, and those of a copy of the same bytes in the same rounds."""

    name: str
    median: float
    p10: float
    p90: float
    min: float
    samples: int
    copy: Copy
    bytes: int
    """The fewest bytes that must move."""
    sets: int
    """Sets of inputs that rotated."""
    launches: int
    """Launches of a graph."""
    cold: bool
    """Whether the sets are together at least four times the L2."""
    remarks: tuple[str, ...]
    """What a reader should know: unsteady, a busy card, clocks held down."""
    impossible: str | None = None
    """Why this cannot be: the memory is slower. Only `replay` answers such; `time` and `compare` raise."""

    @property
    def gbs(self) -> float:
        """GB/s, computed from the minimum number of bytes."""
        return self.bytes / self.median / 1e3

    @property
    def of_roof(self) -> float:
        """The copy's time divided by this one."""
        return self.copy.median / self.median

    def spread(self) -> dict[str, float]:
        return _spread(self)

    def __str__(self) -> str:
        state = "cold" if self.cold else "hot"
        return (
            f"{self.name}: {self.median:.2f} µs [{self.p10:.2f}–{self.p90:.2f}], {self.gbs:.0f} GB/s, "
            f"{100 * self.of_roof:.1f} % of a copy, {state}"
        )


class Ruler:
    """A GPU, a clock and the copies. Use it only from the thread that created it."""

    def __init__(self, device: int = 0) -> None:
        """`device` is an index as in torch. Raises GpuError if that GPU does not exist."""
        self.device = device
        self._clock = _native.Clock(device)
        self.card = _card(json.loads(self._clock.card()))

    def __repr__(self) -> str:
        return f"Ruler({self.device}: {self.card.name})"

    def copy(self, bytes: int, *, rounds: int = 30, hot: bool = False) -> Copy:
        """Times only the copy: `bytes` moved, half read and half written."""
        report = json.loads(self._clock.copy(_positive(bytes), rounds, hot))
        return Copy(**report["spread"], bytes=bytes, by=report["by"])

    def time(
        self,
        call: Callable[..., Any],
        make: Callable[[], Any],
        *,
        bytes: int | None = None,
        rounds: int = 30,
        hot: bool = False,
        name: str | None = None,
    ) -> Timing:
        """Times `call`; see `compare`."""
        called: str = name or str(getattr(call, "__name__", type(call).__name__))
        return self.compare({called: call}, make, bytes=bytes, rounds=rounds, hot=hot)[called]

    def compare(
        self,
        calls: Mapping[str, Callable[..., Any]],
        make: Callable[[], Any],
        *,
        bytes: int | None = None,
        rounds: int = 30,
        hot: bool = False,
    ) -> dict[str, Timing]:
        """Times several calls in the same rounds, each round in a new order.

        make() returns one set of inputs: a tensor, a tuple for call(*inputs) or a dict for call(**inputs). It is called
        once per rotating set; with hot=True only once, so that the inputs stay in the L2 if they fit. Each call launches on
        torch's current stream, may allocate, and must be capturable in a CUDA graph (no synchronisation). Its results are
        kept until the next turn of its set.

        bytes: the minimum number of bytes to move. Default: every given tensor read once, every returned one written once.

        Raises Error if a call cannot be captured, or is faster than the memory bandwidth allows.
        """
        torch = _torch()
        if not calls:
            raise Error("nothing to time: calls is empty")
        with torch.cuda.device(self.device):
            first = make()
            given = [tensor for tensor in _tensors(first) if tensor.is_cuda]
            if not given:
                raise Error("make() gave no tensor on a card, so nothing could rotate: make its tensors with device='cuda'")
            if any(tensor.device.index != self.device for tensor in given):
                raise Error(f"make() gave tensors on {given[0].device}, and this ruler is for cuda:{self.device}")
            if bytes is None:
                bytes = _least_bytes(calls, first, given)
            sets, launches, cold = self._clock.rotation(_positive(bytes), hot, False)
            inputs = [first, *(make() for _ in range(sets - 1))]
            stream, captured = torch.cuda.Stream(), {}
            stream.wait_stream(torch.cuda.current_stream())
            for name, call in calls.items():
                captured[name] = _captured(torch, name, call, inputs, launches // sets, stream)
            torch.cuda.synchronize()
            graphs = {name: graph.raw_cuda_graph() for name, (graph, _) in captured.items()}
            timings = self.replay(graphs, bytes=bytes, sets=sets, launches=launches, rounds=rounds, cold=cold)
            # The graphs must keep their memory until here.
            captured.clear()
        for timing in timings.values():
            if timing.impossible:
                raise Error(f"{timing.name}: {timing.impossible}")
        return timings

    def replay(
        self,
        graphs: Mapping[str, int],
        *,
        bytes: int,
        sets: int,
        launches: int,
        rounds: int = 30,
        cold: bool | None = None,
    ) -> dict[str, Timing]:
        """Times graphs captured by the caller: `cudaGraph_t` as integers (torch: `CUDAGraph(keep_graph=True)` and
        `raw_cuda_graph()`), each with `launches` launches over `sets` sets of inputs. The graphs and their memory must live
        until this returns. cold: default true if the sets have at least four times the bytes of the L2."""
        if cold is None:
            cold = sets * bytes >= 4 * self.card.l2_bytes
        report = json.loads(self._clock.replay(list(graphs.items()), _positive(bytes), sets, launches, cold, rounds))
        return {
            entry["name"]: Timing(
                name=entry["name"],
                **entry["launch"],
                copy=Copy(**entry["copy"], bytes=bytes, by=report["copy_by"]),
                bytes=bytes,
                sets=sets,
                launches=launches,
                cold=cold,
                remarks=(*entry["remarks"], *report["remarks"]),
                impossible=entry["impossible"],
            )
            for entry in report["timed"]
        }


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise Error("timing a callable needs torch in this Python: install it, or use Ruler.copy and Ruler.replay") from error
    if not torch.cuda.is_available():
        raise Error(f"torch {torch.__version__} finds no card: it must be built for CUDA, and the driver be there")
    if not hasattr(torch.cuda.CUDAGraph, "raw_cuda_graph"):
        raise Error(f"torch {torch.__version__} does not give its graphs away: 2.9 or later does")
    return torch


def _tensors(value: Any) -> list[torch.Tensor]:
    """Every tensor in tuples, lists and dicts."""
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [tensor for entry in value for tensor in _tensors(entry)]
    return []


def _applied(call: Callable[..., Any], inputs: Any) -> Any:
    if isinstance(inputs, Mapping):
        return call(**inputs)
    return call(*inputs) if isinstance(inputs, (tuple, list)) else call(inputs)


def _least_bytes(calls: Mapping[str, Callable[..., Any]], inputs: Any, given: list[torch.Tensor]) -> int:
    """Every given tensor read once, every returned one written once. Raises Error if the calls differ."""
    read = {(tensor.data_ptr(), tensor.nbytes) for tensor in given}
    found = {}
    for name, call in calls.items():
        written = {(tensor.data_ptr(), tensor.nbytes) for tensor in _tensors(_applied(call, inputs)) if tensor.is_cuda}
        found[name] = sum(size for _, size in read) + sum(size for _, size in written)
    if len(set(found.values())) > 1:
        raise Error(f"the calls do not return as many bytes, so say how many must move: bytes=…; found {found}")
    return int(next(iter(found.values())))


def _captured(
    torch: Any, name: str, call: Callable[..., Any], inputs: list[Any], turns: int, stream: Any
) -> tuple[Any, list[Any]]:
    """The graph of `turns` passes over the inputs, and the object that keeps its outputs alive."""
    graph, held = torch.cuda.CUDAGraph(keep_graph=True), [None] * len(inputs)
    try:
        with torch.cuda.stream(stream):
            # Warm-up: compilation, loading and autotuning happen here.
            for one in inputs[:3]:
                _applied(call, one)
            stream.synchronize()
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                for _ in range(turns):
                    for at, one in enumerate(inputs):
                        # Free a set's outputs at its next turn, so that outputs rotate like preallocated ones.
                        held[at] = None
                        held[at] = _applied(call, one)
            except BaseException:
                try:
                    graph.capture_end()
                except RuntimeError:
                    # The first error is the one to tell. torch leaves its generator in the capture that has failed, where
                    # it refuses to draw: the same numbers come from a copy of its state, which is in none.
                    generator = torch.cuda.default_generators[torch.cuda.current_device()]
                    generator.graphsafe_set_state(generator.clone_state())
                raise
            graph.capture_end()
    except Exception as error:
        raise Error(f"{name} cannot be captured in a CUDA graph: {type(error).__name__}: {error}") from error
    return graph, held


def _card(entry: dict[str, Any]) -> Card:
    names = {field.name for field in fields(Card)}
    return Card(**{name: value for name, value in entry.items() if name in names})


def _spread(of: Copy | Timing) -> dict[str, float]:
    names = ("median", "p10", "p90", "min", "samples")
    return {name: value for name, value in asdict(of).items() if name in names}


def _positive(bytes: int) -> int:
    if bytes <= 0:
        raise Error(f"bytes is {bytes}: what moves no bytes cannot be held against a copy")
    return int(bytes)
