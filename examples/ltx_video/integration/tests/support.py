"""Small models with the relations of the real ones, inputs as the pipelines make them, and how near is near."""

import copy
import dataclasses
from typing import Any, Dict, Optional

import pytest
import torch
from diffusers import FlowMatchEulerDiscreteScheduler, LTXVideoTransformer3DModel
from ltx_video_kernels.configs import config

needs_card = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
needs_two_cards = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="fewer than two CUDA devices")

VIDEO = (3, 4, 5)  # frames, rows, columns of the latents
SCALE = (8 / 25, 32, 32)
TEXT = 6


def small(name: str = "smoke", dtype=torch.float32, seed: int = 0, **changes: Any) -> LTXVideoTransformer3DModel:
    """A model in which no two numbers are alike that could be taken for each other: weights of norms, rows of tables,
    each norm's eps."""
    torch.manual_seed(seed)
    model = LTXVideoTransformer3DModel(**{**config(name), **changes}).eval()
    for index, block in enumerate(model.transformer_blocks):
        torch.nn.init.normal_(block.scale_shift_table, std=0.5)
        block.norm1.eps, block.norm2.eps = 0.11 + index / 50, 0.07 + index / 50
        for attention, eps in ((block.attn1, 0.05), (block.attn2, 0.03)):
            for norm in (attention.norm_q, attention.norm_k):
                torch.nn.init.uniform_(norm.weight, 0.3, 1.7)
                norm.eps = eps
    torch.nn.init.normal_(model.scale_shift_table, std=0.5)
    model.norm_out.eps = 0.09
    return model.to(dtype)


def video_coords(frames, rows, columns, batch: int = 1, conditions=(), rate: float = 25.0) -> torch.Tensor:
    """What LTXConditionPipeline passes: pixels and seconds, conditions in front at the frames that they are for."""

    def ids(count, at):
        f, y, x = torch.meshgrid(torch.arange(count), torch.arange(rows), torch.arange(columns), indexing="ij")
        return torch.stack([((f * 8 + 1 - 8).clamp(min=0) + at).flatten(), y.flatten() * 32, x.flatten() * 32])

    coords = torch.cat([*(ids(count, at) for count, at in conditions), ids(frames, 0)], dim=1)[None].float()
    coords[:, 0] *= 1.0 / rate
    return coords.repeat(batch, 1, 1)


@dataclasses.dataclass(frozen=True)
class Case:
    """A way in which a pipeline calls the model."""

    name: str
    per_token: bool = False
    coords: bool = False
    conditions: tuple = ()
    mask: bool = True
    scale: Any = SCALE
    batch: int = 2

    def __str__(self) -> str:
        return self.name


CASES = [
    Case("text to video"),
    Case("no rope_interpolation_scale", scale=None),
    Case("batch of one, no mask", batch=1, mask=False),
    Case("a frame rate each", scale="each"),
    Case("image to video: a timestep a token", per_token=True),
    Case("video_coords", coords=True),
    Case("conditions in front, a timestep a token", per_token=True, coords=True, conditions=((2, 8), (1, 8), (1, 3))),
]


def arguments(model, case: Case = CASES[0], device="cpu", video=VIDEO, seed: int = 1) -> Dict[str, Any]:
    draw = torch.Generator().manual_seed(seed)
    frames, rows, columns = video
    tokens = (frames + sum(count for count, _ in case.conditions)) * rows * columns
    made = {
        "hidden_states": torch.randn(case.batch, tokens, model.config.in_channels, generator=draw),
        "encoder_hidden_states": torch.randn(case.batch, TEXT, model.config.caption_channels, generator=draw),
        "encoder_attention_mask": None,
    }
    made = {name: t if t is None else t.to(device, model.dtype) for name, t in made.items()}
    if case.mask:
        mask = torch.ones(case.batch, TEXT)
        mask[0, TEXT // 2 :] = 0
        made["encoder_attention_mask"] = mask.to(device)
    timestep = torch.full((case.batch,), 611.0)
    if case.per_token:
        timestep = torch.min(timestep[:, None], torch.rand(case.batch, tokens, generator=draw) * 1000)
    made["timestep"] = timestep.to(device)
    if case.coords:
        made["video_coords"] = video_coords(*video, case.batch, case.conditions).to(device)
    else:
        scale = case.scale
        if scale == "each":
            each = torch.tensor([8 / 25, 8 / 30]).view(-1, 1, 1, 1, 1)
            scale = (each.to(device), 32, 32)
        made.update(num_frames=frames, height=rows, width=columns, rope_interpolation_scale=scale)
    return made


def denoise(model, given: Dict[str, Any], steps: int = 3, record: Optional[list] = None) -> torch.Tensor:
    """A loop as the pipelines have it, with FlowMatchEulerDiscreteScheduler."""
    scheduler = FlowMatchEulerDiscreteScheduler()
    scheduler.set_timesteps(steps, device=given["hidden_states"].device)
    latents = given["hidden_states"].float()
    for t in scheduler.timesteps:
        call = dict(given, hidden_states=latents.to(model.dtype), timestep=torch.minimum(given["timestep"], t))
        velocity = model(**call, return_dict=False)[0]
        if record is not None:
            record.append(velocity)
        latents = scheduler.step(velocity.float(), t, latents, return_dict=False)[0]
    return latents


def assert_near(actual: torch.Tensor, right: torch.Tensor, tolerance: float = 2e-5) -> None:
    assert actual.shape == right.shape and actual.dtype == right.dtype
    off = (actual.double() - right.double()).abs().max() / right.double().abs().max()
    assert off <= tolerance, f"{off.item():.3g} of the largest element off, allowed {tolerance}"


def twin(model):
    return copy.deepcopy(model)
