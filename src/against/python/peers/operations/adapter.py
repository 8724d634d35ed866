"""What a family says of an operation in one case."""

from ..library import Skip

VARIANTS = ("_in_place",)


def is_variant(case):
    """Whether a launcher or case differs from another only in where it writes, or in how it is given a table."""
    dense = all(spec.dense for spec in case.tensors.values() if spec.role == "output")
    # `W` is the tables' type parameter; -1 stands for T.
    return not dense or case.operation.name.endswith(VARIANTS) or case.values.get("W", -1) != -1


class Adapter:
    """`reference` computes the right result in fp64; `formulas` are ways to write the operation in torch; the other methods are
    peers.

    Tensors come as {name of kernel.toml: tensor}; a formula takes those of `given` and returns a tuple in the order of
    `outputs`, each with as many elements as the launcher's output of that name, in the same order. `prepare` may convert
    tensors to the layout that a peer expects before the peer is timed, so that no peer pays for another's layout.
    """

    names = ()
    outputs = ("out",)
    # The error allowed to a peer, in roundings: 1, or more if models round intermediate results.
    rounds = 1.0
    # The same for our kernel.
    own_rounds = 1.0
    # The difference allowed between the reference and a fixture computed by the model's own module in fp64, relative to the
    # largest element: one of them may have used an eps rounded to fp32.
    exact = 1e-7
    # The formulation that the peer `torch` runs eagerly; of several, the fastest.
    eager = "plain"

    def __init__(self, case):
        self.case, self.values = case, case.values

    def value(self, *names, default=None):
        for name in names:
            if name in self.case.all:
                return self.case.all[name]
        if default is None:
            raise Skip(f"{self.case.operation.name} has none of the values {', '.join(names)}")
        return default

    def has(self, name):
        return name in self.case.tensors

    def fill(self, tensors):
        """Sets the tensors for which random numbers would be wrong."""

    def reference(self, t):
        """{output: the right result} in fp64, from {name: tensor}."""
        raise NotImplementedError

    def given(self, t):
        """The tensors that the formulas take."""
        raise NotImplementedError

    def formulas(self):
        """{formulation: function}."""
        raise NotImplementedError

    def compiled(self):
        """The formulations that torch.compile compiles, by candidate."""
        return {"compile": list(self.formulas())[:1], "compile-max": []}

    def compilations(self):
        """The same, but none for a variant: its formula is compiled for another row."""
        return {} if is_variant(self.case) else self.compiled()

    def has_peer(self, name):
        """Whether this family has this peer."""
        return getattr(type(self), name) is not getattr(Adapter, name)

    # Each returns a `Peer`, or raises Skip with the reason why there is none.

    def liger(self, _):
        raise Skip("Liger has no such operation")

    def quack(self, _):
        raise Skip("QuACK has no such operation")

    def blog(self, _):
        raise Skip("the blog has no such kernel")


class Peer:
    """`prepare(t)` makes the argument of `call(given)` from a set's tensors; `call` launches and returns its outputs in the
    adapter's order. `inplace`: it overwrites what it is given. `other` describes another function that it computes instead;
    `holds(t, outputs)` then says what is wrong by that function's rules, or None."""

    def __init__(self, prepare, call, allocates=True, inplace=False, other=None, holds=None):
        self.prepare, self.call, self.allocates, self.inplace = prepare, call, allocates, inplace
        self.other, self.holds = other, holds


def wide(tensor):
    return tensor.double()


def rounded(tensor, dtype):
    """To a narrower type and back, as a model's cast does."""
    return tensor.to(dtype).to(tensor.dtype)


def rows_of(tensor):
    """As rows x width; a view where that is possible."""
    return tensor.reshape(-1, tensor.shape[-1])
