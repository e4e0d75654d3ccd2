"""`attentive-tree` with label rows in bf16: what it learns, its run folder, resuming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ontodex.evaluation.ranking import precision, score_documents
from ontodex.models.attentive_tree.config import AttentiveTreeConfig
from ontodex.models.attentive_tree.system import AttentiveTreeSystem
from ontodex.models.lightattention import training
from ontodex.models.lightattention.node_tables import HalfTable
from ontodex.models.lightattention.training import LevelTrainer
from ontodex.types import Corpus, Doc, LabelSpace
from ontodex.types.loop_config import NetworkLoopConfig

N_LABELS = 60


def corpus(n: int, seed: int) -> Corpus:
    """Documents with three labels and noise; each label has two words, of which one is there."""
    random = np.random.default_rng(seed)
    docs = []
    for i in range(n):
        labels = random.choice(N_LABELS, 3, replace=False)
        words = [f"word{2 * label + random.integers(2)}" for label in labels]
        words += [f"noise{word}" for word in random.integers(0, 30, 5)]
        random.shuffle(words)
        docs.append(Doc(f"{seed}-{i}", {"t": " ".join(words)}, (), tuple(f"l{x}" for x in labels)))
    return Corpus.of(docs)


TRAIN, DEV, TEST = corpus(480, 1), corpus(60, 2), corpus(100, 3)
LABELS = LabelSpace.of(TRAIN)


def system(table: str, **more: Any) -> AttentiveTreeSystem:
    loop = NetworkLoopConfig(**{"epochs": 12, "batch_size": 16, "lr": 0.01, **more})
    config = AttentiveTreeConfig(
        hidden=16, layers=(16,), width=16, bag=32, dropout=0.1, min_count=1,
        cluster=4, candidates=30, train=loop, table=table,  # type: ignore[arg-type]
    )  # fmt: skip
    return AttentiveTreeSystem(config)


def read_saved(fitted: AttentiveTreeSystem, folder: Path) -> dict[str, bytes]:
    folder.mkdir()
    fitted.save(folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def fitted() -> dict[str, AttentiveTreeSystem]:
    found = {table: system(table) for table in ("fp32", "bf16")}
    for one in found.values():
        one.fit(TRAIN, DEV, LABELS)
    return found


def test_bf16_rows_learn_as_much_as_fp32_rows(fitted):
    gold = LABELS.gold(TEST)
    p_at_3 = {
        table: float(score_documents(precision, 3, gold, one.rank(TEST, 3)).mean())
        for table, one in fitted.items()
    }
    assert p_at_3["fp32"] > 0.8
    assert p_at_3["bf16"] > p_at_3["fp32"] - 0.03


def test_a_saved_run_gives_the_same_answers_and_has_the_files_of_an_fp32_one(fitted, tmp_path):
    halves = fitted["bf16"]
    names = read_saved(halves, tmp_path / "bf16").keys()
    assert names == read_saved(fitted["fp32"], tmp_path / "fp32").keys()
    loaded = AttentiveTreeSystem.load(tmp_path / "bf16", LABELS)
    one, two = loaded.rank(TEST, 4), halves.rank(TEST, 4)
    np.testing.assert_array_equal(one.columns, two.columns)
    np.testing.assert_array_equal(one.probabilities, two.probabilities)


def test_only_levels_below_the_top_have_bf16_rows_and_of_any_size():
    halves = system("bf16")
    halves.n_labels = N_LABELS
    tree = halves.build_tree(
        halves.reader.fit_with_tokens(TRAIN, halves.device)[1], LABELS.gold(TRAIN)
    )
    top, *deeper = halves.create_tables(tree, LABELS.gold(TRAIN))
    assert not isinstance(top, HalfTable)
    assert [isinstance(table, HalfTable) for table in deeper] == [True]


def test_a_stopped_training_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    class KilledError(Exception):
        pass

    settings = {"epochs": 2, "checkpoint_seconds": 0}
    whole = system("bf16", **settings)
    whole.fit(TRAIN, DEV, LABELS)
    counted = iter(range(1, 200))
    plain = LevelTrainer.compute_loss

    def die(trainer: LevelTrainer, rows: training.Rows) -> torch.Tensor:
        if next(counted) == 37:
            raise KilledError
        return plain(trainer, rows)

    monkeypatch.setattr(LevelTrainer, "compute_loss", die)
    stopped = system("bf16", **settings)
    stopped.work = tmp_path / "work"
    stopped.work.mkdir()
    with pytest.raises(KilledError):
        stopped.fit(TRAIN, DEV, LABELS)
    monkeypatch.undo()
    again = system("bf16", **settings)
    again.work = stopped.work
    again.fit(TRAIN, DEV, LABELS)
    assert read_saved(again, tmp_path / "again") == read_saved(whole, tmp_path / "whole")
