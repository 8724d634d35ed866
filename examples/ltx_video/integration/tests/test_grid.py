"""The grid that coordinates are."""

import pytest
from ltx_video_kernels.rotary import find_shape
from support import video_coords


@pytest.mark.parametrize(
    "video", [(1, 1, 1), (5, 1, 1), (1, 5, 1), (1, 1, 5), (3, 1, 4), (3, 4, 1), (1, 3, 4), (2, 3, 4)]
)
@pytest.mark.parametrize("batch", [1, 2])
def test_a_grid(video, batch):
    assert find_shape(video_coords(*video, batch)) == (*video, True)


@pytest.mark.parametrize("conditions", [((1, 16),), ((2, 8), (2, 8)), ((1, 0), (1, 0), (1, 0)), ((1, 1), (3, 40))])
def test_conditions_are_frames(conditions):
    frames = 3 + sum(count for count, _ in conditions)
    assert find_shape(video_coords(3, 2, 4, 2, conditions)) == (frames, 2, 4, True)


def test_rows_of_one_column_and_columns_of_one_row():
    assert find_shape(video_coords(2, 1, 4, 1, ((1, 8),)))[:3] == (3, 1, 4)
    assert find_shape(video_coords(2, 4, 1, 1, ((1, 8),)))[:3] == (3, 4, 1)


def test_a_grid_each():
    coords = video_coords(3, 2, 4, 2)
    coords[1, 0] *= 2
    assert find_shape(coords) == (3, 2, 4, False)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("token", [0, 1, 11, 23])
def test_one_token_elsewhere(axis, token):
    coords = video_coords(3, 2, 4, 2)
    coords[1, axis, token] += 0.5
    assert find_shape(coords) is None


def test_no_numbers():
    coords = video_coords(3, 2, 4)
    coords[0, 1, 5] = float("nan")
    assert find_shape(coords) is None
    assert find_shape(coords[:, :, :0]) is None
    assert find_shape(coords[:, :, :23]) is None
