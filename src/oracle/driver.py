# Runs a project's reference: reads the request on stdin, gives the function float64 tensors, writes float64 results.
import importlib.util
import json
import sys

import torch

request = json.load(sys.stdin)
spec = importlib.util.spec_from_file_location("reference", request["file"])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
function = getattr(module, request["function"])

given = dict(request["values"])
for tensor in request["inputs"]:
    with open(tensor["path"], "rb") as source:
        data = bytearray(source.read())
    flat = torch.frombuffer(data, dtype=torch.float64) if data else torch.empty(0, dtype=torch.float64)
    given[tensor["name"]] = flat.reshape(tensor["shape"])

# A function is given what it asks for by name; a ** argument takes everything.
import inspect

parameters = inspect.signature(function).parameters
if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
    given = {name: value for name, value in given.items() if name in parameters}
with torch.no_grad():
    results = function(**given)
if not isinstance(results, (tuple, list)):
    results = (results,)
if len(results) != len(request["outputs"]):
    sys.exit(f"{request['function']} returned {len(results)} tensors; the launcher has {len(request['outputs'])} outputs")
for result, output in zip(results, request["outputs"]):
    if list(result.shape) != output["shape"]:
        sys.exit(f"{output['name']}: the reference's shape is {list(result.shape)}, the launcher's {output['shape']}")
    with open(output["path"], "wb") as target:
        target.write(result.to(torch.float64).contiguous().numpy().tobytes())
