"""Ranking metrics by hand, with the fractions visible."""

from __future__ import annotations

from math import exp, log, log2

import numpy as np
import pytest
from scipy.sparse import csr_array

from ontodex.evaluation.ranking import (
    compute_propensities,
    compute_propensity_gains,
    f1,
    find_hits,
    ndcg,
    precision,
    psndcg,
    psp,
    r_precision,
    recall,
    score_documents,
)
from ontodex.types import Corpus, Doc, LabelSpace, Ranking


@pytest.fixture
def two(rank, truth):
    """Document 0: hit miss hit; document 1: miss hit, then padding."""
    return truth([0, 2, 4], [1], n=5), rank([0, 1, 2], [4, 1, -1])


def test_hits_are_where_the_ranked_label_is_true(two):
    assert find_hits(*two).tolist() == [[True, False, True], [False, True, False]]


def test_precision_at_3_of_two_documents_by_hand(two):
    assert score_documents(precision, 3, *two) == pytest.approx([2 / 3, 1 / 3])


def test_recall_at_2_divides_by_all_true_labels(two):
    assert score_documents(recall, 2, *two) == pytest.approx([1 / 3, 1 / 1])


def test_f1_at_2_is_the_harmonic_mean_of_precision_and_recall(two):
    p, r = score_documents(precision, 2, *two), score_documents(recall, 2, *two)
    assert score_documents(f1, 2, *two) == pytest.approx(2 * p * r / (p + r))
    assert score_documents(f1, 2, *two) == pytest.approx([2 / 5, 2 / 3])


def test_r_precision_divides_by_k_or_by_fewer_true_labels(two):
    assert score_documents(r_precision, 2, *two) == pytest.approx([1 / 2, 1 / 1])
    assert score_documents(r_precision, 5, *two) == pytest.approx([2 / 3, 1 / 1])


def test_ndcg_at_3_by_hand(two):
    ideal_of_three = 1 / log2(2) + 1 / log2(3) + 1 / log2(4)
    assert score_documents(ndcg, 3, *two) == pytest.approx(
        [(1 / log2(2) + 1 / log2(4)) / ideal_of_three, (1 / log2(3)) / (1 / log2(2))]
    )


def test_divisor_of_precision_is_k_even_when_fewer_labels_are_returned(rank, truth):
    gold = truth([0], n=3)
    assert score_documents(precision, 5, gold, rank([0])) == pytest.approx([1 / 5])
    assert score_documents(precision, 5, gold, rank([0, -1, -1, -1, -1])) == pytest.approx([1 / 5])


def test_ideal_of_ndcg_is_over_min_of_k_and_gold(rank, truth):
    one_true, many_true = truth([1], n=6), truth([0, 1, 2, 3], n=6)
    assert score_documents(ndcg, 3, one_true, rank([1, 4, 5])) == pytest.approx([1.0])
    assert score_documents(ndcg, 2, many_true, rank([3, 0, 5])) == pytest.approx([1.0])


def test_padding_never_counts_as_a_hit(rank, truth):
    # Column -1 of a numpy row would be its last label; the cell before a row is its neighbour's.
    gold = truth([4], [4], n=5)
    assert not find_hits(gold, rank([-1, -1], [-1, -1])).any()


def test_labels_outside_the_label_space_count_as_misses():
    space = LabelSpace.of(Corpus.of([Doc("t", {"text": "x"}, labels=("a", "b"))]))
    gold = space.gold(Corpus.of([Doc("1", {"text": "x"}, labels=("a", "never seen"))]))
    ranking = Ranking.top(np.array([[0.9, 0.8]]), 2)  # everything there is to say
    assert gold.shape == (1, 3)
    assert score_documents(recall, 2, gold, ranking) == pytest.approx([1 / 2])
    assert score_documents(ndcg, 2, gold, ranking) == pytest.approx([1 / (1 + 1 / log2(3))])


def test_a_repeated_label_counts_once_at_its_first_rank(rank, truth):
    gold = truth([3], [0], n=4)
    assert find_hits(gold, rank([3, 3, 3], [1, 0, 0])).tolist() == [
        [True, False, False],
        [False, True, False],
    ]
    also_missed = truth([0, 3], n=4)
    assert find_hits(also_missed, rank([3, 3])).tolist() == [[True, False]]


