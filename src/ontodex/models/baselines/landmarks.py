"""Kernel regression on landmark documents (Nyström's method).

    document ─ cosine with each landmark ─ exp(w (cosine - 1)) ─ weights ─ outputs
      (n, d)            (n, m)                   (n, m)           (m, l)    (n, l)

Landmarks are the training documents or, where there are more than `landmarks`, a sample of that
size. The weights solve one system of linear equations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import strtri
from scipy.sparse import csr_array

from ontodex.config import check_most
from ontodex.features.tfidf import normalise_rows
from ontodex.io.progress import track
from ontodex.io.tensors import MAX_WEIGHT, TensorSpec, load_csr, save_csr, weight_spec
from ontodex.io.threads import make_blocks
from ontodex.models.baselines.sparse_rows import check_unit_rows, multiply_rows

Floats = NDArray[np.floating[Any]]

RIDGES = (0.1, 0.3, 1.0, 3.0)  # tried on dev
_JITTER = 1e-4  # on the diagonal: landmarks may be copies of each other
_BLOCK_SIMILARITIES = 2**24  # held at once (64 MiB)


@dataclass(frozen=True)
class LandmarkConfig:
    """Settings of systems that compare documents with landmarks."""

    width: float = 2.0  # w: how fast the kernel falls as the angle between documents grows
    ridge: float = 0.0  # penalty of large weights; 0 = the best of four on dev (0.3 without dev)
    landmarks: int = 16_384  # largest number of documents that others are compared with

    def __post_init__(self) -> None:
        if self.width <= 0 or self.ridge < 0 or self.landmarks < 1:
            raise ValueError("width must be above 0, ridge not below it, landmarks at least 1")
        check_most(self, 10_000, "width")


@dataclass(frozen=True, eq=False)
class Equations:
    """The linear system (left + ridge x penalty) weights = right.

    Where every document is a landmark, left is K and penalty I; else K' K and K of the landmarks.
    """

    left: Floats  # (m, m)
    penalty: Floats | None  # (m, m); None = I
    right: Floats  # (m, l)

    def factorise(self, ridge: float) -> CholeskyFactor:
        """Return the Cholesky factor of the left side for this ridge."""
        if self.penalty is None:
            whole = self.left.copy()
            whole[np.diag_indices(len(whole))] += ridge
        else:
            whole = self.left + ridge * self.penalty
        lower, _ = cho_factor(whole, lower=True, overwrite_a=True, check_finite=False)
        return CholeskyFactor(lower, self.right)


@dataclass(frozen=True, eq=False)
class CholeskyFactor:
    """The linear system with a ridge, factorised."""

    lower: Floats  # (m, m): L of L L'; values above the diagonal are not used
    right: Floats  # (m, l)

    def solve(self) -> NDArray[np.float32]:
        """Return the weights (m, l)."""
        found = cho_solve((self.lower, True), self.right, check_finite=False)
        return np.asarray(found, np.float32)

    def predict_left_out(self, weights: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the leave-one-out predictions (m, l), where every document is a landmark."""
        inverse, _ = strtri(self.lower, lower=1)
        diagonal = np.square(np.tril(inverse)).sum(axis=0)  # of (K + ridge I)^-1
        return np.asarray(self.right - weights / diagonal[:, None], np.float32)


class Landmarks:
    """The documents that others are compared with."""

    def __init__(self, rows: csr_array, feature_weights: NDArray[np.float32], width: float) -> None:
        self.rows, self.width = rows, width  # (m, d), rows of length 1
        self.feature_weights = feature_weights  # (d,)

    @classmethod
    def of(
        cls, rows: csr_array, config: LandmarkConfig, *, weigh_by_count: bool, seed: int
    ) -> Self:
        """Draw the landmarks from training documents.

        With `weigh_by_count`, features weigh the root of their inverse document frequency: plain
        counts need that. Text is weighted already, and dense features need no weight.
        """
        feature_weights = np.ones(rows.shape[1], np.float32)
        if weigh_by_count:
            counts = np.bincount(rows.indices, minlength=rows.shape[1])
            idf = 1 + np.log((1 + rows.shape[0]) / (1 + counts))
            feature_weights = np.sqrt(idf).astype(np.float32)
        drawn = np.random.default_rng(seed).permutation(rows.shape[0])[: config.landmarks]
        scaled = _scale_rows(rows[np.sort(drawn)], feature_weights)
        return cls(scaled, feature_weights, config.width)

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    def compute_kernel(self, rows: csr_array) -> NDArray[np.float32]:
        """Return the kernel (n, m): 1 for a document with the direction of a landmark."""
        similarity = multiply_rows(_scale_rows(rows, self.feature_weights), self.rows)
        return np.asarray(np.exp(np.float32(self.width) * (similarity - 1)))

    def build_equations(self, rows: csr_array, targets: csr_array | Floats) -> Equations:
        """Build the linear system for training documents (n, d) and their targets (n, l)."""
        blocks = self.make_blocks(rows.shape[0])
        tracked = track(blocks, "comparing documents", len(blocks))
        if len(self) == rows.shape[0]:
            kernel = np.concatenate([self.compute_kernel(rows[block]) for block in tracked])
            dense = targets.toarray() if isinstance(targets, csr_array) else targets
            return Equations(kernel, None, dense.astype(np.float32))
        left, right = np.zeros((len(self), len(self))), np.zeros((len(self), targets.shape[1]))
        for block in tracked:
            kernel = self.compute_kernel(rows[block]).astype(np.float64)
            left += kernel.T @ kernel
            right += (targets[block].T @ kernel).T
        own = np.exp(self.width * (multiply_rows(self.rows, self.rows).astype(np.float64) - 1))
        return Equations(left, own + _JITTER * np.eye(len(self)), right)

    def compute_gradient(self, row: csr_array, weights: Floats) -> csr_array:
        """Return the gradient (1, d) of kernel @ weights (m,) by the features of one document."""
        factors = self.width * self.compute_kernel(row) * weights  # (1, m)
        return csr_array(csr_array(factors.astype(np.float32)) @ self.rows)

    def make_blocks(self, n: int) -> Sequence[slice]:
        """Divide `n` documents into blocks that are compared at a time."""
        return make_blocks(n, max(1, _BLOCK_SIMILARITIES // max(1, len(self))))

    def save(self, folder: Path, weights: NDArray[np.float32]) -> None:
        """Write the landmarks and the weights that were learned on them."""
        save_csr(folder, "landmarks", self.rows, rarity=self.feature_weights, weights=weights)

    @classmethod
    def load(
        cls, folder: Path, config: LandmarkConfig, shape: tuple[int, int]
    ) -> tuple[Self, NDArray[np.float32]]:
        """Read landmarks and weights; `shape` is (features, outputs)."""
        rows, more = load_csr(
            folder,
            "landmarks",
            ("landmarks", "features"),
            more={
                "rarity": TensorSpec(("features",), minimum=0, maximum=MAX_WEIGHT),
                "weights": weight_spec(("landmarks", "outputs")),
            },
            sizes=dict(zip(("features", "outputs"), shape, strict=True)),
        )
        check_unit_rows(folder / "landmarks.safetensors", rows)
        return cls(rows, more["rarity"], config.width), more["weights"]


def _scale_rows(rows: csr_array, feature_weights: NDArray[np.float32]) -> csr_array:
    values = rows.data * feature_weights[rows.indices]
    return normalise_rows(csr_array((values, rows.indices, rows.indptr), shape=rows.shape))
