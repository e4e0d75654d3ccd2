"""Balanced label trees (LightAttention, section III-B).

    documents' TF-IDF ─ label vectors ─ balanced 2-means, level by level ─ flattened (Algorithm 1)

First a deep binary tree is built, a whole level at a time: every cluster of a level is halved, so
that sizes differ by at most one and all labels have the same depth. Algorithm 1 then keeps some of
its levels. The same vectors and seed give the same tree on any number of cores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.errors import RunError
from ontodex.features.tfidf import normalise_rows
from ontodex.io.tensors import TensorSpec, check_tensors, read_tensors, save_tensors
from ontodex.models.trees.two_means import halve_bounds, order_by_clusters

Ints = NDArray[np.int64]

WIDE = 50_000  # with so many labels a tree has one more level


@dataclass(frozen=True, eq=False)
class LabelTree:
    """A tree whose labels all have the same depth.

    Level 0 is the root and `height` the last level with inner nodes. Below it, each label has its
    own place. The children of node i of a level are the nodes (on the last level: the places)
    `first[level][i]` to `first[level][i + 1]` of the level below.
    """

    order: Ints  # (labels): the column at each place
    first: tuple[Ints, ...]  # for levels 0 to height, (nodes + 1)

    def __post_init__(self) -> None:
        n_labels = len(self.order)
        below = [len(first) - 1 for first in self.first[1:]] + [n_labels]
        for first, n_children in zip(self.first, below, strict=True):
            spans = len(first) > 1 and first[0] == 0 and first[-1] == n_children
            if not spans or np.any(np.diff(first) < 1):
                raise RunError(
                    "a label tree has a node without children, or a child without a parent"
                )
        if len(self.first[0]) != 2 or not np.array_equal(self.places[self.order], range(n_labels)):
            raise RunError("a label tree must hold every label exactly once below one root")

    @property
    def height(self) -> int:
        """The steps from the root to the parents of labels (H of Algorithm 1)."""
        return len(self.first) - 1

    @property
    def n_labels(self) -> int:
        return len(self.order)

    def count_nodes(self, level: int) -> int:
        """Return the number of nodes of a level; below `height`, the number of labels."""
        return len(self.first[level]) - 1 if level <= self.height else self.n_labels

    @cached_property
    def places(self) -> Ints:
        """The place of each column, (labels)."""
        places = np.full(self.n_labels, -1, dtype=np.int64)
        places[self.order] = np.arange(self.n_labels)
        return places

    def find_nodes_of_places(self, level: int) -> Ints:
        """Return (labels): the node of a level above each place; for labels, the place itself."""
        node = np.arange(self.n_labels)
        for first in reversed(self.first[level:]):
            node = np.repeat(np.arange(len(first) - 1), np.diff(first))[node]
        return node

    def find_nodes(self, level: int) -> Ints:
        """Return (labels): the node of a level above each column."""
        return self.find_nodes_of_places(level)[self.places]

    def save(self, folder: Path) -> None:
        """Write the tree into a run folder."""
        first = {f"first.{level}": first for level, first in enumerate(self.first)}
        save_tensors(folder, "tree", {"order": self.order, **first})

    @classmethod
    def load(cls, folder: Path, n_labels: int) -> Self:
        """Read the tree of a run folder over this many labels."""
        arrays = read_tensors(folder, "tree")
        levels = range(max(1, len(arrays) - 1))
        specs = {
            "order": TensorSpec(("labels",), "int", minimum=0, maximum=n_labels - 1),
            **{f"first.{level}": TensorSpec((None,), "int", minimum=0) for level in levels},
        }
        check_tensors(folder / "tree.safetensors", arrays, specs, {"labels": n_labels})
        first = tuple(np.array(arrays[f"first.{level}"], np.int64) for level in levels)
        return cls(np.array(arrays["order"], np.int64), first)


def flatten(tree: LabelTree, *, step: int, height: int) -> LabelTree:
    """Flatten a tree to at most this height (LightAttention, Algorithm 1).

    The inner nodes are the parents of labels, their ancestors `step` levels above, and so on up to
    the root.
    """
    kept = [tree.height - step * number for number in range(height)]
    levels = [0, *sorted(level for level in kept if level > 0)]
    first = []
    for level, below in zip(levels, [*levels[1:], tree.height + 1], strict=True):
        starts = tree.first[level]
        for between in tree.first[level + 1 : below]:
            starts = between[starts]
        first.append(starts)
    return LabelTree(tree.order, tuple(first))


def build_tree(
    vectors: csr_array, *, seed: int, cluster: int = 16, children: int = 8, height: int = 0
) -> LabelTree:
    """Build the tree of labels with these vectors, by balanced 2-means.

    A parent of labels has at most `cluster` of them and at least half as many (M). Inner nodes have
    `children` each (K, a power of two); the root has the rest. Height 0 chooses the height by the
    number of labels.
    """
    depth = count_halvings(vectors.shape[0], cluster)
    return flatten_to_height(
        build_binary_tree(order_by_clusters(vectors, depth, seed), depth), children, height
    )


def count_halvings(n_labels: int, cluster: int) -> int:
    """Return the halvings after which no cluster has more than `cluster` labels."""
    if cluster < 2:
        raise ValueError(f"cluster must be at least 2, not {cluster}")
    return max(0, math.ceil(math.log2(max(1, n_labels) / cluster)))


def compute_height(n_labels: int, *, cluster: int, children: int, most: int) -> int:
    """Return the height of the shallowest tree whose root has at most `most` children."""
    halvings = count_halvings(n_labels, cluster) - (most.bit_length() - 1)
    return 1 + max(0, -(-halvings // (children.bit_length() - 1)))


def flatten_to_height(tree: LabelTree, children: int, height: int) -> LabelTree:
    """Flatten a binary tree to nodes with `children` children; height 0 is chosen by size."""
    if children < 2 or children & (children - 1):
        raise ValueError(f"children must be a power of two, at least 2, not {children}")
    height = height or (2 if tree.n_labels < WIDE else 3)
    return flatten(tree, step=children.bit_length() - 1, height=height)


def build_binary_tree(order: Ints, depth: int) -> LabelTree:
    """Build the binary tree of this depth over labels in this order."""
    starts = np.array([0, len(order)], dtype=np.int64)
    for _ in range(depth):
        starts = halve_bounds(starts)
    pairs = [np.arange(0, 2 ** (level + 1) + 1, 2) for level in range(depth)]
    return LabelTree(np.asarray(order, np.int64), (*pairs, starts))


def build_label_vectors(features: csr_array, gold: csr_array) -> csr_array:
    """Return (labels, features): the sum of the features of a label's documents, of length 1."""
    return normalise_rows(csr_array(csr_array(gold.T).astype(np.float32) @ features))
