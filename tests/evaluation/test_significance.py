"""Comparisons: the numbers of AttentionXML where it prints enough to recompute them."""

from __future__ import annotations

import numpy as np
import pytest

from ontodex.evaluation.sets import Counts
from ontodex.evaluation.significance import (
    average_ranks,
    bootstrap_macro_f,
    bootstrap_mean,
    bootstrap_micro_f,
    compare_means,
    compare_micro_f,
    overlap,
    resample_sums,
    wilcoxon,
)

# P@1, P@3, P@5 on five data sets (AttentionXML, Table 2): SLEEC, AnnexML, PfastreXML, PD-Sparse,
# Parabel, XML-CNN, XML-RNN, AttentionXML.
TABLE_2 = np.array(
    [
        [94.69, 95.26, 94.11, 93.72, 95.85, 94.79, 95.30, 95.76],
        [78.90, 79.30, 79.59, 78.74, 80.05, 78.93, 80.42, 81.22],
        [54.24, 55.25, 55.80, 54.82, 55.88, 54.59, 55.99, 56.75],
        [79.09, 79.56, 73.14, 74.00, 82.12, 75.32, 74.77, 82.87],
        [64.14, 64.92, 60.16, 60.24, 68.91, 60.14, 61.04, 70.35],
        [52.51, 53.53, 50.54, 49.64, 57.89, 49.21, 50.11, 58.39],
        [85.88, 86.50, 83.57, 75.63, 84.19, 81.41, 82.94, 83.03],
        [72.98, 74.29, 68.61, 62.95, 72.46, 66.23, 69.77, 74.58],
        [62.70, 64.20, 59.10, 52.90, 63.37, 56.11, 59.38, 65.28],
        [48.57, 57.78, 50.85, 53.26, 58.79, 55.17, 57.02, 62.89],
        [27.25, 33.09, 29.62, 30.72, 34.47, 31.09, 31.82, 36.05],
        [18.46, 22.54, 20.17, 20.91, 23.33, 21.13, 21.46, 24.32],
        [90.53, 93.54, 91.75, 88.85, 93.02, 93.26, 94.08, 94.83],
        [76.33, 78.38, 77.97, 73.20, 79.14, 77.06, 78.41, 80.45],
        [61.52, 63.32, 63.68, 59.24, 64.51, 61.40, 62.34, 65.24],
    ]
)


def test_average_ranks_are_those_printed_under_table_2():
    printed = [5.73, 3.20, 5.73, 7.20, 2.53, 6.13, 4.13, 1.33]
    assert average_ranks(TABLE_2) == pytest.approx(printed, abs=0.005)


def test_wilcoxon_gives_the_p_values_printed_under_table_2():
    printed = [8.55e-4, 4.27e-3, 1.22e-4, 6.10e-5, 1.53e-3, 6.10e-5, 6.10e-5]
    got = [wilcoxon(TABLE_2[:, -1], TABLE_2[:, i]) for i in range(7)]
    assert got == pytest.approx(printed, rel=0.005)


def test_wilcoxon_is_two_sided_and_1_for_equal_systems():
    assert wilcoxon([1, 2, 3], [1, 2, 3]) == 1.0
    assert wilcoxon(TABLE_2[:, 0], TABLE_2[:, 1]) == wilcoxon(TABLE_2[:, 1], TABLE_2[:, 0])
    many = np.arange(200) / 1000
    assert wilcoxon(many + 0.01, many) < 1e-6
    assert wilcoxon(np.append(many[1:], 0), np.append(many[:-1], 0)) < 1e-6  # a zero difference


def test_wilcoxon_is_exact_up_to_50_pairs():
    steady = np.arange(1.0, 52.0)
    assert wilcoxon(steady[:50], np.zeros(50)) == pytest.approx(2 / 2**50)
    assert wilcoxon(steady, np.zeros(51)) > 1e-11  # the normal approximation


def test_equal_scores_share_their_mean_rank():
    assert average_ranks([[0.5, 0.5, 0.1]]).tolist() == [1.5, 1.5, 3.0]


def test_overlap_is_the_shared_part_of_the_top_k_and_padding_is_not_shared(rank):
    first, second = rank([0, 1, 2], [3, -1, -1]), rank([1, 5, 0], [-1, -1, -1])
    assert overlap(first, second, 1) == 0
    assert overlap(first, second, 2) == pytest.approx((1 / 2 + 0) / 2)
    assert overlap(first, second, 3) == pytest.approx((2 / 3 + 0) / 2)
    assert overlap(second, second, 3) == pytest.approx((1 + 0) / 2)


def ordinary_bootstrap(rows, statistic, replicates, seed):
    """Documents drawn with replacement, one replicate after the other."""
    generator = np.random.default_rng(seed)
    n = len(rows)
    draws = [statistic(rows[generator.integers(0, n, n)]) for _ in range(replicates)]
    return np.quantile(draws, [0.025, 0.975])


