"""What a layer costs: ops that launch a kernel, and calls in Python. `python3 tests/cost.py` prints the table."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import reference  # noqa: E402
import torch  # noqa: E402
from qwen3_kernels import optimize  # noqa: E402
from support import NAMES, model, tokens, twin  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from transformers import DynamicCache  # noqa: E402

# Ops that only change the view of a tensor or allocate.
_NO_LAUNCH = ("_unsafe_view", "empty", "detach", "alias", "lift_fresh", "unbind", "split", "_reshape_alias")


class Launches(TorchDispatchMode):
    """The ops that are no view. A call of the kernel counts as one, whatever the reference does in its place."""

    def __init__(self):
        super().__init__()
        self.names, self.inside = [], False

    def __enter__(self):
        self.names.clear()  # of calls before, which the kernel has counted
        return super().__enter__()

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        name = op._schema.name.split("::")[1]
        if not self.inside and not op.is_view and not name.startswith(_NO_LAUNCH):
            self.names.append(name)
        return op(*args, **(kwargs or {}))


def _one_launch(mode):
    import types

    kernel = types.ModuleType("one_launch")
    for name in NAMES:

        def function(*args, _name=name, **kwargs):
            mode.inside = True
            try:
                return getattr(reference, _name)(*args, **kwargs)
            finally:
                mode.inside = False
                mode.names.append(_name)

        setattr(kernel, name, function)
    return kernel


class Calls:
    """Calls of Python functions, and of C functions from Python; those inside the reference left out."""

    def __enter__(self):
        self.python = self.c = self.depth = 0
        sys.setprofile(self._seen)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)
        self.c -= 1  # setprofile itself

    def _seen(self, frame, event, argument):
        ours = frame.f_code.co_filename.endswith("reference.py")
        if event == "call":
            self.python += self.depth == 0
            self.depth += ours
        elif event == "return":
            self.depth -= ours
        elif event == "c_call":
            self.c += self.depth == 0


def _difference(make, layers, decode):
    """What the layers between the first number and the second add, each by itself."""
    counted = []
    for number in layers:
        one, count = make(number)
        cache = DynamicCache(config=one.config)
        with torch.no_grad():
            one(tokens(1, 8), past_key_values=cache)
            ids = tokens(1, 1 if decode else 8)
            for _ in range(2):  # the first call looks things up once and for all
                again = cache if decode else DynamicCache(config=one.config)
                one(ids, past_key_values=again)
            again = cache if decode else DynamicCache(config=one.config)
            with count:
                one(ids, past_key_values=again)
        counted.append(count)
    return counted


def _models(optimized, kernel):
    def make(number):
        one = model(dtype=torch.bfloat16, num_hidden_layers=number, layer_types=["full_attention"] * number)
        return optimize(twin(one), kernel=kernel) if optimized else one

    return make


def launches(optimized, decode=False):
    """Of one layer, by name."""

    def make(number):
        mode = Launches()
        return _models(optimized, _one_launch(mode))(number), mode

    few, many = _difference(make, (2, 4), decode)
    left = list(many.names)
    for name in few.names:
        left.remove(name)
    assert len(left) % 2 == 0
    return sorted(left)[::2]


def calls(optimized, decode=False):
    """Of one layer: in Python, of C."""

    def make(number):
        return _models(optimized, reference)(number), Calls()

    few, many = _difference(make, (2, 4), decode)
    return (many.python - few.python) / 2, (many.c - few.c) / 2


if __name__ == "__main__":
    print("| one layer | launches | Python calls | C calls |\n|---|--:|--:|--:|")
    for what, decode in (("prefill", False), ("decode", True)):
        for who, optimized in (("stock", False), ("optimized", True)):
            python, c = calls(optimized, decode)
            print(f"| {what}, {who} | {len(launches(optimized, decode))} | {python:.0f} | {c:.0f} |")
    for optimized in (False, True):
        print(optimized, launches(optimized))
