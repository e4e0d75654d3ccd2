from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from ontodex.decide.entries import list_entries
from ontodex.decide.threshold import NO_EVIDENCE, Threshold, tune_threshold
from ontodex.types import Ranking
from planted_rankings import micro_f, plant_ranking


def test_one_threshold_by_hand():
    # hit miss hit miss: keeping 1, 2, 3, 4 answers gives F = 2/4, 2/5, 4/6, 4/7 with 3 gold labels
    ranking = Ranking(
        np.array([[0, 1, 2, 3]], np.int32), np.array([[0.8, 0.6, 0.5, 0.25]], np.float32)
    )
    gold = csr_array(np.array([[1, 0, 1, 0, 1]]))
    assert tune_threshold(list_entries(ranking, gold), gold.nnz) == Threshold((0.5 + 0.25) / 2)


@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 6), st.integers(1, 6))
@settings(max_examples=50, deadline=None)
def test_no_other_threshold_has_a_higher_micro_f(seed, n_docs, n_labels, k):
    ranking, gold = plant_ranking(seed, n_docs, n_labels, k)
    tuned = tune_threshold(list_entries(ranking, gold), gold.nnz)
    best = micro_f(ranking, tuned.choose(ranking), gold) if gold.nnz else 0.0
    for other in np.arange(-1, 11) / 10:
        chosen = Threshold(max(other, 0)).choose(ranking)
        if gold.nnz:
            assert micro_f(ranking, chosen, gold) <= best + 1e-12


def test_without_a_hit_the_threshold_is_that_of_calibrated_probabilities():
    ranking = Ranking(np.array([[0]], np.int32), np.array([[0.9]], np.float32))
    gold = csr_array(np.array([[0, 1]]))
    assert tune_threshold(list_entries(ranking, gold), gold.nnz) == Threshold(NO_EVIDENCE)
    assert tune_threshold(list_entries(ranking.take(np.array([], int)), gold[:0]), 0) == Threshold(
        NO_EVIDENCE
    )


def test_a_threshold_separates_neighbouring_floats():
    high = np.float32(0.5)
    low = np.nextafter(high, np.float32(0))
    ranking = Ranking(np.array([[0, 1]], np.int32), np.array([[high, low]], np.float32))
    gold = csr_array(np.array([[1, 0]]))
    tuned = tune_threshold(list_entries(ranking, gold), 1)
    assert tuned.choose(ranking).tolist() == [[True, False]]


def test_a_label_exactly_at_the_threshold_is_not_chosen():
    ranking = Ranking(np.array([[0, 1]], np.int32), np.array([[0.75, 0.5]], np.float32))
    assert Threshold(0.5).choose(ranking).tolist() == [[True, False]]
