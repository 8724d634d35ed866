"""What the script and its mutants use of torch, on a card that does not exist: it works one call after another, 2 TB/s from memory, 6 TB/s
from an L2 cache of 50 MB, 5 ms more for the first call, and the CPU does not wait for it. The memory of a tensor that is gone is given to
the next one of its size."""

import time
from types import SimpleNamespace

bfloat16, uint8, float32 = 2, 1, 4
L2 = 50 << 20
_busy_until = 0.0  # on the clock of the CPU, which takes 4 us to launch
_cached, _free, _first = [], {}, True  # pieces of memory


class Tensor:
    def __init__(self, *shape, dtype=float32, device=None):
        self.shape, self.nbytes = shape, dtype
        for size in shape:
            self.nbytes *= size
        free = _free.get(self.nbytes)
        self.memory = free.pop() if free else SimpleNamespace(nbytes=self.nbytes)

    def __del__(self):
        _free.setdefault(self.nbytes, []).append(self.memory)

    def zero_(self):
        _work([self])
        return self


def _work(tensors, first=0.0):
    """Reads or writes tensors. What was touched last is in the cache."""
    global _busy_until
    seconds = 2e-6 + first
    for memory in [tensor.memory for tensor in tensors]:
        places = [place for place, cached in enumerate(_cached) if cached is memory]
        for place in places:
            _cached.pop(place)
        seconds += memory.nbytes / (6e12 if places else 2e12)
        _cached.append(memory)
    while sum(memory.nbytes for memory in _cached) > L2:
        _cached.pop(0)
    _busy_until = max(_busy_until, time.perf_counter() + 4e-6) + seconds


def randn(*shape, dtype=float32, device=None):
    return Tensor(*shape, dtype=dtype)


empty = zeros = randn


def _norm(x, *others):
    global _first
    _work([x], 5e-3 if _first else 0.0)
    result = Tensor(*x.shape, dtype=bfloat16)
    _work([result])
    _first = False
    return result


nn = SimpleNamespace(functional=SimpleNamespace(rms_norm=_norm, layer_norm=_norm))


class _Event:
    def __init__(self, enable_timing=False):
        pass

    def record(self):
        self.at = max(_busy_until, time.perf_counter())

    def elapsed_time(self, end):
        return (end.at - self.at) * 1e3


def _synchronize():
    time.sleep(max(0.0, _busy_until - time.perf_counter()))


cuda = SimpleNamespace(Event=_Event, synchronize=_synchronize)
