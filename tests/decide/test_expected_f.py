from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ontodex.decide.expected_f import ExpectedF, best_set_sizes, expected_f
from ontodex.types import Ranking


def mean_f_of_set(chosen: tuple[int, ...], p: list[float]) -> float:
    """E[F] over all 2^n ways the labels may be true."""
    total = 0.0
    for truth in product([0, 1], repeat=len(p)):
        chance = np.prod([q if t else 1 - q for q, t in zip(p, truth, strict=True)])
        hits = sum(truth[i] for i in chosen)
        if chosen:
            total += chance * 2 * hits / (len(chosen) + sum(truth))
    return total


@given(st.lists(st.sampled_from([0.0, 0.05, 0.3, 0.5, 0.77, 1.0]), min_size=1, max_size=5))
@settings(max_examples=50, deadline=None)
def test_the_chosen_set_is_the_best_of_all_subsets(chances):
    p = sorted(chances, reverse=True)
    subsets = [c for n in range(len(p) + 1) for c in combinations(range(len(p)), n)]
    best = max(mean_f_of_set(subset, p) for subset in subsets)
    size = int(best_set_sizes(np.array([p]))[0])
    assert mean_f_of_set(tuple(range(size)), p) == pytest.approx(best)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
@settings(max_examples=50, deadline=None)
def test_the_expectation_equals_the_sum_over_all_truths(chances):
    p = sorted(chances, reverse=True)
    values = expected_f(np.array([p]))[0]
    for size in range(1, len(p) + 1):
        assert values[size - 1] == pytest.approx(mean_f_of_set(tuple(range(size)), p))


def test_two_labels_by_hand():
    # {first}: 0.5 * (0.5 * 2*1/(1+1) + 0.5 * 2*1/(1+2)) = 0.5 * (1/2 + 1/3) = 5/12
    # both:    P(2) * 1 + P(1) * 2*1/(2+1)               = 1/4 + 1/2 * 2/3   = 7/12
    assert expected_f(np.array([[0.5, 0.5]]))[0] == pytest.approx([5 / 12, 7 / 12])


def test_documents_do_not_touch_each_other_and_padding_is_never_chosen():
    rows = np.sort(np.random.default_rng(0).random((600, 5)), axis=1)[:, ::-1].astype(np.float32)
    rows[::3, 2:] = 0
    rows[7] = 0
    columns = np.where(rows > 0, np.arange(5), -1).astype(np.int32)
    chosen = ExpectedF().choose(Ranking(columns, rows))
    assert not chosen[rows == 0].any()
    assert not chosen[7].any()
    for i in range(0, 600, 50):
        assert chosen[i].sum() == best_set_sizes(rows[i : i + 1].astype(float))[0]


def test_calibrated_probabilities_give_a_better_mean_f_than_any_fixed_size():
    rng = np.random.default_rng(1)
    p = np.sort(rng.beta(0.3, 1.0, (800, 8)), axis=1)[:, ::-1]
    y = rng.random(p.shape) < p

    def mean_f(chosen):
        return np.mean(2 * (chosen & y).sum(1) / np.maximum((chosen.sum(1) + y.sum(1)), 1))

    ours = mean_f(np.arange(8) < best_set_sizes(p)[:, None])
    fixed = [mean_f(np.broadcast_to(np.arange(8) < k, p.shape)) for k in range(1, 9)]
    threshold = [mean_f(p > t) for t in np.arange(1, 20) / 20]
    assert ours > max(fixed) + 0.03
    assert ours > max(threshold)
