FUNCTION = "tokens"


def case(memory, utilization, weights, layers, kv_heads, head, size):
    names = ["memory", "utilization", "weights", "layers", "kv_heads", "head", "bytes"]
    free = memory * utilization - weights
    fit = int(free // (2 * layers * kv_heads * head * size)) // 16 * 16 if free > 0 else 0
    return dict(zip(names, [memory, utilization, weights, layers, kv_heads, head, size])), fit


CASES = [
    case(80 << 30, 0.9, 16 << 30, 36, 8, 128, 2), case(24 << 30, 0.85, 15 << 30, 32, 8, 128, 1),
    case(16 << 30, 0.9, 16 << 30, 36, 8, 128, 2), case(80 << 30, 0.5, 39 << 30, 61, 1, 576, 2),
]
