"""Wide LSTMs with fp16 weights on a CPU equal the plain layer."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ontodex.models.layers import fp16_lstm
from ontodex.models.layers.recurrent import BiLSTM

WIDE = 512  # 4 x 512 x 512 weights are 4 MB


def create_layer(units: int = WIDE) -> nn.LSTM:
    """A layer as in a run folder: its weights are fp16 numbers."""
    return nn.LSTM(6, units, batch_first=True).half().float().eval()


pytestmark = pytest.mark.skipif(
    torch.backends.quantized.engine not in fp16_lstm.ENGINES, reason="no FBGEMM here"
)


@pytest.mark.parametrize("n", [1, 3])
def test_fp16_weights_give_the_states_of_the_plain_layer(n):
    layer, x = create_layer(), torch.randn(n, 9, 6)
    with torch.inference_mode():
        assert fp16_lstm.is_faster(layer, x)
        assert fp16_lstm.pack_weights(layer) is not None
        torch.testing.assert_close(fp16_lstm.run_lstm(layer, x), layer(x)[0], atol=1e-6, rtol=1e-5)


def test_weights_that_are_no_fp16_numbers_are_never_rounded():
    layer, x = create_layer(), torch.randn(1, 9, 6)
    with torch.no_grad():
        layer.weight_hh_l0 += 1e-6
        assert fp16_lstm.pack_weights(layer) is None
        assert torch.equal(fp16_lstm.run_lstm(layer, x), layer(x)[0])


def test_changed_weights_are_packed_again():
    layer, other, x = create_layer(), create_layer(), torch.randn(1, 9, 6)
    with torch.no_grad():
        before = fp16_lstm.run_lstm(layer, x)
        layer.load_state_dict(other.state_dict())
        torch.testing.assert_close(fp16_lstm.run_lstm(layer, x), other(x)[0], atol=1e-6, rtol=1e-5)
        assert not torch.allclose(before, other(x)[0], atol=1e-3)


@pytest.mark.parametrize(
    ("layer", "x"),
    [
        (create_layer(256), torch.zeros(1, 2, 6)),  # stays in the cache
        (create_layer(), torch.zeros(fp16_lstm.MAX_DOCUMENTS + 1, 2, 6)),
        (create_layer().double(), torch.zeros(1, 2, 6, dtype=torch.double)),
    ],
)
def test_the_plain_layer_runs_where_fp16_weights_are_not_faster(layer, x):
    with torch.no_grad():
        assert not fp16_lstm.is_faster(layer, x)


def test_the_plain_layer_runs_with_many_threads(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: fp16_lstm.MAX_THREADS + 1)
    with torch.no_grad():
        assert not fp16_lstm.is_faster(create_layer(), torch.zeros(1, 2, 6))


def test_gradients_come_from_the_plain_layer():
    layer, x = create_layer(), torch.randn(1, 9, 6)
    assert not fp16_lstm.is_faster(layer, x)
    fp16_lstm.run_lstm(layer, x).sum().backward()
    assert layer.weight_hh_l0.grad is not None


def test_a_single_document_is_encoded_as_in_a_batch():
    """Alone it is encoded with fp16 weights, in a batch of five without."""
    encode = BiLSTM(6, WIDE).half().float().eval()
    x, lengths = torch.randn(5, 9, 6), torch.tensor([9, 4, 1, 7, 9])
    with torch.inference_mode():
        together = encode(x, lengths)
        for i, length in enumerate(lengths.tolist()):
            alone = encode(x[i : i + 1, :length], lengths[i : i + 1])
            torch.testing.assert_close(alone[0], together[i, :length], atol=1e-6, rtol=1e-5)
