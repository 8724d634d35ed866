"""What a family says of an operation in one case."""

from ..library import Skip

VARIANTS = ("_in_place",)


def is_variant(case):
    """Whether a launcher or case differs from another only in where it writes, or in how it is given a table."""
    dense = all(spec.dense for spec in case.tensors.values() if spec.role == "output")
    # `W` is the tables' type parameter; -1 stands for T.
    return not dense or case.operation.name.endswith(VARIANTS) or case.values.get("W", -1) != -1


class Adapter:
    """`reference` is what is right, in fp64; `formulas` are the ways to write it in torch; the rest are other peers.

    Tensors come as {name of kernel.toml: tensor}; a formula takes those of `given` and returns a tuple in the order of
    `outputs`, each of as many elements as the launcher's output of that name, in the same order. Peers may be given tensors
    laid out as they want them, made beforehand by `prepare`: no peer pays for a layout that is not its own.
    """

    names = ()
    outputs = ("out",)
    # How much further than one rounding a peer may be: 1, or more where models round what lies between.
    rounds = 1.0
    # The same of our kernel.
    own_rounds = 1.0
    # How far the reference may be from a fixture of the model's own module in fp64, relative to the largest: an eps may have
    # been rounded to fp32 on its way.
    exact = 1e-7
    # Whose formula `torch` is, run eagerly as it stands; of several, the fastest.
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
        """Sets what random numbers would be wrong for."""

    def reference(self, t):
        """{output: what is right} in fp64, of {name: tensor}."""
        raise NotImplementedError

    def given(self, t):
        """The tensors that the formulas take."""
        raise NotImplementedError

    def formulas(self):
        """{formulation: function}."""
        raise NotImplementedError

    def compiled(self):
        """Which formulations torch.compile gets, by candidate."""
        return {"compile": list(self.formulas())[:1], "compile-max": []}

    def compilations(self):
        """The same, but none for a variant: to a compiler its formula is that of another row."""
        return {} if is_variant(self.case) else self.compiled()

    def has_peer(self, name):
        """Whether this family knows of one."""
        return getattr(type(self), name) is not getattr(Adapter, name)

    # Each answers a `Peer`, or raises Skip with the reason why there is none.

    def liger(self, _):
        raise Skip("Liger has no such operation")

    def quack(self, _):
        raise Skip("QuACK has no such operation")

    def blog(self, _):
        raise Skip("the blog has no such kernel")


class Peer:
    """`prepare(t)` makes of a set's tensors what `call(given)` takes; `call` launches and returns its outputs in the order of
    the adapter's. `inplace`: it overwrites what it is given. `other`: it computes something else, namely this; then
    `holds(t, outputs)` says what is wrong with it by its own rules, or None."""

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
