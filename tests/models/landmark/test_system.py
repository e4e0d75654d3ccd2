"""`landmark`: kernel regression onto label vectors, against its formula."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from topic_documents import DEV, LABELS, TEST, TOPICS, TRAIN

from ontodex.config import build
from ontodex.evaluation.ranking import precision, score_documents
from ontodex.features.label_graph import compute_label_vectors
from ontodex.models.dxml.targets import average_label_vectors, whiten_vectors
from ontodex.models.landmark.system import LandmarkSystem, LandmarkSystemConfig
from ontodex.types import Corpus, Doc, LabelSpace

SMALL = {"label_size": 8, "walk_passes": 1}


def fit_landmark(**more: object) -> LandmarkSystem:
    model = LandmarkSystem(build(LandmarkSystemConfig, {**SMALL, **more}, "model"))
    model.fit(TRAIN, DEV, LABELS)
    return model


def unit(f: np.ndarray) -> np.ndarray:
    return f / np.linalg.norm(f, axis=1, keepdims=True)


def test_the_embedding_is_the_regression_of_the_formula():
    model = fit_landmark()
    ridge, share = model.chosen.ridge, model.chosen.share
    assert ridge in (0.1, 0.3, 1.0, 3.0)
    assert share in (0.0, 0.25, 0.5)
    train, test = (model.features.transform(c).toarray() for c in (TRAIN, TEST))  # unit rows
    kernel = np.exp(2 * (train @ train.T - 1)) + ridge * np.eye(80)
    vectors = whiten_vectors(compute_label_vectors(TRAIN, LABELS, model.config), LABELS.frequency)
    targets = average_label_vectors(model.gold, vectors)
    weights = np.linalg.solve(kernel, targets)

    expected = unit(np.exp(2 * (test @ train.T - 1)) @ weights)
    np.testing.assert_allclose(model.embed(TEST), expected, atol=1e-3)
    left_out = unit(targets - weights / np.diag(np.linalg.inv(kernel))[:, None])
    expected = unit((1 - share) * left_out + share * targets)
    np.testing.assert_allclose(model.memory.vectors, expected, atol=2e-3)


def test_leave_one_out_predictions_choose_the_best_settings():
    """Against every choice in a loop, with labels that are often wrong, so that choices differ."""
    random = np.random.default_rng(3)
    topics = list(TOPICS)
    wrong = [tuple(random.choice(topics, 1)) if random.random() < 0.4 else () for _ in TRAIN]
    noisy = Corpus.of(
        [Doc(d.id, d.fields, labels=w or d.labels) for d, w in zip(TRAIN, wrong, strict=True)]
    )
    labels = LabelSpace.of(noisy)
    config = build(LandmarkSystemConfig, SMALL, "model")
    model = LandmarkSystem(config)
    model.fit(noisy, DEV, labels)
    rows = model.features.transform(noisy).toarray()
    vectors = whiten_vectors(compute_label_vectors(noisy, labels, config), labels.frequency)
    targets = average_label_vectors(model.gold, vectors)
    gold = labels.gold(noisy).toarray()[:, : len(labels)]
    kernel = np.exp(2 * (rows @ rows.T - 1))

    def evaluate(ridge: float, share: float, k: int, exponent: float) -> float:
        inverse = np.linalg.inv(kernel + ridge * np.eye(80))
        predicted = unit(targets - inverse @ targets / np.diag(inverse)[:, None])
        memory = unit((1 - share) * predicted + share * targets)
        total = 0.0
        for own in range(80):
            similarity = memory @ predicted[own]
            similarity[own] = -np.inf
            near = np.argsort(-similarity, kind="stable")[: min(k, 79)]
            votes = np.maximum(similarity[near], 0) ** exponent @ gold[near]
            best = np.argsort(-votes, kind="stable")[:5]
            gains = 1 / np.log2(np.arange(2, 7))
            total += gold[own][best] @ gains[: len(best)] / gains[: gold[own].sum()].sum()
        return total / 80

    chosen = (
        model.chosen.ridge, model.chosen.share, model.chosen.neighbours, model.chosen.exponent
    )  # fmt: skip
    others = product((0.1, 0.3, 1.0, 3.0), (0.0, 0.25, 0.5), (10, 20, 40), (0.0, 5.0, 20.0))
    scores = [evaluate(*other) for other in others]
    assert evaluate(*chosen) >= max(scores) - 0.005
    assert evaluate(*chosen) > np.median(scores)


def test_fewer_landmarks_than_documents_do_as_well():
    few = fit_landmark(landmarks=40, ridge=0.1)
    assert len(few.landmarks) == 40
    assert len(few.memory) == 80
    found = score_documents(precision, 1, LABELS.gold(TEST), few.rank(TEST, 1))
    assert float(found.mean()) > 0.9


def test_settings_win_over_the_choices():
    chosen = fit_landmark(neighbours=7, exponent=3.0, ridge=0.5).chosen
    assert (chosen.neighbours, chosen.exponent) == (7, 3.0)
    assert chosen.ridge == pytest.approx(0.5)
