def flags(archs):
    return ["-O3"] + [f"--offload-arch={arch}" for arch in dict.fromkeys(archs)]
