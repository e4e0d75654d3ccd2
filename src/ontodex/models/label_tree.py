"""Label trees: balanced clusters of clusters of labels (paper 003, III-B).

    documents' TF-IDF ─ label vectors ─ balanced 2-means, level by level ─ flattened (Algorithm 1)

A deep binary tree is made first, a whole level split at a time: every cluster of a level is halved,
so sizes within a level differ by at most one and all labels hang at one depth. Algorithm 1 then
keeps some of its levels. The same vectors and seed give the same tree on any number of cores.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.errors import RunError
from ontodex.features.tfidf import unit_rows
from ontodex.models.sparse_rows import blocks, in_threads
from ontodex.ontology.graph import depths
from ontodex.types import LabelSpace, Ontology

Ints = NDArray[np.int64]

ROUNDS = 16  # of 2-means at most
LEAST_GAIN = 1e-4  # mean similarity to the centre that a further round must bring a cluster
# Clusters with fewer values than this stay in the processor's cache to the last level.
PART_VALUES = 2**19
BLOCK_VALUES = 2**21  # multiplied by one thread at a time, before there are so many clusters
WIDE = 50_000  # labels from which on a tree has one level more


# ------------------------------------------------------------------------------------------ trees


@dataclass(frozen=True, eq=False)
class LabelTree:
    """Labels below inner nodes, all at one depth. Level 0 is the root, `height` the last with inner
    nodes; labels stand below it, each at a place of its own.

    Children stand side by side: those of node i of a level are the nodes (on the last level: the
    places) `first[level][i]` to `first[level][i + 1]` of the level below.
    """

    order: Ints  # (labels): the column at each place
    first: tuple[Ints, ...]  # for levels 0 to height, (nodes + 1)

    def __post_init__(self) -> None:
        n_labels = len(self.order)
        below = [len(first) - 1 for first in self.first[1:]] + [n_labels]
        for first, n_children in zip(self.first, below, strict=True):
            if first[0] != 0 or first[-1] != n_children or np.any(np.diff(first) < 1):
                raise RunError("a label tree has a node without children, or a child without one")
        if len(self.first[0]) != 2 or not np.array_equal(self.places[self.order], range(n_labels)):
            raise RunError("a label tree does not hold every label exactly once below one root")

    @property
    def height(self) -> int:
        """Steps from the root to the parents of labels (H of Algorithm 1)."""
        return len(self.first) - 1

    @property
    def n_labels(self) -> int:
        return len(self.order)

    def n_nodes(self, level: int) -> int:
        return len(self.first[level]) - 1 if level <= self.height else self.n_labels

    @cached_property
    def places(self) -> Ints:
        """(labels): the place of each column."""
        places = np.full(self.n_labels, -1, dtype=np.int64)
        places[self.order] = np.arange(self.n_labels)
        return places

    def node_of_place(self, level: int) -> Ints:
        """(labels): the node of a level above each place; for the level of labels the place."""
        node = np.arange(self.n_labels)
        for first in reversed(self.first[level:]):
            node = np.repeat(np.arange(len(first) - 1), np.diff(first))[node]
        return node

    def node_of(self, level: int) -> Ints:
        """(labels): the node of a level above each column."""
        return self.node_of_place(level)[self.places]

    def arrays(self) -> dict[str, Ints]:
        """What `of_arrays` takes."""
        return {"order": self.order} | {f"first.{h}": first for h, first in enumerate(self.first)}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        levels = sorted(int(key.removeprefix("first.")) for key in arrays if key != "order")
        first = tuple(np.array(arrays[f"first.{level}"], np.int64) for level in levels)
        return cls(np.array(arrays["order"], np.int64), first)


def flatten(tree: LabelTree, *, step: int, height: int) -> LabelTree:
    """Algorithm 1: the shallow and wide tree of at most this height, whose inner nodes are the
    parents of labels, their ancestors `step` above, and so on; at last the root."""
    kept = [tree.height - step * number for number in range(height)]
    levels = [0, *sorted(level for level in kept if level > 0)]
    first = []
    for level, below in zip(levels, [*levels[1:], tree.height + 1], strict=True):
        starts = tree.first[level]
        for between in tree.first[level + 1 : below]:
            starts = between[starts]
        first.append(starts)
    return LabelTree(tree.order, tuple(first))


def build(
    vectors: csr_array, *, seed: int, cluster: int = 16, children: int = 8, height: int = 0
) -> LabelTree:
    """The tree of labels with these vectors, by balanced 2-means.

    A parent of labels has at most `cluster` of them and at least half as many (M); inner nodes
    have `children` each (K, a power of two), the root the rest. `height` 0 is chosen by the number
    of labels.
    """
    depth = binary_depth(vectors.shape[0], cluster)
    return _shallow(_binary(_clustered(vectors, depth, seed), depth), children, height)


def of_ontology(
    labels: LabelSpace, *, cluster: int = 16, children: int = 8, height: int = 0
) -> LabelTree:
    """The tree over the seen labels that an ontology gives: concepts in the order of a walk from
    the roots down, halved instead of clustered, so that neighbours in it share a node."""
    if labels.ontology is None:
        raise RunError(
            'tree = "ontology" needs an ontology',
            hint='give one with --ontology, or say --set model.tree="cluster"',
        )
    index = labels.ontology.index
    rank = np.full(len(index) + 1, len(index), dtype=np.int64)  # last: labels outside the ontology
    rank[_walk(labels.ontology)] = np.arange(len(index))
    concepts = [index.get(label, len(index)) for label in labels.ids[: labels.n_seen]]
    order = np.argsort(rank[concepts], kind="stable")
    return _shallow(_binary(order, binary_depth(len(order), cluster)), children, height)


def binary_depth(n_labels: int, cluster: int) -> int:
    """Halvings after which no cluster has more than this many labels."""
    if cluster < 2:
        raise ValueError(f"cluster must be at least 2, not {cluster}")
    return max(0, math.ceil(math.log2(max(1, n_labels) / cluster)))


def least_height(n_labels: int, *, cluster: int, children: int, most: int) -> int:
    """The height of the shallowest tree whose root has no more than `most` children."""
    halvings = binary_depth(n_labels, cluster) - (most.bit_length() - 1)
    return 1 + max(0, -(-halvings // (children.bit_length() - 1)))


def _shallow(tree: LabelTree, children: int, height: int) -> LabelTree:
    if children < 2 or children & (children - 1):
        raise ValueError(f"children must be a power of two, at least 2, not {children}")
    height = height or (2 if tree.n_labels < WIDE else 3)
    return flatten(tree, step=children.bit_length() - 1, height=height)


def _binary(order: Ints, depth: int) -> LabelTree:
    """The binary tree of this depth over labels in this order."""
    starts = np.array([0, len(order)], dtype=np.int64)
    for _ in range(depth):
        starts = _halved(starts)
    pairs = [np.arange(0, 2 ** (level + 1) + 1, 2) for level in range(depth)]
    return LabelTree(np.asarray(order, np.int64), (*pairs, starts))


def _halved(starts: Ints) -> Ints:
    """Cluster bounds one level deeper; the first half has the odd label."""
    halves = np.empty(2 * len(starts) - 1, dtype=np.int64)
    halves[::2] = starts
    halves[1::2] = (starts[:-1] + starts[1:] + 1) // 2
    return halves


def _walk(ontology: Ontology) -> list[int]:
    """Every concept once, each followed by what stands below it; a concept with several parents
    stands below the shallowest of them, the first among equals."""
    shallow, _ = depths(ontology)
    indptr, parents = ontology.parents.indptr.tolist(), ontology.parents.indices
    below: list[list[int]] = [[] for _ in range(len(ontology))]
    waiting = []
    for concept, (start, end) in enumerate(pairwise(indptr)):
        own = parents[start:end]
        if len(own):
            below[own[np.argmin(shallow[own])]].append(concept)
        else:
            waiting.append(concept)
    waiting.reverse()
    order = []
    while waiting:
        order.append(waiting.pop())
        waiting.extend(reversed(below[order[-1]]))
    return order


# ---------------------------------------------------------------------------------------- vectors


def label_vectors(features: csr_array, gold: csr_array) -> csr_array:
    """(labels, features): the sum of the features of a label's documents, divided by its length."""
    return unit_rows(csr_array(csr_array(gold.T).astype(np.float32) @ features))


