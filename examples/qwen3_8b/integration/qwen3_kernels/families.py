"""The models that are known, and what each does: read from transformers' modeling files, proved by the tests."""

import dataclasses
import importlib
from typing import Dict, Optional


@dataclasses.dataclass(frozen=True)
class Family:
    """
    module: under transformers.models
    prefix: of its classes' names
    base: the class that holds the layers
    weight_offset, round_first, eps: of its RMSNorm; eps is the attribute's name
    qk_norm: whether q and k are normed, head by head
    sandwich: whether attention and MLP have a norm behind them as well
    silu: whether its MLP is silu(gate) * up. The kernel for gelu wants gate and up in one tensor, which these models do
        not have, so that MLP stays as it is
    window: how its attention says how far it looks: by "layer", by "config", or not at all
    softcap: whether its attention passes one on
    """

    module: str
    prefix: str
    base: str
    weight_offset: float = 0.0
    round_first: bool = True
    eps: str = "variance_epsilon"
    qk_norm: bool = False
    sandwich: bool = False
    silu: bool = True
    window: Optional[str] = None
    softcap: bool = False

    @property
    def modeling(self) -> str:
        return f"transformers.models.{self.module}.modeling_{self.module}"

    def named(self, suffix: str) -> type:
        name = self.base if suffix == "Model" else self.prefix + suffix
        return getattr(importlib.import_module(self.modeling), name)


def _gemma(module: str, prefix: str, base: str, **rest) -> Family:
    # Multiplies by (1 + w) before rounding; the others round before multiplying by w.
    return Family(module, prefix, base, weight_offset=1.0, round_first=False, eps="eps", silu=False, **rest)


FAMILIES = (
    Family("qwen3", "Qwen3", "Qwen3Model", qk_norm=True, window="layer"),
    Family("qwen2", "Qwen2", "Qwen2Model", window="layer"),
    Family("llama", "Llama", "LlamaModel"),
    Family("mistral", "Mistral", "MistralModel", window="config"),
    _gemma("gemma", "Gemma", "GemmaModel"),
    _gemma("gemma2", "Gemma2", "Gemma2Model", sandwich=True, window="layer", softcap=True),
    _gemma("gemma3", "Gemma3", "Gemma3TextModel", sandwich=True, window="layer", qk_norm=True),
)

# By names of module and class, so that nothing is imported that the model did not import.
_BASES: Dict[str, Family] = {f"{family.modeling}.{family.base}": family for family in FAMILIES}


def family_of(cls: type) -> Optional[Family]:
    """The family whose base model has this class. A subclass may do anything, so it is none."""
    return _BASES.get(f"{cls.__module__}.{cls.__qualname__}")
