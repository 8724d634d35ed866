# Runs the Python references of a project. Each line of stdin is a request and each line of the original stdout an
# answer, both JSON. A reference gets tensors (float64; int64 or bool for integer types) and the case's values by name;
# its results are written to files as float64.
import contextlib
import importlib.util
import inspect
import json
import math
import os
import sys
import traceback

# Output of the reference goes to stderr, so that it is not read as an answer.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

# Not from the current folder, which may be the project's.
sys.path[:] = [os.path.abspath(path) for path in sys.path if path]
sys.dont_write_bytecode = True

import torch


def mapped(path, shape, shared):
    """Maps a file of float64 numbers. Writes reach the file only if it is shared."""
    return torch.from_file(path, shared, math.prod(shape), dtype=torch.float64).reshape(shape)


def load(path, name):
    spec = importlib.util.spec_from_file_location("reference", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not hasattr(module, name):
        raise AttributeError(f"{path} has no function {name}")
    return getattr(module, name)


@contextlib.contextmanager
def importing(folder):
    """Lets files be imported from a folder, and forgets them: another project's may have the same names."""
    os.chdir(folder)
    sys.path.insert(0, folder)
    known = set(sys.modules)
    try:
        yield
    finally:
        os.chdir("/")
        sys.path.remove(folder)
        for name in set(sys.modules) - known:
            if (getattr(sys.modules[name], "__file__", None) or "").startswith(folder + os.sep):
                del sys.modules[name]
        importlib.invalidate_caches()


def answer(request):
    torch.set_num_threads(request["threads"])
    function = load(request["file"], request["function"])
    given = dict(request["values"]) | dict.fromkeys(request["absent"])
    for tensor in request["inputs"]:
        numbers = mapped(tensor["path"], tensor["shape"], False)
        given[tensor["name"]] = numbers.to(getattr(torch, tensor["dtype"] or "float64"))
    # A function gets the parameters that it declares, or everything if it has a ** parameter.
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
        open(output["path"], "wb").close()  # create the file even if the output is empty
        mapped(output["path"], output["shape"], True).copy_(result)


for line in sys.stdin:
    try:
        request = json.loads(line)
        with importing(os.path.dirname(request["file"])):
            answer(request)
        said = {"ok": True}
    except Exception:
        said = {"ok": False, "error": traceback.format_exc(limit=-3)}
    answers.write(json.dumps(said) + "\n")
    answers.flush()
