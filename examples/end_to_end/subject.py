"""What a model's script gives: how the model is built, what is timed of it, and how it is optimized."""

import dataclasses
from typing import Any, Callable, Dict, List, Optional

import torch


class Draw:
    """Normal numbers, always the same ones, rounded to the model's dtype also where they are wanted in fp32."""

    def __init__(self, device: str, dtype: torch.dtype, of: torch.dtype = torch.bfloat16):
        self.device, self.dtype, self.of = device, dtype, of
        self.generator = torch.Generator(device).manual_seed(1)

    def __call__(self, *shape: int, scale: float = 1.0) -> torch.Tensor:
        drawn = torch.randn(shape, generator=self.generator, device=self.device, dtype=torch.float32)
        return (drawn * scale).to(self.of).to(self.dtype)

    def whole(self, below: int, *shape: int) -> torch.Tensor:
        return torch.randint(below, shape, generator=self.generator, device=self.device)


@dataclasses.dataclass(frozen=True)
class Case:
    """Something that is timed.

    name: on the command line and in records
    label: for people
    make: (tree, device, dtype) -> the inputs, the same from call to call
    step: (tree, call, inputs, compiled) -> the result; `call` is the tree, or what torch.compile made of it
    per: what a time is of
    own_compile: the step compiles by itself (`generate`), and `call` is the tree
    note: what a reader of its times should know
    graphs: whether the contender `graphs` runs it
    """

    name: str
    label: str
    make: Callable[[torch.nn.Module, str, torch.dtype], Dict[str, Any]]
    step: Callable[[torch.nn.Module, Callable, Dict[str, Any], bool], torch.Tensor]
    per: str = "step"
    own_compile: bool = False
    note: Optional[str] = None
    graphs: bool = False


@dataclasses.dataclass(frozen=True)
class Subject:
    """A model.

    name: of the records: evidence/e2e-NAME-GPU.json
    title: for people
    folder: the example's
    environment: the variable that names a kernel
    configs: the names that --config takes; the first is what is timed without it
    config: name -> a JSON-able config
    build: (config name, weights folder or None) -> the model, made under the device and dtype that are set
    cases: (config name) -> what is timed
    optimize: (tree, kernel) -> patched in place
    packages: whose versions are recorded
    optimize_in_graphs: as optimize, and the cases with `graphs` are replayed as CUDA graphs
    """

    name: str
    title: str
    folder: str
    environment: str
    configs: List[str]
    config: Callable[[str], Dict[str, Any]]
    build: Callable[[str, Optional[str]], torch.nn.Module]
    cases: Callable[[str], List[Case]]
    optimize: Callable[[torch.nn.Module, Any], Any]
    packages: List[str]
    optimize_in_graphs: Optional[Callable[[torch.nn.Module, Any], Any]] = None
