"""Paper 003: each equation and Algorithm 2 against loops that anyone can read."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from torch import nn

from ontodex.errors import RunError
from ontodex.models import node_tables
from ontodex.models.label_tree import LabelTree
from ontodex.models.lightattention import LightAttentionConfig, LightAttentionSystem
from ontodex.models.node_tables import HalfTable, fresh_table, frozen, node_odds
from ontodex.models.tree_network import NONE, Level, Read, TreeNetwork
from ontodex.train.loop import LoopConfig
from ontodex.types import Corpus, Doc, LabelSpace

SMALL = {"hidden": 3, "value": 2, "width": 4, "bag": 3, "word_dropout": 0.0, "dropout": 0.0}
# Root, two clusters of clusters, four clusters, seven labels at places 0 to 6:
#   0: {0: [0, 1], 1: [2, 3]}    1: {2: [4, 5], 3: [6]}
TREE = LabelTree(
    np.array([3, 0, 6, 2, 5, 1, 4]),
    (np.array([0, 2]), np.array([0, 2, 4]), np.array([0, 2, 4, 6, 7])),
)
PATHS = {0: (0, 0), 1: (0, 0), 2: (0, 1), 3: (0, 1), 4: (1, 2), 5: (1, 2), 6: (1, 3)}
TOKENS = torch.tensor([[3, 7, 2, 9], [5, 4, 0, 0]])
LENGTHS = torch.tensor([4, 2])


def settings(**more: object) -> LightAttentionConfig:
    return LightAttentionConfig(**{**SMALL, **more})  # type: ignore[arg-type]


def network(tree: LabelTree = TREE, seed: int = 0, **more: object) -> TreeNetwork:
    torch.manual_seed(seed)
    config = settings(**more)
    sizes = [tree.n_nodes(level) for level in range(1, tree.height + 2)]
    tables = [
        fresh_table(config.row_widths, torch.randn(size), sparse=number > 0)
        for number, size in enumerate(sizes)
    ]
    for table in tables:
        nn.init.normal_(table.weight)
    return TreeNetwork(config, 12, tree, tables, None).double()


def read(net: TreeNetwork) -> Read:
    return net.eval().read(TOKENS, LENGTHS)


# ------------------------------------------------------------------------------- Eq. 2 and layers


@torch.no_grad()
def logit_by_loops(level: Level, seen: Read, document: int, node: int) -> float:
    """Eq. 2 as printed, all layers after attention, then the node's own vectors and bias."""
    row = level.table(torch.tensor([node]))[0]
    query, output, of_bag, bias = row.split(level.widths)
    h = seen.h[document, : int(LENGTHS[document])]
    powers = [math.exp(float(state @ query)) for state in h]
    m = sum(power / sum(powers) * state for power, state in zip(powers, h, strict=True))
    for layer in (level.project, *level.deeper):
        m = torch.relu(layer(m))
    return float(m @ output + seen.bag[document] @ of_bag + bias)


@pytest.mark.parametrize("layers", [1, 3])
def test_a_level_equals_equation_2_and_its_layers_in_loops(layers):
    net = network(layers=layers)
    seen, level = read(net), net.levels[-1]
    nodes = torch.tensor([[6, 0, 2], [1, 1, 5]])
    logits = level(seen, nodes)
    for document in range(2):
        for place, node in enumerate(nodes[document].tolist()):
            expected = logit_by_loops(level, seen, document, node)
            assert float(logits[document, place].detach()) == pytest.approx(expected, rel=1e-9)


def test_all_nodes_of_a_level_are_scored_as_candidates_would_be():
    net = network()
    seen, level = read(net), net.levels[0]
    torch.testing.assert_close(level.of_all(seen), level(seen, torch.tensor([[0, 1], [0, 1]])))


