from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from ontodex.decide.ofo import OFO
from ontodex.types import Ranking


def ofo_by_loops(eta, y, *, lam, alpha, beta, decided=None, first=0.5, prior=0.0):
    """Deep Level-wise XMLC, Eq. 2, in loops; changes the three lists in place."""
    for i in range(len(eta)):
        for j in range(len(lam)):
            if decided is not None and not decided[i][j]:
                continue
            yhat = int(eta[i][j] > lam[j])
            alpha[j] += int(y[i][j]) * yhat
            beta[j] += int(y[i][j]) + yhat
            if beta[j] > 0:
                lam[j] = (alpha[j] + prior * first) / (beta[j] + prior)


def dense(ranking: Ranking, n_labels: int) -> list[list[float]]:
    """Probabilities with 0 for every label that is not in the ranking."""
    return ranking.scores(n_labels).toarray().astype(float).tolist()


def sample(seed: int, n_docs: int, n_labels: int, k: int) -> tuple[Ranking, np.ndarray]:
    rng = np.random.default_rng(seed)
    probabilities = rng.random((n_docs, n_labels)) * (rng.random((n_docs, n_labels)) < 0.7)
    return Ranking.top(probabilities, k), rng.random((n_docs, n_labels)) < 0.3


def test_one_label_by_hand():
    # eta   0.6  0.4  0.6  0.2
    # y       1    0    1    1        lambda before: 0.5
    # yhat    1    0    1    0        (0.4 > 1/2 no; 0.6 > 1/2; 0.2 > 2/4 no)
    # alpha   1    1    2    2
    # beta    2    2    4    5        lambda after: 1/2  1/2  2/4  2/5
    ranking = Ranking(
        np.zeros((4, 1), np.int32), np.array([[0.6], [0.4], [0.6], [0.2]], np.float32)
    )
    gold = csr_array(np.array([[1], [0], [1], [1]]))
    once = OFO.start(1, 0.5).run_passes(ranking, gold, 1)
    assert (once.alpha[0], once.beta[0], once.thresholds[0]) == (2, 5, 2 / 5)
    # Second pass starts at 2/5, counts from 0: yhat 1, then 0.4 > 1/2 no, 1, 0 -> the same counts.
    twice = OFO.start(1, 0.5).run_passes(ranking, gold, 2)
    assert (twice.alpha[0], twice.beta[0], twice.thresholds[0]) == (2, 5, 2 / 5)


def test_a_pass_keeps_the_last_threshold_until_its_first_count():
    # 0.3 is not above 0.4, so nothing is counted in document 1; in document 2 the label is true.
    ranking = Ranking(np.zeros((2, 1), np.int32), np.array([[0.3], [0.45]], np.float32))
    gold = csr_array(np.array([[0], [1]]))
    state = OFO.start(1, 0.4).run_passes(ranking, gold, 1)
    assert (state.alpha[0], state.beta[0], state.thresholds[0]) == (1, 2, 0.5)


@given(
    st.integers(0, 10_000),
    st.integers(0, 12),
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(1, 4),
    st.sampled_from([0.0, 0.3, 0.5, 1.0]),
    st.sampled_from([0.0, 0.0, 3.0]),
)
@settings(max_examples=50, deadline=None)
def test_events_by_step_give_exactly_the_numbers_of_the_loop(
    seed, n_docs, n_labels, k, passes, first, prior
):
    ranking, y = sample(seed, n_docs, n_labels, k)
    lam = [first] * n_labels
    for _ in range(passes):
        alpha, beta = [0] * n_labels, [0] * n_labels
        ofo_by_loops(
            dense(ranking, n_labels), y, lam=lam, alpha=alpha, beta=beta, first=first, prior=prior
        )
    fresh = OFO.start(n_labels, first, prior=prior)
    state = fresh.run_passes(ranking, csr_array(y.astype(np.int8)), passes)
    assert state.thresholds.tolist() == lam
    assert (state.alpha.tolist(), state.beta.tolist()) == (alpha, beta)


