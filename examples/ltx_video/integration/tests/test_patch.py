"""Patching: what is changed, what is refused, and that everything can be undone."""

import copy
import pathlib
import types

import pytest
import reference
import torch
from diffusers import FlowMatchEulerDiscreteScheduler, LTXConditionPipeline, LTXPipeline, LTXVideoTransformer3DModel
from diffusers.models.transformers import transformer_ltx as stock
from ltx_video_kernels import OptimizeError, is_optimized, optimize, restore
from ltx_video_kernels.attention import LTXAttention, LTXVideoAttnProcessor
from ltx_video_kernels.block import LTXVideoTransformerBlock
from ltx_video_kernels.kernel import FUNCTIONS, VARIABLE
from support import CASES, arguments, assert_near, small, twin


def anatomy(model):
    """Everything of the modules that patching could leave behind."""
    return [
        (
            name,
            type(module),
            {
                key: id(value)
                for key, value in vars(module).items()
                if not isinstance(value, types.MethodType) and key not in ("_parameters", "_buffers", "_modules")
            },
            [(key, id(value)) for key, value in module._parameters.items()],
            sorted(key for key, value in vars(module).items() if isinstance(value, types.MethodType)),
        )
        for name, module in model.named_modules()
    ]


def test_restore_gives_everything_back():
    model = small()
    given = arguments(model)
    right, before = model(**given).sample, anatomy(model)
    processors = model.attn_processors
    assert not is_optimized(model)
    assert optimize(model, kernel=reference) is model
    assert is_optimized(model) and anatomy(model) != before
    assert not torch.equal(model(**given).sample, right)
    assert restore(model) is model
    assert not is_optimized(model) and anatomy(model) == before
    assert all(one is processors[name] for name, one in model.attn_processors.items())
    assert torch.equal(model(**given).sample, right)


def test_everything_is_swapped():
    model = optimize(small(), kernel=reference)
    for block in model.transformer_blocks:
        assert type(block) is LTXVideoTransformerBlock
        for attention in (block.attn1, block.attn2):
            assert type(attention) is LTXAttention and type(attention.processor) is LTXVideoAttnProcessor
    # The names by which diffusers finds classes, and which it writes to a saved pipeline.
    assert isinstance(model, LTXVideoTransformer3DModel)
    for module in (model, model.transformer_blocks[0], model.transformer_blocks[0].attn1):
        former = type(module).__mro__[1]
        assert (type(module).__name__, type(module).__module__) == (former.__name__, former.__module__)


def test_twice():
    model = optimize(small(), kernel=reference)
    before = anatomy(model)
    assert optimize(model, kernel=reference) is model and optimize(model) is model
    assert anatomy(model) == before
    other = types.SimpleNamespace(**vars(reference))
    for again in ({"kernel": other}, {"kernel": reference, "fuse_gelu": False}):
        with pytest.raises(OptimizeError, match="optimized already.*restore"):
            optimize(model, **again)
    assert anatomy(model) == before


def test_restore_of_what_is_not_optimized():
    with pytest.raises(OptimizeError, match="not optimized"):
        restore(small())


def test_a_backend_that_was_chosen_meanwhile_stays():
    model = optimize(small(), kernel=reference)
    model.set_attention_backend("_native_math")
    given = arguments(model)
    right = model(**given).sample
    restore(model)
    assert all(p._attention_backend == "_native_math" for p in model.attn_processors.values())
    assert_near(right, model(**given).sample)


class Stubborn(stock.LTXVideoTransformerBlock):
    pass


@pytest.mark.parametrize("stubborn", ["set_processor", "block", "model"])
def test_a_failure_half_way(monkeypatch, stubborn):
    """Whatever fails, the model is as it was."""
    from ltx_video_kernels import integration

    model = small()
    given = arguments(model)
    right, before = model(**given).sample, anatomy(model)
    set_class = integration.set_class

    def fail(module, cls):
        if module is victim and cls is not former:
            raise MemoryError("half way")
        set_class(module, cls)

    if stubborn == "set_processor":
        last = model.transformer_blocks[-1].attn2

        def refuse(self, processor, real=type(last).set_processor):
            if self is last and type(processor) is LTXVideoAttnProcessor:
                raise MemoryError("half way")
            real(self, processor)

        monkeypatch.setattr(stock.LTXAttention, "set_processor", refuse)
    else:
        victim = model if stubborn == "model" else model.transformer_blocks[-1]
        former = type(victim)
        monkeypatch.setattr(integration, "set_class", fail)
    with pytest.raises(MemoryError):
        optimize(model, kernel=reference)
    monkeypatch.undo()
    assert anatomy(model) == before and not is_optimized(model)
    assert torch.equal(model(**given).sample, right)


