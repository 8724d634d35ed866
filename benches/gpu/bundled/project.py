"""A kernel project as kernel.toml and build.toml describe it, and its cases with every size filled in. Needs no torch."""

import itertools
import pathlib
import tomllib

from peers.case import Called, Tensor

from .formula import Formula

TABLE_KEYS = ("name", "dtype", "offsets", "inputs", "draw")


class Project:
    """`operations` in kernel.toml's order, `sources` of build.toml."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        with open(self.folder / "kernel.toml", "rb") as file:
            spec = tomllib.load(file)
        with open(self.folder / "build.toml", "rb") as file:
            build = tomllib.load(file)
        if spec.get("format") != 1:
            raise ValueError(f"{self.folder}/kernel.toml is of format {spec.get('format')}, and this reads 1")
        self.name = build["general"]["name"]
        self.sources, self.include, self.flags = [], [self.folder], []
        for kernel in build["kernel"].values():
            if kernel.get("backend", "cuda") == "cuda":
                self.sources += [self.folder / source for source in kernel["src"] if source.endswith((".cu", ".cpp", ".cc"))]
                self.include += [self.folder / path for path in kernel.get("include", [])]
                self.flags += kernel.get("cuda-flags", [])
        self.operations = [Operation(self, table) for table in spec["operation"]]


class Operation:
    """One launcher."""

    def __init__(self, project, table):
        self.project, self.name, self.launcher = project, table["name"], table["launcher"]
        self.dtypes, self.table = table["dtypes"], table
        self.bytes, self.flops = Formula(table["bytes"]), Formula(table["flops"])
        self.defaults = {name: Formula(value) for name, value in table.get("defaults", {}).items()}
        self.arguments = [Argument(given) for given in table["arguments"]]
        self.computed = {
            argument.name: argument.value
            for argument in self.arguments
            if argument.kind == "scalar" and argument.value.text.strip() != argument.name
        }

    def names(self):
        """What a case may set, in the order of kernels' own labels."""
        formulas = [formula for argument in self.arguments for formula in argument.shape]
        for argument in self.arguments:
            formulas += [*(argument.strides or []), *([argument.present] if argument.present else [])]
            formulas += [argument.value] if argument.kind == "scalar" else []
        found = [name for formula in [*formulas, self.bytes, self.flops] for name in formula.names]
        for name in sorted(self.defaults):
            found += [name, *self.defaults[name].names]
        return [name for name in dict.fromkeys(found) if name not in self.computed]

    def cases(self, kind):
        """The cases of all `[[operation.KIND]]` tables; those drawn afresh are left out."""
        return [case for table in self.table.get(kind, []) if "draw" not in table for case in self.expand(table)]

    def expand(self, table):
        set_names = [name for name in self.names() if name in table]
        unknown = set(table) - set(TABLE_KEYS) - set(set_names)
        if unknown:
            raise ValueError(f"{self.name}: no {', '.join(sorted(unknown))}; names: {', '.join(self.names())}")
        lists = [value if isinstance(value := table[name], list) else [value] for name in set_names]
        one_or_more = lambda value: value if isinstance(value, list) else [value]  # noqa: E731
        for values in itertools.product(*lists):
            given = dict(zip(set_names, values, strict=True))
            varies = {name for name in set_names if isinstance(table[name], list) and len(table[name]) > 1}
            for inputs in one_or_more(table.get("inputs", "normal")):
                for dtype in one_or_more(table.get("dtype", self.dtypes)):
                    yield Case(self, dtype, given, table.get("name"), table.get("offsets", {}), inputs, varies)


class Argument:
    """One argument of a launcher: of kind tensor, scalar, dtype or stream."""

    def __init__(self, given):
        self.kind = next(kind for kind in ("tensor", "scalar", "dtype", "stream") if kind in given and (kind != "dtype" or isinstance(given[kind], dict)))
        self.name = given[self.kind] if self.kind in ("tensor", "scalar") else self.kind
        self.shape = [Formula(size) for size in given.get("shape", [])]
        self.strides = [Formula(stride) for stride in given["strides"]] if "strides" in given else None
        self.present = Formula(given["present"]) if "present" in given else None
        self.role = given.get("role")
        self.type = given.get("type") if self.kind == "scalar" else given.get("dtype", "T") if self.kind == "tensor" else None
        self.value = Formula(given.get("value", self.name)) if self.kind == "scalar" else None
        self.codes = given["dtype"] if self.kind == "dtype" else None


