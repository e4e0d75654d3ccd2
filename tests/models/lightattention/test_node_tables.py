"""Tables of node parameters: initial values, fp16 rows, mapped files."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from ontodex.errors import RunError
from ontodex.models.lightattention import node_tables
from ontodex.models.lightattention.node_tables import (
    FrozenTable,
    compute_node_log_odds,
    create_half_table,
    create_table,
    freeze_table,
)
from ontodex.models.lightattention.scorers import NodeVector
from ontodex.models.trees.label_tree import LabelTree

CPU = torch.device("cpu")


def initial_odds(tree: LabelTree, gold: csr_array, *, given_parent: bool) -> list[list[float]]:
    found = compute_node_log_odds(tree, gold, given_parent=given_parent)
    return [odds.exp().tolist() for odds in found]


def test_where_training_starts_by_hand():
    """Four documents; cluster 1 (labels 2, 3 at its places) is in three of them."""
    tree = LabelTree(np.arange(4), (np.array([0, 2]), np.array([0, 2, 4])))
    gold = csr_array(np.array([[1, 0, 1, 0], [0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 0, 0]]))
    clusters, labels = initial_odds(tree, gold, given_parent=True)
    # Clusters: 1 and 3 of 4 documents; label 3: 2 of the 3 of its cluster. (c + 1/2) / (n + 1).
    assert clusters == pytest.approx([0.3 / 0.7, 0.7 / 0.3], rel=1e-5)
    assert labels[3] == pytest.approx((2.5 / 4) / (1.5 / 4), rel=1e-5)
    clusters, labels = initial_odds(tree, gold, given_parent=False)
    assert clusters == pytest.approx([0.3 / 0.7, 0.7 / 0.3], rel=1e-5)
    assert labels[3] == pytest.approx(1.0, rel=1e-5)


def test_a_frozen_table_gives_the_rounded_rows():
    table = create_table([NodeVector(4, 1.0), NodeVector(2, 0.1)], torch.zeros(6), CPU, sparse=True)
    nodes = torch.tensor([[5, 0], [1, 1]])
    trained = table(nodes).detach()
    assert torch.equal(freeze_table(table)(nodes), trained.half().float())


def test_a_half_table_gives_rows_of_bf16_vectors_with_the_bias_as_it_is():
    odds = torch.linspace(-14.3, -9.1, 6)
    table = create_half_table([NodeVector(4, 1.0), NodeVector(2, 0.1)], odds, CPU)
    rows = table(torch.tensor([[5, 0], [1, 1]])).detach()
    assert rows.shape == (2, 2, 7)
    assert rows.dtype == torch.float32
    assert torch.equal(rows, torch.cat([rows[..., :-1].bfloat16().float(), rows[..., -1:]], -1))
    assert torch.equal(rows[..., -1], odds[torch.tensor([[5, 0], [1, 1]])])
    assert [p.dtype for p in table.parameters()] == [torch.bfloat16, torch.bfloat16, torch.float32]
    spread = [float(p.detach().float().std()) for p in table.parameters()]
    assert 0.5 < spread[0] < 2
    assert 0.03 < spread[1] < 0.3


@pytest.mark.parametrize("at_once", [1, 4, 100])
def test_a_frozen_half_table_gives_its_rows_and_leaves_an_empty_one(at_once, monkeypatch):
    monkeypatch.setattr(node_tables, "FROZEN_ROWS", at_once)
    table = create_half_table([NodeVector(4, 1.0)], torch.linspace(-3, 3, 6), CPU)
    nodes = torch.tensor([[5, 0], [1, 3]])
    trained = table(nodes).detach()
    assert torch.equal(freeze_table(table)(nodes), trained.half().float())
    assert all(p.numel() == 0 for p in table.parameters())


def test_a_large_table_is_mapped_and_only_read_where_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(node_tables, "MAPPED_BYTES", 0)
    rows = np.random.default_rng(0).random((20, 3)).astype(np.float16)
    node_tables.save_tables(tmp_path, {"level-2": FrozenTable(rows, CPU)})
    (table,) = node_tables.load_tables(tmp_path, {"level-2": (20, 3)}, CPU)
    assert isinstance(table.rows, np.memmap)
    np.testing.assert_array_equal(table(torch.tensor([19, 4])).numpy(), rows[[19, 4]])


def test_a_table_that_does_not_fit_or_is_not_finite_is_refused(tmp_path):
    rows = np.zeros((4, 3), dtype=np.float16)
    node_tables.save_tables(tmp_path, {"level-2": FrozenTable(rows, CPU)})
    with pytest.raises(
        RunError, match=r"tables.safetensors: tensor .* has shape \(4, 3\); expected \(5, 3\)"
    ):
        node_tables.load_tables(tmp_path, {"level-2": (5, 3)}, CPU)
    rows[3, 1] = np.nan
    node_tables.save_tables(tmp_path, {"level-2": FrozenTable(rows, CPU)})
    with pytest.raises(RunError, match="not finite"):
        node_tables.load_tables(tmp_path, {"level-2": (4, 3)}, CPU)