def test_interval_of_a_mean_is_that_of_the_ordinary_bootstrap():
    values = np.random.default_rng(1).choice([0, 1 / 3, 2 / 3, 1], size=400)
    interval = bootstrap_mean(values, replicates=4000)
    assert interval.estimate == pytest.approx(values.mean())
    ends = ordinary_bootstrap(values, np.mean, 4000, seed=9)
    assert (interval.low, interval.high) == pytest.approx(ends, abs=0.004)
    # and near the textbook's: mean -+ 1.96 standard errors
    error = 1.96 * values.std() / np.sqrt(400)
    assert (interval.low, interval.high) == pytest.approx(
        (values.mean() - error, values.mean() + error), abs=0.004
    )


def test_many_distinct_values_are_drawn_in_several_blocks():
    values = np.random.default_rng(0).random(5000)
    interval = bootstrap_mean(values)  # 1,000 x 5,000 draws do not fit into one block
    error = 1.96 * values.std() / np.sqrt(5000)
    assert (interval.low, interval.high) == pytest.approx(
        (values.mean() - error, values.mean() + error), abs=0.1 * error
    )


@pytest.fixture
def counts():
    generator = np.random.default_rng(2)
    gold, predicted = generator.integers(1, 9, 300), generator.integers(0, 9, 300)
    hit = generator.binomial(np.minimum(gold, predicted), 0.6)
    return Counts(hit, predicted, gold)


def test_intervals_of_micro_f_and_macro_f_are_those_of_the_ordinary_bootstrap(counts):
    rows = np.stack([counts.hit, counts.predicted, counts.gold], axis=1)

    def micro_f(drawn):
        hit, predicted, gold = drawn.sum(axis=0)
        return 2 * hit / (predicted + gold)

    def macro_f(drawn):
        hit, predicted, gold = drawn.T
        p, r = np.mean(hit / np.maximum(predicted, 1)), np.mean(hit / gold)
        return 2 * p * r / (p + r)

    for bootstrap, statistic in ((bootstrap_micro_f, micro_f), (bootstrap_macro_f, macro_f)):
        interval = bootstrap(counts, replicates=3000)
        assert interval.estimate == pytest.approx(statistic(rows))
        ends = ordinary_bootstrap(rows, statistic, 3000, seed=5)
        assert (interval.low, interval.high) == pytest.approx(ends, abs=0.006)


def test_resampled_sums_have_the_right_mean_and_covariance():
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [2.0, 2.0]])
    sums = resample_sums(rows, replicates=40_000, seed=0)
    assert sums.mean(axis=0) == pytest.approx(rows.sum(axis=0), abs=0.03)
    assert np.cov(sums.T) == pytest.approx(4 * np.cov(rows.T, bias=True), abs=0.08)


def test_the_same_seed_gives_the_same_interval_and_another_seed_another():
    values = np.linspace(0, 1, 50)
    assert bootstrap_mean(values, seed=4) == bootstrap_mean(values, seed=4)
    assert bootstrap_mean(values, seed=4) != bootstrap_mean(values, seed=5)


def test_a_wider_confidence_gives_a_wider_interval():
    values = np.linspace(0, 1, 50)
    wide, narrow = bootstrap_mean(values, confidence=0.99), bootstrap_mean(values, confidence=0.8)
    assert wide.low < narrow.low < narrow.high < wide.high


def test_paired_difference_sees_a_small_but_steady_gain():
    generator = np.random.default_rng(0)
    second = generator.random(500)
    first = second + 0.01 + 0.02 * generator.standard_normal(500)
    difference = compare_means(first, second)
    assert difference.low > 0
    assert difference.estimate == pytest.approx(np.mean(first - second))
    assert difference.p_value == pytest.approx(2 / 1001)
    assert compare_means(second, first).p_value == pytest.approx(2 / 1001)
    unpaired = bootstrap_mean(first)
    assert difference.high - difference.low < (unpaired.high - unpaired.low) / 5


def test_swapping_the_systems_turns_the_difference_around():
    generator = np.random.default_rng(0)
    first, second = generator.random(80), generator.random(80)
    one, other = compare_means(first, second), compare_means(second, first)
    assert one.estimate == pytest.approx(-other.estimate)
    assert one.p_value == pytest.approx(other.p_value, abs=0.1)


def test_equal_systems_do_not_differ(counts):
    same = compare_micro_f(counts, counts)
    assert (same.estimate, same.low, same.high, same.p_value) == (0, 0, 0, 1)


def test_micro_f_difference_is_first_minus_second(counts):
    better = Counts(np.minimum(counts.predicted, counts.gold), counts.predicted, counts.gold)
    difference = compare_micro_f(better, counts)
    expected = 2 * (better.hit.sum() - counts.hit.sum()) / (counts.predicted + counts.gold).sum()
    assert difference.estimate == pytest.approx(expected)
    assert 0 < difference.low < expected < difference.high


def test_systems_on_different_documents_cannot_be_paired():
    with pytest.raises(ValueError, match="3 and 2 documents cannot be paired"):
        compare_means(np.zeros(3), np.zeros(2))
