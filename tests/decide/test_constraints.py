from __future__ import annotations

import numpy as np
import pytest

from ontodex.decide.constraints import exclude_columns, include_columns, limit_size
from ontodex.types import Ranking

RANKING = Ranking(
    np.array([[5, 6, 7, 8], [6, 5, -1, -1]], np.int32),
    np.array([[0.9, 0.8, 0.3, 0.1], [0.7, 0.6, 0, 0]], np.float32),
)


def test_excluded_columns_leave_no_gap():
    kept = exclude_columns(RANKING, [6, 9])
    assert kept.columns.tolist() == [[5, 7, 8, -1], [5, -1, -1, -1]]
    assert exclude_columns(RANKING, []) is RANKING


def test_included_columns_come_with_their_probability_in_the_ranking_or_zero():
    sets = RANKING.cut(1)
    found = include_columns(sets, [7, 7], RANKING)
    assert found.columns[:, :3].tolist() == [[5, 7, -1], [6, 7, -1]]
    np.testing.assert_allclose(found.probabilities[:, :2], [[0.9, 0.3], [0.7, 0]], rtol=1e-6)


@pytest.mark.parametrize(
    ("limit", "first", "wanted"),
    [
        (2, [], [[5, 6], [6, 5]]),
        (2, [8], [[5, 8], [6, 5]]),
        (1, [7, 8], [[7], [6]]),
        (3, [7, 8], [[5, 7, 8], [6, 5, -1]]),
        (0, [7], [[], []]),
    ],
)
def test_a_limit_keeps_the_wanted_columns_first(limit, first, wanted):
    assert limit_size(RANKING, limit, first).columns.tolist() == wanted


def test_a_limit_above_the_size_changes_nothing():
    assert limit_size(RANKING, 4, [8]) is RANKING