def similarity(vectors: csr_array, nodes: Ints) -> float:
    """Mean cosine of a label with the centre of its node: how tight the clusters of a level are."""
    n = len(nodes)
    members = csr_array((np.ones(n, np.float32), (nodes, np.arange(n))))
    sums = csr_array(members @ vectors)
    # The cosines of a cluster's labels with their sum add up to the length of the sum.
    return float(np.sqrt(csr_array(sums.multiply(sums)).sum(axis=1)).sum() / n)


# ---------------------------------------------------------------------------------------- 2-means


def _clustered(vectors: csr_array, depth: int, seed: int) -> Ints:
    """Labels in the order of the leaves of the binary tree of this depth."""
    chances = [np.random.default_rng([seed, level]).random((2**level, 2)) for level in range(depth)]
    clusters, level = _Clusters.of(vectors), 0
    while level < depth and clusters.rows.nnz // 2**level > PART_VALUES:
        clusters, level = clusters.halved(chances[level]), level + 1

    def finish(part: slice) -> Ints:
        some = clusters.take(part)
        for deeper in range(level, depth):
            scale = 2 ** (deeper - level)
            some = some.halved(chances[deeper][part.start * scale : part.stop * scale])
        return some.labels

    parts = [slice(number, number + 1) for number in range(2**level)]
    return np.concatenate(list(in_threads(finish, parts)))


