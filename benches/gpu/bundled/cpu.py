"""Checks the formulas without a GPU. Each is compared with its fp64 reference in small verify cases, and each reference with
the fixtures made by the models' own modules (tests/oracles). torch.compile must compile each without graph breaks."""

import json
import math
import os

from peers.candidate import TOLERANCE, relative_error
from peers.library import Skip
from peers.operations import adapters, of_case
from peers.operations.adapter import wide
from peers.peer_modules import described
from peers.tensors import UNREAD, Slots, torch_dtype

from .project import projects

MOST_ELEMENTS, MOST_CASES = 300_000, 40
# What torch has no code for on a CPU.
elsewhere = set()


def small(operation):
    """Verify cases with ordinary inputs that a CPU does at once, spread over all there are."""
    cases = [
        case
        for case in operation.cases("verify")
        if case.inputs == "normal" and 0 < max(spec.elements for spec in case.tensors.values()) <= MOST_ELEMENTS
        and all(spec.elements for spec in case.tensors.values())
    ]
    step = max(1, math.ceil(len(cases) / MOST_CASES))
    return cases[::step]


def faults_of(case, device="cpu"):
    """What is wrong in a case, and how many formulas were compared."""
    import torch

    adapter = of_case(case)
    tensors = Slots(case, 1, device, adapter.fill)[0]
    right = adapter.reference({name: tensor for name, tensor in tensors.items() if case.tensors[name].role not in UNREAD})
    found, compared = [], 0
    for name in adapter.outputs:
        if name not in case.tensors:
            found.append(f"{case}: no tensor {name}")
        elif right[name].numel() != case.tensors[name].elements:
            found.append(f"{case}: {name} has {case.tensors[name].elements} elements, the reference {right[name].numel()}")
    try:
        given = adapter.given(tensors) if adapter.formulas() else ()
    except Skip:
        return found, compared
    calls = {name: (function, given) for name, function in adapter.formulas().items()}
    if os.environ.get("TRITON_INTERPRET") == "1" and case.dtype == "f32":
        try:
            peer = adapter.liger(None)
            calls["liger"] = (lambda given: peer.call(given)), (peer.prepare({name: tensor.clone() for name, tensor in tensors.items()}),)
        except Skip:
            pass
    for name, (function, arguments) in calls.items():
        allowed = TOLERANCE[case.dtype] * adapter.rounds * (1.5 if name == "liger" else 1.0)
        try:
            outputs = function(*arguments)
        except NotImplementedError:
            elsewhere.add(f"{case.operation.name}: {name}")
            continue
        compared += 1
        for output, got in zip(adapter.outputs, outputs, strict=True):
            error = relative_error(got, right[output])
            # A rounding is no small part of what is itself a handful of roundings.
            if not error <= allowed and right[output].numel() > 64:
                found.append(f"{case}: {name}: {output}: relative error {error:.2e}, allowed {allowed:.1e}")
            if got.dtype != torch_dtype(case.tensors[output].dtype) and output != "dw_f32":
                found.append(f"{case}: {name}: {output} is {got.dtype}")
    return found, compared


def whole(cases):
    """Whether torch.compile takes each formula without falling back, in the first case that has peers."""
    import torch

    for case in cases:
        adapter = of_case(case)
        tensors = Slots(case, 1, "cpu", adapter.fill)[0]
        try:
            given = adapter.given(tensors) if adapter.formulas() else ()
        except Skip:
            continue
        for name in {name for names in adapter.compiled().values() for name in names}:
            torch._dynamo.reset()
            torch.compile(adapter.formulas()[name], backend="aot_eager", dynamic=False, fullgraph=True)(*given)
        return


def shape_of(operation, given):
    """The sizes of a fixture's case as `--shape` takes them: names of sizes and presence are read off its tensors."""
    values = {name: value for name, value in given["values"].items() if name in operation.names}
    for argument in operation.tensors:
        tensor = given["tensors"].get(argument["name"]) or given["outputs"].get(argument["name"])
        if argument["present"] in operation.names:
            values.setdefault(argument["present"], int(tensor is not None))
        for formula, size in zip(argument["shape"], tensor["shape"] if tensor else [], strict=False):
            if formula in operation.names:
                values.setdefault(formula, size)
    dtypes = [tensor["dtype"] for tensor in given["tensors"].values() if tensor["dtype"] in operation.dtypes]
    return operation.name, (dtypes or operation.dtypes)[0], ",".join(f"{name}={value!r}" for name, value in values.items())


def fixture(operation, path):
    """The reference against what the model's module gave in fp64."""
    import torch

    found, fixtures = [], json.loads(path.read_text())["cases"]
    cases = operation.project.shaped([shape_of(operation, given) for given in fixtures])
    for number, (given, case) in enumerate(zip(fixtures, cases, strict=True)):
        adapter = of_case(case)
        tensors = {
            name: torch.tensor(tensor["data"], dtype=torch_dtype(tensor["dtype"])).reshape(tensor["shape"])
            for name, tensor in given["tensors"].items()
        }
        right = adapter.reference(tensors)
        for name, output in given["outputs"].items():
            if name not in right:
                continue
            want = torch.tensor(output["data"], dtype=torch.float64)
            off = (wide(right[name]).flatten() - want).abs().max() / want.abs().max().clamp_min(1e-300)
            if not off.item() <= adapter.exact:
                found.append(f"{path.name}, case {number}: {name} is off by {off.item():.1e} of its largest")
    return found


def check(args):
    """1 where something is wrong."""
    import pathlib

    import torch

    torch.set_grad_enabled(False)
    torch.manual_seed(1)
    found, unreadable = projects(args.program, args.projects, verify=True)
    skipped = set()
    wrong = [f"project {name}: {why}" for name, why in unreadable.items()]
    for operation in [operation for project in found for operation in project.operations]:
        if args.only and not any(text in f"{operation.name} " for text in args.only):
            continue
        if operation.name not in adapters():
            print(f"{operation.name}: no formula")
            continue
        compared, faults, cases = 0, [], small(operation)
        for case in cases:
            try:
                new, count = faults_of(case)
            except Skip as error:
                new, count = [], 0
                skipped.add(f"{operation.name}: {error}")
            except Exception as error:
                new, count = [f"{case}: {described(error)}"], 0
            faults += new
            compared += count
        try:
            for case in operation.cases("bench"):
                of_case(case)
            whole([case for case in cases if case.dtype == "bf16"])
        except Exception as error:
            faults.append(f"{operation.name}: torch.compile: {described(error)}")
        path = pathlib.Path(args.projects).parent / "tests" / "oracles" / f"{operation.name}.json"
        if path.is_file():
            faults += fixture(operation, path)
        print(f"{operation.name}: {compared} formulas in {len(cases)} cases, {'a' if path.is_file() else 'no'} fixture, {len(faults)} wrong")
        wrong += faults
    for line in sorted(elsewhere):
        print(f"not on a CPU: {line}")
    for line in sorted(skipped):
        print(f"skipped: {line}")
    for line in wrong:
        print(f"WRONG {line}")
    return 1 if wrong else 0
