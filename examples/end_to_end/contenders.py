"""The contenders: the model as it comes and with the kernels, each as it is and compiled, and with them in CUDA graphs."""

import time
import types
from typing import Callable, Dict, List

import torch

# name -> (with the kernels, compiled)
CONTENDERS = {
    "eager": (False, False),
    "kernels": (True, False),
    "graphs": (True, False),
    "compile": (False, True),
    "both": (True, True),
}


def parse(text: str) -> List[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in CONTENDERS]
    if unknown or not names:
        raise ValueError(f"there is no contender {', '.join(unknown) or 'named'}; there are {', '.join(CONTENDERS)}")
    return [name for name in CONTENDERS if name in names]


def compiled(tree: torch.nn.Module, mode: str, backend: str) -> Callable:
    """torch.compile of a call of the tree. Each has a code object of its own, because Dynamo keeps what it compiled by
    code object: two trees in one list would pay for each other's guards."""

    def call(*args, **kwargs):
        return tree(*args, **kwargs)

    own = call.__code__.replace(co_name="call_of_its_own")
    call = types.FunctionType(own, call.__globals__, own.co_name, call.__defaults__, call.__closure__)
    options = {"dynamic": False, "backend": backend}
    if mode != "default" and backend == "inductor":
        options["mode"] = mode
    return torch.compile(call, **options)


def breaks() -> int:
    """Graph breaks since the last reset of Dynamo's counters."""
    counters = torch._dynamo.utils.counters
    return int(sum(counters.get("graph_break", {}).values()))


def allow_recompilations() -> None:
    """Each case is another shape of the same code."""
    config = torch._dynamo.config
    for name in ("recompile_limit", "cache_size_limit"):  # its name from 2.6 on, and before
        if hasattr(config, name):
            setattr(config, name, 64)
            return


class Step:
    """A contender's step of a case; calling it is one step."""

    def __init__(self, case, tree: torch.nn.Module, call: Callable, inputs: Dict[str, object], is_compiled: bool):
        self.case, self.tree, self.call, self.inputs, self.compiled = case, tree, call, inputs, is_compiled

    def __call__(self) -> torch.Tensor:
        return self.case.step(self.tree, self.call, self.inputs, self.compiled)

    def first(self, device: str):
        """The result of the first call, the seconds that it took with all that is compiled in it, and its graph breaks."""
        torch._dynamo.utils.counters.clear()
        start = time.perf_counter()
        # A replayed CUDA graph's output is overwritten by the next replay.
        result = self().clone()
        if device == "cuda":
            torch.cuda.synchronize()
        return result, time.perf_counter() - start, breaks()
