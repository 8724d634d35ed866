"""What is launched and called in a layer; README.md has the numbers."""

import cost
import pytest

PREFILL = ["add_rms_norm"] * 2 + ["qk_norm_rope", "swiglu"]


@pytest.mark.parametrize("decode", [False, True], ids=["prefill", "decode"])
def test_launches_of_a_layer(decode):
    stock, ours = cost.launches(False, decode), cost.launches(True, decode)
    assert [name for name in ours if name in PREFILL] == PREFILL
    # Everything else is as in the stock layer: seven projections, the cache, the attention.
    rest = [name for name in ours if name not in PREFILL]
    for name in rest:
        stock.remove(name)
    assert rest.count("mm") == 7
    # Instead of four; and an empty cache takes k and v without a copy.
    assert rest.count("cat") == (2 if decode else 0)
    assert len(stock) == (46 if decode else 48)


@pytest.mark.parametrize("decode", [False, True], ids=["prefill", "decode"])
def test_calls_of_a_layer(decode):
    (stock, stock_c), (ours, ours_c) = cost.calls(False, decode), cost.calls(True, decode)
    assert ours < 0.9 * stock and ours_c < 0.75 * stock_c
