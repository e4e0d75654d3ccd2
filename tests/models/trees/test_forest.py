from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.sparse import csr_array

from ontodex.errors import RunError
from ontodex.models.trees.forest import Forest


def hand_forest() -> Forest:
    """Root with two leaves; leaf 1 has labels 0 and 1, leaf 2 label 2. Two features and bias."""
    weights = csr_array(
        np.array(
            [[1, 0, 0], [0, 1, 0], [1, 0, -0.5], [0, 0, 0.5], [0, 2, 0]],
            dtype=np.float32,
        )
    )
    first, child = np.array([0, 2, 4, 5]), np.array([1, 2, 0, 1, 2])
    return Forest(weights, first, child, np.array([False, True, True]), np.array([0]))


def test_the_weights_of_a_path_by_hand():
    np.testing.assert_allclose(hand_forest().sum_path_weights(0).toarray(), [[2, 0, -0.5]])
    np.testing.assert_allclose(hand_forest().sum_path_weights(2).toarray(), [[0, 3, 0]])
    assert hand_forest().sum_path_weights(9).nnz == 0


def test_a_saved_forest_is_loaded_as_it_was(tmp_path):
    forest = hand_forest()
    forest.save(tmp_path)
    loaded = Forest.load(tmp_path, n_labels=3, n_features=2)
    np.testing.assert_array_equal(loaded.weights.toarray(), forest.weights.toarray())
    for name in ("first", "child", "is_leaf", "roots"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(forest, name))


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("child", -1, 3),  # a label that does not exist
        ("child", 0, 3),  # a node that does not exist
        ("child", 0, 0),  # the root below itself: a search would not end
        ("first", -1, 6),  # a classifier that does not exist
        ("first", 0, 1),
        ("first", 1, 5),  # a node with fewer than no classifiers
        ("roots", 0, 3),
        ("roots", 0, 1),  # below another root
        ("child", 0, 2),  # a node with two parents, and one without
        ("child", -1, 0),  # a label twice in a tree: its probability could be above 1
    ],
)
def test_a_forest_that_points_outside_itself_is_refused(tmp_path, name, place, value):
    array = getattr(hand_forest(), name).copy()
    array[place] = value
    dataclasses.replace(hand_forest(), **{name: array}).save(tmp_path)
    with pytest.raises(RunError, match="the nodes are not trees over 3 labels"):
        Forest.load(tmp_path, n_labels=3, n_features=2)


def test_a_forest_of_other_features_or_without_roots_is_refused(tmp_path):
    hand_forest().save(tmp_path)
    with pytest.raises(RunError, match=r"has shape \(5, 3\); expected \(classifiers=5, 8\)"):
        Forest.load(tmp_path, n_labels=3, n_features=7)
    dataclasses.replace(hand_forest(), roots=np.empty(0, np.int32)).save(tmp_path)
    with pytest.raises(RunError, match="the nodes are not trees"):
        Forest.load(tmp_path, n_labels=3, n_features=2)
