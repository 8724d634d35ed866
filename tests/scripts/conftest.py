import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.dont_write_bytecode = True
# Read when huggingface_hub is imported, which several tests share.
os.environ["HF_HUB_OFFLINE"] = "1"


@pytest.fixture
def fake_card(monkeypatch):
    """A fake GPU: everything for "cuda" runs on the CPU. See fake_card.py."""
    import fake_card

    with fake_card.installed(monkeypatch):
        yield


@pytest.fixture
def no_card(monkeypatch):
    """Also where there is a card."""
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
