"""LightAttention as a system: tables that learn by row or whole, recall told, training resumed."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from torch import nn

from ontodex.errors import RunError
from ontodex.models import lightattention, node_tables
from ontodex.models.label_tree import LabelTree
from ontodex.models.lightattention import LightAttentionConfig, LightAttentionSystem
from ontodex.models.node_tables import HalfTable, fresh_table, frozen, node_odds
from ontodex.models.tree_network import TreeNetwork, Vector
from ontodex.train.loop import LoopConfig
from ontodex.types import Corpus, Doc, LabelSpace

SMALL = {"hidden": 3, "value": 2, "width": 4, "bag": 3, "word_dropout": 0.0, "dropout": 0.0}
CPU = torch.device("cpu")

# ----------------------------------------------------------------------------------------- tables


def test_where_training_starts_by_hand():
    """Four documents; cluster 1 (labels 2, 3 at its places) is in three of them."""
    tree = LabelTree(np.arange(4), (np.array([0, 2]), np.array([0, 2, 4])))
    gold = csr_array(np.array([[1, 0, 1, 0], [0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 0, 0]]))
    clusters, labels = (odds.exp().tolist() for odds in node_odds(tree, gold, "product"))
    # Clusters: 1 and 3 of 4 documents; label 3: 2 of the 3 of its cluster. (c + 1/2) / (n + 1).
    assert clusters == pytest.approx([0.3 / 0.7, 0.7 / 0.3], rel=1e-5)
    assert labels[3] == pytest.approx((2.5 / 4) / (1.5 / 4), rel=1e-5)
    clusters, labels = (odds.exp().tolist() for odds in node_odds(tree, gold, "sum"))
    # Label 3: 2 of 4 documents, even odds; its cluster has 0.7 / 0.3 of them already.
    assert clusters == pytest.approx([0.3 / 0.7, 0.7 / 0.3], rel=1e-5)
    assert labels[3] == pytest.approx(0.3 / 0.7, rel=1e-5)
    clusters, labels = (odds.exp().tolist() for odds in node_odds(tree, gold, "alone"))
    assert clusters == pytest.approx([0.3 / 0.7, 0.7 / 0.3], rel=1e-5)
    assert labels[3] == pytest.approx(1.0, rel=1e-5)


def test_a_frozen_table_gives_the_rounded_rows():
    table = fresh_table([Vector(4, 1.0), Vector(2, 0.1)], torch.zeros(6), CPU, sparse=True)
    nodes = torch.tensor([[5, 0], [1, 1]])
    assert torch.equal(frozen(table)(nodes), table(nodes).detach().half().float())


def test_a_large_table_is_mapped_and_only_read_where_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(node_tables, "MAPPED_BYTES", 0)
    rows = np.random.default_rng(0).random((20, 3)).astype(np.float16)
    node_tables.save_tables(tmp_path, {"level-2": HalfTable(rows, CPU)})
    (table,) = node_tables.load_tables(tmp_path, {"level-2": (20, 3)}, CPU)
    assert isinstance(table.rows, np.memmap)
    np.testing.assert_array_equal(table(torch.tensor([19, 4])).numpy(), rows[[19, 4]])


def test_a_table_that_does_not_fit_or_is_not_finite_is_refused(tmp_path):
    rows = np.zeros((4, 3), dtype=np.float16)
    node_tables.save_tables(tmp_path, {"level-2": HalfTable(rows, CPU)})
    with pytest.raises(RunError, match="does not fit"):
        node_tables.load_tables(tmp_path, {"level-2": (5, 3)}, CPU)
    rows[3, 1] = np.nan
    node_tables.save_tables(tmp_path, {"level-2": HalfTable(rows, CPU)})
    (table,) = node_tables.load_tables(tmp_path, {"level-2": (4, 3)}, CPU)
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
    fixed = {**SMALL, "cluster": 2, "beam": 2, "min_count": 1, "train": loop}
    return LightAttentionSystem(LightAttentionConfig(**{**fixed, **more}))  # type: ignore[arg-type]


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


@pytest.mark.parametrize("by_row", [0, 1_000])
def test_long_tables_learn_by_row_and_short_ones_whole(monkeypatch, by_row):
    monkeypatch.setattr(lightattention, "BY_ROW", by_row)
    sparse = []

    class Watched(LightAttentionSystem):
        def batch_loss(self, *batch: Any) -> torch.Tensor:
            sparse.append([cast(nn.Embedding, level.table).sparse for level in self.levels()])
            return super().batch_loss(*batch)

    Watched(system().config).fit(corpus(32), corpus(12), LABELS)
    assert sparse[-1] == [False, by_row == 0]  # the top level is always scored whole


@pytest.mark.parametrize(("training", "told"), [("joint", [False]), ("top-down", [True, False])])
def test_generators_teach_the_encoder_until_labels_learn(monkeypatch, training, told):
    seen: list[bool] = []
    read = TreeNetwork.read

    def watched(self: TreeNetwork, *batch: torch.Tensor, generators_teach: bool = False) -> Any:
        if self.training:
            seen.append(generators_teach)
        return read(self, *batch, generators_teach=generators_teach)

    monkeypatch.setattr(TreeNetwork, "read", watched)
    system(training=training).fit(corpus(32), corpus(12), LABELS)
    assert [one for one, _ in groupby(seen)] == told


@pytest.mark.parametrize(("stop_after", "by_row"), [(6, 1_000), (10, 0)])
def test_static_negatives_are_drawn_again_alike_when_a_training_is_resumed(
    tmp_path, monkeypatch, stop_after, by_row
):
    """Two levels of two epochs of four batches, stopped in the first or the second level."""
    monkeypatch.setattr(lightattention, "BY_ROW", by_row)
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
