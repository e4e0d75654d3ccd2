"""Label sets with all ancestors of their labels in the ontology, or without any."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.types import Ranking


def add_ancestors(label_sets: Ranking, ancestors: csr_array) -> Ranking:
    """Return the sets with all ancestors of their labels.

    `ancestors` is (columns x columns), stored where the column is an ancestor of the row. An
    ancestor is at least as probable as its most probable descendant in the set.
    """
    rows, above, probabilities = _list_ancestors(label_sets, ancestors)
    here, ranks = np.nonzero(label_sets.columns >= 0)
    rows = np.concatenate([rows, here])
    columns = np.concatenate([above, label_sets.columns[here, ranks].astype(np.int64)])
    probabilities = np.concatenate([probabilities, label_sets.probabilities[here, ranks]])
    order = np.lexsort((-probabilities, columns, rows))
    rows, columns, probabilities = rows[order], columns[order], probabilities[order]
    best = np.ones(len(rows), dtype=bool)  # of each (row, column), its most probable entry
    best[1:] = (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows[best], minlength=len(label_sets)))])
    shape = (len(label_sets), ancestors.shape[0])
    sets = csr_array((probabilities[best], columns[best], indptr), shape=shape)
    return Ranking.of_sparse(sets, max(label_sets.k, int(np.diff(indptr).max(initial=0))))


def drop_ancestors(label_sets: Ranking, ancestors: csr_array, keep: NDArray[np.bool_]) -> Ranking:
    """Return the sets without ancestors of their labels, except the columns marked in `keep`."""
    rows, above, _ = _list_ancestors(label_sets, ancestors)
    width = ancestors.shape[0]
    at = np.arange(len(label_sets))[:, None] * width + label_sets.columns
    is_above = np.isin(at, rows * width + above)
    return label_sets.keep(~is_above | keep[label_sets.columns])


def _list_ancestors(
    label_sets: Ranking, ancestors: csr_array
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """Return (row, ancestor, probability of the descendant) for every label of every set."""
    rows, ranks = np.nonzero(label_sets.columns >= 0)
    columns = label_sets.columns[rows, ranks]
    counts = np.diff(ancestors.indptr)[columns]
    first = np.repeat(ancestors.indptr[columns], counts)
    inside = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    above = ancestors.indices[first + inside].astype(np.int64)
    probabilities = label_sets.probabilities[rows, ranks]
    return np.repeat(rows, counts), above, np.repeat(probabilities, counts)
