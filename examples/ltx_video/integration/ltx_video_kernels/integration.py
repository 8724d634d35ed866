"""optimize(), restore() and is_optimized() for LTX-Video's pipelines and its transformer in diffusers."""

from typing import Any, Callable, Iterator, List, Tuple

import torch
from diffusers.hooks._helpers import TransformerBlockMetadata, TransformerBlockRegistry
from diffusers.models.normalization import RMSNorm
from diffusers.models.transformers import transformer_ltx as stock
from torch import nn

from .attention import LTXAttention, LTXVideoAttnProcessor
from .block import LTXVideoTransformerBlock
from .errors import OptimizeError
from .hooks import check_forwards, set_class
from .kernel import DTYPES, Kernel, load
from .model import LTXVideoTransformer3DModel
from .rotary import Tables

_RESTORE = "leave this model as it is"


def optimize(model: Any, *, kernel: Any = None, fuse_gelu: bool = True) -> Any:
    """Swaps the kernels into an LTX-Video transformer, or into the one of a pipeline, in place.

    Arguments:
        model: an LTXVideoTransformer3DModel, what torch.compile made of one, or a pipeline that has one.
        kernel: a loaded kernel module, a path to a `build` folder, or a Hub repository "OWNER/NAME". None: what the
            environment's LTX_VIDEO_KERNELS names, else `build` beside the example.
        fuse_gelu: lets the feed-forward's first GEMM apply the gelu, on a card in 16 bits.

    Returns:
        `model`. Again with the same kernel and options, nothing changes; with others it is an error.

    Raises:
        OptimizeError: with the name of what is refused. The model is then as it was.
    """
    transformer = _transformer_of(model)
    if _is_ours(transformer):
        current = transformer._ltx_kernel
        if (kernel is None or load(kernel) is current.module) and fuse_gelu == current.fuse_gelu:
            return model
        raise OptimizeError(
            "LTXVideoTransformer3DModel is optimized already, with another kernel or other options; restore() it first"
        )
    _check(transformer)
    made = Kernel(load(kernel), fuse_gelu)
    _register_block()
    undo: List[Callable[[], None]] = []
    try:
        _patch(transformer, made, undo)
    except BaseException:
        for step in reversed(undo):
            step()
        raise
    return model


def restore(model: Any) -> Any:
    """Undoes optimize(): classes and processors are those of before. Returns `model`. A model that is not optimized is
    an error."""
    transformer = _transformer_of(model)
    if not _is_ours(transformer):
        raise OptimizeError(f"{type(transformer).__name__} is not optimized, so there is nothing to restore")
    for _, attention in _attentions(transformer):
        processor = attention.processor
        if type(processor) is LTXVideoAttnProcessor:
            # Keep an attention backend that was set in the meantime.
            processor.former._attention_backend = processor._attention_backend
            attention.set_processor(processor.former)
        set_class(attention, stock.LTXAttention)
    for block in transformer.transformer_blocks:
        set_class(block, stock.LTXVideoTransformerBlock)
        del block._ltx_kernel
    set_class(transformer, stock.LTXVideoTransformer3DModel)
    del transformer._ltx_kernel, transformer._ltx_tables
    return model


def is_optimized(model: Any) -> bool:
    """Whether optimize() has been here."""
    return _is_ours(_transformer_of(model))


def _is_ours(transformer: nn.Module) -> bool:
    return type(transformer) is LTXVideoTransformer3DModel


def _transformer_of(model: Any) -> nn.Module:
    found = model if isinstance(model, nn.Module) else getattr(model, "transformer", None)
    found = getattr(found, "_orig_mod", found)  # torch.compile's wrapper
    if type(found) in (stock.LTXVideoTransformer3DModel, LTXVideoTransformer3DModel):
        return found
    what = type(model).__name__
    if found is not None and found is not model:
        what = f"the {type(found).__name__} of {what}"
    raise OptimizeError(
        f"{what} is no LTXVideoTransformer3DModel of diffusers and no pipeline with one; these kernels are for "
        "LTX-Video alone"
    )


def _attentions(transformer: nn.Module) -> Iterator[Tuple[str, nn.Module]]:
    for index, block in enumerate(transformer.transformer_blocks):
        for name in ("attn1", "attn2"):
            yield f"transformer_blocks.{index}.{name}", getattr(block, name)


