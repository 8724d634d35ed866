"""The rotary table of a step. Tokens are a grid of frames, rows and columns, and an angle follows from one of the three
alone, so that a table has a row for each of them and not for each token."""

import weakref
from collections import OrderedDict
from typing import Any, NamedTuple, Optional, Tuple

import torch
from diffusers.models.transformers.transformer_ltx import LTXVideoRotaryPosEmbed

from .hooks import watched
from .kernel import Kernel

_KEPT = 4


class Grid(NamedTuple):
    """Stands where diffusers passes (cos, sin)."""

    table: torch.Tensor
    frames: int
    height: int
    width: int


class Shape(NamedTuple):
    frames: int
    height: int
    width: int
    one: bool  # all of a batch have the same coordinates


def find_shape(coords: torch.Tensor) -> Optional[Shape]:
    """Of coordinates [batch, 3, tokens]: the grid that they are, None if they are none. Frames may lie anywhere and
    come twice, so a frame ends where its rows and columns begin anew."""
    coords = coords.cpu()
    if coords.dim() != 3 or coords.shape[1] != 3 or 0 in coords.shape:
        return None
    batch, _, tokens = coords.shape
    rows, columns = coords[0, 1], coords[0, 2]
    again = ((rows == rows[0]) & (columns == columns[0])).nonzero().flatten()
    frame = int(again[1]) if len(again) > 1 else tokens
    changes = (rows[:frame] != rows[0]).nonzero().flatten()
    width = int(changes[0]) if len(changes) > 0 else frame
    if tokens % frame != 0 or frame % width != 0:
        return None
    grid = coords.view(batch, 3, tokens // frame, frame // width, width)
    alike = (
        (grid[:, 0] == grid[:, 0, :, :1, :1]).all()
        and (grid[:, 1] == grid[:, 1, :1, :, :1]).all()
        and (grid[:, 2] == grid[:, 2, :1, :1, :]).all()
    )
    if not alike:
        return None
    return Shape(tokens // frame, frame // width, width, bool((coords == coords[:1]).all()))


def _coords_of(rope: LTXVideoRotaryPosEmbed, video_coords: torch.Tensor, shape: Shape) -> torch.Tensor:
    """For rope3d_table, in the model's own steps."""
    batch = video_coords[:1] if shape.one else video_coords
    grid = batch.reshape(len(batch), 3, *shape[:3])
    axes = [
        grid[:, 0, :, 0, 0] / rope.base_num_frames,
        grid[:, 1, 0, :, 0] / rope.base_height,
        grid[:, 2, 0, 0, :] / rope.base_width,
    ]
    return torch.cat(axes, dim=1)


class Tables:
    """The tables of a model. A loop makes one in its first step.

    Kept for calls whose arguments are numbers, and for a `video_coords` as long as it lives and nobody writes to it.
    Never under a capture, where a table would be of the graph's own memory, and not filled yet.
    """

    def __init__(self):
        self._by_numbers: "OrderedDict[Any, Grid]" = OrderedDict()
        self._by_tensor: "OrderedDict[int, Tuple[Any, int, Any, Optional[Shape], Optional[Grid]]]" = OrderedDict()

    def __deepcopy__(self, memo) -> "Tables":
        return Tables()

    def of(
        self,
        kernel: Kernel,
        rope: LTXVideoRotaryPosEmbed,
        hidden_states: torch.Tensor,
        num_frames: Optional[int],
        height: Optional[int],
        width: Optional[int],
        scale: Any,
        video_coords: Optional[torch.Tensor],
    ) -> Any:
        """A Grid, or diffusers' own (cos, sin) where there is no grid to find."""
        if not watched(rope):
            if video_coords is not None:
                # Values cannot be inspected under torch.compile.
                grid = None if torch.compiler.is_compiling() else self._of_tensor(kernel, rope, video_coords)
            else:
                grid = self._of_numbers(kernel, rope, hidden_states.device, num_frames, height, width, scale)
            if grid is not None:
                return grid
        return rope(hidden_states, num_frames, height, width, scale, video_coords)

    def _of_numbers(self, kernel, rope, device, num_frames, height, width, scale) -> Grid:
        def made() -> Grid:
            coords = kernel.rope3d_coords(
                num_frames,
                height,
                width,
                None if scale is None else tuple(scale),
                device,
                (rope.base_num_frames, rope.base_height, rope.base_width),
                (rope.patch_size_t, rope.patch_size),
            )
            return Grid(kernel.rope3d_table(coords, rope.dim, rope.theta), num_frames, height, width)

        if torch.compiler.is_compiling():
            return made()
        by_numbers = scale is None or all(isinstance(s, (int, float)) for s in scale)
        if not by_numbers or _capturing(device):
            return made()
        key = (num_frames, height, width, None if scale is None else tuple(scale), _place(device))
        grid = self._by_numbers.get(key)
        if grid is None:
            grid = self._by_numbers[key] = made()
            if len(self._by_numbers) > _KEPT:
                self._by_numbers.popitem(last=False)
        return grid

    def _of_tensor(self, kernel, rope, video_coords) -> Optional[Grid]:
        if video_coords.dtype not in (torch.float32, torch.int32, torch.int64):
            return None  # diffusers computes with those in their own precision

        def made(shape: Shape) -> Grid:
            return Grid(kernel.rope3d_table(_coords_of(rope, video_coords, shape), rope.dim, rope.theta), *shape[:3])

        capturing = _capturing(video_coords.device)
        # An inference tensor has no version counter.
        version = None if video_coords.is_inference() else video_coords._version
        kept = self._by_tensor.get(id(video_coords))
        if kept is not None and (kept[0]() is not video_coords or kept[1] != version or version is None):
            kept = None
        if kept is None:
            if capturing:
                return None  # looking would need the values now
            shape = find_shape(video_coords)
        else:
            shape = kept[3]
        if shape is None:
            grid = None
        elif capturing:
            return made(shape)
        elif kept is not None and kept[2] == _place(video_coords.device):
            return kept[4]
        else:
            grid = made(shape)
        if version is not None:
            place = _place(video_coords.device)
            self._by_tensor[id(video_coords)] = (weakref.ref(video_coords), version, place, shape, grid)
            self._by_tensor.move_to_end(id(video_coords))
            if len(self._by_tensor) > _KEPT:
                self._by_tensor.popitem(last=False)
        return grid


def _capturing(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def _place(device: torch.device) -> Tuple[torch.device, int]:
    """A device and its stream: nothing orders one stream behind another that made the table."""
    return device, torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
