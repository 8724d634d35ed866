"""CUDA graphs of the base model's forward: captured at the second call of a key, replayed from then on.

A replay writes where the one before it wrote. So the results are copied to tensors that belong to the caller, and each
replay on a graph waits for the one before, whose copies are behind it on its stream.
"""

import collections
import threading
import warnings
import weakref
from typing import Optional

import torch
from torch import cuda
from transformers.cache_utils import DynamicCache

from .replayable import Call, DynamicLayer, call_of, leaves, state_of

DEVICE = "cuda"

# Keys that are remembered without a graph, each some hundred bytes to some kilobytes.
_REMEMBERED = 256

# CUDA has one capture at a time in a process, or else they can disturb one another.
_CAPTURING = threading.Lock()


class _Taken(DynamicCache):
    """An empty cache that hands back what it gets: while a graph is captured, nothing is concatenated."""

    def __init__(self):
        super().__init__()
        self.taken = []

    def update(self, key_states, value_states, layer_idx, *args, **kwargs):
        self.taken += (key_states, value_states)
        return key_states, value_states


class Graph:
    """A captured call. It holds none of the model's tensors, nor the caller's."""

    def __init__(self, model, forward, call: Call, told):
        """forward: the stock one; told: what a prefill passes to it beside the call's arguments."""
        lengths = [layer.cumulative_length for layer in call.cache.layers] if call.static else []
        before = [length.clone() for length in lengths]

        def run(inputs):
            cache = call.cache if call.static or call.cache is None else _Taken()
            more = {} if call.static else told
            return forward(model, past_key_values=cache, use_cache=call.use_cache, **inputs, **more), cache

        self.device, self.graph, self.done = call.device, cuda.CUDAGraph(), cuda.Event()
        with cuda.device(call.device):
            # This thread's first run makes handles, loads kernels and chooses algorithms, which a capture cannot. In a
            # StaticCache it writes what the replay will write, at the same place, as long as the lengths are put back.
            try:
                run(call.inputs)
            finally:
                if lengths:
                    torch._foreach_copy_(lengths, before)
            # The graph gets a workspace of cuBLAS in its own memory, so that neither another graph nor what runs beside it
            # uses the same one. torch.cuda.graph() is not used, because it frees all that the allocator has cached.
            _forget_workspaces()
            try:
                with cuda.stream(cuda.Stream()):
                    # Of this thread: others may allocate in the meantime.
                    self.graph.capture_begin(capture_error_mode="thread_local")
                    try:
                        with torch.inference_mode(False):
                            inputs = {name: _room_for(given) for name, given in call.inputs.items()}
                        output, cache = run(inputs)
                    finally:
                        self.graph.capture_end()
            finally:
                _forget_workspaces()
        self.inputs = leaves(inputs)
        self.output, self.last = type(output), output.last_hidden_state
        self.returns_cache = output.past_key_values is not None
        self.taken = cache.taken if isinstance(cache, _Taken) else []
        if self.taken:
            layer = DynamicLayer()
            layer.lazy_initialization(*self.taken[:2])
            self.layer = {name: value for name, value in vars(layer).items() if name not in ("keys", "values")}

    def replay(self, call: Call):
        """What the stock forward returns. All of it is the caller's."""
        with cuda.device(self.device):
            current = cuda.current_stream()
            current.wait_event(self.done)
            try:
                for mine, given in zip(self.inputs, leaves(call.inputs)):
                    mine.copy_(given)
                self.graph.replay()
                last = self.last.clone()
                taken = [torch.empty_like(tensor) for tensor in self.taken]
                if taken:
                    torch._foreach_copy_(taken, self.taken)
            finally:
                self.done.record(current)
        # As lazy_initialization() leaves a layer, without its two allocations on the device.
        for layer, key, value in zip(call.cache.layers if taken else (), taken[::2], taken[1::2]):
            vars(layer).update(self.layer, keys=key, values=value)
        return self.output(last_hidden_state=last, past_key_values=call.cache if self.returns_cache else None)

    def drop(self) -> None:
        self.done.synchronize()
        self.graph.reset()


def _room_for(given):
    if isinstance(given, dict):
        return {name: _room_for(mask) for name, mask in given.items()}
    return torch.empty_like(given, memory_format=torch.contiguous_format)


def _forget_workspaces() -> None:
    # They are kept by handle and stream, and the streams of torch are few.
    torch._C._cuda_clearCublasWorkspaces()


class Graphs:
    """The graphs of one model, the least recently used first."""

    def __init__(self):
        self.lock = threading.Lock()
        self.state, self.graphs = None, collections.OrderedDict()
        self.failed = collections.OrderedDict()  # by key, of calls that have no graph: whether a capture has failed
        self.warned = False

    def __call__(self, model, forward, call: Call, most: int, told):
        """The result of a replay, or None where the forward has to run."""
        with self.lock:
            state = state_of(model, call.device)
            if state is None:
                return None
            if state != self.state:
                self.clear()
                self.state = state
            graph = self.graphs.get(call.key)
            if graph is None and self._is_due(call.key):
                graph = self._capture(model, forward, call, most, told)
            if graph is None:
                return None
            self.graphs.move_to_end(call.key)
            return graph.replay(call)

    def _is_due(self, key) -> bool:
        """At the second call: a capture takes as long as some calls, and many prompts have a length of their own."""
        failed = self.failed.get(key)
        if failed is None:
            self.failed[key] = False
            if len(self.failed) > _REMEMBERED:
                self.failed.popitem(last=False)
        return failed is False

    def _capture(self, model, forward, call: Call, most: int, told) -> Optional[Graph]:
        while len(self.graphs) >= most:
            self.graphs.popitem(last=False)[1].drop()
        try:
            with _CAPTURING:
                graph = Graph(model, forward, call, told)
        except Exception as error:
            self.failed[call.key] = True
            if not self.warned:
                self.warned = True
                error = error.__context__ or error  # the end of a capture fails after what has failed in it
                what = f"{type(error).__name__}: {error}"
                warnings.warn(f"{type(model).__name__}: a call runs without a CUDA graph, its capture failed ({what})")
            return None
        del self.failed[call.key]
        self.graphs[call.key] = graph
        return graph

    def clear(self) -> None:
        for graph in self.graphs.values():
            graph.drop()
        self.graphs.clear()
        self.failed.clear()


# Not on the modules, for these are copied, pickled and saved.
_of_model = weakref.WeakKeyDictionary()
_of_model_lock = threading.Lock()


def replayed(model, forward, told, most: int, input_ids, attention_mask, position_ids, cache, rest):
    """The result of the call from a graph, of which there are at most `most`, or None where the forward has to run."""
    given = rest.get("inputs_embeds") if input_ids is None else input_ids
    if getattr(given, "device", None) is None or given.device.type != DEVICE or cuda.is_current_stream_capturing():
        return None
    call = call_of(model, input_ids, attention_mask, position_ids, cache, rest)
    if call is None:
        return None
    with _of_model_lock:
        graphs = _of_model.setdefault(model, Graphs())
    return graphs(model, forward, call, most, told)


def forget(model) -> None:
    """Drops all graphs of the module."""
    with _of_model_lock:
        graphs = _of_model.pop(model, None)
    if graphs is not None:
        with graphs.lock:
            graphs.clear()
