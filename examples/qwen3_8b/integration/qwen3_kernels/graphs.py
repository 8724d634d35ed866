"""CUDA graphs of the base model's forward, for calls so short that the host is the limit.

The first call of its kind is the plain one, which loads kernels and makes handles, as a capture must not. The second is
captured, and replayed like those after it. They return copies, which no later replay overwrites.
"""

import collections
import contextlib
import copy
import gc
import threading

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer, StaticCache
from transformers.modeling_outputs import BaseModelOutputWithPast

from .eligible import call_of, seen
from .forwards import ONLY_CAUSAL

# The graphs of a model that are kept, and the calls that are remembered.
MOST, REMEMBERED = 16, 256
# torch takes one at a time.
_capturing = threading.Lock()


class Pool:
    """What the graphs of a model share: memory, the stream that they are captured on, and the end of the last replay."""

    def __init__(self):
        self.handle, self.stream, self.done = torch.cuda.graph_pool_handle(), torch.cuda.Stream(), torch.cuda.Event()

    def capture(self, run, tensors):
        """A graph of `run`, which makes tensors of tensors. Nothing is computed."""
        with _capturing:
            graph, collects = torch.cuda.CUDAGraph(), gc.isenabled()
            # What the collector destroys meanwhile could end the capture.
            gc.disable()
            try:
                # torch.cuda.graph leaves its stream the current one if a capture does not end well.
                with torch.cuda.stream(self.stream):
                    inputs = [_room(tensor) for tensor in tensors]
                    # cuBLAS keeps a workspace per stream. Cleared before, the graph's is of its own memory; cleared
                    # afterwards, nobody else gets it.
                    torch._C._cuda_clearCublasWorkspaces()
                    with torch.cuda.graph(graph, self.handle, self.stream, capture_error_mode="thread_local"):
                        outputs = run([own.expand(tensor.shape) for own, tensor in zip(inputs, tensors)])
                return graph, inputs, outputs
            except BaseException:
                self._mend()
                raise
            finally:
                torch._C._cuda_clearCublasWorkspaces()
                if collects:
                    gc.enable()

    def _mend(self):
        """torch's allocator and random generator take a capture that did not end well for one that goes on."""
        with contextlib.suppress(Exception):
            torch._C._cuda_endAllocateToPool(self.stream.device.index, self.handle)
            torch._C._cuda_releasePool(self.stream.device.index, self.handle)
        self.handle = torch.cuda.graph_pool_handle()
        with contextlib.suppress(Exception), torch.cuda.stream(self.stream):
            with torch.cuda.graph(torch.cuda.CUDAGraph(), stream=self.stream, capture_error_mode="thread_local"):
                torch.zeros(1, device=self.stream.device)

    def replay(self, captured, tensors):
        """Copies of the outputs, as of these tensors."""
        graph, inputs, outputs = captured
        stream = torch.cuda.current_stream()
        # The memory is one, and the last replay may have been on another stream.
        stream.wait_event(self.done)
        for own, tensor in zip(inputs, tensors):
            own.copy_(tensor.as_strided(own.shape, tensor.stride()))
        try:
            graph.replay()
            return [output.clone() for output in outputs]
        finally:
            self.done.record(stream)

    def wait(self):
        """Until nothing is replayed any more."""
        self.done.synchronize()


def _room(tensor):
    """Memory for such a tensor; where it is expanded, for one element."""
    size = [1 if stride == 0 else length for length, stride in zip(tensor.shape, tensor.stride())]
    return torch.empty_strided(size, tensor.stride(), dtype=tensor.dtype, device=tensor.device)


def _is_known(output) -> bool:
    """Whether a replay can return such an output. A layer with a window counts in Python."""
    past = getattr(output, "past_key_values", None)
    return type(output) is BaseModelOutputWithPast and (
        past is None
        or type(past) is StaticCache
        or (type(past) is DynamicCache and all(type(one) is DynamicLayer and one.is_initialized for one in past.layers))
    )


class Graphs:
    """The graphs of a model. A copy of the model gets none of them, and makes its own."""

    def __init__(self, tokens: int):
        self.tokens, self.lock, self.pool = tokens, threading.RLock(), None
        self.clear()

    def __reduce__(self):
        return Graphs, (self.tokens,)

    def clear(self):
        with self.lock:
            if self.pool is not None:
                self.pool.wait()
            self.pool, self.seen, self.graphs = None, None, collections.OrderedDict()
            # By key: the thread that called, for each has handles of its own, or None where a capture has failed.
            self.called = collections.OrderedDict()

    def call(self, model, plain, names, args, kwargs):
        """The forward of the model: a replay where there can be one, else `plain`."""
        given = {**dict(zip(names, args)), **kwargs}
        # An argument that is given twice, or too many: the plain forward says so.
        call = call_of(model, given, self.tokens) if len(given) == len(args) + len(kwargs) else None
        if call is None:
            return plain(model, *args, **kwargs)
        with self.lock:
            if self.seen is None or not self.seen.holds(model):
                now = seen(model, call.device)
                if now is None:
                    return plain(model, *args, **kwargs)
                self.clear()
                self.seen = now
            if call.key in self.graphs or self._capture(model, plain, call):
                self.graphs.move_to_end(call.key)
                return self._replay(call)
        output = plain(model, *args, **kwargs)
        if _is_known(output):
            with self.lock:
                if self.called.get(call.key, 0) is not None:
                    self.called[call.key] = threading.get_ident()
                if len(self.called) > REMEMBERED:
                    self.called.popitem(last=False)
        return output

    def _capture(self, model, plain, call) -> bool:
        if self.called.get(call.key) != threading.get_ident():
            return False
        told, past = {}, []
        if call.given.get("attention_mask") is None and call.given.get("past_key_values") is None:
            # A mask of four dimensions goes through transformers as it is, to the attention, which leaves it out.
            told = {"attention_mask": torch.empty(0, 0, 0, 0), ONLY_CAUSAL: True}

        def run(tensors):
            output = plain(model, **{**call.on(tensors), **told})
            past[:] = [output.past_key_values]
            made = past[0].layers if type(past[0]) is DynamicCache else []
            return [output.last_hidden_state, *(one for layer in made for one in (layer.keys, layer.values))]

        try:
            self.pool = self.pool or Pool()
            captured = self.pool.capture(run, call.tensors)
        except Exception:
            # The plain forward says what is wrong, if anything is.
            self.called[call.key] = None
            return False
        # A cache that was given is not kept: a replay returns the one that it is given.
        self.graphs[call.key] = captured, True if type(past[0]) is StaticCache else past[0]
        if len(self.graphs) > MOST:
            self.pool.wait()
            self.graphs.popitem(last=False)
        return True

    def _replay(self, call):
        captured, past = self.graphs[call.key]
        hidden, *held = self.pool.replay(captured, call.tensors)
        if past is True:
            past = call.given["past_key_values"]
        elif past is not None:
            past = copy.copy(past)
            past.layers = [copy.copy(layer) for layer in past.layers]
            for layer, keys, values in zip(past.layers, held[::2], held[1::2]):
                layer.keys, layer.values = keys, values
        return BaseModelOutputWithPast(last_hidden_state=hidden, past_key_values=past)
