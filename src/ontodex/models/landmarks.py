"""Kernel regression: documents are known by how near they are to landmarks.

    document ─ cosine with each landmark ─ exp(w (cosine - 1)) ─ weights ─ what is asked for
      (n, d)            (n, m)                   (n, m)           (m, l)        (n, l)

Landmarks are the training documents; where there are more than `landmarks`, so many of them, drawn
by seed, stand for all (Nyström's method). Weights solve one set of linear equations.
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

from ontodex.errors import RunError
from ontodex.features.tfidf import unit_rows
from ontodex.models.sparse_rows import blocks, load_rows, product, save_rows
from ontodex.progress import track

Floats = NDArray[np.floating[Any]]

RIDGES = (0.1, 0.3, 1.0, 3.0)  # tried on dev
_SPARE = 1e-4  # on the diagonal: landmarks may be copies of each other
_TOGETHER = 2**24  # similarities that are held at once (64 MiB)


@dataclass(frozen=True)
class LandmarkConfig:
    """What a system that compares documents with landmarks inherits."""

    width: float = 2.0  # w: how fast likeness fades as the angle between documents grows
    ridge: float = 0.0  # what large weights cost; 0 = the best of a few on dev (0.3 without dev)
    landmarks: int = 16_384  # documents that others are compared with, the most

    def __post_init__(self) -> None:
        if self.width <= 0 or self.ridge < 0 or self.landmarks < 1:
            raise ValueError("width must be above 0, ridge not below it, landmarks at least 1")


@dataclass(frozen=True, eq=False)
class Equations:
    """(left + ridge x penalty) weights = right. With every document a landmark, left is K and
    penalty I; else they are K' K and the landmarks' own K."""

    left: Floats  # (m, m)
    penalty: Floats | None  # (m, m); None = I
    right: Floats  # (m, l)

    def at(self, ridge: float) -> Factored:
        if self.penalty is None:
            whole = self.left.copy()
            whole[np.diag_indices(len(whole))] += ridge
        else:
            whole = self.left + ridge * self.penalty
        lower, _ = cho_factor(whole, lower=True, overwrite_a=True, check_finite=False)
        return Factored(lower, self.right)


@dataclass(frozen=True, eq=False)
class Factored:
    """The equations with some ridge, ready to be solved."""

    lower: Floats  # (m, m): L of L L'; what stands above its diagonal means nothing
    right: Floats  # (m, l)

    def weights(self) -> NDArray[np.float32]:
        found = cho_solve((self.lower, True), self.right, check_finite=False)
        return np.asarray(found, np.float32)

    def left_out(self, weights: NDArray[np.float32]) -> NDArray[np.float32]:
        """(m, l): what would be said of each document had it not been learned from. Only where
        every document is a landmark."""
        inverse, _ = strtri(self.lower, lower=1)
        doubt = np.square(np.tril(inverse)).sum(axis=0)  # the diagonal of (K + ridge I)^-1
        return np.asarray(self.right - weights / doubt[:, None], np.float32)


class Landmarks:
    """Some documents that others are compared with."""

    def __init__(self, rows: csr_array, rarity: NDArray[np.float32], width: float) -> None:
        self.rows, self.rarity, self.width = rows, rarity, width  # (m, d) of length 1, (d,)

    @classmethod
    def of(
        cls, rows: csr_array, config: LandmarkConfig, *, weigh_by_count: bool, seed: int
    ) -> Self:
        """The landmarks of training documents. Features that are plain counts or marks weigh the
        root of their inverse document frequency; text has been weighted, dense features need no
        weight."""
        rarity = np.ones(rows.shape[1], np.float32)
        if weigh_by_count:
            often = np.bincount(rows.indices, minlength=rows.shape[1])
            rarity = np.sqrt(1 + np.log((1 + rows.shape[0]) / (1 + often))).astype(np.float32)
        drawn = np.random.default_rng(seed).permutation(rows.shape[0])[: config.landmarks]
        return cls(_scaled(rows[np.sort(drawn)], rarity), rarity, config.width)

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    def near(self, rows: csr_array) -> NDArray[np.float32]:
        """(n, m): 1 for documents that point the same way as a landmark."""
        similarity = product(_scaled(rows, self.rarity), self.rows)
        return np.asarray(np.exp(np.float32(self.width) * (similarity - 1)))

    def equations(self, rows: csr_array, wanted: csr_array | Floats) -> Equations:
        """For all training documents (n, d) and what is wanted of them (n, l)."""
        blocks_of_rows = self.parts(rows.shape[0])
        parts = track(blocks_of_rows, "comparing documents", len(blocks_of_rows))
        if len(self) == rows.shape[0]:
            near = np.concatenate([self.near(rows[part]) for part in parts])
            dense = wanted.toarray() if isinstance(wanted, csr_array) else wanted
            return Equations(near, None, dense.astype(np.float32))
        left, right = np.zeros((len(self), len(self))), np.zeros((len(self), wanted.shape[1]))
        for part in parts:
            near = self.near(rows[part]).astype(np.float64)
            left += near.T @ near
            right += (wanted[part].T @ near).T
        own = np.exp(self.width * (product(self.rows, self.rows).astype(np.float64) - 1))
        return Equations(left, own + _SPARE * np.eye(len(self)), right)

    def slope(self, row: csr_array, pull: Floats) -> csr_array:
        """(1, d): how a sum of nearnesses, each times its `pull` (m,), changes with the features of
        one document."""
        told = self.width * self.near(row) * pull  # (1, m)
        return csr_array(csr_array(told.astype(np.float32)) @ self.rows)

    def parts(self, n: int) -> Sequence[slice]:
        """Documents that are compared at a time."""
        return blocks(n, max(1, _TOGETHER // max(1, len(self))))

    # --------------------------------------------------------------------------------- the files

    def save(self, folder: Path, weights: NDArray[np.float32]) -> None:
        """The landmarks and the weights that were learned on them."""
        save_rows(folder, "landmarks", self.rows, rarity=self.rarity, weights=weights)

    @classmethod
    def load(
        cls, folder: Path, config: LandmarkConfig, shape: tuple[int, int]
    ) -> tuple[Self, NDArray[np.float32]]:
        """Both again; `shape` is that of features and of what is asked for."""
        rows, more = load_rows(folder, "landmarks")
        rarity, weights = more["rarity"], more["weights"]
        fits = (rows.shape[1], weights.shape[1]) == shape and rows.shape[0] == len(weights)
        if not fits or rarity.shape != shape[:1]:
            raise RunError(f"{folder}: the weights do not fit the labels and features beside them")
        return cls(rows, rarity, config.width), weights


def _scaled(rows: csr_array, rarity: NDArray[np.float32]) -> csr_array:
    values = rows.data * rarity[rows.indices]
    return unit_rows(csr_array((values, rows.indices, rows.indptr), shape=rows.shape))


__all__ = ["RIDGES", "Equations", "Factored", "LandmarkConfig", "Landmarks"]
