"""Times LTX-Video's transformer whole: eager, with the kernels, compiled, and both.

    python benchmark_e2e.py [--smoke] [--cases NAMES] [--contenders NAMES] [--seconds BUDGET] [--out FILE.json]

Needs diffusers, and the kernel: `kernels build --torch` in this folder. The weights are drawn, or with --weights those
of a checkpoint's transformer folder. docs/end-to-end.md of the repository says how it is measured.
"""

import pathlib
import sys

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE / "integration")]

from end_to_end import Case, Draw, Subject, main  # noqa: E402

TEXT = 128
# Of the text's tokens, those of the empty prompt and of the prompt; the rest is masked.
WORDS = (1, 60)
RATE = 25
GUIDANCE = 3.0


def kwargs(name):
    from ltx_video_kernels.configs import config

    return dict(config(name))


def build(name, weights):
    from diffusers import LTXVideoTransformer3DModel

    if weights:
        return LTXVideoTransformer3DModel.from_pretrained(weights, torch_dtype=torch.get_default_dtype())
    return LTXVideoTransformer3DModel(**kwargs(name))


def text(tree, draw, device):
    """Embeddings and mask of the empty prompt and of one, as classifier-free guidance takes them."""
    mask = torch.zeros(2, TEXT, device=device, dtype=torch.bool)
    for row, words in enumerate(WORDS):
        mask[row, :words] = True
    return {"encoder_hidden_states": draw(2, TEXT, tree.config.caption_channels), "encoder_attention_mask": mask}


def arguments(hidden, timestep, video, given):
    """Of a step of text to video; in one order everywhere, for which Dynamo has a guard."""
    frames, height, width = video
    return {
        "hidden_states": hidden,
        "timestep": timestep,
        "num_frames": frames,
        "height": height,
        "width": width,
        "rope_interpolation_scale": (8 / RATE, 32, 32),
        **given,
    }


def step_case(name, label, frames, height, width, per_token=False):
    tokens = frames * height * width

    def make(tree, device, dtype):
        draw = Draw(device, dtype)
        hidden, given = draw(2, tokens, tree.config.in_channels), text(tree, draw, device)
        # As the pipeline makes it of one number. The loop does so too, and takes what the step compiled.
        time = torch.tensor(700.0, device=device).expand(2)
        if not per_token:
            return arguments(hidden, time, (frames, height, width), given)
        # As LTXConditionPipeline calls it: the first frame is given, so its tokens have no noise, and coordinates
        # come by token.
        axes = [torch.arange(size, device=device, dtype=torch.float32) for size in (frames, height, width)]
        coords = torch.stack(torch.meshgrid(*axes, indexing="ij")).flatten(1)
        coords = coords * torch.tensor([8 / RATE, 32.0, 32.0], device=device)[:, None]
        given_tokens = torch.arange(tokens, device=device) < height * width
        return {
            **given,
            "hidden_states": hidden,
            "video_coords": coords[None].repeat(2, 1, 1),
            "timestep": torch.where(given_tokens, torch.zeros_like(time)[:, None], time[:, None]),
        }

    def step(tree, call, inputs, compiled):
        return call(**inputs, return_dict=False)[0]

    return Case(name, label, make, step)


def scheduler_of(tokens, steps, device):
    """As LTXPipeline sets it."""
    import numpy
    from diffusers import FlowMatchEulerDiscreteScheduler

    scheduler = FlowMatchEulerDiscreteScheduler(
        use_dynamic_shifting=True, base_shift=0.95, max_shift=2.05, base_image_seq_len=1024, max_image_seq_len=4096,
        shift_terminal=0.1,
    )  # fmt: skip
    low, high = scheduler.config.base_image_seq_len, scheduler.config.max_image_seq_len
    slope = (scheduler.config.max_shift - scheduler.config.base_shift) / (high - low)
    shift = scheduler.config.base_shift + slope * (tokens - low)
    scheduler.set_timesteps(sigmas=numpy.linspace(1.0, 1 / steps, steps), device=device, mu=shift)
    return scheduler


def loop_case(name, label, steps, frames, height, width):
    tokens = frames * height * width

    def make(tree, device, dtype):
        draw = Draw(device, dtype)
        # The pipeline keeps its latents in float32.
        latents = Draw(device, torch.float32)(1, tokens, tree.config.in_channels)
        return {"latents": latents, "dtype": dtype, "device": device, "text": text(tree, draw, device)}

    def step(tree, call, inputs, compiled):
        scheduler = scheduler_of(tokens, steps, inputs["device"])
        latents = inputs["latents"]
        for time in scheduler.timesteps:
            hidden = torch.cat([latents] * 2).to(inputs["dtype"])
            given = arguments(hidden, time.expand(2), (frames, height, width), inputs["text"])
            noise = call(**given, return_dict=False)[0].float()
            empty, prompted = noise.chunk(2)
            noise = empty + GUIDANCE * (prompted - empty)
            latents = scheduler.step(noise, time, latents, return_dict=False)[0]
        return latents

    return Case(name, label, make, step, per=f"loop of {steps} steps")


def cases(config):
    if config == "smoke":
        return [
            step_case("step-49", "step, batch 2, 3 x 4 x 6 tokens", 3, 4, 6),
            step_case("step-49-per-token", "step, batch 2, a timestep a token, 3 x 4 x 6 tokens", 3, 4, 6, per_token=True),
            loop_case("loop-49", "denoising loop of 3 steps, 3 x 4 x 6 tokens", 3, 3, 4, 6),
        ]
    return [
        step_case("step-49", "step, batch 2, 512 x 768, 49 frames", 7, 16, 24),
        # Behind the step whose compiled call it takes.
        loop_case("loop-49", "denoising loop of 8 steps with guidance, 49 frames", 8, 7, 16, 24),
        step_case("step-161", "step, batch 2, 512 x 768, 161 frames", 21, 16, 24),
        step_case("step-49-per-token", "step, batch 2, a timestep a token, 49 frames", 7, 16, 24, per_token=True),
    ]


def optimize(tree, kernel):
    from ltx_video_kernels.integration import optimize

    return optimize(tree, kernel=kernel)


SUBJECT = Subject(
    name="ltx_video",
    title="LTX-Video",
    folder=str(HERE),
    environment="LTX_VIDEO_KERNELS",
    configs=["2b", "13b", "smoke"],
    config=kwargs,
    build=build,
    cases=cases,
    optimize=optimize,
    packages=["diffusers"],
)

if __name__ == "__main__":
    sys.exit(main(SUBJECT))
