"""LightAttention: each equation and Algorithm 2 against loops that anyone can read."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from ontodex.models.lightattention.beam_search import NONE, sample_beam, search_levels
from ontodex.models.lightattention.config import LightAttentionConfig
from ontodex.models.lightattention.network import EncodedDocuments, TreeNetwork
from ontodex.models.lightattention.node_tables import create_table
from ontodex.models.lightattention.scorers import (
    AttentionScorer,
    DocumentScorer,
    EncodedBatch,
    list_node_vectors,
)
from ontodex.models.trees.label_tree import LabelTree

SMALL = {"hidden": 3, "value_dim": 2, "width": 4, "bag": 3, "word_dropout": 0.0, "dropout": 0.0}


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


def network(tree: LabelTree = TREE, seed: int = 0, **more: object) -> TreeNetwork:
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
    return TreeNetwork(config, 12, tree, tables, None).double()


def encode(net: TreeNetwork) -> EncodedDocuments:
    return net.eval().encode_documents(TOKENS, LENGTHS)


@torch.no_grad()
def logit_by_loops(
    level: AttentionScorer | DocumentScorer, encoded: EncodedDocuments, document: int, node: int
):
    """A generator's: pooled and bag of words against the node's vector. A discriminator's: Eq. 2 as
    printed, all layers after attention, then the node's own vectors. And the node's bias."""
    row = level.table(torch.tensor([node]))[0]
    encoded = encoded.generators if isinstance(level, DocumentScorer) else encoded.labels
    h = encoded.h[document, : int(LENGTHS[document])]
    if isinstance(level, DocumentScorer):
        pooled = torch.stack([max(states) for states in h.T])
        known = [*torch.relu(level.project(pooled)), *encoded.bag[document]]
        return float(sum(x * w for x, w in zip(known, row[:-1], strict=True)) + row[-1])
    query, output, of_bag, bias = row.split(level.widths)
    powers = [math.exp(float(state @ query)) for state in h]
    m = sum(power / sum(powers) * state for power, state in zip(powers, h, strict=True))
    for layer in (level.project, *level.deeper):
        m = torch.relu(layer(m))
    return float(m @ output + encoded.bag[document] @ of_bag + bias)


def test_contributions_of_words_add_up_to_the_logit_without_its_bias():
    net = network(layers=1)
    encoded, level = encode(net), net.levels[-1]
    assert isinstance(level, AttentionScorer)
    for node in range(7):
        with torch.no_grad():
            added, of_bag = level.explain_logit(encoded.labels, node)
            added = added + net.bag.explain_logit(TOKENS, of_bag)
        bias = float(level.table(torch.tensor([node])).detach()[0, -1])
        expected = [logit_by_loops(level, encoded, document, node) - bias for document in range(2)]
        assert added.sum(1).tolist() == pytest.approx(expected, abs=1e-5)
    assert not network(bag=0).bag.explain_logit(TOKENS, torch.empty(0)).any()


@pytest.mark.parametrize("layers", [1, 3])
def test_a_level_equals_equation_2_and_its_layers_in_loops(layers):
    net = network(layers=layers)
    encoded, level = encode(net), net.levels[-1]
    nodes = torch.tensor([[6, 0, 2], [1, 1, 5]])
    logits = level(encoded.labels, nodes)
    for document in range(2):
        for place, node in enumerate(nodes[document].tolist()):
            expected = logit_by_loops(level, encoded, document, node)
            assert float(logits[document, place].detach()) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("generator", ["document", "attention"])
def test_a_generator_equals_its_loops_for_all_nodes_and_for_some(generator):
    net = network(generator=generator)
    encoded, level = encode(net), net.levels[0]
    some = torch.tensor([[0, 1], [1, 1]])
    whole, logits = level.score_all(encoded.generators), level(encoded.generators, some)
    encoded = EncodedDocuments(encoded.generators, encoded.generators)
    for document in range(2):
        for place, node in enumerate(some[document].tolist()):
            expected = logit_by_loops(level, encoded, document, node)
            assert float(whole[document, node].detach()) == pytest.approx(expected, rel=1e-9)
            assert float(logits[document, place].detach()) == pytest.approx(expected, rel=1e-9)


def test_gradients_of_a_level():
    net = network(layers=3)
    encoded, level = encode(net).labels, net.levels[-1]
    nodes = torch.tensor([[0, 3], [5, 5]])

    def logits(h: torch.Tensor, bag: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        level.table = lambda at: rows[at]  # type: ignore[assignment]
        return level(EncodedBatch(h, encoded.mask, encoded.pooled, bag), nodes)

    rows = level.table.weight.detach().clone().requires_grad_()
    del level._modules["table"]
    inputs = (encoded.h.detach().requires_grad_(), encoded.bag.detach().requires_grad_(), rows)
    assert torch.autograd.gradcheck(logits, inputs)


def test_gradients_of_a_document_level():
    net = network()
    encoded, level = encode(net).generators, net.levels[0]

    def logits(pooled: torch.Tensor, bag: torch.Tensor) -> torch.Tensor:
        return level.score_all(EncodedBatch(encoded.h, encoded.mask, pooled, bag))

    inputs = (encoded.pooled.detach().requires_grad_(), encoded.bag.detach().requires_grad_())
    assert torch.autograd.gradcheck(logits, inputs)


def test_the_probability_of_a_label_is_the_product_along_its_path():
    """A beam as wide as the tree comes to every label."""
    net = network(beam=9, path_scoring="product")
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


@pytest.mark.parametrize("positives", [None, [[0, 3, 6], [2, NONE, 5]]])
def test_with_sum_a_label_adds_to_the_logits_along_its_path(positives):
    """Teacher-forced positives, which a beam of one mostly misses, add to their clusters' too."""
    net = network(beam=1 if positives else 9, path_scoring="sum")
    encoded = encode(net)
    *_, labels = search_levels(net, encoded, torch.tensor(positives) if positives else None)
    for document in range(2):
        for place in labels.is_candidate[document].nonzero()[:, 0].tolist():
            node = int(labels.nodes[document, place])
            expected = sum(
                logit_by_loops(level, encoded, document, on_path)
                for level, on_path in zip(net.levels, (*PATHS[node], node), strict=True)
            )
            assert float(labels.logits[document, place].detach()) == pytest.approx(expected)
            if labels.log_p[document, place] > -torch.inf:
                assert float(labels.log_p[document, place].exp()) == pytest.approx(
                    1 / (1 + math.exp(-expected)), rel=1e-6
                )