class Case(Called):
    """One case: `values` of every name, `tensors` that are there by name, `plan` of the launcher's arguments, `bytes`."""

    def __init__(self, operation, dtype, given, name=None, offsets=None, inputs="normal", varies=()):
        self.operation, self.dtype, self.offsets, self.inputs = operation, dtype, offsets or {}, inputs
        found = {}

        def value(wanted, open_names=()):
            if wanted in found:
                return found[wanted]
            if wanted in open_names:
                raise ValueError(f"{operation.name}: `{wanted}` is computed of itself")
            source = operation.computed.get(wanted)
            if source is None and wanted in given:
                source = given[wanted] if isinstance(given[wanted], str) else None
                if source is None:
                    found[wanted] = float(given[wanted])
                    return found[wanted]
                source = Formula(source)
            source = source or operation.defaults.get(wanted)
            if source is None:
                raise ValueError(f"{operation.name}: `{wanted}` has no value in {given}")
            for inner in source.names:
                value(inner, (*open_names, wanted))
            found[wanted] = source.eval(found, dtype)
            return found[wanted]

        names = operation.names()
        self.values = {each: value(each) for each in names}
        for argument in operation.arguments:
            if argument.kind == "scalar":
                value(argument.name)
        self.all = found
        self.tensors, self.plan = {}, []
        for argument in operation.arguments:
            if argument.kind == "tensor":
                if argument.present and argument.present.eval(found, dtype) == 0:
                    self.plan.append(("null", None))
                    continue
                sizes = lambda formulas: [formula.integer(found, dtype) for formula in formulas]  # noqa: E731
                type_name = dtype if argument.type == "T" else argument.type
                self.tensors[argument.name] = Tensor(
                    argument.name, argument.role, type_name, sizes(argument.shape),
                    None if argument.strides is None else sizes(argument.strides), self.offsets.get(argument.name, 0),
                )
                self.plan.append(("tensor", argument.name))
            elif argument.kind == "scalar":
                number = found[argument.name]
                self.plan.append((argument.type, int(number) if argument.type[0] == "i" else number))
            elif argument.kind == "dtype":
                self.plan.append(("i32", argument.codes[dtype]))
            else:
                self.plan.append(("stream", None))
        self.bytes = operation.bytes.integer(found, dtype)
        self.label = self.labelled(names, name, varies)

    def labelled(self, names, title, varies):
        """As the harness labels it."""
        words = []
        for name in names:
            default = self.operation.defaults.get(name)
            try:
                is_default = default is not None and default.eval(self.values, self.dtype) == self.values[name]
            except ValueError:
                is_default = False
            if not is_default or name in varies:
                words.append(f"{name}={number(self.values[name])}")
        words += [f"{tensor}+{offset}" for tensor, offset in sorted(self.offsets.items())]
        words += [self.inputs] if self.inputs != "normal" else []
        return (f"{title}: " if title else "") + " ".join([*words, self.dtype])


def number(value):
    """`4096`, `0.5`, `1e-6`."""
    if value == 0 or 1e-3 <= abs(value) < 1e16:
        return str(int(value)) if value == int(value) else repr(value)
    # The fewest digits that give the same number.
    digits = next(text for text in (f"{value:.{count}e}" for count in range(18)) if float(text) == value)
    mantissa, exponent = digits.split("e")
    return f"{mantissa}e{int(exponent)}"


def projects(root):
    """The projects below a folder by name, and {folder: why not} of those that cannot be read."""
    found, unreadable = [], {}
    for path in sorted(pathlib.Path(root).iterdir()):
        if (path / "kernel.toml").is_file():
            try:
                found.append(Project(path))
            except Exception as error:  # named by the caller
                unreadable[path.name] = f"{type(error).__name__}: {error}"
    return found, unreadable
