"""BoW-CNN, against loops."""

from __future__ import annotations

import pytest
import torch

from ontodex.models.rankae.bowcnn import BowCNN, BowCNNConfig, sum_regions

CONFIG = BowCNNConfig(width=3, region=2, chunks=2, word_dropout=0.0, dropout=0.0)


def network(config: BowCNNConfig = CONFIG) -> BowCNN:
    torch.manual_seed(1)
    made = BowCNN(config, 12, torch.zeros(4), None).double().eval()
    with torch.no_grad():
        made.bias.normal_()
    return made


def logits_by_loops(net: BowCNN, words: list[int]) -> torch.Tensor:
    """W times the word counts of each region, ReLU, the maximum by chunk, one linear layer."""
    table, width = net.words.table.weight, net.bias.shape[0]
    places = max(1, len(words) - net.region + 1)
    pooled = torch.zeros(net.chunks, width, dtype=torch.double)
    for place in range(places):
        counts = torch.zeros(len(table), dtype=torch.double)
        for word in words[place : place + net.region]:
            counts[word] += 1
        h = torch.relu(counts @ table + net.bias)
        chunk = place * net.chunks // places
        for unit in range(width):
            pooled[chunk, unit] = max(pooled[chunk, unit], h[unit])
    return net.output.weight @ pooled.flatten() + net.output.bias


@pytest.mark.parametrize("words", [[3, 7, 7, 2, 9], [4, 5], [6]])
def test_logits_equal_the_bags_of_regions_in_loops(words):
    net = network()
    found = net(torch.tensor([words]), torch.tensor([len(words)]))[0]
    torch.testing.assert_close(found.double(), logits_by_loops(net, words), rtol=1e-6, atol=1e-6)


def test_the_order_of_words_within_a_region_does_not_matter_and_beyond_it_does():
    net = network(BowCNNConfig(width=3, region=3, chunks=2, word_dropout=0.0, dropout=0.0))

    def logits(*words: int) -> torch.Tensor:
        return net(torch.tensor([words]), torch.tensor([len(words)]))

    torch.testing.assert_close(logits(3, 7, 2), logits(2, 3, 7))
    assert not torch.allclose(logits(3, 7, 2, 9, 4), logits(4, 9, 3, 7, 2))


def test_padding_never_changes_a_logit():
    net = network()
    short, long = torch.tensor([[3, 7, 2, 0, 0, 0]]), torch.tensor([[1, 2, 3, 4, 5, 6]])
    together = net(torch.cat([short, long]), torch.tensor([3, 6]))[:1]
    torch.testing.assert_close(together, net(short[:, :3], torch.tensor([3])))


def test_gradients_of_sum_regions():
    x = torch.randn(2, 5, 3, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: sum_regions(x, 3), x)
    assert torch.autograd.gradcheck(lambda x: sum_regions(x, 7), x)


@pytest.mark.parametrize("name", ["region", "chunks"])
def test_a_region_and_a_chunk_are_the_least(name):
    assert getattr(BowCNNConfig(**{name: 1}), name) == 1
    with pytest.raises(ValueError, match=f"{name} must be at least 1, not 0"):
        BowCNNConfig(**{name: 0})
