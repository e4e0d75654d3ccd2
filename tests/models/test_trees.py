from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from ontodex.errors import RunError
from ontodex.evaluate.ranking import precision_at
from ontodex.features.tfidf import unit_rows
from ontodex.models import omikuji_trees, trees
from ontodex.models.base import Explains
from ontodex.models.omikuji_trees import Cbor, Forest
from ontodex.models.sparse_rows import with_bias
from ontodex.models.trees import Bonsai, BonsaiConfig, Parabel, ParabelConfig, path_weights, search
from ontodex.types import Corpus, Doc, LabelSpace

# What omikuji itself says, asked in a process of its own because it writes to stdout.
ASK = """
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


def planted(n: int, n_features: int, n_labels: int, seed: int) -> tuple[csr_array, csr_array]:
    rng = np.random.default_rng(seed)
    values = rng.random((n, n_features)) * (rng.random((n, n_features)) < 0.3)
    gold = np.zeros((n, n_labels), dtype=np.int8)
    for i in range(n):
        labels = rng.choice(n_labels, 2, replace=False)
        gold[i, labels] = 1
        values[i, labels % n_features] += 2
    return unit_rows(csr_array(values.astype(np.float32))), csr_array(gold)


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
    rows, gold = planted(80, 20, 24, 0)
    if every_document:
        gold = csr_array(np.maximum(gold.toarray(), np.eye(1, 24, dtype=np.int8)))
    omikuji_trees.write_training_file(rows, gold, tmp_path / "train.txt")
    model = tmp_path / "model"
    command = [sys.executable, "-c", TRAIN, tmp_path / "train.txt", json.dumps(settings), model]
    subprocess.run(command, check=True, capture_output=True)
    asked = subprocess.run(
        [sys.executable, "-c", ASK, model, "3"],
        input=json.dumps([pairs(rows, i) for i in range(80)]).encode(),
        check=True,
        capture_output=True,
    )
    ours = search(omikuji_trees.read_forest(model), with_bias(rows), 24, beam=3).toarray()
    for i, answer in enumerate(json.loads(asked.stdout)):
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
    document = with_bias(csr_array(np.array([[1, 0.5]], dtype=np.float32)))
    # To leaf 1: s = 1, log P = 0. To leaf 2: s = 0.5, log P = -0.25.
    # Label 0: s = 1 - 0.5, label 1: s = 0.5, label 2: s = 2 x 0.5 = 1.
    found = search(hand_forest(), document, 3, beam=2).toarray()
    np.testing.assert_allclose(found, np.exp([[-0.25, -0.25, -0.25]]), rtol=1e-6)


def test_a_narrow_beam_leaves_labels_out():
    document = with_bias(csr_array(np.array([[1, 0.5]], dtype=np.float32)))
    found = search(hand_forest(), document, 3, beam=1)
    assert found.nnz == 1  # one leaf, and one label of it


def test_large_forests_are_searched_node_by_node_with_the_same_bits(model, monkeypatch):
    at_once = model.rank(TEST, 6)
    monkeypatch.setattr(trees, "_FEW_WEIGHTS", 0)
    by_node = model.rank(TEST, 6)
    np.testing.assert_array_equal(by_node.columns, at_once.columns)
    np.testing.assert_array_equal(by_node.probabilities, at_once.probabilities)


def test_the_way_to_a_label_by_hand():
    np.testing.assert_allclose(path_weights(hand_forest(), 0).toarray(), [[2, 0, -0.5]])
    np.testing.assert_allclose(path_weights(hand_forest(), 2).toarray(), [[0, 3, 0]])
    assert path_weights(hand_forest(), 9).nnz == 0


# ------------------------------------------------------------------------------------ whole systems

TOPICS = {f"t{i}": [f"word{i}a", f"word{i}b", f"word{i}c"] for i in range(12)}


def corpus(n: int, seed: int) -> Corpus:
    rng = np.random.default_rng(seed)
    docs = []
    for i in range(n):
        topics = rng.choice(list(TOPICS), size=2, replace=False)
        words = [w for t in topics for w in rng.choice(TOPICS[t], 2)] + ["the", "of"]
        docs.append(Doc(str(i), {"text": " ".join(words)}, labels=tuple(topics)))
    return Corpus.of(docs)


LEARN, DEV, TEST = corpus(150, 0), corpus(40, 1), corpus(40, 2)
LABELS = LabelSpace.of(LEARN)


@pytest.fixture(scope="module", params=["parabel", "bonsai"])
def model(request) -> Parabel:
    system: Parabel = (
        Parabel(ParabelConfig(leaf_labels=3))
        if request.param == "parabel"
        else Bonsai(BonsaiConfig(leaf_labels=4, clusters=3))
    )
    system.fit(LEARN, DEV, LABELS)
    return system


def test_trees_learn_topics_from_words(model):
    assert precision_at(1, LABELS.gold(TEST), model.rank(TEST, 1)).mean() > 0.95


def test_training_writes_nothing_to_stdout(capfd):
    system = Parabel(ParabelConfig(leaf_labels=3, n_trees=1))
    system.fit(LEARN.select(range(30)), DEV.select([]), LabelSpace.of(LEARN.select(range(30))))
    assert capfd.readouterr().out == ""


def test_one_document_at_a_time_gives_the_same_bits(model):
    together = model.rank(TEST, 4)
    for row in range(8):
        alone = model.rank(TEST.select([row]), 4)
        np.testing.assert_array_equal(alone.columns[0], together.columns[row])
        np.testing.assert_array_equal(alone.probabilities[0], together.probabilities[row])


def test_saved_trees_are_ours_and_answer_the_same(model, tmp_path):
    model.save(tmp_path)
    assert not list(tmp_path.rglob("*.cbor"))
    loaded = type(model).load(tmp_path, LABELS)
    one, two = model.rank(TEST, 4), loaded.rank(TEST, 4)
    np.testing.assert_array_equal(one.columns, two.columns)
    np.testing.assert_array_equal(one.probabilities, two.probabilities)


def test_documents_without_words_get_an_answer(model):
    ranking = model.rank(Corpus.of([Doc("empty", {"text": ""}), Doc("?", {"text": "xyzzy"})]), 2)
    np.testing.assert_array_equal(ranking.columns[0], ranking.columns[1])


def test_explaining_points_at_the_words_of_the_label(model):
    assert isinstance(model, Explains)
    doc = Doc("x", {"text": "word3a the word7b"})
    told = {doc.text[s.start : s.end]: s.weight for s in model.explain(doc, LABELS.column["t3"])}
    assert told["word3a"] > max(0, told.get("word7b", 0))


@pytest.mark.parametrize("where", ["child", "first", "roots"])
def test_trees_that_point_outside_themselves_are_refused(model, where, tmp_path):
    import dataclasses

    broken = type(model)(model.config)
    array = np.array(getattr(model.forest, where))
    array[-1] = 10_000
    broken.forest = dataclasses.replace(model.forest, **{where: array})
    broken.features = model.features
    broken.save(tmp_path)
    with pytest.raises(RunError, match="do not fit"):
        type(model).load(tmp_path, LABELS)


def test_a_trainer_that_breaks_off_says_what_it_said():
    rows, gold = planted(30, 10, 24, 0)
    with pytest.raises(RunError, match=r"(?s)omikuji ended with code 1: .*TypeError"):
        omikuji_trees.train(rows, gold, {"n_trees": "three"})


@pytest.mark.parametrize("wrong", [{"beam": 0}, {"clusters": 1}, {"clusters": 101}, {"cost": 0}])
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ParabelConfig(**wrong)


def cbor(text: str) -> bytes:
    return bytes.fromhex(text.replace(" ", ""))


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ("17", 23),
        ("18 64", 100),
        ("19 03e8", 1000),
        ("1a 000f4240", 1_000_000),
        ("1b 000000e8d4a51000", 1_000_000_000_000),
        ("f9 3c00", 1.0),
        ("fa 47c35000", 100_000.0),
        ("fb 3ff199999999999a", 1.1),
        ("a2 61 61 01 61 62 82 61 63 61 64", {"a": 1, "b": ["c", "d"]}),
        ("80", []),
    ],
)
def test_cbor_examples_of_the_standard(data, value):
    assert Cbor(cbor(data)).item() == value


def test_cbor_numbers_of_mixed_length_become_one_array():
    np.testing.assert_array_equal(Cbor(cbor("84 01 18 64 19 03e8 02")).item(), [1, 100, 1000, 2])
    np.testing.assert_array_equal(Cbor(cbor("83 f9 3c00 fa 47c35000 f9 c400")).item(), [1, 1e5, -4])


def test_a_cbor_value_that_omikuji_never_writes_is_named():
    with pytest.raises(RunError, match="type 2"):
        Cbor(cbor("41 00")).item()


def test_the_training_file_leaves_out_documents_without_labels(tmp_path: Path):
    rows = csr_array(np.array([[0.5, 0], [1, 0], [0, 0.25]], dtype=np.float32))
    gold = csr_array(np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0]], dtype=np.int8))
    omikuji_trees.write_training_file(rows, gold, tmp_path / "t.txt")
    assert (tmp_path / "t.txt").read_text() == "2 2 3\n0,2 0:0.5\n1 1:0.25\n"
