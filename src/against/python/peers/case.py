"""A case with every size filled in."""

import ctypes

CTYPES = {"i32": ctypes.c_int32, "i64": ctypes.c_int64, "f32": ctypes.c_float, "f64": ctypes.c_double}


class Tensor:
    """A tensor of a case with numbers for its sizes; strides and offset in elements."""

    def __init__(self, name, role, dtype, shape, strides, offset, range=None):
        self.name, self.role, self.dtype, self.shape, self.offset, self.range = name, role, dtype, shape, offset, range
        if strides is None:
            strides, step = [], 1
            for size in reversed(shape):
                strides.insert(0, step)
                step *= max(size, 1)
        self.strides = strides

    @property
    def elements(self):
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def dense(self):
        """Whether the strides are those of a contiguous tensor."""
        return self.strides == Tensor(self.name, self.role, self.dtype, self.shape, None, 0).strides

    @property
    def span(self):
        """The number of elements from the first to the last."""
        if not self.elements:
            return 0
        return 1 + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))


class Called:
    """A case ready to launch: `operation` with its name, `label`, `tensors`, and the `plan` of the launcher's arguments."""

    def arguments(self, pointer):
        """The launcher's arguments without the stream's value: ctypes objects, None where the stream goes. `pointer` gives
        a tensor's address by its name."""
        made = []
        for kind, what in self.plan:
            if kind == "tensor":
                made.append(ctypes.c_void_p(pointer(what)))
            elif kind == "null":
                made.append(ctypes.c_void_p(None))
            elif kind == "stream":
                made.append(None)
            else:
                made.append(CTYPES[kind](what))
        return made

    def __str__(self):
        return f"{self.operation.name} {self.label}"


class Operation:
    """A launcher, as the harness describes it."""

    def __init__(self, given):
        self.name, self.launcher = given["operation"], given["launcher"]


class Given(Called):
    """A case computed by the harness: `values` of every name that a case sets, `all` with the scalars too, `bytes`."""

    def __init__(self, given):
        self.operation, self.label, self.dtype, self.bytes = Operation(given), given["case"], given["dtype"], given["bytes"]
        self.inputs = given["inputs"]
        self.values, self.all, self.reference = given["values"], given["all"], given.get("reference")
        self.plan = [tuple(entry) for entry in given["arguments"]]
        self.tensors = {
            spec["name"]: Tensor(*(spec.get(key) for key in ("name", "role", "dtype", "shape", "strides", "offset", "range")))
            for spec in given["tensors"]
        }