def test_a_document_without_gold_is_nan_except_for_precision(rank, truth):
    gold, ranking = truth([], n=3), rank([0, 1])
    assert score_documents(precision, 2, gold, ranking) == pytest.approx([0.0])
    for metric in (recall, r_precision, ndcg):
        assert np.isnan(score_documents(metric, 2, gold, ranking)).all()


def test_propensity_constants_are_those_of_the_papers():
    # 1 / (1 + C exp(-A log(N_l + B))), C = (log N - 1) (B + 1)^A, A = 0.55, B = 1.5
    space = LabelSpace(("a", "b"), np.array([8, 0]), n_docs=1000)
    c = (log(1000) - 1) * 2.5**0.55
    seen = 1 / (1 + c * exp(-0.55 * log(9.5)))
    never = 1 / (1 + c * exp(-0.55 * log(1.5)))
    assert compute_propensities(space, 2) == pytest.approx([seen, never])
    assert compute_propensities(space, 4)[2:] == pytest.approx([never, never])
    assert compute_propensities(space, 2, a=0.5, b=0.4)[0] == pytest.approx(
        1 / (1 + (log(1000) - 1) * 1.4**0.5 * 8.4**-0.5)
    )


def test_psp_is_gained_weight_over_the_best_weight_of_all_documents(rank, truth):
    propensity = np.array([1.0, 1 / 2, 1 / 4, 1 / 8])  # weights 1 2 4 8
    gold = truth([0, 1, 2], [3], n=4)
    ranking = rank([0, 3, 1], [3, 0, 1])
    gains = np.array([1 + 0, 8])  # the first two ranks of each document
    best = np.array([4 + 2, 8])
    assert psp(2, *compute_propensity_gains(2, gold, ranking, propensity)) == pytest.approx(
        gains / best.mean()
    )
    assert psp(2, *compute_propensity_gains(2, gold, ranking, propensity)).mean() == pytest.approx(
        9 / 14
    )


def test_psndcg_discounts_gained_and_best_weights(rank, truth):
    propensity = np.array([1.0, 1 / 2, 1 / 4, 1 / 8])
    gold = truth([0, 1, 2], [3], n=4)
    ranking = rank([0, 3, 1], [2, 3, 1])
    gain = (1 + 2 / log2(4)) + (8 / log2(3))
    best = (4 + 2 / log2(3) + 1 / log2(4)) + 8
    assert psndcg(
        3, *compute_propensity_gains(3, gold, ranking, propensity)
    ).mean() == pytest.approx(gain / best)


def test_psp_needs_a_propensity_for_every_gold_column(two):
    with pytest.raises(ValueError, match="4 propensities for 5 gold columns"):
        compute_propensity_gains(1, *two, np.ones(4))


def test_gold_and_ranking_must_belong_together(rank, truth):
    with pytest.raises(ValueError, match="1 documents but the ranking has 2"):
        find_hits(truth([0], n=3), rank([0], [1]))
    with pytest.raises(ValueError, match="column 3 but gold has 3 columns"):
        find_hits(truth([0], n=3), rank([3]))
    with pytest.raises(ValueError, match="at least 1, not 0"):
        score_documents(precision, 0, truth([0], n=3), rank([0]))


def test_hits_do_not_depend_on_how_documents_fall_into_blocks(truth):
    """More columns than the lookup table has cells: one document a block."""
    wide = 5_000_000
    gold = truth([wide - 1], [0], [7, 9], n=wide)
    columns = np.array([[0, wide - 1], [wide - 1, 0], [9, 7]], dtype=np.int32)
    ranking = Ranking(columns, np.full((3, 2), 0.5, dtype=np.float32))
    assert find_hits(gold, ranking).tolist() == [[False, True], [False, True], [True, True]]


def test_no_documents_and_no_columns_are_no_trouble():
    nothing = csr_array((0, 4), dtype=np.int8)
    assert find_hits(nothing, Ranking.top(np.empty((0, 4)), 2)).shape == (0, 2)
    no_labels = csr_array((2, 0), dtype=np.int8)
    assert not find_hits(no_labels, Ranking.top(np.empty((2, 0)), 3)).any()
