"""Classifiers on disk, against SciPy's own way in memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array, vstack

from ontodex.models.baselines import linear, weight_shards
from ontodex.models.baselines.linear import LinearConfig, fit_classifiers
from ontodex.models.baselines.weight_shards import join_shards, write_shard


def draw_weights(n_labels: int, n_features: int, seed: int) -> csr_array:
    """Return random classifiers (labels, features), a third of their weights not 0."""
    shape, random = (n_labels, n_features), np.random.default_rng(seed)
    return csr_array(random_array(shape, density=0.3, dtype=np.float32, rng=random))


@pytest.mark.parametrize("block", [1, 40, 10**6])
def test_joined_shards_are_the_stacked_and_transposed_classifiers(monkeypatch, tmp_path, block):
    monkeypatch.setattr(weight_shards, "_BLOCK_VALUES", block)
    order = np.random.default_rng(1).permutation(23)
    jobs = [order[job::4] for job in range(4)]
    shards = [draw_weights(len(labels), 11, seed) for seed, labels in enumerate(jobs)]
    paths = [tmp_path / f"{job}.safetensors" for job in range(4)]
    for path, shard, labels in zip(paths, shards, jobs, strict=True):
        write_shard(path, shard, labels)
    expected = csr_array(vstack(shards, format="csr")[np.argsort(np.concatenate(jobs))].T)
    found = join_shards(paths, (11, 23))
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
        assert getattr(found, name).dtype == getattr(expected, name).dtype


def test_classifiers_without_weights_can_be_joined(tmp_path):
    path = tmp_path / "0.safetensors"
    write_shard(path, csr_array((3, 5), dtype=np.float32), np.arange(3))
    assert join_shards([path], (5, 3)).nnz == 0


def test_temporary_files_are_gone_and_the_classifiers_stay(tmp_path):
    rows = csr_array(np.eye(6, dtype=np.float32))
    gold = csr_array(np.tile(np.eye(2, dtype=np.int8), (3, 1)))
    weights = fit_classifiers(rows, gold, LinearConfig(workers=1), tmp_path)
    assert not list(tmp_path.iterdir())
    assert np.isfinite(weights.toarray()).all()
    assert weights.shape == (7, 2)


def measure_training(n_labels: int, monkeypatch: pytest.MonkeyPatch, work: Path) -> float:
    """Return the peak of memory in MB while classifiers of 300 weights each are trained."""

    def fit_labels(rows, gold, config, svc):
        return draw_weights(gold.shape[1], 1001, gold.shape[1])

    monkeypatch.setattr(linear, "fit_labels", fit_labels)
    monkeypatch.setattr(linear, "_JOB_LABELS", 64)
    monkeypatch.setattr(weight_shards, "_BLOCK_VALUES", 2**15)
    rows = csr_array(np.eye(100, 1000, dtype=np.float32))
    gold = csr_array(np.ones((1, n_labels), dtype=np.int8))
    tracemalloc.start()
    try:
        weights = fit_classifiers(rows, gold, LinearConfig(workers=1), work)
        assert weights.nnz == pytest.approx(300 * n_labels, rel=0.1)
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_memory_of_training_grows_by_less_than_a_tenth_of_the_weights(monkeypatch, tmp_path):
    few, many = (measure_training(n, monkeypatch, tmp_path) for n in (1_000, 16_000))
    assert many - few < 0.1 * 15_000 * 300 * 8 / 1e6  # MB; weights and columns take 8 bytes each
