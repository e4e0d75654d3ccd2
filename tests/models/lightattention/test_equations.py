"""LightAttention: each equation and Algorithm 2 against loops that anyone can read."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from ontodex.models.lightattention.beam_search import NONE, search_levels
from ontodex.models.lightattention.config import LightAttentionConfig
from ontodex.models.lightattention.network import (
    EncodedDocuments,
    LightAttentionNetwork,
    list_node_vectors,
)
from ontodex.models.lightattention.node_tables import create_table
from ontodex.models.lightattention.scorers import AttentionScorer, EncodedBatch
from ontodex.models.trees.label_tree import LabelTree

SMALL = {"hidden": 3, "layers": (2,), "width": 4, "dropout": 0.0}


# Root, two clusters of clusters, four clusters, seven labels at places 0 to 6:
#   0: {0: [0, 1], 1: [2, 3]}    1: {2: [4, 5], 3: [6]}
TREE = LabelTree(
    np.array([3, 0, 6, 2, 5, 1, 4]),
    (np.array([0, 2]), np.array([0, 2, 4]), np.array([0, 2, 4, 6, 7])),
)


PATHS = {0: (0, 0), 1: (0, 0), 2: (0, 1), 3: (0, 1), 4: (1, 2), 5: (1, 2), 6: (1, 3)}


TOKENS = torch.tensor([[3, 7, 2, 9], [5, 4, 0, 0]])


LENGTHS = torch.tensor([4, 2])


CPU = torch.device("cpu")


def settings(**more: object) -> LightAttentionConfig:
    return LightAttentionConfig(**{**SMALL, **more})  # type: ignore[arg-type]


def network(tree: LabelTree = TREE, seed: int = 0, **more: object) -> LightAttentionNetwork:
    torch.manual_seed(seed)
    config = settings(**more)
    sizes = [tree.count_nodes(level) for level in range(1, tree.height + 2)]
    tables = [
        create_table(own, torch.randn(size), CPU, sparse=number > 0)
        for number, (own, size) in enumerate(
            zip(list_node_vectors(config, tree.height), sizes, strict=True)
        )
    ]
    for table in tables:
        nn.init.normal_(table.weight)
    return LightAttentionNetwork(config, 12, tree, tables, None).double()


def encode(net: LightAttentionNetwork) -> EncodedDocuments:
    return net.eval().encode_documents(TOKENS, LENGTHS)


@torch.no_grad()
def logit_by_loops(level: nn.Module, encoded: EncodedDocuments, document: int, node: int) -> float:
    """Eq. 2 as printed, all layers after attention, then the node's own vector and bias."""
    assert isinstance(level, AttentionScorer)
    query, output, bias = level.table(torch.tensor([node]))[0].split(level.widths)
    h = encoded.labels.h[document, : int(LENGTHS[document])]
    powers = [math.exp(float(state @ query)) for state in h]
    m = sum(power / sum(powers) * state for power, state in zip(powers, h, strict=True))
    for layer in (level.project, *level.deeper):
        m = torch.relu(layer(m))
    return float(m @ output + bias)


@pytest.mark.parametrize("layers", [(2,), (2, 4, 3)])
def test_a_level_equals_equation_2_and_its_layers_in_loops(layers):
    net = network(layers=layers)
    encoded, level = encode(net), net.levels[-1]
    nodes = torch.tensor([[6, 0, 2], [1, 1, 5]])
    logits = level(encoded.labels, nodes)
    for document in range(2):
        for place, node in enumerate(nodes[document].tolist()):
            expected = logit_by_loops(level, encoded, document, node)
            assert float(logits[document, place].detach()) == pytest.approx(expected, rel=1e-9)


def test_a_generator_scores_all_nodes_as_it_scores_some():
    net = network(layers=(2, 3))
    encoded, level = encode(net), net.scorers[0]
    whole = level.score_all(encoded.generators)
    for document in range(2):
        for node in range(2):
            expected = logit_by_loops(net.levels[0], encoded, document, node)
            assert float(whole[document, node].detach()) == pytest.approx(expected, rel=1e-9)