@dataclass(frozen=True, eq=False)
class _Clusters:
    """Neighbouring clusters of one level, each with columns of its own: as no two of them share a
    column, one product of the matrix with a vector does its work for all clusters at once."""

    labels: Ints  # (rows)
    rows: csr_array  # (rows, pairs of a cluster and a feature that occurs in it)
    owner: Ints  # (columns): the cluster of a column
    starts: Ints  # (clusters + 1): the rows of a cluster

    @classmethod
    def of(cls, vectors: csr_array) -> Self:
        """All labels as one cluster."""
        n, width = vectors.shape
        rows = csr_array(vectors).astype(np.float32)
        return cls(np.arange(n), rows, np.zeros(width, np.int64), np.array([0, n]))

    def take(self, part: slice) -> _Clusters:
        """Some of the clusters, with the columns that they have."""
        starts = self.starts[part.start : part.stop + 1]
        rows = csr_array(self.rows[starts[0] : starts[-1]])
        columns, kept = _renumbered(rows.indices, self.rows.shape[1])
        return _Clusters(
            self.labels[starts[0] : starts[-1]],
            csr_array((rows.data, columns, rows.indptr), shape=(rows.shape[0], len(kept))),
            self.owner[kept] - part.start,
            starts - starts[0],
        )

    def halved(self, chance: NDArray[np.float64]) -> _Clusters:
        """Every cluster in two, the first half before the second; `chance` (clusters, 2) draws the
        two labels that each cluster starts from."""
        first = self.two_means(chance)
        order = np.lexsort((~first, np.repeat(np.arange(len(chance)), np.diff(self.starts))))
        rows = csr_array(self.rows[order])
        second = np.repeat(~first[order], np.diff(rows.indptr))
        keys = 2 * rows.indices.astype(np.int64) + second
        columns, kept = _renumbered(keys, 2 * self.rows.shape[1])
        return _Clusters(
            self.labels[order],
            csr_array((rows.data, columns, rows.indptr), shape=(rows.shape[0], len(kept))),
            2 * self.owner[kept // 2] + kept % 2,
            _halved(self.starts),
        )

    def two_means(self, chance: NDArray[np.float64]) -> NDArray[np.bool_]:
        """(rows): True in the first half of each cluster. Centres are unit vectors; labels go where
        they are more similar, as far as the halves stay equal; until that brings too little."""
        sizes = np.diff(self.starts)
        cluster = np.repeat(np.arange(len(sizes)), sizes)
        total = self.sums(np.ones(len(cluster), np.float32))
        first = self.upper_half(self.products(self.sums(self.two_labels(chance))))
        before = np.zeros(len(sizes))
        going_on = np.ones(len(sizes), dtype=bool)
        for _ in range(ROUNDS):
            difference = self.sums(np.where(first, np.float32(1), np.float32(-1)))
            sums = (total + difference) / 2, (total - difference) / 2
            lengths = [np.sqrt(np.bincount(self.owner, s * s, len(sizes))) for s in sums]
            going_on &= lengths[0] + lengths[1] - before > LEAST_GAIN * sizes
            if not going_on.any():
                break
            before = lengths[0] + lengths[1]
            one, other = ((1 / np.maximum(x, 1e-30)).astype(np.float32) for x in lengths)
            direction = sums[0] * one[self.owner] - sums[1] * other[self.owner]
            closer = self.upper_half(self.products(direction))
            first = np.where(going_on[cluster], closer, first)
        return first

    def products(self, vector: NDArray[Any]) -> NDArray[np.float32]:
        """(rows): each row times the vector."""
        return np.concatenate(list(in_threads(lambda p: self.block(p) @ vector, self.blocks)))

    def sums(self, weights: NDArray[np.float32]) -> NDArray[np.float32]:
        """(columns): the sum of the rows, each times its weight."""
        parts = in_threads(lambda p: self.block(p).T @ weights[p], self.blocks)
        return np.sum(list(parts), axis=0, dtype=np.float32)

    @cached_property
    def blocks(self) -> list[slice]:
        """Rows that are worth a thread; the same ones on any number of cores, so that sums round
        alike."""
        return blocks(
            self.rows.shape[0], max(1, BLOCK_VALUES * self.rows.shape[0] // max(1, self.rows.nnz))
        )

    def block(self, part: slice) -> csr_array:
        """A view of some rows; nothing is copied."""
        data, indices, indptr = self.rows.data, self.rows.indices, self.rows.indptr
        start, end = indptr[part.start], indptr[part.stop]
        shape = (part.stop - part.start, self.rows.shape[1])
        ends = indptr[part.start : part.stop + 1] - start
        return csr_array((data[start:end], indices[start:end], ends), shape=shape)

    def two_labels(self, chance: NDArray[np.float64]) -> NDArray[np.float32]:
        """(rows): 1 and -1 at two different labels of each cluster."""
        start, sizes = self.starts[:-1], np.diff(self.starts)
        one = (chance[:, 0] * sizes).astype(np.int64)
        other = (one + 1 + (chance[:, 1] * (sizes - 1)).astype(np.int64)) % sizes
        signs = np.zeros(self.rows.shape[0], dtype=np.float32)
        signs[start + one], signs[start + other] = 1, -1
        return signs

    def upper_half(self, scores: NDArray[np.float32]) -> NDArray[np.bool_]:
        """(rows): True where a row is in the half of its cluster with the higher scores; equal ones
        by place."""
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


def _renumbered(keys: NDArray[Any], n_keys: int) -> tuple[NDArray[np.int32], Ints]:
    """Each key's number among the keys that occur, and those keys."""
    occurs = np.zeros(n_keys, dtype=bool)
    occurs[keys] = True
    kept = np.flatnonzero(occurs)
    number = np.empty(n_keys, dtype=np.int32)
    number[kept] = np.arange(len(kept), dtype=np.int32)
    return number[keys], kept
