"""The BiLSTM (AttentionXML, Eq. 2 and 3) against loops."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ontodex.models.layers.recurrent import BiLSTM, reverse_within_length

LENGTHS = torch.tensor([4, 2])


@pytest.fixture
def h() -> torch.Tensor:
    return torch.randn(2, 4, 6, dtype=torch.double, generator=torch.Generator().manual_seed(1))


def random(*shape: int, seed: int = 2) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.double, generator=torch.Generator().manual_seed(seed))


def lstm_by_loops(layer: nn.LSTM, x: torch.Tensor) -> torch.Tensor:
    """Eq. 2 for one sequence; torch keeps its gates in the order i, f, g, o."""
    wi, wh = layer.weight_ih_l0, layer.weight_hh_l0
    bias = layer.bias_ih_l0 + layer.bias_hh_l0
    size = wh.shape[1]
    state = cell = torch.zeros(size, dtype=x.dtype)
    out = []
    for step in x:
        gates = wi @ step + wh @ state + bias
        i, f, g, o = (gates[k * size : (k + 1) * size] for k in range(4))
        cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
        state = torch.sigmoid(o) * torch.tanh(cell)
        out.append(state)
    return torch.stack(out)


def test_the_encoder_equals_equations_2_and_3_in_loops():
    encoder, x = BiLSTM(5, 3).double(), random(2, 4, 5)
    h = encoder(x, LENGTHS)
    for n, length in enumerate(LENGTHS.tolist()):
        forward = lstm_by_loops(encoder.onward, x[n, :length])
        backward = lstm_by_loops(encoder.backward_, x[n, :length].flip(0)).flip(0)
        torch.testing.assert_close(h[n, :length], torch.cat([forward, backward], dim=1))


def test_sequences_are_reversed_within_their_length_by_hand():
    x = torch.tensor([[1, 2, 3, 4], [5, 6, 0, 0]])[:, :, None]
    reversed_ = reverse_within_length(x, LENGTHS)[:, :, 0]
    assert reversed_.tolist() == [[4, 3, 2, 1], [6, 5, 0, 0]]