def _patch(transformer: nn.Module, kernel: Kernel, undo: List[Callable[[], None]]) -> None:
    def swap(module: nn.Module, cls: type) -> None:
        former = type(module)
        undo.append(lambda: set_class(module, former))
        set_class(module, cls)

    def give(module: nn.Module, name: str, value: Any) -> None:
        undo.append(lambda: module.__dict__.pop(name, None))
        setattr(module, name, value)

    def process(attention: nn.Module) -> None:
        former = attention.processor
        undo.append(lambda: attention.set_processor(former))
        attention.set_processor(LTXVideoAttnProcessor(kernel, former))

    for _, attention in _attentions(transformer):
        process(attention)
        swap(attention, LTXAttention)
    for block in transformer.transformer_blocks:
        give(block, "_ltx_kernel", kernel)
        swap(block, LTXVideoTransformerBlock)
    give(transformer, "_ltx_kernel", kernel)
    give(transformer, "_ltx_tables", Tables())
    swap(transformer, LTXVideoTransformer3DModel)


def _register_block() -> None:
    """diffusers' cache hooks look a block's class up."""
    if LTXVideoTransformerBlock not in TransformerBlockRegistry._registry:
        TransformerBlockRegistry.register(
            LTXVideoTransformerBlock,
            TransformerBlockMetadata(return_hidden_states_index=0, return_encoder_hidden_states_index=None),
        )


def _check(transformer: nn.Module) -> None:
    """Everything that is refused of a model, before anything changes."""

    def fail(name: str, reason: str, next_step: str = _RESTORE) -> None:
        raise OptimizeError(f"{name}: {reason}; {next_step}")

    def is_a(name: str, module: Any, cls: type) -> None:
        if type(module) is not cls:
            fail(name, f"is a {type(module).__name__}, not {cls.__name__} of diffusers")

    def norm(name: str, module: nn.Module, cls: type, width: int, weighted: bool) -> None:
        is_a(name, module, cls)
        shape = module.dim if cls is RMSNorm else module.normalized_shape
        if tuple(shape) != (width,):
            fail(name, f"is over {tuple(shape)}, not ({width},)")
        if module.eps is None:
            fail(name, "has no eps of its own")
        if (module.weight is not None) != weighted:
            fail(name, "has no weight" if weighted else "has a weight, which no released LTX-Video has")
        if getattr(module, "bias", None) is not None:
            fail(name, "has a bias, which no released LTX-Video has")

    if len(transformer.transformer_blocks) == 0:
        fail("transformer_blocks", "has no block")
    width = transformer.proj_in.out_features
    is_a("rope", transformer.rope, stock.LTXVideoRotaryPosEmbed)
    if transformer.rope.dim != width:
        fail("rope", f"is for a width of {transformer.rope.dim}, not {width}")
    norm("norm_out", transformer.norm_out, nn.LayerNorm, width, weighted=False)
    if transformer._parallel_config is not None:
        fail("the transformer", "has a parallel config: a part of the tokens is no grid", "disable parallelism first")
    check_forwards("the transformer", transformer)

    for index, block in enumerate(transformer.transformer_blocks):
        name = f"transformer_blocks.{index}"
        is_a(name, block, stock.LTXVideoTransformerBlock)
        check_forwards(name, block)
        norm(f"{name}.norm1", block.norm1, RMSNorm, width, weighted=False)
        norm(f"{name}.norm2", block.norm2, RMSNorm, width, weighted=False)
        table = block.scale_shift_table
        if tuple(table.shape) != (6, width):
            fail(f"{name}.scale_shift_table", f"is {tuple(table.shape)}, not (6, {width})")
        if table.dtype not in (*DTYPES, torch.float64):
            fail(
                f"{name}.scale_shift_table",
                f"is {table.dtype}, which no kernel takes",
                "cast the model with .to(...), and leave this parameter in the compute dtype",
            )
    for name, attention in _attentions(transformer):
        is_a(name, attention, stock.LTXAttention)
        check_forwards(name, attention)
        is_a(f"{name}.processor", attention.processor, stock.LTXVideoAttnProcessor)
        if attention.processor._parallel_config is not None:
            fail(f"{name}.processor", "has a parallel config: a part of the tokens is no grid", "disable it first")
        if attention.inner_kv_dim != attention.inner_dim:
            fail(name, f"has k of {attention.inner_kv_dim} beside q of {attention.inner_dim}")
        norm(f"{name}.norm_q", attention.norm_q, nn.RMSNorm, attention.inner_dim, weighted=True)
        norm(f"{name}.norm_k", attention.norm_k, nn.RMSNorm, attention.inner_dim, weighted=True)
        if attention.norm_q.eps != attention.norm_k.eps:
            fail(name, f"norms q with eps {attention.norm_q.eps} and k with {attention.norm_k.eps}")
