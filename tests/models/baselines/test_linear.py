from __future__ import annotations

import dataclasses
import mmap

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from ontodex.errors import DataError, RunError
from ontodex.evaluation.ranking import precision, score_documents
from ontodex.models.baselines import linear
from ontodex.models.baselines.linear import LinearConfig, LinearSystem, fit_classifiers
from ontodex.models.interface import Explains
from ontodex.types import Corpus, Doc, LabelSpace

WORDS = {"sea": "wave ship tide", "sky": "cloud wind star", "soil": "root worm clay"}


def corpus(n: int, seed: int) -> Corpus:
    rng = np.random.default_rng(seed)
    docs = []
    for i in range(n):
        topics = rng.choice(list(WORDS), size=rng.integers(1, 3), replace=False)
        words = [w for t in topics for w in rng.choice(WORDS[t].split(), 2)] + ["the", "of"]
        docs.append(Doc(str(i), {"text": " ".join(words)}, labels=tuple(topics)))
    return Corpus.of(docs)


TRAIN, DEV, TEST = corpus(80, 0), corpus(30, 1), corpus(30, 2)
LABELS = LabelSpace.of(TRAIN)


@pytest.fixture(scope="module")
def model() -> LinearSystem:
    fitted = LinearSystem(LinearConfig())
    fitted.fit(TRAIN, DEV, LABELS)
    return fitted


def make_data(n: int, n_features: int, n_labels: int, seed: int) -> tuple[csr_array, csr_array]:
    """Return unit rows and labels that depend on one feature each, with some noise."""
    rng = np.random.default_rng(seed)
    rows = random_array((n, n_features), density=0.1, format="csr", rng=rng, dtype=np.float32)
    rows = csr_array(rows / np.maximum(np.sqrt((rows**2).sum(axis=1)), 1e-9)[:, None])
    gold = (rows[:, :n_labels].toarray() > 0.25) | (rng.random((n, n_labels)) < 0.01)
    return csr_array(rows.astype(np.float32)), csr_array(gold.astype(np.int8))


def objective(rows: csr_array, has: np.ndarray, w: np.ndarray) -> float:
    """Return the objective of liblinear: half the squared length plus squared hinge losses."""
    margins = np.where(has, 1, -1) * (rows @ w[:-1] + w[-1])
    return float(w @ w / 2 + (np.maximum(0, 1 - margins) ** 2).sum())


def test_active_sets_find_the_solution_of_liblinear_on_all_documents(monkeypatch):
    from sklearn.svm import LinearSVC

    monkeypatch.setattr(linear, "_SMALL", 0)
    monkeypatch.setattr(linear, "_FIRST_NEGATIVES", 20)  # of 1,000, so that rounds are needed
    monkeypatch.setattr(linear, "_RANDOM_NEGATIVES", 20)
    rows, gold = make_data(1_000, 100, 4, 0)
    weights = fit_classifiers(rows, gold, LinearConfig(prune=0, workers=1)).toarray().T
    for label in range(gold.shape[1]):
        has = gold[:, [label]].toarray()[:, 0].astype(bool)
        full = LinearSVC(C=1, tol=0.1, dual=True, random_state=0).fit(rows, has)
        best = np.append(full.coef_[0], full.intercept_[0])
        assert objective(rows, has, weights[label]) < 1.05 * objective(rows, has, best)
        cosine = best @ weights[label] / np.linalg.norm(best) / np.linalg.norm(weights[label])
        assert cosine > 0.99


def test_the_first_active_sets_are_no_larger_than_they_must_be(monkeypatch):
    """As many documents without the label as with it, at least 20, and 20 random ones."""
    monkeypatch.setattr(linear, "_FIRST_NEGATIVES", 20)
    monkeypatch.setattr(linear, "_RANDOM_NEGATIVES", 20)
    rows, gold = make_data(1_000, 100, 4, 0)
    has = gold.toarray().T.astype(bool)
    active = linear._select_first(rows, gold, has, LinearConfig())
    assert active[has].all()
    counts, positives = active.sum(axis=1), has.sum(axis=1)
    assert (counts >= positives + np.maximum(positives, 20)).all()
    assert (counts <= positives + np.maximum(positives, 20) + 20).all()


