"""Every op of the package, in every way that torch calls one. The cases are those of the families' own files."""

import importlib
import pathlib

import pytest
import torch
import torch.fx.experimental._config
from support import DEVICE, DTYPES, Draw, assert_near, check, exact, needs_card, needs_two_cards, ops_of, tensors

CASES = [
    case
    for path in sorted(pathlib.Path(__file__).parent.glob("cases_*.py"))
    for case in importlib.import_module(path.stem).CASES
]
DIFFERENTIABLE = [case for case in CASES if case.differentiable]


def test_every_function_is_documented(kernel):
    assert "layers" in kernel.__all__ and len(set(kernel.__all__)) == len(kernel.__all__)
    for name in kernel.__all__:
        assert hasattr(kernel, name), name
        assert name == "layers" or getattr(kernel, name).__doc__, name
    for name in kernel.layers.__all__:
        assert getattr(kernel.layers, name).__doc__, name


def test_ops_that_end_in_an_underscore_write_and_no_other_does(kernel):
    ops = ops_of(kernel)
    names = [name for name in dir(ops) if isinstance(getattr(ops, name), torch._ops.OpOverloadPacket)]
    assert names
    for name in names:
        writes = any(
            a.alias_info is not None and a.alias_info.is_write for a in getattr(ops, name).default._schema.arguments
        )
        assert writes == name.endswith("_"), name


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_fake_is_what_the_case_says(kernel, case):
    """Shapes, dtype and device without a card, also of a size that is not known."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    given = case.make(Draw("cpu", torch.bfloat16), 5)
    right = exact(case, given, torch.bfloat16)
    for shapes in (None, ShapeEnv()):
        with FakeTensorMode(shape_env=shapes) as mode, torch.no_grad():
            fake = {k: mode.from_tensor(v) if isinstance(v, torch.Tensor) else v for k, v in given.items()}
            outputs = tensors(case.call(kernel, **fake))
        assert [(tuple(map(int, o.shape)), o.dtype) for o in outputs] == [(o.shape, torch.bfloat16) for o in right]


@needs_card
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_results_are_the_formulas(kernel, case, dtype):
    for n in (1, 3, 64):
        given = case.make(Draw(DEVICE, dtype), n)
        check(case, case.call(kernel, **given), given, dtype)


@needs_card
@pytest.mark.parametrize("case", CASES, ids=str)
def test_nothing_of_a_size_is_nothing(kernel, case):
    given = case.make(Draw(DEVICE, torch.bfloat16), 0)
    outputs = tensors(case.call(kernel, **given))
    assert [o.shape for o in outputs] == [o.shape for o in exact(case, given, torch.bfloat16)]


@needs_card
@pytest.mark.parametrize("case", CASES, ids=str)
def test_outputs_are_as_the_fake_says(kernel, case):
    """Strides too: torch.compile plans with them."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    given = case.make(Draw(DEVICE, torch.float16), 5)
    outputs = tensors(case.call(kernel, **given))
    with FakeTensorMode() as mode, torch.no_grad():
        fake = {k: mode.from_tensor(v) if isinstance(v, torch.Tensor) else v for k, v in given.items()}
        faked = tensors(case.call(kernel, **fake))
    for real, fake in zip(outputs, faked):
        assert (real.shape, real.stride(), real.dtype, real.device) == (
            fake.shape,
            fake.stride(),
            fake.dtype,
            fake.device,
        )


def gradients(case, call, given, wanted):
    """The gradients of the outputs' products with numbers that are always the same."""
    leaves = {name: given[name].detach().clone().requires_grad_() for name in wanted}
    outputs = tensors(call(**{**given, **leaves}))
    loss = 0.0
    for i, output in enumerate(outputs):
        by = Draw(output.device, outputs[0].dtype, seed=100 + i)(*output.shape)
        loss = loss + (output * by.to(output.dtype)).sum()
    return torch.autograd.grad(loss, list(leaves.values()))


def right_gradients(case, given, dtype, wanted):
    wide = {k: v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for k, v in given.items()}
    leaves = {name: wide[name].requires_grad_() for name in wanted}
    loss = 0.0
    for i, output in enumerate(tensors(case.exact(**{**wide, **leaves}, dtype=dtype))):
        loss = loss + (output * Draw(output.device, dtype, seed=100 + i)(*output.shape).double()).sum()
    return torch.autograd.grad(loss, list(leaves.values()))