@given(st.integers(0, 10_000), st.integers(1, 6))
@settings(max_examples=30, deadline=None)
def test_an_update_goes_on_from_the_state_with_the_decided_labels_only(seed, n_labels):
    ranking, y = sample(seed, 6, n_labels, n_labels)
    state = OFO.start(n_labels, 0.5).run_passes(ranking, csr_array(y.astype(np.int8)), 1)
    lam, alpha, beta = state.thresholds.tolist(), state.alpha.tolist(), state.beta.tolist()

    later, truth = sample(seed + 1, 5, n_labels, 2)
    decided = np.random.default_rng(seed).random(truth.shape) < 0.5
    accepted = csr_array((truth & decided).astype(np.int8))
    rejected = csr_array((~truth & decided).astype(np.int8))
    updated = state.update(later, accepted, rejected)

    ofo_by_loops(dense(later, n_labels), truth, lam=lam, alpha=alpha, beta=beta, decided=decided)
    assert updated.thresholds.tolist() == lam
    assert (updated.alpha.tolist(), updated.beta.tolist()) == (alpha, beta)


def test_one_document_at_a_time_ends_where_all_at_once_does():
    ranking, y = sample(3, 20, 5, 5)
    gold = csr_array(y.astype(np.int8))
    state = OFO.start(5, 0.5)
    for i in range(20):
        row = np.array([i])
        none = csr_array((1 - y[row]).astype(np.int8))
        state = state.update(ranking.take(row), csr_array(gold[row]), none)
    together = OFO.start(5, 0.5).run_passes(ranking, gold, 1)
    np.testing.assert_array_equal(state.thresholds, together.thresholds)


def test_without_a_prior_one_miss_lowers_the_threshold_to_zero():
    ranking = Ranking(np.zeros((1, 1), np.int32), np.array([[0.9]], np.float32))
    never = csr_array((1, 1), dtype=np.int8)
    assert OFO.start(1, 0.5).run_passes(ranking, never, 1).thresholds.tolist() == [0.0]
    limited = OFO.start(1, 0.5, prior=4.0).run_passes(ranking, never, 1)
    assert limited.thresholds.tolist() == [(0 + 4 * 0.5) / (1 + 4)]


def test_gold_labels_outside_the_label_space_are_ignored():
    ranking = Ranking(np.zeros((1, 1), np.int32), np.array([[0.6]], np.float32))
    inside = OFO.start(1, 0.5).run_passes(ranking, csr_array(np.array([[1]])), 1)
    outside = OFO.start(1, 0.5).run_passes(ranking, csr_array(np.array([[1, 1, 1]])), 1)
    assert outside.thresholds.tolist() == inside.thresholds.tolist() == [0.5]


def test_the_threshold_approaches_half_the_best_f():
    rng = np.random.default_rng(0)
    probability = rng.random(20_000).astype(np.float32)
    y = rng.random(20_000) < probability
    ranking = Ranking(np.zeros((20_000, 1), np.int32), probability[:, None])
    state = OFO.start(1, 0.9).run_passes(ranking, csr_array(y[:, None].astype(np.int8)), 2)
    order = np.argsort(-probability)
    best_f = (2 * np.cumsum(y[order]) / (np.arange(1, 20_001) + y.sum())).max()
    assert state.thresholds[0] == pytest.approx(best_f / 2, abs=0.01)


def test_the_mask_of_chosen_labels_marks_those_above_their_threshold_and_no_padding():
    ranking = Ranking(
        np.array([[1, 0, -1], [0, -1, -1]], np.int32),
        np.array([[0.9, 0.2, 0.0], [0.8, 0.0, 0.0]], np.float32),
    )
    gold = csr_array(np.array([[0, 1], [1, 0]]))
    _, chosen = OFO.start(2, first=0.5, prior=0.0).choose_and_learn(ranking, gold)
    assert chosen.tolist() == [[True, False, False], [True, False, False]]
