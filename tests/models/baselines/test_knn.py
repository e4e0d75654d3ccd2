from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from ontodex.errors import RunError
from ontodex.evaluation.ranking import precision, score_documents
from ontodex.models.baselines.knn import KnnConfig, KnnSystem
from ontodex.models.interface import Explains, Updates
from ontodex.types import Corpus, Doc, LabelSpace

TOPICS = {"sea": "wave ship tide", "sky": "cloud wind star", "soil": "root worm clay"}


def corpus(n: int, seed: int) -> Corpus:
    rng = np.random.default_rng(seed)
    docs = []
    for i in range(n):
        topics = rng.choice(list(TOPICS), size=rng.integers(1, 3), replace=False)
        words = [w for t in topics for w in rng.choice(TOPICS[t].split(), 2)] + ["the", "of"]
        docs.append(Doc(str(i), {"text": " ".join(words)}, labels=tuple(topics)))
    return Corpus.of(docs)


TRAIN, DEV, TEST = corpus(80, 0), corpus(30, 1), corpus(30, 2)
LABELS = LabelSpace.of(TRAIN)


@pytest.fixture
def model() -> KnnSystem:
    fitted = KnnSystem(KnnConfig())
    fitted.fit(TRAIN, DEV, LABELS)
    return fitted


def test_votes_equal_the_formula_in_loops():
    model = KnnSystem(KnnConfig(neighbours=7, exponent=2))
    model.fit(TRAIN, DEV.select([]), LABELS)
    train, test = (csr_array(model.features.transform(c)).toarray() for c in (TRAIN, TEST))
    gold = LABELS.gold(TRAIN).toarray()
    ranking = model.rank(TEST, 3)
    for i in range(len(TEST)):
        similarity = {j: float(test[i] @ train[j]) for j in range(len(train))}
        # Documents with equal words tie at the edge of the seven; any of them may vote.
        nearest = sorted(similarity, key=lambda j: -similarity[j])[:7]
        edge = similarity[nearest[-1]]
        if sum(s > edge - 1e-5 for s in similarity.values()) > 7:
            continue
        total = sum(similarity[j] ** 2 for j in nearest)
        for column, probability in zip(ranking.columns[i], ranking.probabilities[i], strict=True):
            votes = sum(similarity[j] ** 2 for j in nearest if gold[j, max(column, 0)])
            assert probability == pytest.approx(votes / total if column >= 0 else 0, abs=1e-5)


def test_dev_chooses_neighbours_and_exponent(model):
    assert (model.neighbours, model.exponent) in {
        (k, p) for k in (5, 10, 20, 40) for p in (1.0, 2.0, 4.0)
    }
    assert score_documents(precision, 1, LABELS.gold(TEST), model.rank(TEST, 1)).mean() > 0.9


def test_settings_win_over_dev():
    model = KnnSystem(KnnConfig(neighbours=3, exponent=1.5))
    model.fit(TRAIN, DEV, LABELS)
    assert (model.neighbours, model.exponent) == (3, 1.5)


def test_one_document_at_a_time_gives_the_same_bits(model):
    together = model.rank(TEST, 3)
    for row in range(len(TEST)):
        alone = model.rank(TEST.select([row]), 3)
        np.testing.assert_array_equal(alone.columns[0], together.columns[row])
        np.testing.assert_array_equal(alone.probabilities[0], together.probabilities[row])


def test_a_document_with_nothing_in_common_gets_no_label(model):
    ranking = model.rank(Corpus.of([Doc("empty", {"text": ""}), Doc("?", {"text": "xyzzy"})]), 2)
    assert np.all(ranking.columns == -1)


def test_new_documents_with_new_labels_are_found_after_an_update(model):
    assert isinstance(model, Updates)
    new = Corpus.of([Doc(f"n{i}", {"text": "cloud ship clay"}, labels=("mix",)) for i in range(50)])
    labels = LabelSpace((*LABELS.ids, "mix"), np.append(LABELS.frequency, 50), 130)
    model.update(new, labels)
    best = model.rank(Corpus.of([Doc("x", {"text": "clay cloud ship"})]), 1)
    assert labels.ids[best.columns[0, 0]] == "mix"


def test_explaining_points_at_words_shared_with_neighbours_that_have_the_label(model):
    assert isinstance(model, Explains)
    doc = Doc("x", {"text": "wave ship worm"})
    weights = {
        doc.text[s.start : s.end]: s.weight for s in model.explain(doc, LABELS.column["sea"])
    }
    assert weights["ship"] > weights.get("worm", 0) >= 0


def test_saved_and_loaded_is_the_same_system(model, tmp_path):
    model.save(tmp_path)
    loaded = KnnSystem.load(tmp_path, LABELS)
    one, two = model.rank(TEST, 3), loaded.rank(TEST, 3)
    np.testing.assert_array_equal(one.columns, two.columns)
    np.testing.assert_array_equal(one.probabilities, two.probabilities)
    with pytest.raises(RunError, match=r"gold.safetensors: tensor 'matrix' has shape"):
        KnnSystem.load(tmp_path, LabelSpace.of(TRAIN.select([0])))


def test_fewer_documents_than_neighbours_are_enough():
    two = TRAIN.select([0, 1])
    labels = LabelSpace.of(two)
    model = KnnSystem(KnnConfig())
    model.fit(two, DEV.select([]), labels)
    assert len(model.rank(TEST, 2)) == len(TEST)


def test_ranking_before_training_is_refused():
    with pytest.raises(RunError, match="before it was trained"):
        KnnSystem(KnnConfig()).rank(TEST, 1)
