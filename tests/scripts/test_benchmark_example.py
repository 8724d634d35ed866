"""benchmark_example.py: honest candidates pass, and every cheat is caught, by the check before the timing and by the one
behind it. On a fake card, where a launcher is C++."""

import ctypes
import types

import pytest
import torch
from support import call, load, sabotaged

REFERENCE = """
import torch

def inputs(rows, inner, dtype, device):
    return (torch.randn(rows, 2 * inner, device=device).mul(2).to(dtype),)

def reference(x):
    value, gate = x.chunk(2, dim=-1)
    return value * torch.nn.functional.gelu(gate)
"""
CANDIDATES = """
import torch

def exact(x):
    value, gate = x.float().chunk(2, dim=-1)
    return (value * torch.nn.functional.gelu(gate)).to(x.dtype)

honest = exact

def its_input(x):
    return x[:, : x.shape[1] // 2]

def nothing(x):
    return x.new_empty(x.shape[0], x.shape[1] // 2)

def half(x):
    out = nothing(x)
    out[: x.shape[0] // 2] = exact(x[: x.shape[0] // 2])
    return out

def all_but_the_last_element(x):
    out = exact(x)
    out[-1, -1] = torch.empty_like(out[-1, -1])
    return out

def the_other_half(x):
    gate, value = x.chunk(2, dim=-1)
    return value * torch.nn.functional.gelu(gate)

def tanh(x):
    value, gate = x.float().chunk(2, dim=-1)
    return (value * torch.nn.functional.gelu(gate, approximate="tanh")).to(x.dtype)

def zeros(x):
    return torch.zeros(x.shape[0], x.shape[1] // 2, dtype=x.dtype, device=x.device)

def in_place(x):
    out = exact(x)
    x.zero_()
    return out

def wrong_shape(x):
    return exact(x).flatten()

def two(x):
    return exact(x), exact(x)

def integers(x):
    return exact(x).to(torch.int32)

def wider(x):
    return exact(x.double())

def none(x):
    exact(x)

def no_such_key(x):
    return {}["no such key"]

def raises(x):
    raise RuntimeError("no such width")

_by_pointer = {}

def remembers_the_pointer(x):
    if x.data_ptr() not in _by_pointer:
        _by_pointer[x.data_ptr()] = exact(x)
    return _by_pointer[x.data_ptr()].clone()

_buffer = {}

def one_buffer(x):
    out = _buffer.setdefault(x.shape, torch.empty(x.shape[0], x.shape[1] // 2, dtype=x.dtype, device=x.device))
    return out.copy_(exact(x))

_seen = [0]

def right_until_timed(x):
    _seen[0] += 1
    return exact(x) if _seen[0] <= 2 else zeros(x)

def wipes_both_when_timed(x):
    _seen[0] += 1
    return exact(x) if _seen[0] <= 2 else zeros(x.zero_())
"""
CHEATS = [
    ("its_input", "memory of an input"),
    ("nothing", "off by"),
    ("half", "off by"),
    ("all_but_the_last_element", "off by"),
    ("the_other_half", "off by"),
    ("tanh", "off by"),
    ("zeros", "off by"),
    ("in_place", "changed an input"),
    ("wrong_shape", "off by inf"),
    ("two", "2 outputs where the reference has 1"),
    ("integers", "torch.int32 on cpu, not torch.bfloat16"),
    ("wider", "torch.float64 on cpu, not torch.bfloat16"),
    ("none", "NoneType, not tensors"),
    ("no_such_key", "no such key"),
    ("raises", "no such width"),
    ("remembers_the_pointer", "off by"),
    ("one_buffer", "earlier result"),
]


