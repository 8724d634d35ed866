import pytest
import torch


@pytest.fixture(autouse=True)
def nothing_compiled():
    """What one test compiled counts towards no limit of recompilations of another."""
    yield
    torch._dynamo.reset()
