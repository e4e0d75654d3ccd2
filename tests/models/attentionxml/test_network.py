"""The network of AttentionXML against loops."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from ontodex.models.attentionxml.config import AttentionXMLConfig
from ontodex.models.attentionxml.network import AttentionXML, BagReadOut, LabelReadOut
from ontodex.models.attentionxml.xmlcnn import XMLCNN, XMLCNNConfig
from ontodex.models.attentionxml.xmlrnn import XMLRNN
from ontodex.models.layers.words import token_mask

LENGTHS = torch.tensor([4, 2])


MASK = token_mask(torch.zeros(2, 4), LENGTHS)


SMALL = AttentionXMLConfig(hidden=3, value_dim=2, width=5, bag=4, word_dropout=0.0, dropout=0.0)


@pytest.fixture
def h() -> torch.Tensor:
    return torch.randn(2, 4, 6, dtype=torch.double, generator=torch.Generator().manual_seed(1))


def attention_by_loops(h: torch.Tensor, queries: torch.Tensor) -> torch.Tensor:
    """Eq. 4 with no tensor algebra: the m of each document and label."""
    out = torch.zeros(len(h), len(queries), h.shape[2], dtype=h.dtype)
    for n in range(len(h)):
        steps = range(int(LENGTHS[n]))
        for label, query in enumerate(queries):
            powers = [math.exp(float(h[n, t] @ query)) for t in steps]
            for t in steps:
                out[n, label] += powers[t] / sum(powers) * h[n, t]
    return out


def test_projecting_tokens_first_is_the_paper_with_its_layer_after_attention(h):
    """W1 (sum a h) + b = sum a (W1 h + b), then Eq. 5 with one read-out for all labels."""
    paper = AttentionXMLConfig(hidden=3, value_dim=2, read_out="shared")
    read_out = LabelReadOut(paper, torch.zeros(5)).double()
    m = attention_by_loops(h, read_out.queries.detach())
    layer = torch.relu(m @ read_out.project.weight.T + read_out.project.bias)
    expected = (layer @ read_out.output[0]) + read_out.bias
    torch.testing.assert_close(read_out(h, MASK).double(), expected, rtol=1e-5, atol=1e-6)


def test_the_logits_of_a_bag_ignore_the_order_of_words():
    torch.manual_seed(0)
    read_out = BagReadOut(SMALL, 20, 3).double().eval()
    once, other = torch.tensor([[4, 9, 2]]), torch.tensor([[2, 4, 9]])
    vectors = read_out.bag.words.weight[[4, 9, 2]].sum(dim=0) / math.sqrt(3)
    expected = torch.relu(4 * vectors + read_out.bag.bias) @ read_out.output.weight.T
    torch.testing.assert_close(read_out(once)[0], expected.float(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(read_out(once), read_out(other))


def test_without_a_bag_the_network_is_the_paper():
    paper = AttentionXMLConfig(hidden=3, value_dim=2, width=5, bag=0)
    torch.manual_seed(0)
    network = AttentionXML(paper, 20, torch.zeros(7), None).eval()
    tokens, lengths = torch.tensor([[3, 7, 2]]), torch.tensor([3])
    h = network.encode(network.words(tokens), lengths)
    read = network.read_out(h, token_mask(tokens, lengths))
    torch.testing.assert_close(network(tokens, lengths), read)


@pytest.mark.parametrize("read_out", ["label", "shared"])
@pytest.mark.parametrize("bag", [0, 4])
def test_contributions_of_words_add_up_to_the_logit_without_its_bias(read_out, bag):
    """With a repeated word, and with padding, which contributes nothing."""
    config = dataclasses.replace(SMALL, read_out=read_out, bag=bag)
    torch.manual_seed(1)
    network = AttentionXML(config, 20, torch.zeros(7), None).double().eval()
    tokens = torch.tensor([[3, 7, 3, 2], [5, 4, 0, 0]])
    logits = network(tokens, LENGTHS) - network.read_out.bias  # the bag's bias starts at 0
    h = network.encode(network.words(tokens), LENGTHS)
    for column in range(7):
        added = network.read_out.explain_logit(h, MASK, column)
        added = added + network.bag.explain_logit(tokens, column)  # type: ignore[operator]
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
