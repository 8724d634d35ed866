import pytest

from support import load


@pytest.fixture(scope="session")
def kernel():
    """The built kernel, as the Hub's library loads it."""
    return load()
