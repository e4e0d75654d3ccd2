from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from ontodex.config import build
from ontodex.errors import ConfigError, RunError
from ontodex.models.baselines.kernel import KernelConfig, KernelSystem
from ontodex.models.baselines.landmarks import Equations
from ontodex.models.baselines.neighbours import compute_ndcg
from ontodex.models.baselines.sparse_rows import to_csr
from ontodex.types import Corpus, Doc, LabelSpace

N_FEATURES, LABELS_OF = 12, ("a", "b", "c")


def corpus(n: int, seed: int) -> Corpus:
    """Sparse documents; a label is likely where two of its features meet."""
    random = np.random.default_rng(seed)
    rows = random.random((n, N_FEATURES)) * (random.random((n, N_FEATURES)) < 0.5)
    rows[:, 0] += 0.1  # no document is empty
    has = np.stack([rows[:, 2 * i + 1] * rows[:, 2 * i + 2] > 0.05 for i in range(3)], axis=1)
    has[:, 0] |= ~has.any(axis=1)
    labels = [[name for name, yes in zip(LABELS_OF, row, strict=True) if yes] for row in has]
    return Corpus.of_features(csr_array(rows.astype(np.float32)), labels)


TRAIN, DEV, TEST = corpus(80, 1), corpus(30, 2), corpus(20, 3)
LABELS = LabelSpace.of(TRAIN)
NO_DOCUMENTS = TRAIN.select([])


def fit_kernel(dev: Corpus = NO_DOCUMENTS, **settings: object) -> KernelSystem:
    model = KernelSystem(build(KernelConfig, settings, "model"))
    model.fit(TRAIN, dev, LABELS)
    return model


def scores(model: KernelSystem, documents: Corpus) -> np.ndarray:
    return model.rank(documents, len(LABELS)).scores(len(LABELS)).toarray()


def by_hand(width: float, ridge: float) -> np.ndarray:
    """Return the scores in loops: weigh, scale, compare, solve, add up, clip."""
    train, test = TRAIN.features().toarray(), TEST.features().toarray()
    counts = (train > 0).sum(axis=0)
    weigh = np.sqrt(1 + np.log(81 / (1 + counts)))

    def compare(one: np.ndarray, other: np.ndarray) -> float:
        one, other = one * weigh, other * weigh
        cosine = one @ other / (np.linalg.norm(one) * np.linalg.norm(other))
        return float(np.exp(width * (cosine - 1)))

    kernel = np.array([[compare(x, z) for z in train] for x in train])
    gold = LABELS.gold(TRAIN).toarray()
    weights = np.linalg.inv(kernel + ridge * np.eye(80)) @ gold
    found = [[sum(compare(x, z) * w for z, w in zip(train, column, strict=True))
                for column in weights.T] for x in test]  # fmt: skip
    return np.clip(found, 0, 1)


@pytest.mark.parametrize(("width", "ridge"), [(2.0, 0.3), (0.5, 1.0), (6.0, 0.05)])
def test_the_formula_in_loops(width, ridge):
    found = scores(fit_kernel(width=width, ridge=ridge), TEST)
    np.testing.assert_allclose(found, by_hand(width, ridge), atol=2e-4)


def test_landmarks_that_are_all_documents_are_no_approximation():
    model = fit_kernel(ridge=0.3)
    exact = model.weights
    rows = to_csr(model.features.transform(TRAIN))
    kernel, gold = (
        model._require_landmarks().compute_kernel(rows).astype(np.float64),
        LABELS.gold(TRAIN).toarray(),
    )
    nystroem = Equations(kernel.T @ kernel, kernel, kernel.T @ gold).factorise(0.3).solve()
    np.testing.assert_allclose(kernel @ nystroem, kernel @ exact, atol=1e-3)


def test_leave_one_out_predictions_in_a_loop():
    model = fit_kernel(ridge=0.3)
    equations = model._build_equations(TRAIN, LABELS)
    found = equations.factorise(0.3).predict_left_out(model.weights)
    for row in range(0, 80, 7):
        kept = np.delete(np.arange(80), row)
        kernel, gold = equations.left[np.ix_(kept, kept)], equations.right[kept]
        weights = np.linalg.solve(kernel + 0.3 * np.eye(79), gold)
        np.testing.assert_allclose(found[row], equations.left[row, kept] @ weights, atol=1e-4)


