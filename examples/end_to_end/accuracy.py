"""Whether a contender's result is right: its distance from an fp32 run, beside that of the model as it comes."""

import dataclasses
import math
from typing import Dict, Optional

import torch

# A contender's error against fp32 may be this many times that of eager: they round at different places, and a deep model
# amplifies each rounding.
TIMES_EAGER = 1.5
# The minimum tolerance, in units of the dtype, for outputs where eager happens to be nearly exact.
LEAST_UNITS = 4.0
# Without an fp32 run the reference is eager, which has its own error. Coarse, but a wrong row of a table or a wrong
# sign exceeds it.
OF_EAGER = 0.1


@dataclasses.dataclass(frozen=True)
class Verdict:
    """errors: relative, in the 2-norm. wrong: why it is, or None."""

    errors: Dict[str, float]
    wrong: Optional[str]


def relative(one: torch.Tensor, other: torch.Tensor) -> float:
    one, other = one.double(), other.double()
    scale = other.norm().item()
    off = (one - other).norm().item()
    return off / scale if scale > 0 else off


def judge(result: torch.Tensor, eager: torch.Tensor, exact: Optional[torch.Tensor]) -> Verdict:
    """Holds a result against eager's and, where there is one, fp32's. Whole numbers are tokens."""
    if result.shape != eager.shape:
        return Verdict({}, f"its shape is {tuple(result.shape)}, eager's {tuple(eager.shape)}")
    if not result.is_floating_point():
        # Greedy tokens diverge at the first near tie, so only the length of the equal prefix is reported.
        same = (result == eager).flatten().long().cumprod(0).sum().item()
        return Verdict({"tokens": float(result.numel()), "tokens_as_eager": float(same)}, None)
    if not torch.isfinite(result).all():
        return Verdict({}, "it is not finite")
    errors = {"of_eager": relative(result, eager)}
    if exact is None:
        limit = OF_EAGER
        measured, what = errors["of_eager"], "eager"
    else:
        errors["of_fp32"] = relative(result, exact)
        errors["eager_of_fp32"] = relative(eager, exact)
        limit = max(TIMES_EAGER * errors["eager_of_fp32"], LEAST_UNITS * torch.finfo(eager.dtype).eps)
        measured, what = errors["of_fp32"], "the fp32 run"
    # JSON has no NaN or infinity.
    errors = {name: error for name, error in errors.items() if math.isfinite(error)}
    if not measured <= limit or math.isnan(measured):
        return Verdict(errors, f"it is {measured:.3g} off {what}, and {limit:.3g} is allowed")
    return Verdict(errors, None)
