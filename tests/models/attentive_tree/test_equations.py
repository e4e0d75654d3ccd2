"""`attentive-tree`: its scorers and its way down the tree against loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from ontodex.models.attentive_tree.config import AttentiveTreeConfig
from ontodex.models.attentive_tree.network import AttentiveTreeNetwork, RecurrentTreeNetwork
from ontodex.models.attentive_tree.scorers import (
    AttendedBatch,
    BagAttentionScorer,
    DocumentScorer,
    PooledBatch,
    list_node_vectors,
)
from ontodex.models.lightattention.beam_search import search_levels
from ontodex.models.lightattention.network import EncodedDocuments
from ontodex.models.lightattention.node_tables import create_table
from ontodex.models.trees.label_tree import LabelTree

SMALL = {
    "hidden": 3, "layers": (2,), "width": 4, "bag": 3, "dropout": 0.0,
}  # fmt: skip
# Root, two clusters of clusters, four clusters, seven labels at places 0 to 6.
TREE = LabelTree(
    np.array([3, 0, 6, 2, 5, 1, 4]),
    (np.array([0, 2]), np.array([0, 2, 4]), np.array([0, 2, 4, 6, 7])),
)
TOKENS = torch.tensor([[3, 7, 2, 9], [5, 4, 0, 0]])
LENGTHS = torch.tensor([4, 2])
CPU = torch.device("cpu")


def network(**more: object) -> AttentiveTreeNetwork:
    torch.manual_seed(0)
    config = AttentiveTreeConfig(**{**SMALL, **more})  # type: ignore[arg-type]
    sizes = [TREE.count_nodes(level) for level in range(1, TREE.height + 2)]
    vectors = list_node_vectors(2 * config.hidden, config, TREE.height)
    tables = [
        create_table(own, torch.randn(size), CPU, sparse=number > 0)
        for number, (own, size) in enumerate(zip(vectors, sizes, strict=True))
    ]
    for table in tables:
        nn.init.normal_(table.weight)
    return RecurrentTreeNetwork(config, 12, TREE, tables, None).double()


def encode(net: AttentiveTreeNetwork) -> EncodedDocuments:
    return net.eval().encode_documents(TOKENS, LENGTHS)


@torch.no_grad()
def label_logit_by_loops(
    net: AttentiveTreeNetwork, encoded: EncodedDocuments, document: int, node: int
) -> float:
    """Attention, all layers after it, then the label's own vectors and its bias."""
    level, batch = net.levels[-1], encoded.labels
    assert isinstance(level, BagAttentionScorer)
    query, output, of_bag, bias = level.table(torch.tensor([node]))[0].split(level.widths)
    h = batch.h[document, : int(LENGTHS[document])]
    powers = [math.exp(float(state @ query)) for state in h]
    m = sum(power / sum(powers) * state for power, state in zip(powers, h, strict=True))
    for layer in (level.project, *level.deeper):
        m = torch.relu(layer(m))
    return float(m @ output + batch.bag[document] @ of_bag + bias)


@pytest.mark.parametrize("layers", [(2,), (2, 4, 3)])
def test_the_logit_of_a_label_equals_its_loops(layers):
    net = network(layers=layers)
    encoded = encode(net)
    nodes = torch.tensor([[6, 0, 2], [1, 1, 5]])
    logits = net.levels[-1](encoded.labels, nodes)
    for document in range(2):
        for place, node in enumerate(nodes[document].tolist()):
            expected = label_logit_by_loops(net, encoded, document, node)
            assert float(logits[document, place].detach()) == pytest.approx(expected, rel=1e-9)


def test_a_generator_equals_its_loops_for_all_nodes_and_for_some():
    net = network()
    encoded, level = encode(net), net.levels[0]
    assert isinstance(level, DocumentScorer)
    h = encoded.labels.h.detach()
    some = torch.tensor([[0, 1], [1, 1]])
    whole, logits = level.score_all(encoded.generators), level(encoded.generators, some)
    for document in range(2):
        states = h[document, : int(LENGTHS[document])]
        pooled = torch.stack([max(unit) for unit in states.T])
        with torch.no_grad():
            known = [*torch.relu(level.project(pooled)), *encoded.generators.bag[document]]
        for place, node in enumerate(some[document].tolist()):
            row = level.table(torch.tensor([node]))[0].detach()
            expected = sum(x * w for x, w in zip(known, row[:-1], strict=True)) + row[-1]
            expected = pytest.approx(float(expected.detach()), rel=1e-9)
            assert float(whole[document, node].detach()) == expected
            assert float(logits[document, place].detach()) == expected


def test_gradients_of_both_scorers():
    net = network(layers=(2, 3))
    encoded = encode(net)
    nodes = torch.tensor([[0, 3], [5, 5]])

    def labels(h: torch.Tensor, bag: torch.Tensor) -> torch.Tensor:
        return net.levels[-1](AttendedBatch(h, encoded.labels.mask, bag), nodes)

    def clusters(pooled: torch.Tensor, bag: torch.Tensor) -> torch.Tensor:
        return net.scorers[0].score_all(PooledBatch(pooled, bag))

    read = encoded.labels.h.detach().requires_grad_(), encoded.labels.bag.detach().requires_grad_()
    assert torch.autograd.gradcheck(labels, read)
    known = [part.detach().requires_grad_() for part in encoded.generators]
    assert torch.autograd.gradcheck(clusters, known)


def test_a_label_has_the_probability_of_its_own_logit():
    net = network(beam=2)
    encoded, labels = encode(net), net(TOKENS, LENGTHS)
    for document in range(2):
        for place in labels.is_candidate[document].nonzero()[:, 0].tolist():
            node = int(labels.nodes[document, place])
            own = label_logit_by_loops(net, encoded, document, node)
            p = float(labels.log_p[document, place].exp())
            assert p == pytest.approx(1 / (1 + math.exp(-own)), rel=1e-6)


def test_generators_pass_no_gradient_to_the_encoder_and_labels_none_to_clusters():
    net = network(beam=9).train()
    clusters, *_, labels = search_levels(net, net.encode_documents(TOKENS, LENGTHS))
    labels.logits.sum().backward(retain_graph=True)
    assert net.levels[0].table.weight.grad is None
    net.zero_grad(set_to_none=True)
    clusters.logits.sum().backward()
    encoder = (*net.encode.parameters(), *net.words.parameters())
    assert all(parameter.grad is None for parameter in encoder)
    assert net.levels[0].project.weight.grad is not None


def test_contributions_of_words_add_up_to_the_logit_without_its_bias():
    net = network()
    encoded = encode(net)
    for column in range(7):
        node = net.find_place(column)
        with torch.no_grad():
            (added,) = net.explain_logit(TOKENS, LENGTHS, column)
            bias = float(net.levels[-1].table(torch.tensor([node]))[0, -1])
        expected = [
            label_logit_by_loops(net, encoded, document, node) - bias for document in range(2)
        ]
        assert added.sum(1).tolist() == pytest.approx(expected, abs=1e-5)


def test_the_default_beam_has_about_as_many_children_as_there_are_candidates():
    """Clusters have 2 clusters below them, those 7 / 4 labels."""
    assert network(candidates=1).beams == [1, 1]
    assert network(candidates=3).beams == [2, 2]
    assert network(candidates=3, beam=5).beams == [5, 5]


def test_padding_never_changes_a_logit():
    net = network(beam=9).eval()
    alone, together = net(TOKENS[1:, :2], LENGTHS[1:]), net(TOKENS, LENGTHS)
    torch.testing.assert_close(together.log_p[1:], alone.log_p)