@pytest.fixture
def files(tmp_path, monkeypatch):
    (tmp_path / "op.py").write_text(REFERENCE)
    (tmp_path / "candidates.py").write_text(CANDIDATES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def python(name, *more):
    return [
        "--candidate",
        f"candidates.py:{name}",
        "--reference",
        "op.py",
        "--shape",
        "rows=24,inner=40",
        "--seed",
        1,
        *more,
    ]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_an_honest_function_passes(files, monkeypatch, capsys, dtype):
    code, report, _ = call(monkeypatch, capsys, load("benchmark_example"), *python("honest", "--cpu", "--dtype", dtype))
    assert code == 0 and report["verdict"] == "PASS" and report["device"] == "cpu"
    assert report["results"][0]["check"] == "PASS" and 0 < report["results"][0]["worst_error"] <= 1
    assert (
        report["dtype"] == dtype and report["seed"] == 1 and report["results"][0]["shape"] == {"rows": 24, "inner": 40}
    )


@pytest.mark.parametrize("name, said", CHEATS)
def test_a_cheat_is_caught(files, monkeypatch, capsys, name, said):
    code, report, _ = call(monkeypatch, capsys, load("benchmark_example"), *python(name, "--cpu"))
    assert code == 1 and report["verdict"] == "FAIL" and said in report["failure"] and "rows" in report["failure"]
    assert report["results"][0]["check"] == "FAIL" and "us" not in report["results"][0]


def test_a_function_of_a_module_and_the_text_report(files, monkeypatch, capsys):
    module = load("benchmark_example")
    monkeypatch.setattr("sys.argv", ["x", *map(str, python("honest", "--cpu"))])
    monkeypatch.setattr("sys.argv", [a.replace("candidates.py:", "candidates:") for a in __import__("sys").argv])
    assert module.main() == 0
    out = capsys.readouterr().out
    assert "allowed: 2 ulps and 3.81e-06 of" in out and "rows=24,inner=40: PASS" in out and out.strip().endswith("PASS")


def test_the_timed_report(files, fake_card, monkeypatch, capsys):
    """Its schema: what may be relied on."""
    module = load("benchmark_example")
    code, report, err = call(
        monkeypatch, capsys, module, *python("honest", "--check", "rows=3,inner=1", "--misaligned", "--rounds", 10, "--against",
                                             "torch,compile,candidates.py:exact,candidates.py:zeros"),
    )  # fmt: skip
    assert code == 0, (report, err)
    assert set(report) == {
        "script", "verdict", "device", "torch", "cuda", "dtype", "seed", "candidate", "reference", "results", "tolerance",
    }  # fmt: skip
    timed, checked = report["results"]
    assert set(checked) == {"shape", "check", "worst_error", "misaligned_error"}
    assert set(timed) == set(checked) | {
        "bytes", "ring_over_l2", "us", "gb_per_s", "percent_of_copy", "faster_than", "left_out", "timed_error", "notes",
    }  # fmt: skip
    assert set(timed["us"]) == {"candidate", "copy", "copy by a kernel", "torch", "compile", "candidates.py:exact"}
    for us in timed["us"].values():
        assert set(us) == {"median", "p10", "p90", "clock"} and 0 < us["p10"] <= us["median"] <= us["p90"]
    assert set(timed["faster_than"]) == {"torch", "compile", "candidates.py:exact"}
    assert timed["faster_than"]["torch"] == pytest.approx(
        timed["us"]["torch"]["median"] / timed["us"]["candidate"]["median"]
    )
    assert timed["bytes"] == 24 * 120 * 2 and timed["ring_over_l2"] >= 4 and 0 < timed["timed_error"] <= 1
    assert "off by" in timed["left_out"]["candidates.py:zeros"]  # a peer that is wrong has no time
    roof = min(timed["us"][n]["median"] for n in ("copy", "copy by a kernel"))
    assert timed["percent_of_copy"] == pytest.approx(100 * roof / timed["us"]["candidate"]["median"])
    assert timed["gb_per_s"] == pytest.approx(timed["bytes"] / timed["us"]["candidate"]["median"] / 1e3)


def test_who_is_right_only_while_checked_is_caught_behind_the_timing(files, fake_card, monkeypatch, capsys):
    code, report, _ = call(
        monkeypatch, capsys, load("benchmark_example"), *python("right_until_timed", "--against", "none", "--rounds", 2)
    )
    assert code == 1 and "what the timed launches wrote is wrong" in report["failure"]


def test_who_wipes_the_inputs_as_well_is_caught_too(files, fake_card, monkeypatch, capsys):
    code, report, _ = call(
        monkeypatch, capsys, load("benchmark_example"), *python("wipes_both_when_timed", "--against", "none", "--rounds", 2)
    )
    assert code == 1 and "an input was changed" in report["failure"]


def test_an_empty_shape_is_checked_and_not_timed(files, fake_card, monkeypatch, capsys):
    arguments = python("honest", "--rounds", 1, "--against", "none", "--shape", "rows=0,inner=8")
    code, report, err = call(monkeypatch, capsys, load("benchmark_example"), *arguments)
    assert code == 0, (report, err)
    assert "us" in report["results"][0] and report["results"][1]["notes"] == ["empty, so not timed"]


@pytest.mark.parametrize(
    "reference, said",
    [
        (REFERENCE.replace("return value *", "return missing *"), "reference of {'rows': 24, 'inner': 40}: NameError"),
        (REFERENCE.replace("torch.randn(rows", "torch.randn(-rows"), "inputs of {'rows': 24, 'inner': 40}: RuntimeError"),
        (REFERENCE.replace("def reference", "def reference("), "SyntaxError"),
    ],
)
def test_a_reference_that_fails_is_not_the_candidates_fault(files, monkeypatch, capsys, reference, said):
    (files / "op.py").write_text(reference)
    code, report, err = call(monkeypatch, capsys, load("benchmark_example"), *python("honest", "--cpu"))
    assert (code, report) == (2, None) and said in err


# ------------------------------------------------------------------------------------------------------- launchers
SOURCE = """
// extern "C" int not_this(void* out);
#include <cmath>
#include <cstdint>
#include <vector>
typedef void* cudaStream_t;
extern "C" int geglu_launch(
    float* out, const float* __restrict__ x, int64_t rows, std::int64_t inner, float scale, int dtype, cudaStream_t stream) {
  if (dtype != 0) return 1;
  BODY
  return 0;
}
"""
HONEST = """for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < inner; ++i) {
      const double v = x[r * 2 * inner + i], g = x[r * 2 * inner + inner + i];
      out[r * inner + i] = scale * v * 0.5 * g * (1 + std::erf(g * 0.70710678118654752));
    }"""
LAUNCHERS = [
    ("", "off by inf"),
    (HONEST.replace("r < rows", "r < rows / 2"), "off by inf"),
    (HONEST.replace("out[r * inner + i] =", "out[r * inner + i] +="), "off by inf"),
    (HONEST + "out[rows * inner] = 0;", "outside an output"),
    (HONEST + "out[-1] = 0;", "outside an output"),
    (HONEST + "const_cast<float*>(x)[0] = 0;", "changed an input"),
    (HONEST.replace("(1 + std", "(1 - std"), "off by"),
    (HONEST + "out[rows * inner + 1023] = 0;", "outside an output"),
    ("return 700;", "geglu_launch returned 700"),
    ("no C++", "nvcc failed"),
    # Whoever answers from what an earlier launch saw at this address.
    ("static std::vector<float> kept; static const float* seen = nullptr;"
     "if (seen == x) { for (size_t i = 0; i < kept.size(); ++i) out[i] = kept[i]; return 0; }"
     + HONEST + "seen = x; kept.assign(out, out + rows * inner);", "off by"),
    ("static int calls = 0; if (++calls > 2) return 0;" + HONEST, "what the timed launches wrote is wrong"),
]  # fmt: skip


def launcher(files, body, *more):
    (files / "geglu.cu").write_text(SOURCE.replace("BODY", body))
    return ["--candidate", "geglu.cu", "--reference", "op.py", "--shape", "rows=24,inner=40,scale=1.0", "--dtype", "float32",
            "--rounds", 2, "--against", "torch", *more]  # fmt: skip


def test_an_honest_launcher_passes(files, fake_card, monkeypatch, capsys):
    arguments = launcher(
        files, HONEST, "--check", "rows=0,inner=8,scale=1.0", "--check", "rows=3,inner=1,scale=1", "--misaligned"
    )
    code, report, err = call(monkeypatch, capsys, load("benchmark_example"), *arguments)
    assert code == 0, (report, err)
    assert [row["check"] for row in report["results"]] == ["PASS"] * 3
    assert report["results"][0]["us"]["candidate"]["clock"] == "graph"


STRIDED = """
#include <cstdint>
extern "C" int twice_launch(float* out, const float* x, const float* more, int64_t rows, int64_t width, int64_t out_stride,
                            int64_t x_stride, int dtype, void* stream) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < width; ++i) out[r * OUT + i] = 2 * x[r * X + i] + (more ? more[i] : 0);
  return 0;
}
"""
TWICE = """
import torch

def inputs(rows, width, dtype, device):
    return torch.randn(rows, width, device=device).to(dtype), None

def reference(x, more):
    return 2 * x
"""


@pytest.mark.parametrize(
    "out, x, said",
    [("out_stride", "x_stride", None), ("width", "x_stride", "off by|outside"), ("out_stride", "width", "off by")],
)
def test_rows_with_gaps(files, fake_card, monkeypatch, capsys, out, x, said):
    (files / "twice.cu").write_text(STRIDED.replace("OUT", out).replace("X +", x + " +").replace(" X ", f" {x} "))
    (files / "twice.py").write_text(TWICE)
    code, report, err = call(
        monkeypatch, capsys, load("benchmark_example"), "--candidate", "twice.cu", "--reference", "twice.py", "--dtype", "float32",
        "--shape", "rows=7,width=30,x_stride=34,out_stride=40", "--check", "rows=0,width=4,x_stride=5,out_stride=4", "--misaligned",
        "--rounds", 2, "--against", "torch",
    )  # fmt: skip
    assert code == (1 if said else 0), (report, err)
    assert said is None or any(one in report["failure"] for one in said.split("|"))


def test_strides():
    strides = load("benchmark_example").row_strides
    assert [strides(s) for s in ((), (5,), (3, 4), (2, 3, 4))] == [[], [1], [4, 1], [12, 4, 1]]
    assert [strides(s, 9) for s in ((3, 4), (2, 3, 4))] == [[9, 1], [27, 9, 1]]


@pytest.mark.parametrize("body, said", LAUNCHERS)
def test_a_launcher_that_is_wrong_is_caught(files, fake_card, monkeypatch, capsys, body, said):
    code, report, err = call(monkeypatch, capsys, load("benchmark_example"), *launcher(files, body))
    assert code == 1 and said in report["failure"], (report, err)


def test_a_launcher_wants_a_number_that_nobody_gave(files, fake_card, monkeypatch, capsys):
    arguments = launcher(files, HONEST)
    arguments[arguments.index("rows=24,inner=40,scale=1.0")] = "rows=24,inner=40"
    code, report, err = call(monkeypatch, capsys, load("benchmark_example"), *arguments)
    assert (code, report) == (2, None) and "wants the number 'scale'" in err


def test_a_launcher_needs_a_card(files, monkeypatch, capsys):
    code, report, err = call(monkeypatch, capsys, load("benchmark_example"), *launcher(files, HONEST, "--cpu"))
    assert (code, report) == (2, None) and "needs a card" in err


def test_the_parameters_of_a_launcher():
    parse = load("benchmark_example").parse_launcher
    name, plan = parse(
        """
        extern "C" const char* explain(int code);
        /* extern "C" int old(void* out); */
        extern "C" cudaError_t f(void* __restrict__ out, const __nv_bfloat16* __restrict__ x, const void *w,
            unsigned long long n, size_t m, int k, bool flag, float eps, double d, int dtype, void* stream) {
        """
    )
    assert name == "f"
    assert plan == [
        ("output", "out"), ("input", "x"), ("input", "w"), (ctypes.c_int64, "n"), (ctypes.c_int64, "m"), (ctypes.c_int, "k"),
        (ctypes.c_int, "flag"), (ctypes.c_float, "eps"), (ctypes.c_double, "d"), ("dtype", "dtype"), ("stream", "stream"),
    ]  # fmt: skip
    name, plan = parse('extern "C" int g(uint64_t n, std::ptrdiff_t s, uint32_t k, unsigned short h) {}')
    assert [kind for kind, _ in plan] == [ctypes.c_int64, ctypes.c_int64, ctypes.c_int, ctypes.c_int]
    for text in ("Arguments all", "int", "float x[4]"):  # ctypes would pass something else
        with pytest.raises(SystemExit):
            parse(f'extern "C" int g({text}) {{}}')
    both = 'extern "C" int a(void* out) {} extern "C" int b(const void* x) {}'
    assert parse(both, "b") == ("b", [("input", "x")])
    for text, symbol in ((both, None), (both, "c"), ("int a(void* out) {}", None)):
        with pytest.raises(SystemExit):
            parse(text, symbol)


# ------------------------------------------------------------------------------------------------------- statistics
def test_what_an_error_is_worth():
    error = load("benchmark_example").worst_error
    one = torch.tensor([[1.0, -2.0, 1024.0]], dtype=torch.float64)

    def of(values, dtype=torch.bfloat16, want=one, ulps=1.0, of_row=0.0):
        return error(torch, torch.tensor([values], dtype=torch.float64).to(dtype), want, ulps, of_row)

    assert of([1.0, -2.0, 1024.0]) == 0
    step = 2.0**-7  # bf16 has 8 bits: between 1 and 2 this is one unit
    assert of([1.0 + step, -2.0, 1024.0]) == 1 and of([1.0, -2.0 - 2 * step, 1024.0]) == 1
    assert of([1.0 + 2 * step, -2.0, 1024.0]) == 2
    assert of([1.0 + step, -2.0, 1024.0], of_row=step / 1024) == pytest.approx(
        0.5
    )  # and as much again by the row's largest
    assert of([float("nan"), -2.0, 1024.0]) == float("inf") and of([1.0, 2.0, 1024.0]) > 100
    assert of([1.0, float("inf"), 1024.0]) == float("inf")
    nan = torch.tensor([[float("nan"), 1.0]], dtype=torch.float64)
    assert of([float("nan"), 1.0], want=nan) == 0 and of([0.0, 1.0], want=nan) == float("inf")
    zero = torch.tensor([[0.0, 1.0]], dtype=torch.float64)  # is right alone, but for a part of the row's largest
    assert of([0.0, 1.0], want=zero) == 0 and of([1e-3, 1.0], want=zero) > 1e6
    assert of([1e-6, 1.0], want=zero, of_row=2e-6) == pytest.approx(0.5, rel=0.01)
    for odd in (float("inf"), float("nan")):  # lets nothing else of its row pass, and nothing right fail
        row = torch.tensor([[odd, 1.0, 1.0]], dtype=torch.float64)
        assert of([odd, 1.0, 1.0 + step], want=row, of_row=0.01) < 1
        assert of([odd, 1.0, 2.0], want=row, of_row=0.01) > 50 and of([1.0, 1.0, 1.0], want=row) == float("inf")
    big = torch.tensor([[1e6, 1.0]], dtype=torch.float64)  # beyond float16
    assert of([float("inf"), 1.0], torch.float16, big) == 0
    assert error(torch, torch.zeros(2), torch.zeros(3), 1, 1) == float("inf")
    assert error(torch, torch.zeros(0, 4), torch.zeros(0, 4), 1, 1) == 0
    ints = torch.tensor([3, 4])
    assert error(torch, ints, ints.clone(), 1, 1) == 0 and error(torch, ints, ints + 1, 1, 1) == float("inf")
    smallest = torch.tensor([[2.0**-133]], dtype=torch.float64)  # bf16's smallest subnormal number
    assert of([2.0**-132], want=smallest) == 1


def test_the_spread():
    spread = load("benchmark_example").spread
    assert spread(list(range(100, 0, -1))) == {"median": 51, "p10": 11, "p90": 91}
    assert spread([5.0]) == {"median": 5.0, "p10": 5.0, "p90": 5.0}


def test_contenders_take_turns_and_outputs_outlive_their_turn(fake_card):
    module, called, prepared = load("benchmark_example"), [], []

    def one(name, i):
        called.append(name)
        return torch.full((2,), float(i))

    contenders = {name: [lambda i=i, n=name: one(n, i) for i in range(count)] for name, count in (("a", 4), ("b", 12))}
    us, held = module.measure(torch, contenders, 5, lambda held: prepared.append({n: len(k) for n, k in held.items()}))
    assert prepared == [{"a": 4, "b": 12}]
    assert [t.tolist() for t in held["a"]] == [[i, i] for i in map(float, range(4))] and len(held["b"]) == 12
    # Three to warm up, the capture and a replay, and 2 + 5 rounds; a turn has eight calls at least.
    assert called.count("a") == 3 + 8 * (2 + 7) and called.count("b") == 3 + 12 * (2 + 7)
    assert set(us) == {"a", "b"} and all(t["clock"] == "graph" for t in us.values())


def test_who_cannot_be_captured_is_timed_by_the_host(fake_card, monkeypatch):
    set_to = []

    def refuse(made):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(torch.cuda, "graph", refuse)
    generator = types.SimpleNamespace(clone_state=lambda: "afresh", graphsafe_set_state=set_to.append)
    monkeypatch.setattr(torch.cuda, "default_generators", (generator,))
    us, _ = load("benchmark_example").measure(torch, {"a": [lambda: torch.ones(1)] * 4}, 3, lambda held: None)
    assert us["a"]["clock"] == "host" and set_to == ["afresh"]


def test_a_hole_in_the_check_would_be_seen(files, monkeypatch, capsys):
    """The tests above can fail: without the second call, or without poison, a cheat gets through."""
    text = sabotaged(
        "benchmark_example", ("    for _ in range(2):\n        op.refill", "    for _ in range(1):\n        op.refill")
    )
    code, _, _ = call(monkeypatch, capsys, load("benchmark_example", text), *python("remembers_the_pointer", "--cpu"))
    assert code == 0