@needs_card
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=str)
def test_gradients_are_the_formulas(kernel, case, dtype):
    for n in (2, 64):
        given = case.make(Draw(DEVICE, dtype), n)
        for wanted in {case.differentiable, case.differentiable[:1], case.differentiable[-1:]}:
            actual = gradients(case, lambda **a: case.call(kernel, **a), given, wanted)
            for one, right in zip(actual, right_gradients(case, given, dtype, wanted)):
                assert one.dtype == dtype
                assert_near(one, right, case.roundings + 1, cancels=case.roundings > 1)


@needs_card
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_torch_compile_takes_it_whole(kernel, case, dynamic):
    compiled = torch.compile(lambda **a: case.call(kernel, **a), fullgraph=True, dynamic=dynamic)
    sizes = (5, 8, 3) if dynamic else (5,)
    for i, n in enumerate(sizes):
        given = case.make(Draw(DEVICE, torch.bfloat16, seed=i), n)
        # Sizes that are the same by chance, of tokens and heads, say nothing.
        with (
            torch.fx.experimental._config.patch(use_duck_shape=False),
            torch._dynamo.config.patch(error_on_recompile=i > 0),
        ):
            check(case, compiled(**given), given, torch.bfloat16)


@needs_card
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=str)
def test_torch_compile_takes_its_gradient_whole(kernel, case, dynamic):
    compiled = torch.compile(lambda **a: case.call(kernel, **a), fullgraph=True, dynamic=dynamic)
    for n in (5, 8) if dynamic else (5,):
        given = case.make(Draw(DEVICE, torch.float32), n)
        actual = gradients(case, compiled, given, case.differentiable)
        for one, right in zip(actual, right_gradients(case, given, torch.float32, case.differentiable)):
            assert_near(one, right, case.roundings + 1, cancels=case.roundings > 1)


@needs_card
@pytest.mark.parametrize("case", CASES, ids=str)
def test_torch_agrees_with_the_schema(kernel, case):
    """torch's own check of a custom op: what it writes, its fake, and tracing with unknown sizes."""
    ops = ops_of(kernel)
    seen = []

    class Record(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func.namespace == ops.name:
                kept = [v.clone() if isinstance(v, torch.Tensor) else v for v in args]
                seen.append((func, tuple(kept), dict(kwargs or {})))
            return func(*args, **(kwargs or {}))

    with torch.no_grad(), Record():
        case.call(kernel, **case.make(Draw(DEVICE, torch.bfloat16), 5))
    assert seen
    for func, args, kwargs in seen:
        torch.library.opcheck(
            func, args, kwargs, test_utils=("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
        )


@needs_card
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_cuda_graph_replays_it(kernel, case):
    dtype = torch.bfloat16
    static, fresh = case.make(Draw(DEVICE, dtype), 6), case.make(Draw(DEVICE, dtype, seed=1), 6)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        case.call(kernel, **static)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = case.call(kernel, **static)
    for name, value in static.items():
        if isinstance(value, torch.Tensor):
            value.copy_(fresh[name])
    graph.replay()
    torch.cuda.synchronize()
    check(case, outputs, fresh, dtype)


@needs_card
@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_runs_on_the_current_stream(kernel, case):
    """Its inputs come late, on a stream of its own: on any other it would read what was there before."""
    dtype = torch.bfloat16
    fresh = case.make(Draw(DEVICE, dtype), 6)
    late = {k: torch.zeros_like(v) if isinstance(v, torch.Tensor) else v for k, v in fresh.items()}
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        for name, value in late.items():
            if isinstance(value, torch.Tensor):
                value.copy_(fresh[name])
        outputs = case.call(kernel, **late)
    stream.synchronize()
    check(case, outputs, fresh, dtype)


@needs_two_cards
@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_runs_where_its_tensors_are(kernel, case):
    dtype = torch.bfloat16
    for current, other in ((0, 1), (1, 0)):
        with torch.cuda.device(current):
            given = case.make(Draw(f"cuda:{other}", dtype), 6)
            outputs = case.call(kernel, **given)
            assert torch.cuda.current_device() == current
            assert all(output.device == torch.device("cuda", other) for output in tensors(outputs))
            check(case, outputs, given, dtype)
