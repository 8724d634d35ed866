FUNCTION = "flags"
CASES = [
    ({"archs": archs}, ["-O3"] + [f"--offload-arch={arch}" for arch in dict.fromkeys(archs)])
    for archs in [["gfx942", "gfx942"], ["gfx90a"], ["gfx942", "gfx90a", "gfx942"], ["gfx90a:xnack-", "gfx90a:xnack+", "gfx90a"], []]
]
