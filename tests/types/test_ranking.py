from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from ontodex.types import Ranking


def test_ties_are_ordered_by_column_and_padding_comes_last():
    ranking = Ranking.top(np.array([[0.5, 0.9, 0.5]]), k=4)
    assert ranking.columns.tolist() == [[1, 0, 2, -1]]
    assert ranking.probabilities[0] == pytest.approx([0.9, 0.5, 0.5, 0])


def test_top_of_zero_labels_is_all_padding():
    ranking = Ranking.top(np.empty((2, 0)), k=3)
    assert ranking.columns.tolist() == [[-1] * 3] * 2


def test_a_sparse_score_matrix_ranks_its_stored_entries():
    scores = csr_array(np.array([[0, 0.2, 0.7], [0, 0, 0], [0.1, 0, 0]]))
    assert Ranking.of_sparse(scores, 2).columns.tolist() == [[2, 1], [-1, -1], [0, -1]]


def test_scores_and_of_sparse_are_inverse():
    ranking = Ranking.top(np.array([[0.5, 0.9, 0.5], [0.25, 0.5, 0.125]]), k=2)
    back = Ranking.of_sparse(ranking.scores(3), 2)
    assert back.columns.tolist() == ranking.columns.tolist()


def test_keeping_closes_up_the_gaps():
    ranking = Ranking.top(np.array([[0.9, 0.8, 0.7]]), k=3)
    kept = ranking.keep(np.array([[True, False, True]]))
    assert kept.columns.tolist() == [[0, 2, -1]]


def test_joined_parts_are_the_whole():
    whole = Ranking.top(np.random.default_rng(0).random((5, 8)), k=3)
    parts = [whole.take(np.arange(2)), whole.take(np.arange(2, 5))]
    assert np.array_equal(Ranking.join(parts, 3).columns, whole.columns)
    assert len(Ranking.join([], 3)) == 0


@pytest.mark.parametrize(
    ("columns", "scores", "complaint"),
    [
        ([[0, 1]], [[0.1, 0.2]], "must not increase along a row"),
        ([[0, 1]], [[1.2, 0.2]], r"in \[0, 1\]"),
        ([[0, 1]], [[np.nan, 0.2]], r"in \[0, 1\]"),
        ([[-1, 1]], [[0.2, 0.2]], "padding"),
        ([[0]], [[0.2, 0.2]], "must have one shape"),
    ],
)
def test_a_ranking_checks_its_order_range_padding_and_shape(columns, scores, complaint):
    with pytest.raises(ValueError, match=complaint):
        Ranking(np.array(columns, np.int32), np.array(scores, np.float32))


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 6), st.integers(1, 9), st.integers(0, 12), st.integers(0, 2**31))
def test_top_equals_sorting_everything(n, width, k, seed):
    scores = np.random.default_rng(seed).integers(0, 5, (n, width)) / 8
    ranking = Ranking.top(scores, k)
    for row in range(n):
        values = sorted(scores[row], reverse=True)[:k]
        kept = ranking.columns[row] >= 0
        assert ranking.probabilities[row][kept].tolist() == values
        assert len(set(ranking.columns[row][kept])) == len(values)
