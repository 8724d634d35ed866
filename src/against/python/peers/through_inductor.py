"""Formulas through torch.compile."""

MODES = {"compile": None, "compile-max": "max-autotune-no-cudagraphs"}


def compiled(function, mode):
    """`function` through torch.compile. Its earlier compilations are forgotten: every shape is specialised, and the limit
    on recompilations of one function (after which it silently runs eagerly) is never met."""
    import torch

    torch._dynamo.reset()
    return torch.compile(function, mode=mode, dynamic=False, fullgraph=True)


def configure():
    """Compiles each shape on its own, and makes a fallback to eager an error, because it would be timed."""
    import torch._dynamo

    config = torch._dynamo.config
    config.automatic_dynamic_shapes = False
    config.suppress_errors = False
    if hasattr(config, "fail_on_recompile_limit_hit"):
        config.fail_on_recompile_limit_hit = True
