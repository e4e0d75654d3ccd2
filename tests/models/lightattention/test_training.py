"""Training of the levels: recall, tables by row, static negatives, resuming."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import nn

from ontodex.errors import RunError
from ontodex.models.layers.ragged import Ragged
from ontodex.models.lightattention import system as lightattention
from ontodex.models.lightattention import training
from ontodex.models.lightattention.config import LightAttentionConfig
from ontodex.models.lightattention.network import TreeNetwork
from ontodex.models.lightattention.system import LightAttentionSystem
from ontodex.models.lightattention.training import LevelTrainer, find_best_nodes, measure_recall
from ontodex.types import Corpus, Doc, LabelSpace
from ontodex.types.loop_config import LoopConfig

CPU = torch.device("cpu")
SMALL = {"hidden": 3, "layers": (2,), "width": 4, "dropout": 0.0}


def corpus(n: int) -> Corpus:
    """Eight labels with a word of their own each; documents have two."""
    pairs = [(i % 8, (3 * i + 1) % 8) for i in range(n)]
    docs = [
        Doc(str(i), {"t": f"word{a} filler word{b} word{a}"}, labels=(f"l{a}", f"l{b}"))
        for i, (a, b) in enumerate(pairs)
    ]
    return Corpus.of(docs)


LABELS = LabelSpace.of(corpus(32))


def system(**more: object) -> LightAttentionSystem:
    loop = LoopConfig(epochs=2, batch_size=8, patience=0, lr=0.01, checkpoint_seconds=0)
    fixed = {**SMALL, "cluster": 2, "height": 1, "beam": 2, "min_count": 1, "train": loop}
    return LightAttentionSystem(LightAttentionConfig(**{**fixed, **more}))  # type: ignore[arg-type]


def read_saved(fitted: LightAttentionSystem, folder: Path) -> dict[str, bytes]:
    folder.mkdir()
    fitted.save(folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_recall_is_the_share_of_true_labels_below_the_chosen_clusters():
    fitted, dev = system(beam=1), corpus(12)
    fitted.fit(corpus(32), dev, LABELS)
    data, gold = fitted.encode(dev), LABELS.gold(dev)
    assert fitted.tree is not None
    assert fitted.network is not None
    chosen = find_best_nodes(fitted.network, data, 1)[:, 0].tolist()
    cluster = fitted.tree.find_nodes(1)
    hits = [cluster[c] == chosen[i] for i in range(12) for c in gold.indices[2 * i : 2 * i + 2]]
    assert measure_recall(fitted.network, data, gold, 1) == pytest.approx(np.mean(hits))
    assert 0 < np.mean(hits) < 1


def test_recall_is_logged_after_every_epoch(tmp_path):
    fitted = system(beam=9)
    fitted.work = tmp_path
    fitted.fit(corpus(32), corpus(12), LABELS)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    for line in lines:  # a beam as wide as the tree loses nothing
        assert line["generator_recall"] == line["dev_generator_recall"] == 1.0


@pytest.mark.parametrize("by_row", [0, 1_000])
def test_long_tables_are_trained_by_row_and_short_ones_whole(monkeypatch, by_row):
    monkeypatch.setattr(lightattention, "ROW_UPDATE_NODES", by_row)
    sparse = []

    compute_loss = LevelTrainer.compute_loss

    def watch(self: LevelTrainer, rows: Any) -> torch.Tensor:
        tables = [cast(nn.Embedding, scorer.table) for scorer in self.network.scorers]
        sparse.append([table.sparse for table in tables])
        return compute_loss(self, rows)

    monkeypatch.setattr(LevelTrainer, "compute_loss", watch)
    system().fit(corpus(32), corpus(12), LABELS)
    assert sparse[-1] == [False, by_row == 0]  # the top level is always scored whole


@pytest.mark.parametrize(("stop_after", "by_row"), [(6, 1_000), (10, 0)])
def test_a_resumed_training_draws_the_same_static_negatives(
    tmp_path, monkeypatch, stop_after, by_row
):
    """Two levels of two epochs of four batches, stopped in the first or the second level."""
    monkeypatch.setattr(lightattention, "ROW_UPDATE_NODES", by_row)
    choice = {"negatives": "static"}
    whole = system(**choice)
    whole.fit(corpus(32), corpus(12), LABELS)

    class DiedError(Exception):
        pass

    compute_loss, steps = LevelTrainer.compute_loss, []

    def die(self: LevelTrainer, rows: Any) -> torch.Tensor:
        steps.append(rows)
        if len(steps) > stop_after:
            raise DiedError
        return compute_loss(self, rows)

    (tmp_path / "work").mkdir()
    dying = system(**choice)
    dying.work = tmp_path / "work"
    with monkeypatch.context() as patch:
        patch.setattr(LevelTrainer, "compute_loss", die)
        with pytest.raises(DiedError):
            dying.fit(corpus(32), corpus(12), LABELS)
    resumed = system(**choice)
    resumed.work = tmp_path / "work"
    resumed.fit(corpus(32), corpus(12), LABELS)
    assert read_saved(resumed, tmp_path / "one") == read_saved(whole, tmp_path / "two")


def test_a_tree_of_another_number_of_labels_is_refused(tmp_path):
    fitted = system()
    fitted.fit(corpus(32), corpus(12), LABELS)
    fitted.save(tmp_path)
    about = json.loads((tmp_path / "network.json").read_text())
    (tmp_path / "network.json").write_text(json.dumps({**about, "n_labels": 7}))
    with pytest.raises(RunError, match="labels"):
        LightAttentionSystem.load(tmp_path, LABELS)


def candidates_of_steps(monkeypatch: pytest.MonkeyPatch, **choice: object) -> dict[int, set[Any]]:
    """For each training document the sets of labels that steps of the last level scored, without
    the true ones."""
    seen: dict[int, set[Any]] = {}
    rows_now: list[int] = []
    compute_loss, search = LevelTrainer.compute_loss, training.search_levels

    def watch_loss(self: LevelTrainer, rows: Any) -> torch.Tensor:
        rows_now[:] = rows.tolist()
        return compute_loss(self, rows)

    def watch_search(network: TreeNetwork, *given: Any) -> Any:
        for number, scores in enumerate(search(network, *given)):
            if network.training and number == 1:
                for i, row in enumerate(rows_now):
                    negative = scores.is_candidate[i] & ~scores.is_true[i]
                    clusters = frozenset(node // 2 for node in scores.nodes[i][negative].tolist())
                    seen.setdefault(row, set()).add(clusters)
            yield scores

    monkeypatch.setattr(LevelTrainer, "compute_loss", watch_loss)
    monkeypatch.setattr(training, "search_levels", watch_search)
    loop = LoopConfig(epochs=4, batch_size=8, patience=0, lr=0.3)
    system(beam=1, train=loop, **choice).fit(corpus(32), corpus(12), LABELS)
    return seen


def test_static_negatives_stay_and_dynamic_ones_follow_the_generators(monkeypatch):
    """A beam of one cluster; the learning rate is so high that its choice changes."""
    chosen = {}
    for negatives in ("static", "dynamic"):
        with monkeypatch.context() as patch:
            chosen[negatives] = candidates_of_steps(patch, negatives=negatives)
    assert len(chosen["static"]) == 32
    assert all(len(sets) == 1 for sets in chosen["static"].values())
    assert any(len(sets) > 1 for sets in chosen["dynamic"].values())


def test_static_negatives_are_below_the_nodes_that_the_trained_level_above_prefers(monkeypatch):
    drawn = []
    find = training.find_best_nodes

    def watch(network: TreeNetwork, *given: Any) -> torch.Tensor:
        drawn.append(find(network, *given))
        return drawn[-1]

    monkeypatch.setattr(training, "find_best_nodes", watch)
    seen = candidates_of_steps(monkeypatch, negatives="static")
    parents = drawn[-1][:, 0].tolist()
    for row, sets in seen.items():
        assert all(clusters <= {parents[row]} for clusters in sets)


@pytest.mark.parametrize("depth", [1, 2])
def test_the_loss_is_the_sum_of_the_cross_entropies_of_the_levels_in_training(depth):
    """Of each document's candidates."""
    fitted, train = system(beam=2), corpus(32)
    fitted.fit(train, corpus(12), LABELS)
    network = fitted.check_fitted().train()
    data, gold = fitted.encode(train), LABELS.gold(train)
    truth = Ragged.of_gold(gold, 8, CPU)
    trainer = LevelTrainer(fitted.config.train, network, data, truth, data, gold)
    trainer.depth = depth
    rows = np.arange(6)
    torch.manual_seed(5)
    found = trainer.compute_loss(rows).item()
    torch.manual_seed(5)
    encoded = network.encode_documents(*data.pad(rows))
    places = training.pad_places(network, truth, rows)
    expected = 0.0
    for scores in list(training.search_levels(network, encoded, places))[:depth]:
        for n in range(6):
            for c in np.flatnonzero(scores.is_candidate[n]):
                p = 1 / (1 + math.exp(-float(scores.logits[n, c].detach())))
                expected -= math.log(p if scores.is_true[n, c] else 1 - p)
    assert found == pytest.approx(expected / 6, rel=1e-5)
