# Describes torch modules as tasks, for `kernels search import`. Reads one request per line from stdin and writes one answer per
# line to the original stdout. The process is confined, because the module's code is untrusted.
import contextlib
import copy
import importlib.util
import inspect
import itertools
import json
import math
import os
import random
import sys
import time
import traceback

# What a module prints goes to stderr, so that it is not taken for an answer.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import torch
from torch.utils.flop_counter import FlopCounterMode

DTYPES = {
    torch.float32: "T", torch.int64: "i64", torch.int32: "i32", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool",
}
RESERVED = {"T", "size", "min", "max", "ceil_div", "stream", "dtype", "out", "inputs", "draw", "each", "name", "offsets", "int",
            "float", "double", "char", "long", "short", "operator", "new", "delete", "template", "register", "default", "switch"}
SEEDS = 5
# Limits as (elements of all tensors, operations): of the smallest verified case, of drawn cases, and of what the filters run.
# MOST limits the elements of any other case.
SMALL, DRAWN, FILTERED, MOST = (60_000, 3e7), (400_000, 3e8), (2_000_000, 3e8), 20_000_000
# Errors are judged by the row's largest element, for which shorter rows have too few elements.
ROW = 16
# Time limit of the filters, in seconds.
PATIENCE = 20.0


class Unfit(Exception):
    """The module cannot become a task; `kind` names the reason."""

    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


def valid(name):
    name = "".join(c if c.isalnum() else "_" for c in name)
    return name + "_" if name in RESERVED or name[0].isdigit() else name


class Module:
    """A file with `Model`, `get_inputs` and, if it has a functional form, `forward_fn`."""

    def __init__(self, path):
        spec = importlib.util.spec_from_file_location("described", path)
        self.module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)
        for name in ("Model", "get_inputs"):
            if not hasattr(self.module, name):
                raise Unfit("no-model", f"the file has no {name}")
        taken = inspect.signature(self.module.Model.forward).parameters
        self.functional = "fn" in taken and hasattr(self.module, "forward_fn")
        self.init = getattr(self.module, "get_init_inputs", None)

    def split(self, function, config):
        """The entries of a configuration that are parameters of a function."""
        parameters = inspect.signature(function).parameters
        return {key: value for key, value in config.items() if key in parameters}

    def construct(self, config, seed, device):
        """The model and its inputs."""
        for key, value in config.items():
            if hasattr(self.module, key):
                setattr(self.module, key, value)
        torch.manual_seed(seed)
        random.seed(seed)
        with torch.device(device):
            given = self.split(self.module.Model.__init__, config)
            model = self.module.Model(*(self.init() if self.init and not given else ()), **given)
            inputs = self.module.get_inputs(**self.split(self.module.get_inputs, config))
        return model, list(inputs)

    def call(self, model, inputs):
        """The arguments by parameter name, in order, and the result."""
        if not self.functional:
            with torch.no_grad():
                result = model(*inputs)
            names = [name for name in inspect.signature(self.module.Model.forward).parameters if name != "self"]
            tensors = dict(zip(names, inputs, strict=False))
            tensors.update(dict(itertools.chain(model.named_parameters(), model.named_buffers())))
            return tensors, result
        seen, results = [], []

        def spy(*args, **kwargs):
            bound = inspect.signature(self.module.forward_fn).bind(*args, **kwargs)
            seen.append(dict(bound.arguments))
            results.append(self.module.forward_fn(*args, **kwargs))
            return results[-1]

        with torch.no_grad():
            result = model.forward(*inputs, fn=spy)
        if len(seen) != 1 or result is not results[0]:
            raise Unfit("not-functional", "Model.forward does more than one call of fn")
        return seen[0], result


