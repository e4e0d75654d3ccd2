from __future__ import annotations

import pytest
import torch
from torch import nn

from ontodex.models import half_lstm
from ontodex.models.parts import BiLSTM

WIDE = 512  # 4 x 512 x 512 weights are 4 MB


def finished(units: int = WIDE) -> nn.LSTM:
    """A layer as a run has it: its weights are halves."""
    return nn.LSTM(6, units, batch_first=True).half().float().eval()


pytestmark = pytest.mark.skipif(
    torch.backends.quantized.engine not in half_lstm.ENGINES, reason="no FBGEMM here"
)


@pytest.mark.parametrize("n", [1, 3])
def test_halves_give_the_states_of_the_plain_layer(n):
    layer, x = finished(), torch.randn(n, 9, 6)
    with torch.inference_mode():
        assert half_lstm.pays(layer, x)
        assert half_lstm.packed(layer) is not None
        torch.testing.assert_close(half_lstm.states(layer, x), layer(x)[0], atol=1e-6, rtol=1e-5)


def test_weights_that_are_no_halves_are_never_rounded():
    layer, x = finished(), torch.randn(1, 9, 6)
    with torch.no_grad():
        layer.weight_hh_l0 += 1e-6
        assert half_lstm.packed(layer) is None
        assert torch.equal(half_lstm.states(layer, x), layer(x)[0])


def test_new_weights_are_read_not_those_from_before():
    layer, other, x = finished(), finished(), torch.randn(1, 9, 6)
    with torch.no_grad():
        before = half_lstm.states(layer, x)
        layer.load_state_dict(other.state_dict())
        torch.testing.assert_close(half_lstm.states(layer, x), other(x)[0], atol=1e-6, rtol=1e-5)
        assert not torch.allclose(before, other(x)[0], atol=1e-3)


@pytest.mark.parametrize(
    ("layer", "x"),
    [
        (finished(256), torch.zeros(1, 2, 6)),  # stays in the cache
        (finished(), torch.zeros(half_lstm.MOST_DOCUMENTS + 1, 2, 6)),
        (finished().double(), torch.zeros(1, 2, 6, dtype=torch.double)),
    ],
)
def test_the_plain_layer_reads_where_halves_do_not_pay(layer, x):
    with torch.no_grad():
        assert not half_lstm.pays(layer, x)


def test_many_threads_read_with_the_plain_layer(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: half_lstm.MOST_THREADS + 1)
    with torch.no_grad():
        assert not half_lstm.pays(finished(), torch.zeros(1, 2, 6))


def test_gradients_come_from_the_plain_layer():
    layer, x = finished(), torch.randn(1, 9, 6)
    assert not half_lstm.pays(layer, x)
    half_lstm.states(layer, x).sum().backward()
    assert layer.weight_hh_l0.grad is not None


def test_a_document_alone_is_read_as_among_others():
    """Alone it is read with halves, among others without."""
    encode = BiLSTM(6, WIDE).half().float().eval()
    x, lengths = torch.randn(5, 9, 6), torch.tensor([9, 4, 1, 7, 9])
    with torch.inference_mode():
        together = encode(x, lengths)
        for i, length in enumerate(lengths.tolist()):
            alone = encode(x[i : i + 1, :length], lengths[i : i + 1])
            torch.testing.assert_close(alone[0], together[i, :length], atol=1e-6, rtol=1e-5)
