"""Every bundled project beside every peer. What a peer is stands in src/against/python/peers, which `kernels bench --against`
carries.

Importing this sets what torch._inductor, triton and quack read when they are imported.
"""

import os
import tempfile

CACHE = os.environ.setdefault("PEERS_CACHE", tempfile.mkdtemp(prefix="peers-"))
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", f"{CACHE}/inductor")
os.environ.setdefault("TRITON_CACHE_DIR", f"{CACHE}/triton")
os.environ.setdefault("QUACK_CACHE_DIR", f"{CACHE}/quack")
# The processes compile in parallel: each on one thread.
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
# Whether there is a card is asked without the driver: a driver that was started does not survive the fork.
os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
