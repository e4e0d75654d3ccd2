"""Set metrics by hand."""

from __future__ import annotations

import numpy as np
import pytest

from ontodex.evaluation.sets import (
    compute_threshold_curve,
    count_by_document,
    count_by_label,
    micro,
    set_metrics,
)


@pytest.fixture
def three(rank, truth):
    """Document 0: 2 of 3 right, 2 of 2 found; document 1: 1 of 1, 1 of 4; document 2: no
    label predicted."""
    gold = truth([0, 1], [0, 1, 2, 3], [4], n=5)
    return gold, rank([0, 4, 1], [3, -1, -1], [-1, -1, -1])


def test_micro_metrics_sum_over_all_documents(three):
    values = set_metrics(*three)
    assert values["MiP"] == pytest.approx(3 / 4)
    assert values["MiR"] == pytest.approx(3 / 7)
    assert values["MiF"] == pytest.approx(2 * 3 / (4 + 7))


def test_macro_metrics_are_means_over_documents_and_maf_is_of_those_means(three):
    """Deep Level-wise XMLC, Eq. 10; the document with no predicted label has precision 0."""
    values = set_metrics(*three)
    precision, recall = (2 / 3 + 1 + 0) / 3, (1 + 1 / 4 + 0) / 3
    assert values["MaP"] == pytest.approx(precision)
    assert values["MaR"] == pytest.approx(recall)
    assert values["MaF"] == pytest.approx(2 * precision * recall / (precision + recall))


def test_example_f_is_the_mean_of_the_documents_f(three):
    assert set_metrics(*three)["exampleF"] == pytest.approx((4 / 5 + 2 / 5 + 0) / 3)


def test_label_f_is_the_mean_over_labels_that_are_true_or_predicted(rank, truth):
    # label 0: 1 of 2 found, F 2/3; 1: F 1; 2: predicted and wrong, 0; 3: missed, 0; 4: nowhere
    gold = truth([0, 1, 3], [0], n=5)
    label_sets = rank([0, 1], [2, -1])
    assert set_metrics(gold, label_sets)["labelF"] == pytest.approx((2 / 3 + 1 + 0 + 0) / 4)


def test_counts_by_document_and_by_label(three):
    by_document, by_label = count_by_document(*three), count_by_label(*three)
    assert by_document.hit.tolist() == [2, 1, 0]
    assert by_document.predicted.tolist() == [3, 1, 0]
    assert by_document.gold.tolist() == [2, 4, 1]
    assert by_label.hit.tolist() == [1, 1, 0, 1, 0]
    assert by_label.predicted.tolist() == [1, 1, 0, 1, 1]
    assert by_label.gold.tolist() == [2, 2, 1, 1, 1]
    assert micro(by_document) == micro(by_label)


def test_empty_sets_are_zero_everywhere(rank, truth):
    values = set_metrics(truth([0], [1], n=2), rank([-1], [-1]))
    assert set(values.values()) == {0.0}


def test_the_exact_labels_are_one_everywhere(rank, truth):
    values = set_metrics(truth([0, 1], [1], n=2), rank([0, 1], [1, -1]))
    assert set(values.values()) == {1.0}


def test_threshold_curve_counts_labels_at_or_above_each_threshold(rank, truth):
    gold = truth([0, 1], [2], n=4)
    ranking = rank([0, 3, 1], [2, 3, -1], p=[[1.0, 0.5, 0.25], [0.5, 0.0, 0.0]])
    curve = compute_threshold_curve(gold, ranking, steps=4)
    assert curve.threshold == pytest.approx([0, 0.25, 0.5, 0.75, 1])
    assert curve.predicted.tolist() == [5, 4, 3, 1, 1]
    assert curve.precision == pytest.approx([3 / 5, 3 / 4, 2 / 3, 1, 1])
    assert curve.recall == pytest.approx([1, 1, 2 / 3, 1 / 3, 1 / 3])
    assert curve.f == pytest.approx([6 / 8, 6 / 7, 4 / 6, 2 / 4, 2 / 4])


def test_threshold_curve_reaches_only_the_recall_of_the_ranking(rank, truth):
    curve = compute_threshold_curve(truth([0, 1, 2], n=3), rank([0]))
    assert curve.recall[0] == pytest.approx(1 / 3)
    assert np.all(np.diff(curve.recall) <= 0)
