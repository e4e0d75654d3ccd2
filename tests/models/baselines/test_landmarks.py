from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from ontodex.errors import RunError
from ontodex.models.baselines.landmarks import LandmarkConfig, Landmarks


def make_rows(n: int) -> csr_array:
    rng = np.random.default_rng(0)
    dense = rng.random((n, 6)) * (rng.random((n, 6)) < 0.5)
    dense[:, 0] += 0.1  # no document is empty
    return csr_array(dense.astype(np.float32))


def draw(rows: csr_array, *, weigh: bool = False, **settings: float) -> Landmarks:
    return Landmarks.of(rows, LandmarkConfig(**settings), weigh_by_count=weigh, seed=0)


def test_the_kernel_in_loops():
    rows = make_rows(9)
    found, dense = draw(rows, width=3.0).compute_kernel(rows), rows.toarray()
    for i, one in enumerate(dense):
        for j, other in enumerate(dense):
            cosine = one @ other / (np.linalg.norm(one) * np.linalg.norm(other))
            assert found[i, j] == pytest.approx(np.exp(3.0 * (cosine - 1)), rel=1e-4)


def test_rare_features_weigh_more_where_they_are_counted():
    rows = make_rows(9)
    counts = (rows.toarray() > 0).sum(axis=0)
    weights = draw(rows, weigh=True).feature_weights
    np.testing.assert_allclose(weights**2, 1 + np.log(10 / (1 + counts)), rtol=1e-5)
    assert draw(rows).feature_weights.tolist() == [1] * 6


def test_the_gradient_is_that_of_finite_differences():
    rows = make_rows(9)
    landmarks, weights = draw(rows), np.linspace(-1, 1, 9)
    row = landmarks.rows[[0]].toarray()[0].astype(np.float64)
    gradient = landmarks.compute_gradient(csr_array(row[None].astype(np.float32)), weights)

    def score(x: np.ndarray) -> float:
        return float(np.exp(2.0 * (landmarks.rows.toarray() @ x - 1)) @ weights)

    for column in range(6):
        step = np.eye(6)[column] * 1e-4
        slope = (score(row + step) - score(row - step)) / 2e-4
        assert gradient.toarray()[0, column] == pytest.approx(slope, abs=1e-3)


def test_saved_landmarks_are_loaded_with_their_weights(tmp_path):
    landmarks = draw(make_rows(9), landmarks=4)
    weights = np.ones((4, 3), np.float32)
    landmarks.save(tmp_path, weights)
    loaded, again = Landmarks.load(tmp_path, LandmarkConfig(), (6, 3))
    np.testing.assert_array_equal(loaded.rows.toarray(), landmarks.rows.toarray())
    np.testing.assert_array_equal(again, weights)
    for shape in ((5, 3), (6, 2)):
        with pytest.raises(RunError, match=r"landmarks\.safetensors: tensor '\w+' has shape"):
            Landmarks.load(tmp_path, LandmarkConfig(), shape)
