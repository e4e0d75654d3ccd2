"""The network of AttentionXML against loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from attention_by_loops import attention_by_loops
from ontodex.features.vocabulary import EncodedTexts
from ontodex.models.attentionxml.config import AttentionXMLConfig
from ontodex.models.attentionxml.network import AttentionXML, SharedReadOut
from ontodex.models.attentionxml.system import AttentionXMLSystem
from ontodex.models.attentionxml.xmlcnn import XMLCNN, XMLCNNConfig
from ontodex.models.attentionxml.xmlrnn import XMLRNN, XMLRNNSystem
from ontodex.models.layers.ragged import Ragged
from ontodex.models.layers.words import token_mask

LENGTHS = torch.tensor([4, 2])


MASK = token_mask(torch.zeros(2, 4), LENGTHS)


SMALL = AttentionXMLConfig(hidden=3, layers=(2,), width=5, dropout=0.0)


@pytest.fixture
def h() -> torch.Tensor:
    return torch.randn(2, 4, 6, dtype=torch.double, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("layers", [(2,), (5, 2)])
def test_projecting_tokens_first_is_the_paper_with_its_layers_after_attention(h, layers):
    """W1 (sum a h) + b = sum a (W1 h + b), then Eq. 5 with one read-out for all labels, with one
    fully connected layer and with two."""
    read_out = SharedReadOut(AttentionXMLConfig(hidden=3, layers=layers), 5).double()
    z = attention_by_loops(h, read_out.queries.detach(), LENGTHS)
    for layer in [read_out.project, *read_out.deeper.each]:
        weight, bias = layer.get_parameter("weight"), layer.get_parameter("bias")
        z = torch.relu(z @ weight.T + bias)
    expected = (z @ read_out.output[0]) + read_out.bias
    torch.testing.assert_close(read_out(h, MASK).double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("system_class", [AttentionXMLSystem, XMLRNNSystem])
def test_the_loss_is_the_mean_over_documents_and_labels(system_class):
    """Eq. 6 as printed, in plain loops."""
    system = system_class(SMALL)
    torch.manual_seed(0)
    system.network = system_class.Network(SMALL, 20, torch.zeros(3), None).eval()
    system.n_labels = 3
    words = EncodedTexts(np.array([3, 7, 2, 5, 4]), np.array([0, 3, 5]))
    data = Ragged(words, torch.device("cpu"))
    gold = Ragged.of_gold(csr_array([[1, 0, 1], [0, 0, 0]]), 3, torch.device("cpu"))
    p = system.network(*data.pad(np.array([0, 1]))).sigmoid().tolist()
    total = 0.0
    for row, truth in zip(p, [[1, 0, 1], [0, 0, 0]], strict=True):
        for chance, y in zip(row, truth, strict=True):
            total -= y * math.log(chance) + (1 - y) * math.log(1 - chance)
    loss = system.compute_loss(np.array([0, 1]), data, gold).item()
    assert loss == pytest.approx(total / (2 * 3), rel=1e-5)


def test_attention_of_a_label_is_eq_4_and_never_falls_on_padding():
    torch.manual_seed(1)
    network = AttentionXML(SMALL, 20, torch.zeros(7), None).double().eval()
    tokens = torch.tensor([[3, 7, 3, 2], [5, 4, 0, 0]])
    states = network.encode(network.words(tokens), LENGTHS).detach()
    for column in range(7):
        weights = network.compute_attention(tokens, LENGTHS, column)
        for n in range(2):
            steps = range(int(LENGTHS[n]))
            query = network.read_out.queries[column].detach()
            powers = [math.exp(float(states[n, t] @ query)) for t in steps]
            expected = [power / sum(powers) for power in powers]
            assert weights[n, : len(expected)].tolist() == pytest.approx(expected)
        assert not weights[1, 2:].any()


def test_contributions_of_words_add_up_to_the_logit_without_its_bias():
    """With a repeated word, and with padding, which contributes nothing."""
    torch.manual_seed(1)
    network = AttentionXML(SMALL, 20, torch.zeros(7), None).double().eval()
    tokens = torch.tensor([[3, 7, 3, 2], [5, 4, 0, 0]])
    logits = network(tokens, LENGTHS) - network.read_out.bias
    for column in range(7):
        added = network.explain_logit(tokens, LENGTHS, column)
        torch.testing.assert_close(
            added.sum(1), logits[:, column], check_dtype=False, rtol=1e-4, atol=1e-6
        )
        assert not added[1, 2:].any()


@pytest.mark.parametrize("network_class", [AttentionXML, XMLRNN, XMLCNN])
def test_padding_never_changes_a_logit(network_class):
    config = SMALL if network_class is not XMLCNN else XMLCNNConfig(width=5, maps=4, bottleneck=6)
    torch.manual_seed(0)
    network = network_class(config, 20, torch.zeros(7), None).double().eval()
    short = torch.tensor([[3, 7, 2, 9, 4, 0, 0, 0, 0, 0]])
    long = torch.randint(1, 20, (1, 10))
    together = network(torch.cat([short, long]), torch.tensor([5, 10]))[:1]
    alone = network(short[:, :5], torch.tensor([5]))
    torch.testing.assert_close(together, alone, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("network_class", [AttentionXML, XMLRNN, XMLCNN])
def test_no_network_of_the_comparison_starts_from_the_frequency_of_labels(network_class):
    config = SMALL if network_class is not XMLCNN else XMLCNNConfig(width=5, maps=4, bottleneck=6)
    network = network_class(config, 20, torch.full((7,), -3.0), None)
    bias = network.read_out.bias if network_class is AttentionXML else network.output.bias
    assert not bias.any()
