"""``optimize(model)`` and back."""

import inspect
from typing import List, Optional, Tuple

import torch

from . import loader
from .errors import OptimizeError
from .families import FAMILIES, Family, family_of
from .forwards import GRAPHS
from .graphs import Graphs
from .hooks import is_own, observed
from .swap import fused, stock_of, swap

# The names that the stock forwards may use and must use. Other versions of transformers, whose forwards do something
# else, are refused, because the replacements would not do it.
_NORM_MUST = {"weight"}
_NORM_MAY = _NORM_MUST | {
    "dtype", "float", "float32", "mean", "pow", "rsqrt", "to", "torch", "variance_epsilon", "_norm", "type_as",
}  # fmt: skip
# Whether its other names are known does not matter: it is called, not replaced.
_MODEL_MUST = {"create_causal_mask", "layers", "norm"}
_MLP_MUST = {"act_fn", "down_proj", "gate_proj", "up_proj"}
_LAYER_MUST = {"input_layernorm", "mlp", "post_attention_layernorm", "self_attn"}
_SANDWICH = {"pre_feedforward_layernorm", "post_feedforward_layernorm"}
_ATTENTION_MUST = {
    "ALL_ATTENTION_FUNCTIONS", "_attn_implementation", "apply_rotary_pos_emb", "config", "eager_attention_forward",
    "head_dim", "k_proj", "layer_idx", "o_proj", "q_proj", "scaling", "update", "v_proj",
}  # fmt: skip
_ATTENTION_MAY = _ATTENTION_MUST | {
    "attention_dropout", "contiguous", "get_interface", "getattr", "reshape", "shape", "training", "transpose", "view",
}  # fmt: skip

_OR_LATER = "or register it after optimize(): from then on the addition is a launch of its own"


def _names(family: Family, kind: str) -> Tuple[set, Optional[set]]:
    """What the forward of this kind must name, and what it may; None: anything."""
    if kind == "Model":
        return _MODEL_MUST, None
    if kind == "RMSNorm":
        return _NORM_MUST, _NORM_MAY
    if kind == "MLP":
        return _MLP_MUST, _MLP_MUST
    if kind == "DecoderLayer":
        names = _LAYER_MUST | (_SANDWICH if family.sandwich else set())
        return names, names
    must, may = set(_ATTENTION_MUST), set(_ATTENTION_MAY)
    if family.qk_norm:
        must |= {"q_norm", "k_norm"}
    if family.window:
        may |= {"sliding_window"}
    if family.softcap:
        must |= {"attn_logit_softcapping"}
    return must, may | must


def _version() -> str:
    import transformers

    return transformers.__version__


def _root(target):
    """The module of a model or of a pipeline around one."""
    if isinstance(target, torch.nn.Module):
        return target
    model = getattr(target, "model", None)
    if isinstance(model, torch.nn.Module):
        return model
    raise OptimizeError(f"{type(target).__name__} is no model, and has none under .model: pass the model itself")


def _require_code(family: Family, kind: str, cls: type) -> None:
    code = getattr(inspect.unwrap(cls.forward), "__code__", None)
    named = set(code.co_names) if code is not None else set()
    must, may = _names(family, kind)
    unknown = set() if may is None else named - may
    if strange := sorted(unknown | (must - named)):
        raise OptimizeError(
            f"{cls.__name__}.forward of transformers {_version()} is not the one that is known "
            f"(by: {', '.join(strange)}); its replacement would compute something else. "
            "Use transformers 5.17, or undo what has changed the class"
        )


def _require_stock(family: Family, kind: str, name: str, module) -> None:
    wanted = family.named(kind)
    if type(module) is not wanted:
        raise OptimizeError(
            f"{name} is a {type(module).__name__}, not the {wanted.__name__} that is known there: "
            "optimize the model before it is wrapped, or take that change back"
        )
    if not is_own(module):
        raise OptimizeError(
            f"the forward of {name} ({type(module).__name__}) is not its class's own: something else has patched it "
            "(kernelize with use_kernels=True, Liger, ...). Load the model without that"
        )


def _require_plain_parameters(name: str, module) -> None:
    for key, parameter in module.named_parameters(recurse=False):
        if type(parameter).__name__ == "DTensor":
            raise OptimizeError(
                f"{name}.{key} is a DTensor: tensor parallel models have no tests here. Load the model with device_map"
            )


def _plan_layer(family: Family, name: str, layer) -> List[Tuple[str, str, torch.nn.Module]]:
    plan = [("DecoderLayer", name, layer), ("Attention", f"{name}.self_attn", layer.self_attn)]
    if family.silu:
        act = layer.mlp.act_fn
        if type(act).__name__ not in ("SiLU", "SiLUActivation"):
            raise OptimizeError(
                f"{name}.mlp.act_fn is {type(act).__name__}: the kernel is silu(gate) * up. "
                "Use config.hidden_act='silu'"
            )
        plan.append(("MLP", f"{name}.mlp", layer.mlp))
    norms = ["input_layernorm", "post_attention_layernorm"]
    norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"] if family.sandwich else []
    plan += [("RMSNorm", f"{name}.{norm}", getattr(layer, norm)) for norm in norms]
    if family.qk_norm:
        for norm in ("q_norm", "k_norm"):
            plan.append(("RMSNorm", f"{name}.self_attn.{norm}", getattr(layer.self_attn, norm)))
    if layer._forward_pre_hooks or layer._backward_hooks or layer._backward_pre_hooks:
        raise OptimizeError(
            f"{name} has a hook in front of it or on its gradients, and the addition in front of it is made in its "
            f"first norm: remove the hook, hook {name}.mlp, {_OR_LATER}"
        )
    return plan