def test_half_of_the_documents_as_landmarks_come_close():
    few, all_of_them = fit_kernel(ridge=0.3, landmarks=40), fit_kernel(ridge=0.3)
    assert len(few._require_landmarks()) == len(few.weights) == 40
    error = np.abs(scores(few, TEST) - scores(all_of_them, TEST))
    assert error.mean() < 0.1
    other = scores(fit_kernel(ridge=0.3, landmarks=40, seed=2), TEST)
    assert not np.array_equal(scores(few, TEST), other)


def test_blocks_of_documents_give_the_weights_of_all_at_once(monkeypatch):
    whole = fit_kernel(ridge=0.3, landmarks=40).weights
    monkeypatch.setattr("ontodex.models.baselines.landmarks._BLOCK_SIMILARITIES", 7 * 40)
    np.testing.assert_allclose(fit_kernel(ridge=0.3, landmarks=40).weights, whole, atol=1e-3)


def test_dev_chooses_the_ridge():
    chosen = fit_kernel(dev=DEV)
    gold = LABELS.gold(DEV)
    assert chosen.ridge in (0.1, 0.3, 1.0, 3.0)
    scores_by_ridge = {
        r: compute_ndcg(gold, fit_kernel(ridge=r)._rank(DEV, 5)) for r in (0.1, 0.3, 1.0, 3.0)
    }
    assert scores_by_ridge[chosen.ridge] == max(scores_by_ridge.values())
    assert fit_kernel().ridge == 0.3  # the default without dev


def test_a_refit_keeps_ridge_and_calibration_and_learns_from_more():
    model = fit_kernel(dev=DEV)
    ridge, calibration = model.ridge, model.calibration
    model.refit(TRAIN.join(DEV), LABELS)
    assert (model.ridge, model.calibration) == (ridge, calibration)
    assert len(model.weights) == 110


def test_words_are_weighted_by_their_gradient():
    texts = ["river trout", "river bank", "oak leaf", "oak bark river"]
    labels = [("water",), ("water",), ("trees",), ("trees",)]
    docs = [
        Doc(str(i), {"text": t}, (), y) for i, (t, y) in enumerate(zip(texts, labels, strict=True))
    ]
    train = Corpus.of(docs)
    space = LabelSpace.of(train)
    model = KernelSystem(build(KernelConfig, {"min_df": 1, "ridge": 0.1}, "model"))
    model.fit(train, train.select([]), space)
    doc = Doc("new", {"text": "river oak"})
    found = {doc.text[s.start : s.end]: s.weight for s in model.explain(doc, space.column["water"])}
    assert found["river"] > 0 > found["oak"]
    # Against finite differences of the score in the value of a word, the others held.
    row = model.features.transform(Corpus.of([doc])).toarray()[0].astype(np.float64)
    memory, weights = (
        model._require_landmarks().rows.toarray(),
        model.weights[:, space.column["water"]],
    )

    def score(x: np.ndarray) -> float:
        return float(np.exp(2.0 * (memory @ x - 1)) @ weights)

    for word, weight in found.items():
        [column] = [c for c in range(len(row)) if model.features.name_columns([c]) == [word]]
        step = np.zeros_like(row)
        step[column] = 1e-4
        slope = (score(row + step) - score(row - step)) / 2e-4
        assert weight == pytest.approx(row[column] * slope, rel=1e-3)


def test_settings_and_files_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="width must be above 0"):
        build(KernelConfig, {"width": 0.0}, "model")
    with pytest.raises(RunError, match="before it was trained"):
        KernelSystem(KernelConfig()).save(tmp_path)
    fit_kernel().save(tmp_path)
    few = LabelSpace(LABELS.ids[:2], np.ones(2, np.int64), 2)
    with pytest.raises(RunError, match=r"landmarks.safetensors: tensor 'weights' has shape"):
        KernelSystem.load(tmp_path, few)
