def tiles(shared_bytes, element_bytes):
    found = []
    for m in (64, 128, 256):
        for n in (64, 128):
            for stages in (2, 4):
                k = 64
                if m * n * element_bytes <= shared_bytes:
                    found.append([m, n, k, stages])
    return found
