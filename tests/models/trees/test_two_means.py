from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.sparse import csr_array

from ontodex.features.tfidf import normalise_rows
from ontodex.models.trees import two_means


def make_vectors(n: int) -> csr_array:
    rng = np.random.default_rng(3)
    dense = rng.random((n, 30)) * (rng.random((n, 30)) < 0.3)
    dense[:, 0] += 0.1  # none is empty
    return normalise_rows(csr_array(dense.astype(np.float32)))


def two_means_by_loops(vectors: np.ndarray, one: int, other: int) -> set[int]:
    """Return the first half of one cluster by balanced spherical 2-means, in loops."""
    n = len(vectors)
    scores = vectors @ (vectors[one] - vectors[other])
    best, before = set(np.argsort(-scores, kind="stable")[: (n + 1) // 2].tolist()), 0.0
    for _ in range(two_means.ROUNDS):
        sums = [sum(vectors[i] for i in range(n) if (i in best) is side) for side in (True, False)]
        lengths = [np.linalg.norm(s) for s in sums]
        if sum(lengths) - before <= two_means.LEAST_GAIN * n:
            break
        before = sum(lengths)
        scores = vectors @ (sums[0] / lengths[0] - sums[1] / lengths[1])
        best = set(np.argsort(-scores, kind="stable")[: (n + 1) // 2].tolist())
    return best


def test_all_clusters_of_a_level_are_split_as_each_would_be_alone():
    vectors = make_vectors(42)
    dense = vectors.toarray()
    starts = np.array([0, 10, 21, 31, 42])
    chance = np.random.default_rng(1).random((4, 2))
    whole = two_means.Clusters.of(vectors)
    halves = two_means.Clusters(whole.labels, *own_columns(vectors, starts), starts)
    first = halves.run_two_means(chance)
    for number, (start, end) in enumerate(pairwise(starts)):
        size = end - start
        one = int(chance[number, 0] * size)
        other = (one + 1 + int(chance[number, 1] * (size - 1))) % size
        expected = two_means_by_loops(dense[start:end], one, other)
        assert set(np.flatnonzero(first[start:end])) == expected


def own_columns(vectors: csr_array, starts: np.ndarray) -> tuple[csr_array, np.ndarray]:
    """Return the matrix with own columns for each cluster, and the cluster of each column."""
    width = vectors.shape[1]
    cluster = np.searchsorted(starts, np.arange(vectors.shape[0]), side="right") - 1
    shift = np.repeat(cluster * width, np.diff(vectors.indptr))
    shape = (vectors.shape[0], width * (len(starts) - 1))
    widened = csr_array((vectors.data, vectors.indices + shift, vectors.indptr), shape=shape)
    return widened, np.repeat(np.arange(len(starts) - 1), width)


def test_labels_in_the_order_of_clusters_are_all_there_once():
    order = two_means.order_by_clusters(make_vectors(41), 3, seed=0)
    assert sorted(order.tolist()) == list(range(41))
    again = two_means.order_by_clusters(make_vectors(41), 3, seed=0)
    np.testing.assert_array_equal(order, again)


def test_bounds_are_halved_with_the_odd_label_in_the_first_half():
    assert two_means.halve_bounds(np.array([0, 5, 9])).tolist() == [0, 3, 5, 7, 9]
