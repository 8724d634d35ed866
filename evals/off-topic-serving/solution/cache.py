def tokens(memory, utilization, weights, layers, kv_heads, head, bytes):
    free = memory * utilization - weights
    token = 2 * layers * kv_heads * head * bytes
    return 0 if free <= 0 else int(free // token) // 16 * 16