def test_training_never_converts_the_documents_to_columns(monkeypatch):
    """It would take as long as scoring them for every job of labels."""
    monkeypatch.setattr(linear, "_SMALL", 0)
    rows, gold = make_data(300, 40, 4, 0)
    converted, convert = [], csr_array.tocsc

    def note(matrix, *args, **kwargs):
        converted.append(matrix.shape)
        return convert(matrix, *args, **kwargs)

    monkeypatch.setattr(csr_array, "tocsc", note)
    fit_classifiers(rows, gold, LinearConfig(workers=1))
    assert converted == [gold.shape]


def test_scores_are_weights_times_values_plus_the_bias_in_loops(model):
    rows = csr_array(model.features.transform(TEST))
    ranking = model._rank(TEST, len(LABELS))
    for i in range(3):
        for column, probability in zip(ranking.columns[i], ranking.probabilities[i], strict=True):
            w = model.weights[:, [column]].toarray()[:, 0]
            score = w[-1]
            for feature, value in zip(rows[[i]].indices, rows[[i]].data, strict=True):
                score += w[feature] * value
            assert probability == pytest.approx(1 / (1 + np.exp(-2 * score)), rel=1e-5)


def test_it_learns_topics_from_words(model):
    assert score_documents(precision, 1, LABELS.gold(TEST), model.rank(TEST, 1)).mean() > 0.95


@pytest.mark.parametrize("small", [0, linear._SMALL])  # with active sets, and without
def test_permuted_columns_permute_the_classifiers(monkeypatch, small):
    monkeypatch.setattr(linear, "_SMALL", small)
    monkeypatch.setattr(linear, "_FIRST_NEGATIVES", 20)
    monkeypatch.setattr(linear, "_RANDOM_NEGATIVES", 20)
    rows, gold = make_data(200, 50, 8, 3)
    order = np.random.default_rng(0).permutation(8)
    config = LinearConfig(workers=1)
    original = fit_classifiers(rows, gold, config)
    permuted = fit_classifiers(rows, csr_array(gold[:, order]), config)
    np.testing.assert_array_equal(permuted.toarray(), original.toarray()[:, order])


def test_active_sets_grow_by_the_worst_documents_and_at_most_double():
    score = np.array([-0.5, 2.0, -3.0, 0.5, 0.9, -0.95], dtype=np.float32)
    active = np.array([True, False, False, False, False, True])
    assert linear._add_missing(active, score)  # documents 1, 3 and 4 are missing; two may join
    assert active.tolist() == [True, True, False, False, True, True]
    assert linear._add_missing(active, score)
    assert active.tolist() == [True, True, False, True, True, True]
    assert not linear._add_missing(active, score)  # the others are outside the margin


@pytest.mark.slow
def test_several_processes_learn_the_same_bits_as_one(monkeypatch):
    monkeypatch.setattr(linear, "_JOB_LABELS", 3)
    rows, gold = make_data(200, 50, 8, 4)
    one = fit_classifiers(rows, gold, LinearConfig(workers=1))
    two = fit_classifiers(rows, gold, LinearConfig(workers=2))
    np.testing.assert_array_equal(one.toarray(), two.toarray())


def test_pruned_weights_are_gone_and_the_bias_stays():
    rows, gold = make_data(200, 50, 4, 5)
    full = fit_classifiers(rows, gold, LinearConfig(prune=0, workers=1)).toarray().T
    pruned = fit_classifiers(rows, gold, LinearConfig(prune=0.3, workers=1)).toarray().T
    np.testing.assert_array_equal(pruned[:, :-1], np.where(np.abs(full) < 0.3, 0, full)[:, :-1])
    np.testing.assert_array_equal(pruned[:, -1], full[:, -1])


def test_a_label_of_every_document_is_always_first():
    docs = Corpus.of([Doc(d.id, d.fields, labels=(*d.labels, "all")) for d in TRAIN])
    labels = LabelSpace.of(docs)
    model = LinearSystem(LinearConfig())
    model.fit(docs, docs.select([]), labels)
    ranking = model.rank(TEST, len(labels))
    scores = ranking.scores(len(labels)).toarray()[:, labels.column["all"]]
    np.testing.assert_allclose(scores, 1 / (1 + np.exp(-2)), rtol=1e-6)


def test_explaining_points_at_the_words_of_the_label(model):
    doc = Doc("x", {"title": "Ship ahoy", "text": "the worm and the ship"})
    assert isinstance(model, Explains)
    spans = model.explain(doc, LABELS.column["sea"])
    weights = {(doc.text[s.start : s.end]): s.weight for s in spans}
    assert weights["Ship"] > 0 > weights["worm"]
    assert [s.start for s in spans] == sorted(s.start for s in spans)


