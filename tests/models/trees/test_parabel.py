from __future__ import annotations

import numpy as np
import pytest

from ontodex.evaluation.ranking import precision, score_documents
from ontodex.models.interface import Explains
from ontodex.models.trees.parabel import BonsaiConfig, BonsaiSystem, ParabelConfig, ParabelSystem
from ontodex.types import Corpus, Doc, LabelSpace

TOPICS = {f"t{i}": [f"word{i}a", f"word{i}b", f"word{i}c"] for i in range(12)}


def corpus(n: int, seed: int) -> Corpus:
    rng = np.random.default_rng(seed)
    docs = []
    for i in range(n):
        topics = rng.choice(list(TOPICS), size=2, replace=False)
        words = [w for t in topics for w in rng.choice(TOPICS[t], 2)] + ["the", "of"]
        docs.append(Doc(str(i), {"text": " ".join(words)}, labels=tuple(topics)))
    return Corpus.of(docs)


TRAIN, DEV, TEST = corpus(150, 0), corpus(40, 1), corpus(40, 2)
LABELS = LabelSpace.of(TRAIN)


@pytest.fixture(scope="module", params=["parabel", "bonsai"])
def model(request) -> ParabelSystem:
    system: ParabelSystem = (
        ParabelSystem(ParabelConfig(leaf_labels=3))
        if request.param == "parabel"
        else BonsaiSystem(BonsaiConfig(leaf_labels=4, clusters=3))
    )
    system.fit(TRAIN, DEV, LABELS)
    return system


def test_trees_learn_topics_from_words(model):
    assert score_documents(precision, 1, LABELS.gold(TEST), model.rank(TEST, 1)).mean() > 0.95


def test_training_writes_nothing_to_stdout(capfd):
    system = ParabelSystem(ParabelConfig(leaf_labels=3, n_trees=1))
    system.fit(TRAIN.select(range(30)), DEV.select([]), LabelSpace.of(TRAIN.select(range(30))))
    assert capfd.readouterr().out == ""


def test_one_document_at_a_time_gives_the_same_bits(model):
    together = model.rank(TEST, 4)
    for row in range(8):
        alone = model.rank(TEST.select([row]), 4)
        np.testing.assert_array_equal(alone.columns[0], together.columns[row])
        np.testing.assert_array_equal(alone.probabilities[0], together.probabilities[row])


def test_saved_and_loaded_trees_rank_alike(model, tmp_path):
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
    weights = {doc.text[s.start : s.end]: s.weight for s in model.explain(doc, LABELS.column["t3"])}
    assert weights["word3a"] > max(0, weights.get("word7b", 0))


@pytest.mark.parametrize("wrong", [{"beam": 0}, {"clusters": 1}, {"clusters": 101}, {"cost": 0}])
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ParabelConfig(**wrong)
