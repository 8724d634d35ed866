"""A small model through the whole of it, on the CPU: who is right, who is wrong, who fails, and what is written."""

import dataclasses
import json
import sys

import pytest
import torch
from end_to_end import Case, Draw, Subject, accuracy, clock, contenders, main, model


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(16, 16)
        self.norm = torch.nn.LayerNorm(16)
        self.register_buffer("shift", torch.ones(16))

    def forward(self, x):
        return self.norm(self.inner(x)) + self.shift


def make(tree, device, dtype):
    return {"x": Draw(device, dtype)(4, 16)}


CASE = Case("step", "a step", make, lambda tree, call, inputs, compiled: call(**inputs))


def right(tree, kernel):
    tree.inner.forward = lambda x: torch.nn.functional.linear(x, tree.inner.weight, tree.inner.bias)


def wrong(tree, kernel):
    tree.norm.forward = lambda x: x


def infinite(tree, kernel):
    tree.norm.forward = lambda x: x / 0


def failing(tree, kernel):
    def forward(x):
        raise ValueError("no such shape\nand more")

    tree.norm.forward = forward


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["benchmark_e2e.py"])
    kernel = tmp_path / "kernel.py"
    kernel.write_text("")

    def ran(optimize, *arguments, graphs=None):
        case = dataclasses.replace(CASE, graphs=graphs is not None)
        subject = Subject(
            name="small", title="Small", folder=str(tmp_path), environment="SMALL_KERNELS", configs=["real", "smoke"],
            config=lambda name: {"width": 16}, build=lambda name, weights: Small(), cases=lambda name: [case],
            optimize=optimize, packages=["no-such-package"], optimize_in_graphs=graphs,
        )  # fmt: skip
        out = tmp_path / "out.json"
        out.unlink(missing_ok=True)
        code = main(subject, ["--smoke", "--dry", "--kernel", str(kernel), "--out", str(out), *arguments])
        return code, json.loads(out.read_text())

    return ran


def of(result, name):
    return next(one for one in result["cases"][0]["contenders"] if one["name"] == name)


@pytest.mark.parametrize("graphs", [None, right])
def test_all_are_held_against_fp32(run, graphs):
    code, result = run(right, graphs=graphs)
    assert code == 0 and result["finished"] and result["partial"] == "--dry" and result["card"] is None
    those = [name for name in contenders.CONTENDERS if graphs or name != "graphs"]
    assert [one["name"] for one in result["cases"][0]["contenders"]] == those and not result["skipped"]
    for one in result["cases"][0]["contenders"]:
        assert one["wrong"] is None and 0 < one["errors"]["of_fp32"] < 0.02
    assert of(result, "both")["graph_breaks"] == 0
    assert result["model"]["dtype"] == "bfloat16" and result["versions"]["torch"] == torch.__version__


def test_who_is_wrong_has_no_time_and_the_run_fails(run):
    code, result = run(wrong, "--contenders", "eager,kernels")
    assert code == 1 and result["partial"] == "--contenders, --dry"
    assert "off the fp32 run" in of(result, "kernels")["wrong"]
    assert of(result, "eager")["wrong"] is None
    code, result = run(wrong, "--contenders", "kernels", "--no-fp32")
    assert code == 1 and "off eager" in of(result, "kernels")["wrong"]
    code, result = run(infinite, "--contenders", "eager,kernels")
    assert code == 1 and of(result, "kernels")["wrong"] == "it is not finite"


def test_who_fails_is_named_and_the_others_go_on(run):
    code, result = run(failing, "--contenders", "eager,kernels")
    assert code == 1 and of(result, "eager")["wrong"] is None
    assert result["skipped"] == [
        {"case": "step", "contender": "kernels", "why": "ValueError: no such shape", "failed": True}
    ]


def test_what_is_over_the_budget_is_named(run):
    code, result = run(right, "--seconds", "0", "--contenders", "eager,graphs")
    assert code == 0 and result["cases"] == []
    assert [(one["case"], one["failed"]) for one in result["skipped"]] == [("step", False)]


def test_trees_share_their_tensors_and_nothing_else():
    tree = Small()
    other = model.sharing(tree)
    right(other, None)
    assert other.inner.weight is tree.inner.weight and other.shift is tree.shift
    assert "forward" not in vars(tree.inner) and "forward" in vars(other.inner)
    assert model.bytes_of(tree) == 4 * (16 * 16 + 4 * 16)


def test_fp32_is_for_a_while_and_loses_nothing():
    tree = Small().to(torch.bfloat16)
    tree.register_buffer("angles", torch.rand(4))
    before = {name: tensor.clone() for name, tensor in tree.state_dict().items()}
    with model.in_fp32(tree):
        assert tree.inner.weight.dtype == tree.shift.dtype == torch.float32
    for name, tensor in tree.state_dict().items():
        assert tensor.dtype == before[name].dtype and (tensor == before[name]).all()
    assert tree.angles.dtype == torch.float32


def test_norms_do_not_keep_weights_of_one():
    tree = Small()
    model.vary_norms(tree)
    assert tree.norm.weight.std() > 0.01 and (tree.norm.bias == 0).all()


def test_compiled_trees_have_code_objects_of_their_own():
    one, other = (contenders.compiled(Small(), "default", "eager")._torchdynamo_orig_callable for _ in range(2))
    assert one.__code__ is not other.__code__
    assert one(torch.zeros(1, 16)).shape == (1, 16)


def test_inputs_are_the_same_numbers_in_fp32():
    narrow, wide = Draw("cpu", torch.bfloat16)(8), Draw("cpu", torch.float32)(8)
    assert wide.dtype == torch.float32 and (narrow.float() == wide).all()


def test_a_round_has_every_contender_once_and_orders_differ():
    order = []
    steps = {name: (lambda name=name: order.append(name)) for name in "abcd"}
    clock_once, clock.once = clock.once, lambda step, repeat, device: step() or 1.0
    try:
        samples = clock.rounds(steps, 8, "cpu", seed=1, over=lambda: False)
        short = clock.rounds(steps, 8, "cpu", seed=1, over=lambda: True)
    finally:
        clock.once = clock_once
    timed = order[8:40]
    rounds = [tuple(timed[at : at + 4]) for at in range(0, 32, 4)]
    assert all(sorted(one) == list("abcd") for one in rounds) and len(set(rounds)) > 2
    assert all(len(of_one) == 8 for of_one in samples.values())
    assert all(len(of_one) == clock.LEAST_ROUNDS for of_one in short.values())


def test_percentiles_lie_between_samples():
    summary = clock.summary([4.0, 1.0, 2.0, 3.0, 5.0])
    assert summary == {"median": 3.0, "p10": pytest.approx(1.4), "p90": pytest.approx(4.6), "min": 1.0, "samples": 5}


def test_a_result_may_be_somewhat_further_off_than_eager_and_no_more():
    exact = torch.ones(1000)
    eager = torch.full((1000,), 1.02)
    near, far = torch.full((1000,), 1.028), torch.full((1000,), 1.04)
    assert accuracy.judge(near, eager, exact).wrong is None
    assert accuracy.judge(far, eager, exact).wrong
    assert accuracy.judge(far, eager, None).wrong is None
    assert accuracy.judge(2 * eager, eager, None).wrong
    assert "shape" in accuracy.judge(near[:1], eager, exact).wrong


def test_tokens_are_told_and_not_judged():
    verdict = accuracy.judge(torch.tensor([[1, 2, 3, 9]]), torch.tensor([[1, 2, 4, 9]]), None)
    assert verdict.wrong is None and verdict.errors == {"tokens": 4.0, "tokens_as_eager": 2.0}
