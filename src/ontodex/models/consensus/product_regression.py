"""Logistic regression on features and their products, for small models that rank candidates.

features (n, f) ─ clipped, standardised ─ products (n, f + f (f + 1) / 2) ─ P(candidate is right)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from ontodex.io.tensors import MAX_WEIGHT, TensorSpec, weight_spec

Floats = NDArray[np.float64]

_BLOCK_CANDIDATES = 2**15  # scored at a time
_ITERATIONS = 150


@dataclass(frozen=True, eq=False)
class ProductRegression:
    """Logistic regression on standardised features and their products.

    Features are clipped to the range of the training data, so that the model does not extrapolate.
    """

    low: Floats
    high: Floats
    mean: Floats
    scale: Floats
    weights: Floats  # of the features, of their products, and the bias

    @classmethod
    def fit(cls, features: Floats, right: NDArray[np.bool_], l2: float) -> ProductRegression:
        """Fit the probability that a candidate is right; `l2` is the penalty on the weights."""
        if not len(features):
            n = features.shape[1]
            zeros = np.zeros(n)
            return cls(zeros, zeros, zeros, np.ones(n), np.zeros(_count_weights(n)))
        mean, scale = features.mean(axis=0), features.std(axis=0) + 1e-6
        x = _append_products((features - mean) / scale)

        def loss(weights: Floats) -> tuple[float, Floats]:
            z = x @ weights[:-1] + weights[-1]
            error = expit(z) - right
            value = np.logaddexp(0, z).sum() - z[right].sum() + l2 / 2 * weights @ weights
            gradient = np.append(x.T @ error, error.sum()) + l2 * weights
            return float(value), gradient

        start = np.zeros(x.shape[1] + 1)
        done = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": _ITERATIONS})
        return cls(features.min(axis=0), features.max(axis=0), mean, scale, done.x)

    def predict(self, features: Floats) -> Floats:
        """Return the probability of each candidate."""
        parts = [np.empty(0)]
        for at in range(0, len(features), _BLOCK_CANDIDATES):
            x = np.clip(features[at : at + _BLOCK_CANDIDATES], self.low, self.high)
            x = _append_products((x - self.mean) / self.scale)
            # Row sums, not a matrix product: its rounding would depend on how many rows there are.
            parts.append((x * self.weights[:-1]).sum(axis=1))
        return np.asarray(expit(np.concatenate(parts) + self.weights[-1]))

    @staticmethod
    def list_specs(n_features: int) -> dict[str, TensorSpec]:
        """Return the shapes and ranges of the saved fields."""
        return {
            "low": weight_spec((n_features,)),
            "high": weight_spec((n_features,)),
            "mean": weight_spec((n_features,)),
            "scale": TensorSpec((n_features,), minimum=1e-7, maximum=MAX_WEIGHT),
            "weights": weight_spec((_count_weights(n_features),)),
        }


def _count_weights(n: int) -> int:
    return n + n * (n + 1) // 2 + 1


def _append_products(x: Floats) -> Floats:
    first, second = np.triu_indices(x.shape[1])
    return np.hstack([x, x[:, first] * x[:, second]])
