from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from ontodex.decide.calibrate import Calibration
from ontodex.errors import RunError
from ontodex.evaluation.reliability import measure_reliability
from ontodex.types import Ranking


def make_scores(n: int, seed: int, true_chance) -> tuple[Ranking, csr_array]:
    """n documents with 5 labels scored uniformly; a label is true with `true_chance(score)`."""
    rng = np.random.default_rng(seed)
    scores = rng.random((n, 5)).astype(np.float32)
    gold = csr_array((rng.random((n, 5)) < true_chance(scores)).astype(np.int8))
    return Ranking.top(scores, 5), gold


def test_overconfident_scores_become_calibrated_probabilities():
    ranking, gold = make_scores(4_000, 0, np.square)
    other, other_gold = make_scores(4_000, 1, np.square)
    calibration = Calibration.fit(ranking, gold)
    before = measure_reliability(other_gold, other).expected_error()
    after = measure_reliability(other_gold, calibration.apply(other)).expected_error()
    assert before == pytest.approx(1 / 2 - 1 / 3, abs=0.02)  # mean of s - s^2 over [0, 1]
    assert after < 0.02
    np.testing.assert_allclose(calibration.calibrate(np.array([0.3, 0.8])), [0.09, 0.64], atol=0.06)


def test_knots_of_two_bins_by_hand():
    # 30 answers at 0.2, 3 of them true; 30 at 0.6, 27 true. Each share: (hits + 1/2) / (30 + 1).
    scores = np.repeat(np.float32([0.2, 0.6]), 30)[:, None]
    hits = np.r_[np.ones(3), np.zeros(27), np.ones(27), np.zeros(3)]
    calibration = Calibration.fit(
        Ranking(np.zeros((60, 1), np.int32), scores), csr_array(hits[:, None])
    )
    np.testing.assert_allclose(calibration.scores, [0.2, 0.6], rtol=1e-6)
    np.testing.assert_allclose(calibration.shares, [3.5 / 31, 27.5 / 31])
    assert calibration.calibrate(np.array([0.4])) == pytest.approx((3.5 / 31 + 27.5 / 31) / 2)


def test_bins_in_the_wrong_order_are_pooled():
    # The higher score is less often true: one knot at the mean score with the common share.
    scores = np.repeat(np.float32([0.2, 0.6]), 30)[:, None]
    hits = np.r_[np.ones(20), np.zeros(10), np.ones(10), np.zeros(20)]
    calibration = Calibration.fit(
        Ranking(np.zeros((60, 1), np.int32), scores), csr_array(hits[:, None])
    )
    np.testing.assert_allclose(calibration.scores, [0.4], rtol=1e-6)
    np.testing.assert_allclose(calibration.shares, [31 / 62])


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from([1, 7, 300]), st.sampled_from([0.5, 1, 3]))
def test_the_order_within_a_document_never_changes(seed, n, power):
    ranking, gold = make_scores(n, seed, lambda s: s**power)
    after = Calibration.fit(ranking, gold).apply(ranking)
    np.testing.assert_array_equal(after.columns, ranking.columns)
    rises = np.diff(ranking.probabilities.astype(float), axis=1) < -1e-4
    assert np.all(np.diff(after.probabilities, axis=1)[rises] < 0)


def test_padding_stays_padding():
    ranking, gold = make_scores(200, 3, np.sqrt)
    wider = ranking.cut(8)
    after = Calibration.fit(ranking, gold).apply(wider)
    assert np.all(after.probabilities[:, 5:] == 0)
    assert np.all(after.columns[:, 5:] == -1)


def test_without_answers_nothing_changes():
    nothing = Ranking(np.empty((0, 3), np.int32), np.empty((0, 3), np.float32))
    calibration = Calibration.fit(nothing, csr_array((0, 5), dtype=np.int8))
    ranking, _ = make_scores(10, 0, np.square)
    np.testing.assert_array_equal(calibration.apply(ranking).probabilities, ranking.probabilities)


def test_without_gold_labels_the_calibration_is_the_identity():
    """All answers would be false ones."""
    ranking, gold = make_scores(200, 3, np.square)
    calibration = Calibration.fit(ranking, csr_array(gold.shape, dtype=np.int8))
    np.testing.assert_array_equal(calibration.apply(ranking).probabilities, ranking.probabilities)


def test_written_and_read_back_it_is_the_same_map():
    calibration = Calibration.fit(*make_scores(500, 5, np.square))
    again = Calibration.from_json(calibration.to_json())
    np.testing.assert_array_equal(again.scores, calibration.scores)
    np.testing.assert_array_equal(again.shares, calibration.shares)


@pytest.mark.parametrize(
    "table",
    [
        {"scores": [0.5, 0.4], "shares": [0.1, 0.2]},
        {"scores": [0.4, 0.5], "shares": [0.2, 0.1]},
        {"scores": [0.4], "shares": [1.5]},
        {"scores": [0.4], "shares": []},
        {"scores": [float("nan")], "shares": [0.5]},
        {"scores": ["a"], "shares": [0.5]},
        {},
        None,
    ],
)
def test_a_map_that_does_not_rise_is_refused(table):
    with pytest.raises(RunError, match="calibration"):
        Calibration.from_json(table)