def test_the_spans_of_an_explanation_add_up_to_the_score(model):
    doc = Doc("x", {"text": "ship ship worm of the tide"})
    column = LABELS.column["sea"]
    bias = model.weights[[-1], [column]][0]
    score = bias + sum(span.weight for span in model.explain(doc, column))
    ranking = model._rank(Corpus.of([doc]), len(LABELS))
    (probability,) = ranking.probabilities[ranking.columns == column]
    assert probability == pytest.approx(1 / (1 + np.exp(-2 * score)), rel=1e-5)


def test_calibration_keeps_the_order(model):
    raw, calibrated = model._rank(TEST, 3), model.rank(TEST, 3)
    np.testing.assert_array_equal(raw.columns, calibrated.columns)
    assert len(model.calibration.scores) > 0


def is_mapped(array: object) -> bool:
    """Return True if some array below this view is a memory map."""
    while array is not None and not isinstance(array, np.memmap | mmap.mmap):
        array = getattr(array, "base", None)
    return array is not None


def test_it_is_saved_without_a_pickle_and_loaded_from_a_memory_map(model, tmp_path):
    model.save(tmp_path)
    loaded = LinearSystem.load(tmp_path, LABELS)
    assert is_mapped(loaded.weights.data)
    assert is_mapped(loaded.weights.indices)
    one, two = model.rank(TEST, 3), loaded.rank(TEST, 3)
    np.testing.assert_array_equal(one.columns, two.columns)
    np.testing.assert_array_equal(one.probabilities, two.probabilities)


def test_training_without_any_label_is_refused():
    bare = Corpus.of([Doc("1", {"text": "wave"})])
    with pytest.raises(DataError, match="no training document has a label"):
        LinearSystem(LinearConfig(min_df=1)).fit(bare, bare, LabelSpace.of(bare))


def test_weights_that_are_not_finite_are_refused(model, tmp_path):
    broken = LinearSystem(model.config)
    weights = model.weights.copy()
    weights.data[0] = np.nan
    broken.weights, broken.features = weights, model.features
    broken.save(tmp_path)
    with pytest.raises(RunError, match="finite"):
        LinearSystem.load(tmp_path, LABELS)


def test_weights_for_other_labels_are_refused(model, tmp_path):
    model.save(tmp_path)
    with pytest.raises(RunError, match=r"weights.safetensors: tensor 'matrix' has shape"):
        LinearSystem.load(tmp_path, LabelSpace.of(TRAIN.select([0])))


@pytest.mark.parametrize("wrong", [{"cost": 0}, {"prune": -1}, {"workers": -1}, {"min_df": 0}])
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        dataclasses.replace(LinearConfig(), **wrong)


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_features_of_any_kind_are_learned(kind):
    def doc(i: int) -> Doc:
        values = {i % 3: 1.0, 3: 0.5}
        features = values if kind == "sparse" else tuple(values.get(f, 0.0) for f in range(4))
        return Doc(str(i), features=features, labels=(f"t{i % 3}",))

    docs = Corpus.of([doc(i) for i in range(30)], n_features=4)
    labels = LabelSpace.of(docs)
    model = LinearSystem(LinearConfig())
    model.fit(docs, docs, labels)
    assert score_documents(precision, 1, labels.gold(docs), model.rank(docs, 1)).mean() == 1


def test_the_primal_solver_is_used_where_the_dual_does_not_converge():
    """Half of all documents at random, with values up to 30: no warning (they are errors here), and
    a solution where the gradient is nearly 0."""
    from sklearn.svm import LinearSVC

    from ontodex.models.baselines.linear import _run_liblinear

    rng = np.random.default_rng(0)
    rows = csr_array(np.where(rng.random((1500, 200)) < 0.1, 30 * rng.random((1500, 200)), 0))
    targets = rng.random(1500) < 0.5
    solver = _run_liblinear(rows, targets, LinearConfig(), LinearSVC)
    assert not solver.dual
    sign = np.where(targets, 1.0, -1.0)
    slack = np.maximum(0, 1 - sign * solver.decision_function(rows)) * sign
    gradient = solver.coef_[0] - 2 * rows.T @ slack
    start = 2 * rows.T @ sign
    assert np.linalg.norm(gradient) < 0.02 * np.linalg.norm(start)
