"""Groups of labels, AUC and AUPR, and the table of labels, by hand."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from scipy.sparse import csr_array

from ontodex.evaluate.groups import (
    auc_and_aupr,
    auc_by_occurrence,
    frequency_bins,
    occurrence_groups,
    scores_by_group,
    write_label_table,
)
from ontodex.evaluate.sets import count_by_label
from ontodex.types import LabelSpace, Ontology, Ranking


def test_frequency_bins_have_names_a_curator_can_read():
    bins, names = frequency_bins([0, 1, 9, 10, 99, 100, 999, 1000, 50_000])
    assert bins.tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert names == ["0", "1 to 9", "10 to 99", "100 to 999", "1,000 or more"]
    assert frequency_bins([4, 5, 6], lower=(0, 5, 6))[1] == ["0 to 4", "5", "6 or more"]


def test_a_group_is_measured_as_if_its_labels_were_all_there_are(rank, truth):
    # Labels 0 and 1 are one group, 2 and 3 the other, 4 is in none.
    gold = truth([0, 2, 4], [3], n=5)
    ranking = rank([4, 2, 0, 1], [0, 2, 3, -1])
    group = np.array([0, 0, 1, 1, -1])
    first, second = scores_by_group(
        gold, ranking, ranking, group=group, names=["ab", "cd"], ks=(1, 2)
    )
    assert (first.name, first.labels, first.occurrences, first.documents) == ("ab", 1, 1, 1)
    assert first.values["P@1"] == 1.0  # 0 is the best of its group in document 0, rank 3 overall
    assert first.values["P@2"] == 1 / 2
    assert first.values["MiP"] == 1 / 2  # 0 and 1 were said where 0 was true; document 1 is out
    assert (second.labels, second.documents) == (2, 2)
    assert second.values["P@1"] == (1 + 0) / 2
    assert second.values["R@2"] == 1.0
    assert second.values["MiP"] == 2 / 3


def test_a_group_that_no_document_has_is_left_out(rank, truth):
    scores = scores_by_group(
        truth([0], n=2), rank([0, 1]), None, group=np.array([0, 1]), names=["x", "y"]
    )
    assert [s.name for s in scores] == ["x"]
    assert "MiF" not in scores[0].values


def test_occurrence_groups_have_nearly_equal_totals_and_keep_equal_counts_together():
    # 30 | 15 15 | 10 10 5 5 and one label too rare; 30 of 90 each
    occurrences = np.array([5, 15, 30, 10, 4, 15, 10, 5])
    assert occurrence_groups(occurrences).tolist() == [2, 1, 0, 2, -1, 1, 2, 2]
    # 40 20 | six of 10 | five of 6 and six of 5: 60 of 180 each
    many = np.array([40, 20] + [10] * 6 + [6] * 5 + [5] * 6)
    assert occurrence_groups(many).tolist() == [0, 0] + [1] * 6 + [2] * 11


def test_a_label_with_most_of_all_occurrences_still_leaves_three_groups():
    assert occurrence_groups(np.array([1000, 6, 5])).tolist() == [0, 1, 2]


def test_many_rare_labels_still_leave_three_groups():
    assert occurrence_groups(np.array([7, 6] + [5] * 100)).tolist() == [0, 1] + [2] * 100


def test_fewer_distinct_counts_than_groups_give_fewer_groups():
    assert occurrence_groups(np.array([7, 7, 5, 1])).tolist() == [0, 0, 1, -1]
    assert occurrence_groups(np.array([5, 5, 4])).tolist() == [0, 0, -1]
    assert occurrence_groups(np.array([1, 2])).tolist() == [-1, -1]


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
    said = rank([0, 1], [0, 1], [1, -1], p=[[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    assert auc_and_aupr(gold, said, np.array([0]))[0] == pytest.approx([1 / 2])


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


def test_label_table_has_a_row_for_every_label_met(tmp_path, rank, truth):
    names = ["Cats\tand\ndogs", "Birds", "Worms", "Fish"]
    ontology = Ontology(tuple("abcd"), {"en": names}, csr_array((4, 4), dtype=np.int8))
    labels = LabelSpace(ontology.ids, np.array([12, 3, 0, 7]), 20, ontology)
    gold = truth([0, 4], [0, 3], n=5)  # column 4 is outside the label space
    counts = count_by_label(gold, rank([0, 1], [1, 3]))
    write_label_table(tmp_path / "labels.tsv", labels, counts)
    with (tmp_path / "labels.tsv").open(newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert rows == [
        ["id", "name", "frequency", "gold", "predicted", "tp", "P", "R", "F"],
        ["a", "Cats and dogs", "12", "2", "1", "1", "1.0000", "0.5000", "0.6667"],
        ["b", "Birds", "3", "0", "2", "0", "0.0000", "0.0000", "0.0000"],
        ["d", "Fish", "7", "1", "1", "1", "1.0000", "1.0000", "1.0000"],
    ]