def set_block(model):
    model.transformer_blocks[1].__class__ = Stubborn


def set_processor(model):
    class Processor(stock.LTXVideoAttnProcessor):
        pass

    model.transformer_blocks[1].attn2.set_processor(Processor())


def set_norm(attention, name, norm):
    def change(model):
        setattr(getattr(model.transformer_blocks[1], attention), name, norm(model.proj_in.out_features))

    return change


def set_forward(model):
    model.transformer_blocks[1].forward = lambda *_, **__: None


REFUSED = {
    "a block of another class": (set_block, "transformer_blocks.1: is a Stubborn"),
    "another processor": (set_processor, "transformer_blocks.1.attn2.processor: is a Processor"),
    "a LayerNorm of q": (
        set_norm("attn1", "norm_q", torch.nn.LayerNorm),
        "transformer_blocks.1.attn1.norm_q: is a LayerNorm",
    ),
    "a norm without weight": (
        set_norm("attn2", "norm_k", lambda width: torch.nn.RMSNorm(width, eps=1e-5, elementwise_affine=False)),
        "transformer_blocks.1.attn2.norm_k: has no weight",
    ),
    "a norm a head": (
        set_norm("attn1", "norm_k", lambda width: torch.nn.RMSNorm(width // 4, eps=1e-5)),
        r"transformer_blocks.1.attn1.norm_k: is over \(32,\), not \(128,\)",
    ),
    "a norm without eps": (set_norm("attn1", "norm_q", torch.nn.RMSNorm), "attn1.norm_q: has no eps"),
    "other eps for q and k": (
        set_norm("attn1", "norm_q", lambda width: torch.nn.RMSNorm(width, eps=1e-3)),
        "transformer_blocks.1.attn1: norms q with eps 0.001",
    ),
    "a rope of another class": (lambda model: setattr(model, "rope", torch.nn.Identity()), "rope: is a Identity"),
    "a norm_out with weight": (
        lambda model: setattr(model, "norm_out", torch.nn.LayerNorm(model.proj_in.out_features)),
        "norm_out: has a weight",
    ),
    "a table in float8": (
        lambda model: setattr(
            model.transformer_blocks[1],
            "scale_shift_table",
            torch.nn.Parameter(torch.zeros(6, 128).to(torch.float8_e4m3fn), requires_grad=False),
        ),
        "transformer_blocks.1.scale_shift_table: is torch.float8_e4m3fn",
    ),
    "a forward of unknown origin": (set_forward, "transformer_blocks.1: its forward was replaced"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name):
    change, message = REFUSED[name]
    model = small()
    change(model)
    before = anatomy(model)
    with pytest.raises(OptimizeError, match=message):
        optimize(model, kernel=reference)
    assert anatomy(model) == before


def test_norms_with_weights_are_refused():
    with pytest.raises(OptimizeError, match="transformer_blocks.0.norm1: has a weight"):
        optimize(small(norm_elementwise_affine=True), kernel=reference)


@pytest.mark.parametrize("other", [torch.nn.Linear(2, 2), types.SimpleNamespace(transformer=torch.nn.Linear(2, 2)), 3])
def test_other_models(other):
    for function in (optimize, restore, is_optimized):
        with pytest.raises(OptimizeError, match="no LTXVideoTransformer3DModel"):
            function(other)


def test_training_is_refused():
    model = optimize(small(), kernel=reference)
    given = arguments(model)
    with torch.enable_grad(), pytest.raises(OptimizeError, match=r"gradients are wanted.*no_grad\(\).*restore"):
        model(**given)
    model.requires_grad_(False)
    with torch.enable_grad():
        assert_near(model(**given).sample, restore(twin(model))(**given).sample)
        given["hidden_states"].requires_grad_()
        with pytest.raises(OptimizeError, match="gradients are wanted"):
            model(**given)
    restore(model)
    with torch.enable_grad():
        model.requires_grad_(True)(**given).sample.sum().backward()


def test_autocast_is_refused():
    model = optimize(small(), kernel=reference)
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(OptimizeError, match="autocast"):
        model(**arguments(model))


def test_context_parallelism_is_refused():
    model = small()
    model.transformer_blocks[1].attn1.processor._parallel_config = object()
    with pytest.raises(OptimizeError, match="transformer_blocks.1.attn1.processor: has a parallel config"):
        optimize(model, kernel=reference)
    model = optimize(small(), kernel=reference)
    for processor in model.attn_processors.values():
        processor._parallel_config = object()  # what enable_parallelism does
    with pytest.raises(OptimizeError, match="context parallelism"):
        model(**arguments(model))


def test_a_processor_that_comes_later_is_refused():
    model = optimize(small(), kernel=reference)
    model.set_attn_processor(stock.LTXVideoAttnProcessor())
    with pytest.raises(OptimizeError, match="replaced by LTXVideoAttnProcessor after optimize"):
        model(**arguments(model))
    restore(model)(**arguments(model))


def strict():
    """The reference as the kernel is: for CUDA, and three dtypes."""
    module = types.SimpleNamespace(**vars(reference))
    module.RUNS_ANYWHERE = False
    return module


def test_a_model_on_the_cpu_is_refused_when_it_is_called():
    model = optimize(small(), kernel=strict())  # it may be moved to a card later
    with pytest.raises(OptimizeError, match="hidden states are on cpu.*move"):
        model(**arguments(model))


@pytest.mark.parametrize("missing", [FUNCTIONS[0], FUNCTIONS[-1]])
def test_a_kernel_that_lacks_a_function(missing):
    module = types.SimpleNamespace(**vars(reference))
    delattr(module, missing)
    with pytest.raises(OptimizeError, match=f"has no {missing}"):
        optimize(small(), kernel=module)


@pytest.mark.parametrize("kernel", ["no/such/folder", "nothing", pathlib.Path("no-folder")])
def test_a_kernel_that_is_not_there(kernel):
    with pytest.raises(OptimizeError, match="no folder and no Hub repository OWNER/NAME; build it"):
        optimize(small(), kernel=kernel)


def test_a_folder_without_a_build(tmp_path, monkeypatch):
    with pytest.raises(OptimizeError, match="no kernel for this torch.*kernels build --torch"):
        optimize(small(), kernel=tmp_path)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "build"))
    with pytest.raises(OptimizeError, match="no kernel"):
        optimize(small())


def test_a_copy_is_optimized_too():
    model = optimize(small(), kernel=reference)
    given = arguments(model)
    right = model(**given).sample
    copied = copy.deepcopy(model)
    restore(model)
    assert is_optimized(copied) and torch.equal(copied(**given).sample, right)
    restore(copied)
    assert torch.equal(copied(**given).sample, model(**given).sample)


def test_casts_and_saved_weights(tmp_path):
    model = small()
    ours = optimize(twin(model), kernel=reference)
    assert list(ours.state_dict()) == list(model.state_dict())
    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.float32):
        model.to(dtype), ours.to(dtype)
        given = arguments(model)
        limit = 1e-5 if dtype.itemsize >= 4 else 8 * torch.finfo(dtype).eps
        assert_near(ours(**given).sample, model(**given).sample, limit)
    model = small(seed=3)
    ours.load_state_dict(model.state_dict())
    for one, other in zip(ours.modules(), model.modules()):
        if hasattr(other, "eps"):
            one.eps = other.eps
    assert_near(ours(**arguments(model)).sample, model(**arguments(model)).sample)
    ours.save_pretrained(tmp_path)
    loaded = LTXVideoTransformer3DModel.from_pretrained(tmp_path)
    assert type(loaded) is LTXVideoTransformer3DModel
    assert {name: loaded.config[name] for name in model.config} == dict(model.config)
    for name, weight in loaded.state_dict().items():
        assert torch.equal(weight, model.state_dict()[name])