def _require_unobserved(family: Family, name: str, norm) -> None:
    """Of a norm with an addition in it."""
    second = "pre_feedforward_layernorm" if family.sandwich else "post_attention_layernorm"
    if name.rpartition(".")[2] in ("norm", "input_layernorm", second) and observed(norm):
        raise OptimizeError(
            f"{name} has a hook, and the addition in front of it is made in it: remove the hook, {_OR_LATER}"
        )


def _plan(root) -> List[Tuple[str, torch.nn.Module, Family, str]]:
    """Every module that is replaced. Whatever may be wrong is found here, where nothing has been touched."""
    models = [(name, module) for name, module in root.named_modules() if family_of(type(module)) is not None]
    if not models:
        known = ", ".join(family.base for family in FAMILIES)
        raise OptimizeError(
            f"{type(root).__name__} holds no model that is known: a replacement is proved for {known} of transformers, "
            "and for exactly these classes"
        )
    if int(_version().split(".")[0]) != 5:
        raise OptimizeError(f"transformers {_version()} is not known: use 5.x (tested with 5.17)")

    found, planned = [], set()
    for prefix, model in models:
        family = family_of(type(model))
        dot = f"{prefix}." if prefix else ""
        if getattr(model, "_tp_size", None) or getattr(model, "tp_size", None):
            raise OptimizeError(f"{prefix or type(model).__name__} is tensor parallel, which has no tests here")
        plan = [("Model", prefix or type(model).__name__, model), ("RMSNorm", f"{dot}norm", model.norm)]
        for i, layer in enumerate(model.layers):
            if type(layer) is not family.named("DecoderLayer"):
                _require_stock(family, "DecoderLayer", f"{dot}layers.{i}", layer)
            plan += _plan_layer(family, f"{dot}layers.{i}", layer)
        for kind, name, module in plan:
            _require_stock(family, kind, name, module)
            _require_plain_parameters(name, module)
            if kind == "RMSNorm":
                _require_unobserved(family, name, module)
            found.append((name, module, family, kind))
            planned.add(id(module))
        kinds = ["Model", "RMSNorm", "Attention", "DecoderLayer"] + (["MLP"] if family.silu else [])
        for kind in kinds:
            _require_code(family, kind, family.named(kind))

    for name, module in root.named_modules():
        if "RMSNorm" in type(module).__name__ and id(module) not in planned:
            prefix = models[0][0]
            step = f"optimize model.{prefix} alone" if prefix else "it has no replacement"
            raise OptimizeError(f"{name} ({type(module).__name__}) is a norm at a place that is not known: {step}")
    return found


def is_optimized(model) -> bool:
    """Whether any module of the model is replaced."""
    return any(stock_of(module) is not None for module in _root(model).modules())


def optimize(model, *, kernel=None, graphs=0):
    """Puts the kernels into a model of transformers, in place, and returns it.

    Arguments:
        model: Qwen3, Qwen2, Llama, Mistral, Gemma, Gemma 2 or Gemma 3 (text), with any head; or a pipeline of one.
        kernel: the kernel's loaded Python package, a path to its `build` folder, or a repository `OWNER/NAME` of the
            Hub (for that alone the network is used). None: what the variable QWEN3_KERNELS says, else `build` beside
            the example.
        graphs: the most tokens of a sequence in one call for which the base model's forward is captured in a CUDA graph
            and replayed, where the host is the limit: short prefills, and decoding over a StaticCache. 0: never. The
            second call of each length, shape and cache is captured. A call that may be another one when it is replayed
            is made as without it; README.md says which, and what the graphs cost.

    What is not known is refused with an OptimizeError, and then nothing is changed; so is a model that is optimized
    already.
    """
    root = _root(model)
    if type(graphs) is not int or graphs < 0:
        raise OptimizeError(
            f"graphs={graphs!r}: it is the most tokens of a sequence in one call that are replayed; pass 0 for none, or "
            "a number such as 1024"
        )
    if is_optimized(root):
        raise OptimizeError(f"{type(root).__name__} is optimized already: restore(model) first")
    plan = _plan(root)
    package = loader.load(kernel)
    replaced = [(module, fused(type(module), kind, family, package)) for _, module, family, kind in plan]
    done = []
    try:
        for module, cls in replaced:
            done.append((module, type(module)))
            swap(module, cls)
    except BaseException:
        for module, stock in reversed(done):
            swap(module, stock)
        raise
    for _, module, _, kind in plan:
        if graphs and kind == "Model":
            module.__dict__[GRAPHS] = Graphs(graphs)
    return model


def restore(model):
    """Takes the kernels out again and returns the model as it was. Its CUDA graphs are freed."""
    root = _root(model)
    replaced = [module for module in root.modules() if stock_of(module) is not None]
    if not replaced:
        raise OptimizeError(f"{type(root).__name__} is not optimized: there is nothing to restore")
    for module in replaced:
        swap(module, stock_of(module))
        if (graphs := module.__dict__.pop(GRAPHS, None)) is not None:
            graphs.clear()
    return model
