class OptimizeError(RuntimeError):
    """Something is refused: the message names the module, the reason and the next step."""
