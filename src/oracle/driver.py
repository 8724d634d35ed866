# Serves a project's reference: a request a line on stdin, an answer a line on the standard output of the start. The
# function gets float64 tensors and the case's values by name; its results are written as float64.
import importlib.util
import inspect
import json
import os
import sys
import traceback

# What the reference prints goes to stderr, so that it is not taken for an answer.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import torch


def read(path, shape):
    with open(path, "rb") as source:
        data = bytearray(source.read())
    flat = torch.frombuffer(data, dtype=torch.float64) if data else torch.empty(0, dtype=torch.float64)
    return flat.reshape(shape)


def load(path, name):
    spec = importlib.util.spec_from_file_location("reference", path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.path.dirname(path))
    spec.loader.exec_module(module)
    if not hasattr(module, name):
        raise AttributeError(f"{path} has no function {name}")
    return getattr(module, name)


def answer(request):
    function = load(request["file"], request["function"])
    given = dict(request["values"])
    for tensor in request["inputs"]:
        given[tensor["name"]] = read(tensor["path"], tensor["shape"])
    # A function is given what it asks for by name; a ** argument takes everything.
    parameters = inspect.signature(function).parameters
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        given = {name: value for name, value in given.items() if name in parameters}
    with torch.no_grad():
        results = function(**given)
    if not isinstance(results, (tuple, list)):
        results = (results,)
    if len(results) != len(request["outputs"]):
        raise ValueError(
            f"{request['function']} returned {len(results)} tensors; the launcher has {len(request['outputs'])} outputs"
        )
    for result, output in zip(results, request["outputs"]):
        if list(result.shape) != output["shape"]:
            raise ValueError(
                f"{output['name']}: the reference's shape is {list(result.shape)}, the launcher's {output['shape']}"
            )
        with open(output["path"], "wb") as target:
            target.write(result.to(torch.float64).contiguous().numpy().tobytes())


for line in sys.stdin:
    try:
        answer(json.loads(line))
        said = {"ok": True}
    except Exception:
        said = {"ok": False, "error": traceback.format_exc(limit=-3)}
    answers.write(json.dumps(said) + "\n")
    answers.flush()
