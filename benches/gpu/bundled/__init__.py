"""Times the bundled projects and their peers. The peers are in src/against/python/peers, which `kernels bench --against` also
uses.

Importing this sets environment variables that torch._inductor, triton and quack read when they are imported.
"""

import os
import tempfile

CACHE = os.environ.setdefault("PEERS_CACHE", tempfile.mkdtemp(prefix="peers-"))
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", f"{CACHE}/inductor")
os.environ.setdefault("TRITON_CACHE_DIR", f"{CACHE}/triton")
os.environ.setdefault("QUACK_CACHE_DIR", f"{CACHE}/quack")
# The processes compile in parallel: each on one thread.
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
# Detect the GPU without CUDA: a CUDA context does not survive a fork.
os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
