"""The roof: copies of the same bytes."""

import math

from .candidate import Candidate

PAGE = 4096


def copy_kernel():
    """A copy kernel, made once."""
    if not hasattr(copy_kernel, "kernel"):
        import triton
        import triton.language as tl

        @triton.jit
        def copy_words(to, source, words, BLOCK: tl.constexpr):
            at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
            tl.store(to + at, tl.load(source + at, mask=at < words), mask=at < words)

        copy_kernel.kernel = copy_words
    return copy_kernel.kernel


def copies(size_in_bytes, sets):
    """Copies of half the bytes, which move as many in all, in several forms; the fastest is the roof. The driver copies slowly
    if the size is not a whole number of pages, and also for some round sizes, so two sizes are tried."""
    import torch

    half = math.ceil(size_in_bytes / 2)
    pages = math.ceil(half / PAGE) * PAGE
    size = pages + PAGE
    source = torch.empty(sets, size // 4, dtype=torch.int32, device="cuda").random_()
    to = torch.empty_like(source)

    def memcpy(count):
        def call(i):
            to[i, : count // 4].copy_(source[i, : count // 4])
            return (to[i, : count // 4],)

        return call

    def triton_copy(block, warps):
        words = math.ceil(half / 16) * 4
        kernel = copy_kernel()

        def call(i):
            kernel[(math.ceil(words / block),)](to[i], source[i], words, BLOCK=block, num_warps=warps)
            return (to[i, :words],)

        return call

    made = [
        Candidate("copy", memcpy(pages), "memcpy, whole pages"),
        Candidate("copy", memcpy(size), "memcpy, whole pages and one"),
        Candidate("copy", triton_copy(1024, 4), "16-byte copy, 4 KiB a block"),
        Candidate("copy", triton_copy(4096, 8), "16-byte copy, 16 KiB a block"),
    ]
    return made, source
