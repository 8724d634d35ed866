"""What each operation computes, and which peers compute it as well. One file a family; `of_case` finds the right one."""

import importlib

FAMILIES = ("norms", "adaln", "attention", "basics", "gated", "rope3d", "rope", "softmax")


def adapters():
    """{operation's name: its class} over all families."""
    found = {}
    for family in FAMILIES:
        module = importlib.import_module(f"{__name__}.{family}")
        for made in module.ADAPTERS:
            for name in made.names:
                found[name] = made
    return found


def of_case(case):
    """The adapter of a case's operation. Raises Skip if no family has the operation."""
    from ..library import Skip

    made = adapters().get(case.operation.name)
    if made is None and getattr(case, "reference", None):
        from .own import Own as made
    if made is None:
        raise Skip(f"there is no formula for {case.operation.name}; with a reference in Python in kernel.toml, that is taken")
    return made(case)