def pipeline(cls=LTXPipeline, transformer=None, **components):
    parts = {"scheduler": FlowMatchEulerDiscreteScheduler(), "vae": None, "text_encoder": None, "tokenizer": None}
    pipe = cls(**{**parts, **components}, transformer=small() if transformer is None else transformer)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def prompts(model):
    draw = torch.Generator().manual_seed(5)
    shape = (1, 6, model.config.caption_channels)
    mask = torch.tensor([[1, 1, 1, 1, 0, 0]])
    return {
        "prompt_embeds": torch.randn(shape, generator=draw),
        "negative_prompt_embeds": torch.randn(shape, generator=draw),
        "prompt_attention_mask": mask,
        "negative_prompt_attention_mask": torch.ones_like(mask),
    }


def video(pipe, **call):
    size = {"height": 96, "width": 128, "num_frames": 17, "num_inference_steps": 3, "output_type": "latent"}
    return pipe(
        **prompts(pipe.transformer), **size, generator=torch.Generator().manual_seed(7), return_dict=False, **call
    )[0]


def test_text_to_video_pipeline():
    pipe = pipeline()
    right = video(pipe)
    assert optimize(pipe, kernel=reference) is pipe and is_optimized(pipe)
    assert_near(video(pipe), right, 1e-4)
    assert restore(pipe) is pipe
    assert torch.equal(video(pipe), right)