def test_alone_a_label_has_the_probability_of_its_own_logit():
    net = network(beam=2)
    encoded = encode(net)
    labels = net(TOKENS, LENGTHS)
    for document in range(2):
        for place in labels.is_candidate[document].nonzero()[:, 0].tolist():
            own = logit_by_loops(
                net.levels[-1], encoded, document, int(labels.nodes[document, place])
            )
            p = float(labels.log_p[document, place].exp())
            assert p == pytest.approx(1 / (1 + math.exp(-own)), rel=1e-6)


@pytest.mark.parametrize("teach", [False, True])
def test_generators_train_the_encoder_only_where_that_is_asked_for(teach):
    net = network(beam=9).train()
    clusters, *_ = search_levels(
        net, net.encode_documents(TOKENS, LENGTHS, generators_train_encoder=teach)
    )
    clusters.logits.sum().backward()
    taught = [p.grad is not None for p in (*net.encode.parameters(), *net.words.parameters())]
    assert taught == [teach] * len(taught)
    assert net.levels[0].project.weight.grad is not None


@pytest.mark.parametrize("way", ["alone", "sum"])
def test_a_level_passes_no_gradient_to_the_levels_above(way):
    """Labels pass no gradient to the clusters."""
    net = network(beam=9, path_scoring=way)
    *_, labels = search_levels(net, encode(net), torch.tensor([[6], [6]]))
    labels.logits.sum().backward()
    assert net.levels[0].table.weight.grad is None
    assert net.levels[1].table.weight.grad is None


def test_a_beam_continues_from_the_most_probable_paths():
    """Against a search in loops with b = 2."""
    net = network(beam=2, path_scoring="product")
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


def test_the_default_beam_has_about_as_many_children_as_there_are_candidates():
    """Clusters have 2 clusters below them, those 7 / 4 labels."""
    assert network(candidates=1).beams == [1, 1]
    assert network(candidates=3).beams == [2, 2]
    assert network(candidates=3, beam=5).beams == [5, 5]


def test_a_training_step_scores_the_children_of_the_best_and_of_some_others():
    """Of four clusters of two labels half are learned from: the best, and one of the others, which
    stands for three. True labels count once, drawn or not."""
    pairs = LabelTree(np.arange(8), (np.array([0, 4]), np.array([0, 2, 4, 6, 8])))
    net = network(pairs, beam=4, train_beam_ratio=0.5)
    encoded, positives = encode(net), torch.tensor([[0, 7], [2, 5]])
    best, *others = next(search_levels(net, encoded)).best(4)[0][0].tolist()
    drawn = set()
    for seed in range(20):
        torch.manual_seed(seed)
        _, labels = search_levels(net.train(), encoded, positives)
        assert labels.weights[labels.is_true].tolist() == [1.0] * 4
        negative = labels.is_candidate[0] & ~labels.is_true[0]
        for place, weight in zip(
            labels.nodes[0][negative], labels.weights[0][negative], strict=True
        ):
            cluster = int(place) // 2
            assert weight == (1.0 if cluster == best else 3.0)
            drawn.add(cluster)
    assert drawn == {best, *others}


@pytest.mark.parametrize("share", [0.1, 0.5, 0.7, 1.0])
def test_the_sampled_nodes_of_a_beam_count_for_all_of_it(share):
    best = torch.arange(20).reshape(2, 10)
    torch.manual_seed(0)
    some, counts = sample_beam(best, share)
    kept = math.ceil(10 * share)
    assert some.shape == (2, kept)
    assert float(counts.sum()) == pytest.approx(10)
    sure = 10 if kept == 10 else kept // 2
    for document in range(2):
        assert some[document, :sure].tolist() == best[document, :sure].tolist()
        assert len(set(some[document].tolist())) == kept


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
    net = network(flat, layers=2)
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


def test_without_a_bag_of_words_nothing_is_added():
    net = network(bag=0).float()
    assert [encoded.bag.shape for encoded in encode(net)] == [(2, 0)] * 2
    assert logit_by_loops(net.levels[0], encode(net), 0, 1) == pytest.approx(
        float(net.levels[0].score_all(encode(net).generators)[0, 1].detach())
    )
