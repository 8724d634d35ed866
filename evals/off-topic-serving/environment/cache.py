def tokens(memory, utilization, weights, layers, kv_heads, head, bytes):
    free = memory * utilization - weights
    token = layers * kv_heads * head * bytes
    return int(free // token) // 16 * 16
