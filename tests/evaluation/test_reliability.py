"""Reliability of probabilities by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from ontodex.evaluation.reliability import measure_reliability
from ontodex.types import Ranking


@pytest.fixture
def case(rank, truth):
    """0.9 hit, 0.7 hit | 0.9 miss, padding."""
    return truth([0, 1], [2], n=4), rank([0, 1], [3, -1], p=[[0.9, 0.7], [0.9, 0.0]])


def test_bins_hold_what_was_claimed_and_what_came_true(case):
    bins = measure_reliability(*case, bins=2)
    assert bins.edges.tolist() == [0, 0.5, 1]
    assert bins.count.tolist() == [0, 3]  # padding is in no bin
    assert bins.claimed == pytest.approx([0, 2.5 / 3])
    assert bins.true == pytest.approx([0, 2 / 3])


def test_error_is_the_gap_of_each_bin_weighted_by_its_entries(case):
    # bin 0.9: claims 0.9, half true; bin 0.7: claims 0.7, all true
    assert measure_reliability(*case).expected_error() == pytest.approx(2 / 3 * 0.4 + 1 / 3 * 0.3)


def test_k_keeps_the_first_answers_only(case):
    assert measure_reliability(*case, k=1).expected_error() == pytest.approx(0.4)


def test_probability_one_belongs_to_the_last_bin(rank, truth):
    bins = measure_reliability(truth([0], n=1), rank([0], p=[[1.0]]))
    assert bins.count.tolist() == [0] * 9 + [1]
    assert bins.expected_error() == 0


def test_honest_probabilities_have_a_small_error_and_boastful_ones_a_large_one():
    generator = np.random.default_rng(0)
    chance = generator.random((4000, 5))
    gold = csr_array((generator.random((4000, 5)) < chance).astype(np.int8))
    assert measure_reliability(gold, Ranking.top(chance, 5)).expected_error() < 0.02
    assert measure_reliability(gold, Ranking.top(chance**0.25, 5)).expected_error() > 0.2


def test_no_answers_no_error(rank, truth):
    assert measure_reliability(truth([0], n=1), rank([-1])).expected_error() == 0
