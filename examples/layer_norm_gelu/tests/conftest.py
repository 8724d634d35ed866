import pytest
import torch
from support import load


@pytest.fixture(scope="session")
def kernel():
    """The built kernel, as the Hub's library loads it."""
    return load()


@pytest.fixture(autouse=True)
def nothing_compiled():
    """What one test compiled counts towards no limit of recompilations of another."""
    torch._dynamo.reset()
