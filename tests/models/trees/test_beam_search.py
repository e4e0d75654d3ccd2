from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from scipy.sparse import csr_array

from ontodex.features.tfidf import normalise_rows
from ontodex.models.baselines.sparse_rows import add_bias
from ontodex.models.trees import beam_search as module
from ontodex.models.trees import omikuji
from ontodex.models.trees.beam_search import beam_search
from ontodex.models.trees.forest import Forest

# Predictions of omikuji itself, in another process because it writes to stdout.
PREDICT = """
import json, os, sys
answer = os.dup(1)
os.dup2(2, 1)
import omikuji
model = omikuji.Model.load(sys.argv[1])
documents = [[tuple(pair) for pair in doc] for doc in json.load(sys.stdin)]
found = [model.predict(doc, int(sys.argv[2]), 1000) for doc in documents]
os.write(answer, json.dumps(found).encode())
"""
TRAIN = """
import json, sys, omikuji
settings = omikuji.Model.default_hyper_param()
for name, value in json.loads(sys.argv[2]).items():
    setattr(settings, name, value)
omikuji.Model.train_on_data(sys.argv[1], settings).save(sys.argv[3])
"""


def make_data(n: int, n_features: int, n_labels: int, seed: int) -> tuple[csr_array, csr_array]:
    rng = np.random.default_rng(seed)
    values = rng.random((n, n_features)) * (rng.random((n, n_features)) < 0.3)
    gold = np.zeros((n, n_labels), dtype=np.int8)
    for i in range(n):
        labels = rng.choice(n_labels, 2, replace=False)
        gold[i, labels] = 1
        values[i, labels % n_features] += 2
    return normalise_rows(csr_array(values.astype(np.float32))), csr_array(gold)


def pairs(rows: csr_array, i: int) -> list[tuple[int, float]]:
    row = rows[[i]]
    return list(zip(row.indices.tolist(), row.data.tolist(), strict=True))


@pytest.mark.parametrize(
    ("settings", "every_document"),
    [
        ({"n_trees": 2, "min_branch_size": 4}, False),
        ({"n_trees": 2, "min_branch_size": 4}, True),  # a classifier without negatives
        ({"n_trees": 1, "min_branch_size": 12, "cluster_k": 8, "cluster_balanced": False}, False),
        ({"n_trees": 1, "min_branch_size": 100}, False),  # a tree of one leaf
    ],
)
def test_labels_and_scores_are_those_of_omikuji(settings, every_document, tmp_path):
    rows, gold = make_data(80, 20, 24, 0)
    if every_document:
        gold = csr_array(np.maximum(gold.toarray(), np.eye(1, 24, dtype=np.int8)))
    omikuji.write_training_file(rows, gold, tmp_path / "train.txt")
    model = tmp_path / "model"
    command = [sys.executable, "-c", TRAIN, tmp_path / "train.txt", json.dumps(settings), model]
    subprocess.run(command, check=True, capture_output=True)
    predicted = subprocess.run(
        [sys.executable, "-c", PREDICT, model, "3"],
        input=json.dumps([pairs(rows, i) for i in range(80)]).encode(),
        check=True,
        capture_output=True,
    )
    ours = beam_search(omikuji.read_forest(model), add_bias(rows), 24, beam=3).toarray()
    for i, answer in enumerate(json.loads(predicted.stdout)):
        labels = [label for label, _ in answer]
        assert set(labels) == set(np.flatnonzero(ours[i]).tolist())
        np.testing.assert_allclose(ours[i, labels], [score for _, score in answer], atol=1e-6)


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


def test_log_probabilities_add_up_along_the_path_by_hand():
    document = add_bias(csr_array(np.array([[1, 0.5]], dtype=np.float32)))
    # To leaf 1: s = 1, log P = 0. To leaf 2: s = 0.5, log P = -0.25.
    # Label 0: s = 1 - 0.5, label 1: s = 0.5, label 2: s = 2 x 0.5 = 1.
    found = beam_search(hand_forest(), document, 3, beam=2).toarray()
    np.testing.assert_allclose(found, np.exp([[-0.25, -0.25, -0.25]]), rtol=1e-6)


def test_a_narrow_beam_leaves_labels_out():
    document = add_bias(csr_array(np.array([[1, 0.5]], dtype=np.float32)))
    found = beam_search(hand_forest(), document, 3, beam=1)
    assert found.nnz == 1  # one leaf, and one label of it


def test_large_forests_are_searched_node_by_node_with_the_same_bits(monkeypatch):
    rows, gold = make_data(80, 20, 24, 0)
    forest = omikuji.train_forest(rows, gold, {"n_trees": 2, "min_branch_size": 4})
    few = add_bias(rows[:5])  # fewer documents than nodes: all classifiers are scored at once
    at_once = beam_search(forest, few, 24, beam=3)
    monkeypatch.setattr(module, "_FEW_WEIGHTS", 0)
    by_node = beam_search(forest, few, 24, beam=3)
    np.testing.assert_array_equal(by_node.toarray(), at_once.toarray())
