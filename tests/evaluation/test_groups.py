"""Metrics of groups of labels by hand."""

from __future__ import annotations

import numpy as np

from ontodex.evaluation.groups import bin_frequencies, score_groups


def test_frequency_bins_have_readable_names():
    bins, names = bin_frequencies([0, 1, 9, 10, 99, 100, 999, 1000, 50_000])
    assert bins.tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert names == ["0", "1 to 9", "10 to 99", "100 to 999", "1,000 or more"]
    assert bin_frequencies([4, 5, 6], lower=(0, 5, 6))[1] == ["0 to 4", "5", "6 or more"]


def test_a_group_is_measured_as_if_its_labels_were_all_there_are(rank, truth):
    # Labels 0 and 1 are one group, 2 and 3 the other, 4 is in none.
    gold = truth([0, 2, 4], [3], n=5)
    ranking = rank([4, 2, 0, 1], [0, 2, 3, -1])
    group = np.array([0, 0, 1, 1, -1])
    first, second = score_groups(gold, ranking, ranking, group=group, names=["ab", "cd"], ks=(1, 2))
    assert (first.name, first.labels, first.occurrences, first.documents) == ("ab", 1, 1, 1)
    assert first.values["P@1"] == 1.0  # 0 is the best of its group in document 0, rank 3 overall
    assert first.values["P@2"] == 1 / 2
    assert first.values["MiP"] == 1 / 2  # 0 and 1 are predicted, 0 is true; document 1 is out
    assert (second.labels, second.documents) == (2, 2)
    assert second.values["P@1"] == (1 + 0) / 2
    assert second.values["R@2"] == 1.0
    assert second.values["MiP"] == 2 / 3


def test_a_group_that_no_document_has_is_left_out(rank, truth):
    scores = score_groups(
        truth([0], n=2), rank([0, 1]), None, group=np.array([0, 1]), names=["x", "y"]
    )
    assert [s.name for s in scores] == ["x"]
    assert "MiF" not in scores[0].values
