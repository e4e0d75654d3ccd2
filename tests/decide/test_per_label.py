from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from ontodex.decide.entries import list_entries
from ontodex.decide.per_label import PerLabel, tune_thresholds
from ontodex.decide.threshold import Threshold, tune_threshold
from ontodex.types import Ranking
from planted_rankings import micro_f, plant_ranking


def best_joint_f(ranking: Ranking, gold: csr_array) -> float:
    """Micro-F of the best of all combinations of thresholds, one a label, by trying them all."""
    grids = np.meshgrid(*[np.arange(6) / 5 + 0.1] * gold.shape[1])  # between the probabilities
    return max(
        micro_f(ranking, PerLabel(np.array(values), 0.5).choose(ranking), gold)
        for values in zip(*(grid.ravel() for grid in grids), strict=True)
    )


@given(st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_unshrunk_thresholds_reach_the_best_joint_micro_f(seed):
    ranking, gold = plant_ranking(seed, 10, 2, 2)
    counts = np.asarray(gold.sum(axis=0))
    if not (gold.nnz and counts.all()):
        return
    tuned = tune_thresholds(list_entries(ranking, gold), counts, 0.0, Threshold(0.5))
    assert micro_f(ranking, tuned.choose(ranking), gold) == pytest.approx(
        best_joint_f(ranking, gold)
    )


def test_rare_labels_are_shrunk_towards_the_common_threshold():
    # Label 0: one gold document, best cut at (0.9 + 0) / 2 = 0.45. Label 1 has none.
    ranking = Ranking(np.array([[0, 1]], np.int32), np.array([[0.9, 0.3]], np.float32))
    gold = csr_array(np.array([[1, 0, 1]]))
    tuned = tune_thresholds(list_entries(ranking, gold), np.array([1, 0, 1]), 3.0, Threshold(0.2))
    own = float(np.float32(0.9)) / 2
    assert tuned.thresholds == pytest.approx([(1 * own + 3 * 0.2) / 4, 0.2, 0.2])


def test_per_label_thresholds_beat_one_where_labels_are_scaled_differently():
    rng = np.random.default_rng(0)
    truth = rng.random((400, 2)) < 0.3
    scale = np.array([0.9, 0.2])  # label 1 is right too, with low scores
    probabilities = scale * np.where(truth, 0.8, 0.5) + 0.02 * rng.random((400, 2))
    ranking, gold = Ranking.top(probabilities, 2), csr_array(truth.astype(np.int8))
    found = list_entries(ranking, gold)
    one = tune_threshold(found, gold.nnz)
    each = tune_thresholds(found, truth.sum(axis=0), 1.0, one)
    assert micro_f(ranking, each.choose(ranking), gold) > 0.95
    assert micro_f(ranking, one.choose(ranking), gold) < 0.8


def test_decisions_move_a_threshold_by_hand():
    """One label at 0.9, 0.7, 0.3 and 0.1: accepted at 0.3 and above, rejected below.

    The best cut is half-way between 0.3 and 0.1. Three of the decisions are evidence, the last one
    is a rejection of what was not predicted: (3 * 0.2 + 3 * 0.5) / (3 + 3) = 0.35.
    """
    ranking = Ranking.top(np.array([[0.9], [0.7], [0.3], [0.1]]), 1)
    accepted = csr_array(np.array([[1], [1], [1], [0]], dtype=np.int8))
    rejected = csr_array(np.array([[0], [0], [0], [1]], dtype=np.int8))
    moved = PerLabel(np.array([0.5]), 0.5).update(ranking, accepted, rejected, shrink=3)
    assert moved.thresholds == pytest.approx([0.35])
    moved = Threshold(0.5).update(ranking, accepted, rejected, shrink=3)
    assert moved.value == pytest.approx(0.35)


def test_rejections_below_the_threshold_never_lower_it():
    ranking = Ranking.top(np.array([[0.1], [0.2]]), 1)
    none = csr_array((2, 1), dtype=np.int8)
    every = csr_array(np.ones((2, 1), dtype=np.int8))
    for rule in (PerLabel(np.array([0.5]), 0.5), Threshold(0.5)):
        moved = rule.update(ranking, none, every, shrink=1)
        assert moved.thresholds == pytest.approx([0.5])
