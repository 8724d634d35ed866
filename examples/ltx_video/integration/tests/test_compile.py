"""torch.compile: one graph, and the same numbers."""

import pytest
import reference
import torch
from ltx_video_kernels import is_optimized, optimize, restore
from support import CASES, arguments, assert_near, small, twin


@pytest.mark.parametrize(
    "backend, case",
    # aot_eager traces what eager traces, and once more.
    [("aot_eager" if case in (CASES[0], CASES[-1]) else "eager", case) for case in CASES],
    ids=str,
)
def test_one_graph(backend, case):
    model = small()
    given = arguments(model, case)
    ours = optimize(twin(model), kernel=reference)
    compiled = torch.compile(ours, backend=backend, fullgraph=True)
    right = model(**given).sample
    for _ in range(2):
        assert_near(compiled(**given).sample, right)
    assert_near(ours(**given).sample, right)


def test_compiled_before():
    model = small()
    given = arguments(model)
    right = model(**given).sample
    compiled = torch.compile(twin(model), backend="eager", fullgraph=True)
    assert torch.equal(compiled(**given).sample, right)
    assert optimize(compiled, kernel=reference) is compiled and is_optimized(compiled)
    ours = compiled(**given).sample
    assert not torch.equal(ours, right)
    assert_near(ours, right)
    assert torch.equal(restore(compiled)(**given).sample, right)


def test_steps_do_not_compile_anew():
    model = small()
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    ours = torch.compile(optimize(small(), kernel=reference), backend=backend, fullgraph=True)
    for seed in range(4):
        given = arguments(model, seed=seed)
        assert_near(ours(**given).sample, model(**given).sample)
    assert len(graphs) == 1


def test_compile_in_place():
    model = small()
    given = arguments(model)
    right = model(**given).sample
    ours = optimize(model, kernel=reference)
    ours.compile(backend="eager", fullgraph=True)
    assert_near(ours(**given).sample, right)


def test_another_size():
    """torch.compile takes numbers that change for unknown ones."""
    model = small()
    ours = torch.compile(optimize(twin(model), kernel=reference), backend="eager", fullgraph=True)
    for video in [(3, 4, 5), (2, 5, 4), (4, 2, 3)]:
        given = arguments(model, video=video)
        assert_near(ours(**given).sample, model(**given).sample)
