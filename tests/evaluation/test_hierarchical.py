"""A little tree: 0 animal > 1 mammal > 2 cat, 3 dog; 4 plant > 5 rose."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from ontodex.evaluation.hierarchical import find_near_misses, hierarchical_metrics


@pytest.fixture
def ancestors():
    matrix = np.zeros((6, 6), dtype=np.int8)
    for label, up in {1: [0], 2: [0, 1], 3: [0, 1], 5: [4]}.items():
        matrix[label, up] = 1
    return csr_array(matrix)


def test_a_sibling_shares_the_branch_above(rank, truth, ancestors):
    # true: cat mammal animal; predicted: dog mammal animal: two of three
    values = hierarchical_metrics(truth([2], n=6), rank([3]), ancestors)
    assert values["hMiP"] == values["hMiR"] == values["hMiF"] == pytest.approx(2 / 3)


def test_too_general_is_precise_and_too_special_recalls(rank, truth, ancestors):
    general = hierarchical_metrics(truth([2], n=6), rank([1]), ancestors)
    assert (general["hMiP"], general["hMiR"]) == pytest.approx((1, 2 / 3))
    special = hierarchical_metrics(truth([1], n=6), rank([2]), ancestors)
    assert (special["hMiP"], special["hMiR"]) == pytest.approx((2 / 3, 1))


def test_shared_ancestors_count_once_and_means_are_over_documents(rank, truth, ancestors):
    gold, predicted = truth([2, 3], [5], n=6), rank([2, -1], [0, 5])
    values = hierarchical_metrics(gold, predicted, ancestors)
    # 0: 3 of 3 right, 3 of 4 found; 1: rose plant of animal rose plant, 2 of 2 found
    assert values["hMiP"] == pytest.approx(5 / 6)
    assert values["hMiR"] == pytest.approx(5 / 6)
    assert values["hMaP"] == pytest.approx((1 + 2 / 3) / 2)
    assert values["hMaR"] == pytest.approx((3 / 4 + 1) / 2)


def test_near_misses_are_above_or_below_a_true_label_and_never_hits(rank, truth, ancestors):
    gold = truth([1], [2, 1], n=6)
    predicted = rank([1, 2, 0, 5, 3], [1, 0, 3, 4, -1])
    assert find_near_misses(gold, predicted, ancestors).tolist() == [
        [False, True, True, False, True],
        [False, True, True, False, False],  # dog is no relative of cat, but it is below mammal
    ]


def test_a_sibling_alone_is_no_near_miss(rank, truth, ancestors):
    assert not find_near_misses(truth([2], n=6), rank([3]), ancestors).any()


def test_labels_outside_the_ontology_have_no_ancestors(rank, truth, ancestors):
    values = hierarchical_metrics(truth([2, 7], n=8), rank([2]), ancestors)
    assert (values["hMiP"], values["hMiR"]) == pytest.approx((1, 3 / 4))
    assert not find_near_misses(truth([7], n=8), rank([6]), ancestors).any()
    with pytest.raises(ValueError, match="ancestors of 6 labels, gold has 3 columns"):
        find_near_misses(truth([2], n=3), rank([1]), ancestors)
