"""What is refused."""


class OptimizeError(RuntimeError):
    """Something that the kernels cannot stand in for. Names the module, the reason and the next step."""
