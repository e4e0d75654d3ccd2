"""AUC and AUPR by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from ontodex.evaluation.auc import auc_and_aupr, auc_by_occurrence, group_by_occurrence
from ontodex.types import Ranking


def test_occurrence_groups_have_nearly_equal_totals_and_keep_equal_counts_together():
    # 30 | 15 15 | 10 10 5 5 and one label too rare; 30 of 90 each
    occurrences = np.array([5, 15, 30, 10, 4, 15, 10, 5])
    assert group_by_occurrence(occurrences).tolist() == [2, 1, 0, 2, -1, 1, 2, 2]
    # 40 20 | six of 10 | five of 6 and six of 5: 60 of 180 each
    many = np.array([40, 20] + [10] * 6 + [6] * 5 + [5] * 6)
    assert group_by_occurrence(many).tolist() == [0, 0] + [1] * 6 + [2] * 11


def test_a_label_with_most_of_all_occurrences_still_leaves_three_groups():
    assert group_by_occurrence(np.array([1000, 6, 5])).tolist() == [0, 1, 2]


def test_many_rare_labels_still_leave_three_groups():
    assert group_by_occurrence(np.array([7, 6] + [5] * 100)).tolist() == [0, 1] + [2] * 100


def test_fewer_distinct_counts_than_groups_give_fewer_groups():
    assert group_by_occurrence(np.array([7, 7, 5, 1])).tolist() == [0, 0, 1, -1]
    assert group_by_occurrence(np.array([5, 5, 4])).tolist() == [0, 0, -1]
    assert group_by_occurrence(np.array([1, 2])).tolist() == [-1, -1]


def test_auc_counts_ties_half_and_unranked_documents_as_zero(rank, truth):
    # Label 0 is true in documents 0 and 2. Scores 0.8, 0.8, unranked = 0, unranked = 0.
    gold = truth([0], [1], [0, 1], [1], n=2)
    ranking = rank([0], [0], [1], [1], p=[[0.8], [0.8], [0.5], [0.5]])
    auc, aupr = auc_and_aupr(gold, ranking, np.array([0]))
    # positive 0.8 against 0.8 and 0: 1/2 + 1; positive 0 against 0.8 and 0: 0 + 1/2
    assert auc == pytest.approx([(1 / 2 + 1 + 0 + 1 / 2) / 4])
    # at 0.8: recall 1/2, precision 1/2; at 0: recall 1, precision 2/4
    assert aupr == pytest.approx([1 / 2 * 1 / 2 + 1 / 2 * 2 / 4])


def test_a_perfectly_ranked_label_has_auc_and_aupr_one(rank, truth):
    gold = truth([0], [1], [1], n=2)
    auc, aupr = auc_and_aupr(gold, rank([0], [1], [1]), np.array([0, 1]))
    assert auc == pytest.approx([1, 1])
    assert aupr == pytest.approx([1, 1])


def test_a_ranked_probability_of_zero_ties_with_not_being_ranked(rank, truth):
    gold = truth([0], [1], [0], n=2)
    ranking = rank([0, 1], [0, 1], [1, -1], p=[[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    assert auc_and_aupr(gold, ranking, np.array([0]))[0] == pytest.approx([1 / 2])


def test_auc_by_occurrence_describes_its_groups():
    # 30 | 16 14 | 13 9 8 occurrences, and a label too rare to be counted
    totals = np.array([30, 16, 14, 13, 9, 8, 1])
    dense = np.arange(60)[:, None] < totals
    gold = csr_array(dense.astype(np.int8))
    right = Ranking.top(dense * 0.5 + 0.1, 7)
    first, second, third = auc_by_occurrence(gold, right)
    assert (first.least, first.most, first.labels, first.share) == (30, 30, 1, 30 / 91)
    assert (second.least, second.most, second.labels, second.share) == (14, 16, 2, 30 / 91)
    assert (third.least, third.most, third.labels, third.share) == (8, 13, 3, 30 / 91)
    assert (first.auc, first.aupr, third.auc, third.aupr) == (1, 1, 1, 1)
    wrong = auc_by_occurrence(gold, Ranking.top(~dense * 0.5 + 0.1, 7))
    assert [row.auc for row in wrong] == [0, 0, 0]
