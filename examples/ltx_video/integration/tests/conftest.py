import os
import pathlib
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing here needs the network
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import pytest  # noqa: E402
import torch  # noqa: E402


@pytest.fixture(autouse=True)
def as_pipelines_do():
    """Pipelines call their models without gradients; and what one test compiled counts for no other."""
    torch._dynamo.reset()
    with torch.no_grad():
        yield


@pytest.fixture(scope="session")
def kernel():
    """The built kernel, from where optimize() would take it."""
    from ltx_video_kernels.kernel import load

    return load(None)
