"""Balanced 2-means of sparse vectors, all clusters of a level at once.

Every cluster is split into halves whose sizes differ by at most one. The same vectors and seed give
the same halves on any number of cores.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.io.threads import make_blocks, map_in_threads

Ints = NDArray[np.int64]

ROUNDS = 16  # of 2-means at most
LEAST_GAIN = 1e-4  # mean similarity to the centre that another round must add to a cluster
# Clusters with fewer values than this stay in the processor's cache down to the last level.
PART_VALUES = 2**19
BLOCK_VALUES = 2**21  # multiplied by one thread at a time, while there are few clusters


def order_by_clusters(vectors: csr_array, depth: int, seed: int) -> Ints:
    """Return the labels in the order of the leaves of a binary tree of this depth."""
    chances = [np.random.default_rng([seed, level]).random((2**level, 2)) for level in range(depth)]
    clusters, level = Clusters.of(vectors), 0
    while level < depth and clusters.rows.nnz // 2**level > PART_VALUES:
        clusters, level = clusters.split(chances[level]), level + 1

    def finish(part: slice) -> Ints:
        some = clusters.take(part)
        for deeper in range(level, depth):
            scale = 2 ** (deeper - level)
            some = some.split(chances[deeper][part.start * scale : part.stop * scale])
        return some.labels

    parts = [slice(number, number + 1) for number in range(2**level)]
    return np.concatenate(list(map_in_threads(finish, parts)))


@dataclass(frozen=True, eq=False)
class Clusters:
    """Adjacent clusters of one level, each with its own columns.

    No two clusters share a column, so one product of the matrix with a vector serves all of them.
    """

    labels: Ints  # (rows)
    rows: csr_array  # (rows, pairs of a cluster and a feature that occurs in it)
    owner: Ints  # (columns): the cluster of a column
    starts: Ints  # (clusters + 1): the rows of a cluster

    @classmethod
    def of(cls, vectors: csr_array) -> Self:
        """Return all labels as one cluster."""
        n, width = vectors.shape
        rows = csr_array(vectors).astype(np.float32)
        return cls(np.arange(n), rows, np.zeros(width, np.int64), np.array([0, n]))

    def take(self, part: slice) -> Clusters:
        """Return some of the clusters, with the columns that they use."""
        starts = self.starts[part.start : part.stop + 1]
        rows = csr_array(self.rows[starts[0] : starts[-1]])
        columns, kept = _renumber(rows.indices, self.rows.shape[1])
        return Clusters(
            self.labels[starts[0] : starts[-1]],
            csr_array((rows.data, columns, rows.indptr), shape=(rows.shape[0], len(kept))),
            self.owner[kept] - part.start,
            starts - starts[0],
        )

    def split(self, chance: NDArray[np.float64]) -> Clusters:
        """Split every cluster into two halves, the first before the second.

        `chance` (clusters, 2) are random numbers that draw the two first centres of each cluster.
        """
        first = self.run_two_means(chance)
        order = np.lexsort((~first, np.repeat(np.arange(len(chance)), np.diff(self.starts))))
        rows = csr_array(self.rows[order])
        second = np.repeat(~first[order], np.diff(rows.indptr))
        keys = 2 * rows.indices.astype(np.int64) + second
        columns, kept = _renumber(keys, 2 * self.rows.shape[1])
        return Clusters(
            self.labels[order],
            csr_array((rows.data, columns, rows.indptr), shape=(rows.shape[0], len(kept))),
            2 * self.owner[kept // 2] + kept % 2,
            halve_bounds(self.starts),
        )

    def run_two_means(self, chance: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return (rows): True in the first half of each cluster.

        Centres are unit vectors. Labels go to the more similar centre as far as the halves stay
        equal. A cluster stops when a round adds less than LEAST_GAIN.
        """
        sizes = np.diff(self.starts)
        cluster = np.repeat(np.arange(len(sizes)), sizes)
        total = self.sum_rows(np.ones(len(cluster), np.float32))
        first = self.select_upper_half(self.multiply(self.sum_rows(self.draw_two_labels(chance))))
        before = np.zeros(len(sizes))
        is_active = np.ones(len(sizes), dtype=bool)
        for _ in range(ROUNDS):
            difference = self.sum_rows(np.where(first, np.float32(1), np.float32(-1)))
            sums = (total + difference) / 2, (total - difference) / 2
            lengths = [np.sqrt(np.bincount(self.owner, s * s, len(sizes))) for s in sums]
            is_active &= lengths[0] + lengths[1] - before > LEAST_GAIN * sizes
            if not is_active.any():
                break
            before = lengths[0] + lengths[1]
            one, other = ((1 / np.maximum(x, 1e-30)).astype(np.float32) for x in lengths)
            direction = sums[0] * one[self.owner] - sums[1] * other[self.owner]
            closer = self.select_upper_half(self.multiply(direction))
            first = np.where(is_active[cluster], closer, first)
        return first

    def multiply(self, vector: NDArray[Any]) -> NDArray[np.float32]:
        """Return (rows): the product of each row with the vector."""
        return np.concatenate(
            list(map_in_threads(lambda p: self.take_block(p) @ vector, self.blocks))
        )

    def sum_rows(self, weights: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return (columns): the weighted sum of the rows."""
        parts = map_in_threads(lambda block: self.take_block(block).T @ weights[block], self.blocks)
        return np.sum(list(parts), axis=0, dtype=np.float32)

    @cached_property
    def blocks(self) -> list[slice]:
        """Rows for one thread; equal on any number of cores, so that sums round alike."""
        return make_blocks(
            self.rows.shape[0], max(1, BLOCK_VALUES * self.rows.shape[0] // max(1, self.rows.nnz))
        )

    def take_block(self, part: slice) -> csr_array:
        """Return some rows as a view, without a copy."""
        data, indices, indptr = self.rows.data, self.rows.indices, self.rows.indptr
        start, end = indptr[part.start], indptr[part.stop]
        shape = (part.stop - part.start, self.rows.shape[1])
        ends = indptr[part.start : part.stop + 1] - start
        return csr_array((data[start:end], indices[start:end], ends), shape=shape)

    def draw_two_labels(self, chance: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return (rows): 1 and -1 at two different labels of each cluster, else 0."""
        start, sizes = self.starts[:-1], np.diff(self.starts)
        one = (chance[:, 0] * sizes).astype(np.int64)
        other = (one + 1 + (chance[:, 1] * (sizes - 1)).astype(np.int64)) % sizes
        signs = np.zeros(self.rows.shape[0], dtype=np.float32)
        signs[start + one], signs[start + other] = 1, -1
        return signs

    def select_upper_half(self, scores: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Return (rows): True in the half of each cluster with the higher scores.

        Of equal scores, the first rows are taken.
        """
        sizes = np.diff(self.starts)
        inside = np.arange(sizes.max()) < sizes[:, None]
        table = np.full(inside.shape, np.inf, dtype=np.float32)
        table[inside] = -scores
        halves = (sizes + 1) // 2
        lasts = np.unique(halves) - 1  # one number or two neighbours: sizes differ by at most one
        last = np.partition(table, lasts, axis=1)[np.arange(len(sizes)), halves - 1]
        upper, equal = table < last[:, None], table == last[:, None]
        room = halves - np.count_nonzero(upper, axis=1)
        upper |= equal & (np.cumsum(equal, axis=1, dtype=np.int32) <= room[:, None])
        return upper[inside]


def _renumber(keys: NDArray[Any], n_keys: int) -> tuple[NDArray[np.int32], Ints]:
    """Return the number of each key among the keys that occur, and those keys."""
    occurs = np.zeros(n_keys, dtype=bool)
    occurs[keys] = True
    kept = np.flatnonzero(occurs)
    number = np.empty(n_keys, dtype=np.int32)
    number[kept] = np.arange(len(kept), dtype=np.int32)
    return number[keys], kept


def halve_bounds(starts: Ints) -> Ints:
    """Return the bounds of clusters one level deeper; the first half has the odd label."""
    halves = np.empty(2 * len(starts) - 1, dtype=np.int64)
    halves[::2] = starts
    halves[1::2] = (starts[:-1] + starts[1:] + 1) // 2
    return halves