class Shot:
    """One call with one configuration: its arguments, results and operations."""

    def __init__(self, module, config, seed=0, device="cpu"):
        self.model, self.inputs = module.construct(config, seed, device)
        with FlopCounterMode(display=False) if device == "meta" else contextlib.nullcontext() as counter:
            self.given, result = module.call(self.model, self.inputs)
        self.flops = counter.get_total_flops() if counter else None
        self.results = list(result) if isinstance(result, (tuple, list)) else [result]
        if not all(torch.is_tensor(one) for one in self.results):
            raise Unfit("no-tensor", "the result is no tensor")

    def tensors(self):
        return {name: value for name, value in self.given.items() if torch.is_tensor(value)}

    def literals(self):
        return {name: value for name, value in self.given.items() if not torch.is_tensor(value)}

    def elements(self):
        return sum(one.numel() for one in [*self.tensors().values(), *self.results])


def attempt(module, config, device="meta"):
    """A shot, or None if the module does not accept this configuration."""
    try:
        return Shot(module, config, device=device)
    except Unfit:
        raise
    except Exception:
        return None


class Sizes:
    """Finds which numbers of a configuration are sizes, and writes each dimension as a formula of them."""

    def __init__(self, module, config):
        self.module, self.config = module, config
        self.device = "meta" if attempt(module, config) else "cpu"
        self.names, self.probes = [], []
        base = self.shoot({})
        if base is None:
            Shot(module, config)  # raises the error
            raise Unfit("not-shaped", "the module does not run with its own configuration")
        self.base = base
        self.probes.append(({}, base))
        if self.device == "cpu" and base.elements() > MOST:
            return
        for name, value in config.items():
            if type(value) is int and value > 0 and valid(name) == name:
                self.probe(name, value)
        rng = random.Random(0)
        for _ in range(6):
            change = {name: rng.choice(self.values[name]) for name in self.names}
            shot = self.shoot(change)
            if shot:
                self.probes.append((change, shot))

    values = {}

    def shoot(self, change):
        return attempt(self.module, {**self.config, **change}, self.device)

    def probe(self, name, value):
        tried = []
        for other in dict.fromkeys((2 * value, value + 1, value + 3, value // 2, value + 16, 3 * value, value // 4, value + 8)):
            shot = self.shoot({name: other}) if 0 < other != value else None
            if shot:
                tried.append(({name: other}, shot))
        shapes = [self.shapes(shot) for _, shot in tried]
        if not any(shape != self.shapes(self.base) for shape in shapes):
            return
        inputs = [[tuple(one.shape) for one in shot.inputs if torch.is_tensor(one)] for _, shot in [({}, self.base), *tried]]
        if value < 8 and all(one == inputs[0] for one in inputs):
            return
        if len(tried) >= 2:
            self.names.append(name)
            self.values = {**self.values, name: [value, *(change[name] for change, _ in tried)]}
            self.probes += tried

    @staticmethod
    def shapes(shot):
        return [tuple(one.shape) for one in [*shot.tensors().values(), *shot.results]]

    def formula(self, numbers):
        """A formula of the sizes that yields these numbers, one per probe; None if there is none."""
        if len(set(numbers)) == 1:
            return str(numbers[0])
        table = {name: [change.get(name, self.config[name]) for change, _ in self.probes] for name in self.names}
        for name, values in table.items():
            if values == numbers:
                return name
        for name, values in table.items():
            pairs = list(zip(values, numbers, strict=True))
            off = {number - value for value, number in pairs}
            if len(off) == 1:
                return f"{name} {'+' if min(off) > 0 else '-'} {abs(min(off))}"
            for by in range(2, 10):
                off = {number - by * value for value, number in pairs}
                if len(off) == 1:
                    return f"{by} * {name}" + (f" {'+' if min(off) > 0 else '-'} {abs(min(off))}" if off != {0} else "")
                # number = ceil((value + off) / by) with the same offset in all probes.
                least = max(by * (number - 1) + 1 - value for value, number in pairs)
                most = min(by * number - value for value, number in pairs)
                if least <= most:
                    off = min(range(least, most + 1), key=abs)
                    return f"ceil_div({name}{f' {chr(43) if off > 0 else chr(45)} {abs(off)}' if off else ''}, {by})"
        for (one, a), (two, b) in itertools.combinations_with_replacement(table.items(), 2):
            ratios = {number / (x * y) for number, x, y in zip(numbers, a, b, strict=True)}
            if len(ratios) == 1 and (ratio := ratios.pop()) == int(ratio):
                return f"{one} * {two}" if ratio == 1 else f"{int(ratio)} * {one} * {two}"
        return None


class Names:
    """Formulas of dimensions. A dimension without a formula gets its own name, and a value in each case."""

    def __init__(self, sizes):
        self.sizes, self.own = sizes, {}

    def of(self, get, hint):
        """The formula or the name of a number that `get` reads from a shot."""
        numbers = [get(shot) for _, shot in self.sizes.probes]
        formula = self.sizes.formula(numbers)
        if formula is None:
            formula = valid(hint)
            self.own[formula] = get
        return formula


def shaped(names, shots, get, hint):
    """The formulas of a tensor's shape."""
    ranks = {get(shot).dim() for shot in shots}
    if len(ranks) != 1:
        raise Unfit("rank-varies", f"{hint} has another number of dimensions in other sizes")
    return [names.of(lambda shot, at=at: get(shot).shape[at], f"{hint}_{at}") for at in range(ranks.pop())]


def small(sizes, limits, first=None):
    """Shrinks sizes until the case is within `limits`; `first` shrinks before the others, down to 4."""
    change = {}
    stuck = set()
    for _ in range(64):
        shot = sizes.shoot(change)
        if shot.elements() <= limits[0] and (shot.flops or 0) <= limits[1]:
            break
        open_ = [name for name in sizes.names if name not in stuck]
        if not open_:
            break
        value = change.get(first, sizes.config.get(first, 0))
        name = first if first in open_ and value > 4 else max(open_, key=lambda name: change.get(name, sizes.config[name]))
        value = change.get(name, sizes.config[name])
        for other in (value // 2, value // 2 + 1, value * 3 // 4, value - 1):
            if 0 < other < value and has_rows(sizes, sizes.shoot({**change, name: other})):
                change[name] = other
                break
        else:
            stuck.add(name)
    return change


def drawn(sizes, least):
    """The values from which each size is drawn: a range or a list. None if a size has no valid value."""
    found = {}
    for name in sizes.names:
        value = least.get(name, sizes.config[name])
        tried = sorted({1, 2, 3, 5, 7, 8, 13, 16, 17, 24, 31, 32, 33, 48, 64, 65, 96, 100, 127, 128, 130, 256, value // 2, value})
        tried = [other for other in tried if 0 < other <= max(value, min(sizes.config[name], 33))]
        good = [other for other in tried if has_rows(sizes, sizes.shoot({**least, name: other}))]
        if not good:
            return None
        after = [other for other in tried if other >= good[0]]
        found[name] = f"{good[0]}..{good[-1]}" if after == good and len(good) > 2 else good
    return bounded(sizes, found)


def bounded(sizes, found):
    """The same without the largest values, so that the case of all largest values is within DRAWN."""
    for _ in range(64):
        ends = {name: [*map(int, values.split(".."))] if isinstance(values, str) else values for name, values in found.items()}
        shot = sizes.shoot({name: values[-1] for name, values in ends.items()})
        if shot is None or (shot.elements() <= DRAWN[0] and (shot.flops or 0) <= DRAWN[1]):
            break
        name = max(ends, key=lambda name: ends[name][-1] / ends[name][0])
        first, last = ends[name][0], ends[name][-1]
        if first == last:
            break
        if isinstance(found[name], str):
            found[name] = f"{first}..{max(first, last // 2)}"
        else:
            found[name] = found[name][:-1]
    return found


def has_rows(sizes, shot):
    """Whether the output's rows are long enough to judge errors by their largest element: in a row of one element, cancellation
    leaves nothing to compare an error with."""
    if shot is None:
        return False
    pairs = zip(shot.results, sizes.base.results, strict=True)
    return all(not one.dim() or one.shape[-1] >= min(ROW, base.shape[-1]) for one, base in pairs)


def choose(found, rng):
    def one(values):
        return rng.choice(values) if isinstance(values, list) else rng.randint(*map(int, values.split("..")))

    return {name: one(values) for name, values in found.items()}


def spread(tensors):
    """The range from which a floating-point input is drawn; None means the normal distribution."""
    flat = torch.cat([tensor.detach().flatten().double() for tensor in tensors])
    low, high = flat.min().item(), flat.max().item()
    if low == high:
        return None
    unit = 1 << 20
    if low >= 0:
        low, high = (low / 2, 1.5 * high) if low > 0.1 * high else (0.0, high)
    elif max(-low, high) < 0.7 or set(flat[:10_000].tolist()) <= {-1.0, 0.0, 1.0}:
        high = max(-low, high)
        low = -high
    else:
        return None
    return [math.floor(low * unit) / unit, math.ceil(high * unit) / unit]


def redrawn(tensor, bounds, generator):
    """A tensor like this one, drawn as the harness draws it."""
    if bounds is None:
        return torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
    low, high = bounds
    if tensor.dtype.is_floating_point:
        return torch.rand(tensor.shape, generator=generator, dtype=torch.float64) * (high - low) + low
    return torch.randint(int(low), int(high) + 1, tensor.shape, generator=generator).to(tensor.dtype)


def structure(name, tensor):
    """The structure of the module's own input that a drawn one lacks, if any."""
    if tensor.dim() >= 2 and tensor.dtype.is_floating_point and tensor.numel() > 16:
        if (tensor == 0).double().mean() > 0.3:
            half = "lower" if tensor.triu(1).eq(0).all() else "upper" if tensor.tril(-1).eq(0).all() else None
            return f"{name} is {half} triangular in the module, full here" if half else f"{name} is sparse in the module"
        if tensor.shape[-1] == tensor.shape[-2] and torch.equal(tensor, tensor.mT):
            return f"{name} is symmetric in the module, not here"
    return None


def filters(module, config, started):
    """The defects that make a task useless, named and defined as in robust-kbench."""

    def run(seeds, model=None):
        outputs = []
        for seed in seeds:
            own, inputs = module.construct(config, seed, "cpu")
            result = module.call(model or own, inputs)[1]
            several = [one.detach().float() for one in ([result] if torch.is_tensor(result) else result)]
            outputs.append(several[0] if len(several) == 1 else torch.cat([one.flatten() for one in several]))
            if time.monotonic() - started > PATIENCE and len(outputs) > 1:
                break
        return torch.stack(outputs)

    found = {}
    free = run(range(SEEDS))
    if (free.abs() < 0.01).all():
        found["output-range"] = "all of the output lies within ±0.01"
    std = free.std(0)
    if (std < 0.01).all():
        found["output-std"] = "the output hardly differs between inputs and weights"
    along = [free.std(axis) for axis in range(1, free.dim()) if free.shape[axis] > 1]
    if any((one < 0.01).all() for one in [std, *along]):
        found["output-axes"] = "the output hardly differs along one of its axes"
    fixed = run(range(SEEDS), module.construct(config, 0, "cpu")[0])
    if (fixed.std(0) < 0.01).all():
        found["input-impact"] = "the output hardly depends on the inputs"
    if all(torch.equal(one, fixed[0]) for one in fixed):
        found["constant-output"] = "the output does not depend on the inputs"
    if not fixed.isfinite().all():
        found["not-finite"] = "the output has NaN or infinity"
    return found


class Task:
    """The description of a module, built step by step."""

    def __init__(self, request):
        self.request = request
        self.module = Module(request["file"])
        self.config = request["config"]
        self.sizes = Sizes(self.module, self.config)
        self.names = Names(self.sizes)
        self.shots = [shot for _, shot in self.sizes.probes]
        self.notes = []

    def bounds(self, change):
        """Finds the range of each input in small samples."""
        self.small = [Shot(self.module, {**self.config, **change}, seed) for seed in range(3)]
        first = self.small[0]
        for name, tensor in first.tensors().items():
            if tensor.dtype not in DTYPES:
                raise Unfit("dtype", f"{name} is {tensor.dtype}")
        self.ranges = {}
        for name, tensor in first.tensors().items():
            samples = [shot.given[name] for shot in self.small]
            if tensor.dtype.is_floating_point:
                self.ranges[name] = spread(samples)
            elif tensor.dtype != torch.bool:
                flat = torch.cat([one.flatten() for one in samples])
                self.ranges[name] = [flat.min().item(), flat.max().item()]
            else:
                self.ranges[name] = [0, 1]
            is_input = any(tensor is one for one in first.inputs)
            if is_input and (said := structure(name, tensor)):
                self.notes.append(["structure", said])

    def top(self, name, highest):
        """The largest value of an integer input: one less than a size if the samples confirm it, else the number."""
        for key in self.sizes.names:
            value = {**self.config, **self.least}[key]
            other = value + 3
            if highest == value - 1 and (shot := attempt(self.module, {**self.config, **self.least, key: other}, "cpu")):
                if value - 1 < shot.given[name].max().item() <= other - 1:
                    return f"{key} - 1"
        return str(highest)

    def evaluate(self, given, shot):
        """The module's result for these arguments."""
        given = {name: value.clone() if torch.is_tensor(value) else value for name, value in given.items()}
        with torch.no_grad():
            if self.module.functional:
                result = self.module.module.forward_fn(**given)
            else:
                inputs, states = self.parts(given, shot)
                result = torch.func.functional_call(copy.deepcopy(shot.model).double(), states, tuple(inputs))
        return [result] if torch.is_tensor(result) else list(result)

    @staticmethod
    def parts(given, shot):
        states = dict(itertools.chain(shot.model.named_parameters(), shot.model.named_buffers()))
        inputs = [value for name, value in given.items() if name not in states]
        return inputs, {name: given[name] for name in states}

    def unused(self):
        """Inputs whose contents never change the output. Raises Unfit if the module cannot be verified with drawn inputs."""
        shot, generator = self.small[0], torch.Generator().manual_seed(1)
        tensors = shot.tensors()

        def draw():
            return {**shot.given, **{name: redrawn(tensor, self.ranges[name], generator) for name, tensor in tensors.items()}}

        given = draw()
        first = self.evaluate(given, shot)
        if not all(torch.equal(a, b) or a.isnan().any() for a, b in zip(first, self.evaluate(given, shot), strict=True)):
            raise Unfit("not-deterministic", "the same inputs give another output")
        if not all(one.isfinite().all() for one in first if one.dtype.is_floating_point):
            raise Unfit("domain", "inputs drawn like the module's own give NaN or infinity")
        for one in first:
            if one.dtype.is_floating_point and one.dtype != torch.float64:
                raise Unfit("not-double", f"the module computes in {one.dtype} whatever its inputs are")
        idle = []
        for name in tensors:
            changes = False
            for _ in range(3):
                other = self.evaluate({**given, name: draw()[name]}, shot)
                changes |= any(a.shape != b.shape or not torch.equal(a, b) for a, b in zip(first, other, strict=True))
            if not changes:
                idle.append(name)
        self.constant = len(idle) == len(tensors)
        self.alike = all(one.numel() < 2 or (one == one.flatten()[0]).all() for one in first)
        # A launcher needs an input, even if none changes the output.
        return [] if self.constant else idle

    def literal(self, name, text):
        """A Python expression for an argument that is not a tensor."""
        values = [shot.given.get(name) for shot in self.shots]
        return self.expression(values, name)

    def expression(self, values, hint):
        if all(value == values[0] and type(value) is type(values[0]) for value in values):
            value = values[0]
            if value is None or isinstance(value, (bool, int, float, str)):
                return repr(value)
            if isinstance(value, torch.Size):
                return repr(tuple(value))
            if isinstance(value, (tuple, list)) and all(isinstance(one, (bool, int, float, str)) for one in value):
                return repr(value)
            raise Unfit("argument", f"{hint} is a {type(value).__name__}")
        if all(isinstance(value, (tuple, list)) and len(value) == len(values[0]) for value in values):
            parts = [self.expression([value[at] for value in values], hint) for at in range(len(values[0]))]
            return f"({', '.join(parts)},)"
        formula = self.sizes.formula(values) if all(type(value) is int for value in values) else None
        if formula is None or "ceil_div" in formula:
            raise Unfit("argument", f"{hint} changes with the sizes")
        for size in sorted(self.sizes.names, key=len, reverse=True):
            formula = formula.replace(size, f'int(sizes["{size}"])')
        return formula

    def described(self):
        self.least = small(self.sizes, SMALL)
        self.bounds(self.least)
        idle = self.unused()
        shot, tensors = self.small[0], []
        self.public = {}
        taken = set(self.sizes.names)
        for name in shot.tensors():
            public = valid(name)
            while public in taken:
                public += "_"
            taken.add(public)
            self.public[name] = public
        for name, tensor in shot.tensors().items():
            if name in idle:
                self.notes.append(["unused-input", f"{name} does not change the output: the launcher does not take it"])
                continue
            shape = shaped(self.names, self.shots, lambda shot, name=name: shot.given[name], self.public[name])
            bounds = self.ranges[name]
            if bounds is not None and not tensor.dtype.is_floating_point:
                bounds = [str(bounds[0]), self.top(name, bounds[1])]
            elif bounds is not None:
                bounds = [f"{one:.20f}".rstrip("0").rstrip(".") for one in bounds]
            kind = DTYPES[tensor.dtype]
            tensors.append({"name": self.public[name], "role": "input", "dtype": kind, "shape": shape or ["1"], "range": bounds})
        outputs = []
        for at, result in enumerate(shot.results):
            name = "out" if len(shot.results) == 1 else f"out_{at}"
            if result.dtype not in DTYPES:
                raise Unfit("dtype", f"the output is {result.dtype}")
            shape = shaped(self.names, self.shots, lambda shot, at=at: shot.results[at], name)
            if self.flattens(shape):
                shape = [" * ".join(f"({one})" if " " in one else one for one in shape if one != "1")]
            outputs.append({"name": name, "role": "output", "dtype": DTYPES[result.dtype], "shape": shape or ["1"]})
        tables = self.tables(outputs)
        return {
            "tensors": [*outputs, *tensors],
            "flops": self.flops(outputs, tensors),
            "function": self.function(idle, shot),
            "tables": tables,
            "notes": self.notes,
        }

    def flattens(self, shape):
        """Whether an output with short rows is treated as one row, so that errors are judged by its largest element."""
        results = self.sizes.base.results
        return len(results) == 1 and len(shape) > 1 and results[0].shape[-1] < ROW <= results[0].numel()

    def values(self, change):
        """The values of all names in a case."""
        shot = self.sizes.shoot(change)
        sizes = {name: change.get(name, self.config[name]) for name in self.sizes.names}
        return {**sizes, **{name: get(shot) for name, get in self.names.own.items()}}

    def tables(self, outputs):
        kinds = ["wide", "tiny", "sparse", "constant", "spike"]
        if any(output["dtype"] != "T" for output in outputs):
            kinds = ["wide", "tiny", "spike"]
            self.notes.append(["ties", "an integer output is not tested where values are equal"])
        tables = [
            {"list": "verify", "name": "small", "values": self.values(self.least)},
            {"list": "verify", "name": "values", "values": self.values(self.least), "inputs": kinds},
            {"list": "bench", "name": "as the module has it", "values": self.values({})},
        ]
        for number, change in enumerate(self.request.get("more", [])):
            config = {key: value for key, value in change.items() if key in self.sizes.names}
            shot = self.sizes.shoot(config) if config else None
            if shot and shot.elements() > MOST:
                self.notes.append(["too-large", f"{config} is not verified: {shot.elements()} elements"])
            elif shot:
                tables.append({"list": "verify", "name": f"shapes {number + 1}", "values": self.values(config)})
        found = drawn(self.sizes, self.least) if self.sizes.names else None
        rng, shots = random.Random(1), []
        changes = [choose(found, rng) for _ in range(8)] if found else []
        shots = [self.sizes.shoot(change) for change in changes]
        sound = found and all(shots) and all(self.is_finite(change) for change in changes[:4])
        if sound and not self.names.own:
            tables.append({"list": "verify", "name": "drawn", "values": found, "draw": 8})
            return tables
        known = 0
        for change, shot in zip(changes, shots, strict=True):
            if shot and self.is_finite(change):
                known += 1
                tables.append({"list": "verify", "name": f"sizes {known}", "values": self.values(change)})
        self.notes.append(["no-drawn-sizes", f"sizes cannot be drawn; {known} others are verified"])
        return tables

    def is_finite(self, change):
        """Whether the result for a configuration is finite."""
        shot = attempt(self.module, {**self.config, **change}, "cpu")
        return shot is not None and all(one.double().isfinite().all() for one in shot.results)

    def flops(self, outputs, inputs):
        """The formula for operations: if torch counts any, a multiple of the output's elements and perhaps of another
        dimension; else one per element."""
        counts = [shot.flops or 0 for shot in self.shots]
        size = [sum(one.numel() for one in shot.results) for shot in self.shots]
        elements = " + ".join(" * ".join(f"({one})" if " " in one else one for one in output["shape"]) for output in outputs)
        if not any(counts):
            return " + ".join(" * ".join(f"({one})" if " " in one else one for one in tensor["shape"]) for tensor in [*outputs, *inputs])
        dims = {dim for tensor in inputs for dim in tensor["shape"] if not dim.isdigit()}
        tables = {dim: self.numbers(dim) for dim in dims}
        for dim in [None, *sorted(tables)]:
            by = tables.get(dim) or [1] * len(counts)
            ratios = {count / (one * two) for count, one, two in zip(counts, size, by, strict=True)}
            if len(ratios) == 1:
                return f"{int(ratios.pop())} * ({elements})" + (f" * ({dim})" if dim else "")
        return f"{max(1, counts[0] // max(1, size[0]))} * ({elements})"

    def numbers(self, formula):
        found = []
        for change, shot in self.sizes.probes:
            scope = {name: change.get(name, self.config[name]) for name in self.sizes.names}
            scope.update({name: get(shot) for name, get in self.names.own.items()})
            found.append(eval(formula, {"ceil_div": lambda a, b: -(-a // b)}, scope))  # no text of the module's
        return found

    def function(self, idle, shot):
        """The text of the reference, which follows the module's own."""
        tensors = [name for name in shot.tensors() if name not in idle]
        head = ", ".join(self.public[name] for name in tensors)

        def value(name):
            tensor = shot.given[name]
            if name in idle:
                # Its shape may matter, its contents do not.
                return "None" if self.accepts_none(name, shot) else self.filled(name, head.split(", ")[0])
            return self.public[name] + (".reshape(())" if tensor.dim() == 0 else "")

        if self.module.functional:
            named = [f"{name}={value(name) if torch.is_tensor(one) else self.literal(name, one)}" for name, one in shot.given.items()]
            body = [f"    result = forward_fn({', '.join(named)})"]
        else:
            states = {name for name, _ in itertools.chain(shot.model.named_parameters(), shot.model.named_buffers())}
            given = ", ".join(value(name) for name in shot.given if name not in states)
            held = ", ".join(f'"{name}": {value(name)}' for name in shot.given if name in states)
            config = ", ".join(f'"{name}": ' + (f'int(sizes["{name}"])' if name in self.sizes.names else repr(one))
                               for name, one in self.config.items())
            body = [f"    model = kernels_model({{{config}}})",
                    f"    result = torch.func.functional_call(model, {{{held}}}, ({given},))"]
        if any(one.dim() == 0 for one in shot.results):
            body.append("    result = result.reshape(1)")
        elif self.flattens(shot.results[0].shape):
            body.append("    result = result.reshape(-1)")
        lines = ["", "", "# What `kernels verify` calls, with float64 tensors and the sizes, all by name.",
                 f"def kernels_reference({head}, **sizes):", *body, "    return result", ""]
        return "\n".join(lines) if self.module.functional else MODEL + "\n".join(lines)

    def accepts_none(self, name, shot):
        try:
            return bool(self.evaluate({**shot.given, name: None}, shot))
        except Exception:
            return False

    def filled(self, name, like):
        shape = shaped(self.names, self.shots, lambda shot: shot.given[name], self.public[name])
        parts = []
        for dim in shape:
            if dim in self.names.own or "ceil_div" in dim:
                raise Unfit("argument", f"{name} is idle, and its shape changes with the sizes")
            for size in sorted(self.sizes.names, key=len, reverse=True):
                dim = dim.replace(size, f'int(sizes["{size}"])')
            parts.append(dim)
        return f"{like}.new_ones(({', '.join(parts)}{',' if parts else ''}))"


MODEL = '''

_kernels_models = {}


def kernels_model(config):
    """The module with a configuration. Its parameters are given with each call."""
    import inspect

    key = tuple(sorted(config.items()))
    if key not in _kernels_models:
        for name, value in config.items():
            if name in globals():
                globals()[name] = value
        taken = inspect.signature(Model.__init__).parameters
        given = {name: value for name, value in config.items() if name in taken}
        init = globals().get("get_init_inputs")
        _kernels_models[key] = Model(*(init() if init and not given else ()), **given)
    return _kernels_models[key]
'''


def answer(request):
    started = time.monotonic()
    torch.set_num_threads(request.get("threads", 1))
    task = Task(request)
    # In most modules, the first dimension counts independent parts.
    sizes = task.sizes
    leading = [sizes.formula([shot.inputs[0].shape[0] for shot in task.shots])] if task.shots[0].inputs[0].dim() else []
    smaller = small(sizes, FILTERED, *(name for name in leading if name in sizes.names))
    if smaller:
        task.notes.append(["filtered-smaller", f"the filters ran it with {smaller}"])
    flags = filters(task.module, {**task.config, **smaller}, time.monotonic())
    said = task.described()
    if task.constant:
        flags["constant-output"] = "no input changes the output"
    elif task.alike and "constant-output" not in flags and sum(one.numel() for one in task.small[0].results) > 1:
        flags["constant-output"] = "all elements of the output are equal"
    return {**said, "flags": sorted(flags.items()), "torch": torch.__version__, "seconds": time.monotonic() - started}


for line in sys.stdin:
    try:
        said = answer(json.loads(line))
    except Unfit as unfit:
        said = {"unfit": [unfit.kind, str(unfit)]}
    except Exception as error:
        said = {"unfit": ["failed", "".join(traceback.format_exception_only(error)).strip()[:600]],
                "trace": traceback.format_exc(limit=-4)}
    answers.write(json.dumps(said) + "\n")
    answers.flush()
