"""XML-RNN, by hand."""

from __future__ import annotations

import pytest
import torch

from ontodex.models.attentionxml.config import AttentionXMLConfig
from ontodex.models.attentionxml.xmlrnn import XMLRNN

SMALL = AttentionXMLConfig(hidden=3, layers=(2,), width=5, dropout=0.0)


@pytest.fixture
def h() -> torch.Tensor:
    return torch.randn(2, 4, 6, dtype=torch.double, generator=torch.Generator().manual_seed(1))


def test_xmlrnn_pools_the_greatest_state_of_each_unit():
    network = XMLRNN(SMALL, 20, torch.zeros(4), None).eval()
    tokens = torch.tensor([[3, 7, 2, 0], [5, 1, 0, 0]])
    lengths = torch.tensor([3, 2])
    h = network.encode(network.words(tokens), lengths)
    m = torch.stack([h[0, :3].max(dim=0).values, h[1, :2].max(dim=0).values])
    expected = network.output(torch.relu(network.project(m)))
    torch.testing.assert_close(network(tokens, lengths), expected)