def test_gradients_of_a_level():
    net = network(layers=3)
    seen, level = read(net), net.levels[-1]
    nodes = torch.tensor([[0, 3], [5, 5]])

    def logits(h: torch.Tensor, bag: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        level.table = lambda at: rows[at]  # type: ignore[assignment]
        return level(Read(h, seen.mask, bag), nodes)

    rows = level.table.weight.detach().clone().requires_grad_()
    del level._modules["table"]
    inputs = (seen.h.detach().requires_grad_(), seen.bag.detach().requires_grad_(), rows)
    assert torch.autograd.gradcheck(logits, inputs)


# -------------------------------------------------------------------------------------- Equation 1


def test_the_probability_of_a_label_is_the_product_along_its_way():
    """A beam as wide as the tree comes to every label."""
    net = network(beam=9)
    seen = read(net)
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
                expected *= 1 / (1 + math.exp(-logit_by_loops(level, seen, document, node)))
            assert float(log_p.exp()) == pytest.approx(expected, rel=1e-6)


def test_a_beam_goes_on_from_the_most_probable_ways():
    """Against a search in loops with b = 2."""
    net = network(beam=2)
    seen = read(net)
    *_, labels = net.walk(seen)
    for document in range(2):
        ways = {(): 0.0}
        for depth, level in enumerate(net.levels):
            best = sorted(ways, key=lambda way: -ways[way])[:2]
            ways = {
                (*way, node): ways[way]
                - math.log1p(math.exp(-logit_by_loops(level, seen, document, node)))
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


# ------------------------------------------------------------------------------------ Algorithm 2


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
    walked = list(net.walk(read(net), positives))
    for document in range(2):
        for number, level in enumerate(walked):
            counts = level.counts[document]
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


def test_positives_that_were_only_taught_lead_no_further():
    net = network(beam=1)
    alone = [level.best(1)[0] for level in net.walk(read(net))]
    taught = [level.best(1)[0] for level in net.walk(read(net), torch.tensor([[0, 6], [2, 5]]))]
    for one, other in zip(alone, taught, strict=True):
        assert torch.equal(one, other)


def test_drawn_parents_are_gone_on_from_instead_of_the_best():
    net = network(beam=1)
    drawn = [torch.tensor([[1], [0]]), torch.tensor([[3], [NONE]])]
    *_, labels = net.walk(read(net), None, drawn)
    assert labels.nodes[0][labels.counts[0]].tolist() == [6]
    assert not labels.counts[1].any()


def test_only_the_rows_of_candidates_get_a_gradient():
    net = network(beam=1)
    *_, labels = net.walk(read(net), torch.tensor([[6], [6]]))
    labels.logits.sum().backward()
    grad = net.levels[-1].table.weight.grad
    assert grad.is_sparse
    assert set(grad.coalesce().indices()[0].tolist()) == set(labels.nodes.unique().tolist())
    assert labels.nodes.shape[1] == 2 + 1  # the children of one cluster, and one positive


# ----------------------------------------------------------------------------------------- limits


def test_a_tree_of_one_leaf_is_a_flat_classifier():
    flat = LabelTree(np.arange(5), (np.array([0, 5]),))
    net = network(flat, layers=2)
    seen = read(net)
    labels = net(TOKENS, LENGTHS)
    assert labels.nodes.tolist() == [list(range(5))] * 2
    for document in range(2):
        for node in range(5):
            logit = logit_by_loops(net.levels[0], seen, document, node)
            expected = 1 / (1 + math.exp(-logit))
            assert float(labels.log_p[document, node].exp()) == pytest.approx(expected, rel=1e-6)


def test_padding_never_changes_a_logit():
    net = network(beam=9).eval()
    alone, together = net(TOKENS[1:, :2], LENGTHS[1:]), net(TOKENS, LENGTHS)
    torch.testing.assert_close(together.log_p[1:], alone.log_p)


def test_no_bag_of_words_adds_nothing():
    net = network(bag=0).float()
    assert read(net).bag.shape == (2, 0)
    assert logit_by_loops(net.levels[0], read(net), 0, 1) == pytest.approx(
        float(net.levels[0].of_all(read(net))[0, 1].detach())
    )


def test_static_negatives_with_joint_training_are_refused():
    with pytest.raises(ValueError, match="top-down"):
        settings(negatives="static", training="joint")


@pytest.mark.parametrize(
    ("setting", "value"), [("beam", 0), ("layers", 0), ("cluster", 1), ("children", 6), ("bag", -1)]
)
def test_settings_out_of_range_are_refused(setting, value):
    with pytest.raises(ValueError, match=setting):
        settings(**{setting: value})


# ----------------------------------------------------------------------------------------- tables


def test_where_training_starts_by_hand():
    """Four documents; cluster 1 (labels 2, 3 at its places) is in three of them."""
    tree = LabelTree(np.arange(4), (np.array([0, 2]), np.array([0, 2, 4])))
    gold = csr_array(np.array([[1, 0, 1, 0], [0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 0, 0]]))
    clusters, labels = (odds.exp().tolist() for odds in node_odds(tree, gold))
    # Clusters: 1 and 3 of 4 documents; label 3: 2 of the 3 of its cluster. (c + 1/2) / (n + 1).
    assert clusters == pytest.approx([0.3 / 0.7, 0.7 / 0.3], rel=1e-5)
    assert labels[3] == pytest.approx((2.5 / 4) / (1.5 / 4), rel=1e-5)


def test_a_frozen_table_gives_the_rounded_rows():
    table = fresh_table([4, 2, 3, 1], torch.zeros(6), sparse=True)
    nodes = torch.tensor([[5, 0], [1, 1]])
    assert torch.equal(frozen(table)(nodes), table(nodes).detach().half().float())


def test_a_large_table_is_mapped_and_only_read_where_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(node_tables, "MAPPED_BYTES", 0)
    rows = np.random.default_rng(0).random((20, 3)).astype(np.float16)
    cpu = torch.device("cpu")
    node_tables.save_tables(tmp_path, {"level-2": HalfTable(rows, cpu)})
    (table,) = node_tables.load_tables(tmp_path, {"level-2": (20, 3)}, cpu)
    assert isinstance(table.rows, np.memmap)
    np.testing.assert_array_equal(table(torch.tensor([19, 4])).numpy(), rows[[19, 4]])


def test_a_table_that_does_not_fit_or_is_not_finite_is_refused(tmp_path):
    cpu = torch.device("cpu")
    rows = np.zeros((4, 3), dtype=np.float16)
    node_tables.save_tables(tmp_path, {"level-2": HalfTable(rows, cpu)})
    with pytest.raises(RunError, match="does not fit"):
        node_tables.load_tables(tmp_path, {"level-2": (5, 3)}, cpu)
    rows[3, 1] = np.nan
    node_tables.save_tables(tmp_path, {"level-2": HalfTable(rows, cpu)})
    (table,) = node_tables.load_tables(tmp_path, {"level-2": (4, 3)}, cpu)
    assert table(torch.tensor([2])).tolist() == [[0, 0, 0]]
    with pytest.raises(RunError, match="not finite"):
        table(torch.tensor([[0], [3]]))


# ----------------------------------------------------------------------------------------- system


def corpus(n: int) -> Corpus:
    """Eight labels, each told by a word of its own; documents have two."""
    pairs = [(i % 8, (3 * i + 1) % 8) for i in range(n)]
    docs = [
        Doc(str(i), {"t": f"word{a} filler word{b} word{a}"}, labels=(f"l{a}", f"l{b}"))
        for i, (a, b) in enumerate(pairs)
    ]
    return Corpus.of(docs)


LABELS = LabelSpace.of(corpus(32))


def system(**more: object) -> LightAttentionSystem:
    loop = LoopConfig(epochs=2, batch=8, patience=0, lr=0.01, checkpoint_seconds=0)
    config = settings(**{"cluster": 2, "beam": 2, "min_count": 1, "train": loop, **more})
    return LightAttentionSystem(config)


def saved(fitted: LightAttentionSystem, folder: Path) -> dict[str, bytes]:
    folder.mkdir()
    fitted.save(folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_recall_is_the_share_of_true_labels_below_the_chosen_clusters():
    fitted, dev = system(beam=1), corpus(12)
    fitted.fit(corpus(32), dev, LABELS)
    data, gold = fitted.encode(dev), LABELS.gold(dev)
    assert fitted.tree is not None
    chosen = fitted.draw(data, 1)[:, 0].tolist()
    cluster = fitted.tree.node_of(1)
    hits = [cluster[c] == chosen[i] for i in range(12) for c in gold.indices[2 * i : 2 * i + 2]]
    assert fitted.kept_in_sight(data, gold, 1) == pytest.approx(np.mean(hits))
    assert 0 < np.mean(hits) < 1


def test_recall_is_told_after_every_epoch(tmp_path):
    fitted = system(beam=9)
    fitted.work = tmp_path
    fitted.fit(corpus(32), corpus(12), LABELS)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    for line in lines:  # a beam as wide as the tree loses nothing
        assert line["generator_recall"] == line["dev_generator_recall"] == 1.0


@pytest.mark.parametrize("stop_after", [6, 10])
def test_static_negatives_are_drawn_again_alike_when_a_training_is_resumed(tmp_path, stop_after):
    """Two levels of two epochs of four batches, stopped in the first or the second level."""
    choice = {"negatives": "static", "training": "top-down"}
    whole = system(**choice)
    whole.fit(corpus(32), corpus(12), LABELS)

    class DiedError(Exception):
        pass

    class Mortal(LightAttentionSystem):
        steps = 0

        def batch_loss(self, *batch: Any) -> torch.Tensor:
            self.steps += 1
            if self.steps > stop_after:
                raise DiedError
            return super().batch_loss(*batch)

    (tmp_path / "work").mkdir()
    dying = Mortal(system(**choice).config)
    dying.work = tmp_path / "work"
    with pytest.raises(DiedError):
        dying.fit(corpus(32), corpus(12), LABELS)
    resumed = system(**choice)
    resumed.work = tmp_path / "work"
    resumed.fit(corpus(32), corpus(12), LABELS)
    assert saved(resumed, tmp_path / "one") == saved(whole, tmp_path / "two")


def test_a_tree_of_another_number_of_labels_is_refused(tmp_path):
    fitted = system()
    fitted.fit(corpus(32), corpus(12), LABELS)
    fitted.save(tmp_path)
    about = json.loads((tmp_path / "network.json").read_text())
    (tmp_path / "network.json").write_text(json.dumps({**about, "n_labels": 7}))
    with pytest.raises(RunError, match="labels"):
        LightAttentionSystem.load(tmp_path, LABELS)
