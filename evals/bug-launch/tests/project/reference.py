def hardswish(x, **others):
    return x * (x + 3).clamp(0, 6) / 6
