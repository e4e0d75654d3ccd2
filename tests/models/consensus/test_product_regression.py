"""Logistic regression on products of features."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from ontodex.models.consensus import product_regression
from ontodex.models.consensus.product_regression import ProductRegression

RNG = np.random.default_rng(5)
# Right where both features are on the same side of their mean: no weight of one feature says it.
POINTS = np.array([[0.0, 10.0], [0.0, 30.0], [4.0, 10.0], [4.0, 30.0]] * 10)
SAME_SIDE = np.array([True, False, False, True] * 10)


def test_a_product_says_what_no_feature_says_alone():
    p = ProductRegression.fit(POINTS, SAME_SIDE, l2=0.1).predict(POINTS)
    assert p[SAME_SIDE].min() > 0.9
    assert p[~SAME_SIDE].max() < 0.1


def test_the_fit_minimises_the_penalised_log_loss():
    features = RNG.normal(size=(40, 2)) * [1, 50] + [0, 200]
    right = RNG.random(40) < expit(features[:, 0])
    model = ProductRegression.fit(features, right, l2=2.0)

    def compute_loss(weights):
        """Sum by hand over x, y, x x, x y, y y and the bias."""
        total = 0.0
        for (a, b), is_right in zip(features, right, strict=True):
            x, y = (np.array([a, b]) - features.mean(axis=0)) / (features.std(axis=0) + 1e-6)
            p = expit(np.dot(weights, [x, y, x * x, x * y, y * y, 1]))
            total -= np.log(p if is_right else 1 - p)
        return total + 2.0 / 2 * np.dot(weights, weights)

    least = compute_loss(model.weights)
    for step in np.vstack([np.eye(6), -np.eye(6)]) * 0.01:
        assert compute_loss(model.weights + step) > least


def test_features_outside_the_training_range_count_as_its_ends():
    model = ProductRegression.fit(POINTS, SAME_SIDE, l2=0.1)
    far, near = np.array([[-100.0, 500.0]]), np.array([[0.0, 30.0]])
    assert model.predict(far) == model.predict(near)


def test_a_candidate_scores_the_same_alone_and_in_blocks(monkeypatch):
    model = ProductRegression.fit(POINTS, SAME_SIDE, l2=1.0)
    together = model.predict(POINTS)
    monkeypatch.setattr(product_regression, "_BLOCK_CANDIDATES", 7)
    np.testing.assert_array_equal(model.predict(POINTS), together)
    np.testing.assert_array_equal(model.predict(POINTS[3:4]), together[3:4])
    assert model.predict(POINTS[:0]).shape == (0,)


def test_without_candidates_the_model_knows_nothing():
    model = ProductRegression.fit(np.empty((0, 3)), np.empty(0, bool), l2=1.0)
    assert model.predict(np.ones((2, 3))) == pytest.approx([0.5, 0.5])


def test_saved_fields_have_the_shapes_of_the_model():
    model = ProductRegression.fit(POINTS, SAME_SIDE, l2=1.0)
    specs = ProductRegression.list_specs(2)
    assert {name: spec.shape for name, spec in specs.items()} == {
        name: getattr(model, name).shape for name in specs
    }