def tiny_vae():
    from diffusers import AutoencoderKLLTXVideo

    torch.manual_seed(0)
    return AutoencoderKLLTXVideo(
        latent_channels=16,
        block_out_channels=(8, 8, 8, 8),
        decoder_block_out_channels=(8, 8, 8, 8),
        layers_per_block=(1, 1, 1, 1, 1),
        decoder_layers_per_block=(1, 1, 1, 1, 1),
        spatio_temporal_scaling=(True, True, True, False),
        decoder_spatio_temporal_scaling=(True, True, True, False),
        decoder_inject_noise=(False, False, False, False, False),
        upsample_residual=(False, False, False, False),
        upsample_factor=(1, 1, 1, 1),
        timestep_conditioning=False,
        patch_size=4,
        patch_size_t=1,
        encoder_causal=True,
        decoder_causal=False,
    ).eval()


@pytest.mark.parametrize("frame", [0, 8])
def test_condition_pipeline(frame):
    from diffusers.pipelines.ltx.pipeline_ltx_condition import LTXVideoCondition

    pipe = pipeline(LTXConditionPipeline, vae=tiny_vae())
    draw = torch.Generator().manual_seed(9)
    # At frame 0 it is blended into the video; elsewhere it is put in front as frames of its own.
    clip = torch.rand(9, 3, 96, 128, generator=draw)
    call = {
        "conditions": [LTXVideoCondition(video=clip, frame_index=frame, strength=0.8)],
        "image_cond_noise_scale": 0.1,
    }
    seen = []
    pipe.transformer.register_forward_pre_hook(lambda _, __, named: seen.append(named), with_kwargs=True)
    right = video(pipe, **call)
    assert seen[0]["timestep"].shape[1] > 1
    assert seen[0]["video_coords"].shape[2] == (3 + (2 if frame else 0)) * 3 * 4
    optimize(pipe, kernel=reference)
    assert_near(video(pipe, **call), right, 1e-4)
    assert len(pipe.transformer._ltx_tables._by_tensor) == 1


def test_image_to_video_pipeline():
    from diffusers import LTXImageToVideoPipeline

    pipe = pipeline(LTXImageToVideoPipeline, vae=tiny_vae())
    call = {"image": torch.rand(1, 3, 96, 128, generator=torch.Generator().manual_seed(9))}
    right = video(pipe, **call)
    optimize(pipe, kernel=reference)
    assert_near(video(pipe, **call), right, 1e-4)


def test_pipelines_that_share_a_transformer(tmp_path):
    pipe = optimize(pipeline(), kernel=reference)
    other = LTXConditionPipeline(**pipe.components)
    assert is_optimized(other) and optimize(other, kernel=reference) is other
    assert other.config["transformer"] == ("diffusers", "LTXVideoTransformer3DModel")


def test_the_cases_are_pipelines():
    """Every kind of call has a case: with and without coordinates, masks, and timesteps a token."""
    kinds = {(case.coords, case.per_token) for case in CASES}
    assert len(kinds) == 4
