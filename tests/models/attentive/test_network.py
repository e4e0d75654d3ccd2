"""The network of `attentive`: label attention, and a bag of words beside it."""

from __future__ import annotations

import math

import torch

from ontodex.models.attentive.config import AttentiveConfig
from ontodex.models.attentive.network import AttentiveNetwork
from ontodex.models.layers.bag import BagReadOut

LENGTHS = torch.tensor([4, 2])
TOKENS = torch.tensor([[3, 7, 3, 2], [5, 4, 0, 0]])
SMALL = AttentiveConfig(hidden=3, value_dim=2, width=5, bag=4, word_dropout=0.0, dropout=0.0)


def test_the_logits_of_a_bag_ignore_the_order_of_words():
    torch.manual_seed(0)
    read_out = BagReadOut(20, 4, 3, 0.0).double().eval()
    once, other = torch.tensor([[4, 9, 2]]), torch.tensor([[2, 4, 9]])
    vectors = read_out.bag.words.weight[[4, 9, 2]].sum(dim=0) / math.sqrt(3)
    expected = torch.relu(4 * vectors + read_out.bag.bias) @ read_out.output.weight.T
    torch.testing.assert_close(read_out(once)[0], expected.float(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(read_out(once), read_out(other))


def test_contributions_of_words_add_up_to_the_logit_without_its_bias():
    """With a repeated word, and with padding, which contributes nothing."""
    torch.manual_seed(1)
    network = AttentiveNetwork(SMALL, 20, torch.zeros(7), None).double().eval()
    logits = network(TOKENS, LENGTHS) - network.read_out.bias  # the bag's bias starts at 0
    for column in range(7):
        added = network.explain_logit(TOKENS, LENGTHS, column)
        torch.testing.assert_close(
            added.sum(1), logits[:, column], check_dtype=False, rtol=1e-4, atol=1e-6
        )
        assert not added[1, 2:].any()


def test_labels_with_the_same_query_differ_by_their_output_vectors():
    torch.manual_seed(1)
    network = AttentiveNetwork(SMALL, 20, torch.zeros(2), None).eval()
    with torch.no_grad():
        network.read_out.queries[1] = network.read_out.queries[0]
        network.bag.output.weight.zero_()
    first, second = network(TOKENS, LENGTHS).T
    assert not torch.allclose(first, second)


def test_padding_never_changes_a_logit():
    torch.manual_seed(0)
    network = AttentiveNetwork(SMALL, 20, torch.zeros(7), None).double().eval()
    short = torch.tensor([[3, 7, 2, 9, 4, 0, 0, 0, 0, 0]])
    long = torch.randint(1, 20, (1, 10))
    together = network(torch.cat([short, long]), torch.tensor([5, 10]))[:1]
    alone = network(short[:, :5], torch.tensor([5]))
    torch.testing.assert_close(together, alone, rtol=1e-6, atol=1e-7)
