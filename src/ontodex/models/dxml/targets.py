"""Targets of the document embedding: the mean of a document's label vectors (DXML, Algorithm 1)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Floats = NDArray[np.float32]


def whiten_vectors(vectors: Floats, frequency: NDArray[np.int64]) -> Floats:
    """Return the label vectors centred and whitened, each label weighted by its frequency.

    DeepWalk's vectors of a dense graph share one large direction. Without whitening, the mean label
    vectors of all documents would be nearly equal.
    """
    weight = frequency / max(1, frequency.sum())
    centred = vectors - weight @ vectors
    sizes, directions = np.linalg.eigh((centred * weight[:, None]).T @ centred)
    kept = sizes > 1e-6 * max(float(sizes.max()), 1e-30)
    return np.asarray(centred @ (directions[:, kept] / np.sqrt(sizes[kept])), dtype=np.float32)


def average_label_vectors(gold: csr_array, vectors: Floats) -> Floats:
    """Return f_y = V y / nnz(y) (Algorithm 1, line 3), scaled to length 1 as f_x is."""
    count = np.maximum(np.diff(gold.indptr), 1)[:, None]
    return scale_to_unit((gold.astype(np.float32) @ vectors) / count)


def scale_to_unit(vectors: NDArray[np.floating[Any]]) -> Floats:
    """Return the vectors at length 1; a vector of zeros stays."""
    lengths = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return np.asarray(vectors / lengths, np.float32)
