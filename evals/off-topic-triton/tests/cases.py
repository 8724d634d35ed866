FUNCTION = "tiles"


def right(shared_bytes, element_bytes):
    every = [[m, n, 64, stages] for m in (64, 128, 256) for n in (64, 128) for stages in (2, 4)]
    return [one for one in every if one[3] * 64 * (one[0] + one[1]) * element_bytes <= shared_bytes]


CASES = [({"shared_bytes": s, "element_bytes": e}, right(s, e)) for s, e in [(101376, 2), (232448, 2), (65536, 2), (232448, 4), (0, 2)]]