def test_gradients_of_a_level():
    net = network(layers=(2, 4, 3))
    encoded, level = encode(net).labels, net.levels[-1]
    nodes = torch.tensor([[0, 3], [5, 5]])

    def logits(h: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        level.table = lambda at: rows[at]  # type: ignore[assignment]
        return level(EncodedBatch(h, encoded.mask), nodes)

    rows = level.table.weight.detach().clone().requires_grad_()
    del level._modules["table"]
    assert torch.autograd.gradcheck(logits, (encoded.h.detach().requires_grad_(), rows))


def test_contributions_of_words_add_up_to_the_logit_without_its_bias():
    net = network()
    encoded, level = encode(net), net.levels[-1]
    for column in range(7):
        node = net.find_place(column)
        with torch.no_grad():
            (added,) = net.explain_logit(TOKENS, LENGTHS, column)
        bias = float(level.table(torch.tensor([node])).detach()[0, -1])
        expected = [logit_by_loops(level, encoded, document, node) - bias for document in range(2)]
        assert added.sum(1).tolist() == pytest.approx(expected, abs=1e-5)


def test_clusters_train_the_encoder_and_labels_do_not_train_clusters():
    net = network(beam=9).train()
    clusters, *_, labels = search_levels(net, net.encode_documents(TOKENS, LENGTHS))
    labels.logits.sum().backward(retain_graph=True)
    assert net.levels[0].table.weight.grad is None
    clusters.logits.sum().backward()
    assert all(parameter.grad is not None for parameter in net.encode.parameters())


def test_the_probability_of_a_label_is_the_product_along_its_path():
    """A beam as wide as the tree comes to every label."""
    net = network(beam=9)
    encoded = encode(net)
    labels = net(TOKENS, LENGTHS)
    for document in range(2):
        found = labels.log_p[document] > -torch.inf
        assert sorted(labels.nodes[document][found].tolist()) == list(range(7))
        for place, log_p in zip(labels.nodes[document], labels.log_p[document], strict=True):
            if log_p == -torch.inf:
                continue
            way = (*PATHS[int(place)], int(place))
            expected = 1.0
            for level, node in zip(net.levels, way, strict=True):
                expected *= 1 / (1 + math.exp(-logit_by_loops(level, encoded, document, node)))
            assert float(log_p.exp()) == pytest.approx(expected, rel=1e-6)


def test_a_beam_continues_from_the_most_probable_paths():
    """Against a search in loops with b = 2."""
    net = network(beam=2)
    encoded = encode(net)
    *_, labels = search_levels(net, encoded)
    for document in range(2):
        ways = {(): 0.0}
        for depth, level in enumerate(net.levels):
            best = sorted(ways, key=lambda way: -ways[way])[:2]
            ways = {
                (*way, node): ways[way]
                - math.log1p(math.exp(-logit_by_loops(level, encoded, document, node)))
                for way in best
                for node in range(*TREE.first[depth][way[-1] if way else 0 :][:2])
            }
        expected = {way[-1]: log_p for way, log_p in ways.items()}
        found = labels.log_p[document] > -torch.inf
        got = dict(
            zip(labels.nodes[document][found].tolist(), labels.log_p[document][found], strict=True)
        )
        assert got.keys() == expected.keys()
        for node, log_p in expected.items():
            assert float(got[node]) == pytest.approx(log_p, rel=1e-6)


def algorithm_2(scores: dict[int, float], gold: set[int], level: int, beam: int):
    """The generator's clusters, their children without the positives, and all positives once."""
    generated = sorted(scores, key=lambda node: -scores[node])[:beam]
    first = TREE.first[level]
    drawn = [child for node in generated for child in range(first[node], first[node + 1])]
    negatives = [child for child in drawn if child not in gold]
    return sorted(negatives), sorted(gold)


@pytest.mark.parametrize("seed", range(4))
def test_candidates_and_targets_are_those_of_algorithm_2(seed):
    net = network(seed=seed, beam=1)
    positives = torch.tensor([[6, 0, 1], [3, NONE, NONE]])
    gold = [[{1, 0}, {3, 0}, {6, 0, 1}], [{0}, {1}, {3}]]  # by document and level
    walked = list(search_levels(net, encode(net), positives))
    for document in range(2):
        for number, level in enumerate(walked):
            counts = level.is_candidate[document]
            nodes, is_true = level.nodes[document][counts], level.is_true[document][counts]
            assert sorted(nodes[is_true].tolist()) == sorted(gold[document][number])
            if number == 0:
                assert sorted(nodes.tolist()) == [0, 1]
                continue
            above = walked[number - 1]
            reached = above.log_p[document] > -torch.inf
            scores = dict(
                zip(
                    above.nodes[document][reached].tolist(),
                    above.log_p[document][reached].tolist(),
                    strict=True,
                )
            )
            negatives, true = algorithm_2(scores, gold[document][number], number, 1)
            assert sorted(nodes[~is_true].tolist()) == negatives
            assert sorted(nodes[is_true].tolist()) == true


def test_true_labels_are_reached_where_every_beam_leads_to_them():
    net = network(beam=1)
    positives = torch.tensor([[0, 1, 2, 3, 4, 5, 6], [6, 4, NONE, NONE, NONE, NONE, NONE]])
    *_, labels = search_levels(net, encode(net), positives)
    *_, alone = search_levels(net, encode(net))
    for document in range(2):
        reached = set(alone.nodes[document][alone.is_candidate[document]].tolist())
        expected = [place in reached for place in positives[document].tolist()]
        assert labels.is_reached[document].tolist() == expected
    assert 0 < int(labels.is_reached[0].sum()) < 7


def test_the_search_does_not_continue_from_teacher_forced_positives():
    net = network(beam=1)
    alone = [level.best(1)[0] for level in search_levels(net, encode(net))]
    taught = [
        level.best(1)[0]
        for level in search_levels(net, encode(net), torch.tensor([[0, 6], [2, 5]]))
    ]
    for one, other in zip(alone, taught, strict=True):
        assert torch.equal(one, other)


def test_the_search_continues_from_given_parents_instead_of_the_best():
    net = network(beam=1)
    drawn = [torch.tensor([[1], [0]]), torch.tensor([[3], [NONE]])]
    *_, labels = search_levels(net, encode(net), None, drawn)
    assert labels.nodes[0][labels.is_candidate[0]].tolist() == [6]
    assert not labels.is_candidate[1].any()


def test_only_the_rows_of_candidates_get_a_gradient():
    net = network(beam=1)
    *_, labels = search_levels(net, encode(net), torch.tensor([[6], [6]]))
    labels.logits.sum().backward()
    grad = net.levels[-1].table.weight.grad
    assert grad.is_sparse
    assert set(grad.coalesce().indices()[0].tolist()) == set(labels.nodes.unique().tolist())
    assert labels.nodes.shape[1] == 2 + 1  # the children of one cluster, and one positive


def test_a_tree_of_one_leaf_is_a_flat_classifier():
    flat = LabelTree(np.arange(5), (np.array([0, 5]),))
    net = network(flat, layers=(2, 3))
    encoded = encode(net)
    labels = net(TOKENS, LENGTHS)
    assert labels.nodes.tolist() == [list(range(5))] * 2
    for document in range(2):
        for node in range(5):
            logit = logit_by_loops(net.levels[0], encoded, document, node)
            expected = 1 / (1 + math.exp(-logit))
            assert float(labels.log_p[document, node].exp()) == pytest.approx(expected, rel=1e-6)


def test_padding_never_changes_a_logit():
    net = network(beam=9).eval()
    alone, together = net(TOKENS[1:, :2], LENGTHS[1:]), net(TOKENS, LENGTHS)
    torch.testing.assert_close(together.log_p[1:], alone.log_p)
