"""A forest of label trees with a linear classifier for every child of every node."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.errors import RunError
from ontodex.io.tensors import TensorSpec, load_csr, save_csr
from ontodex.models.baselines.sparse_rows import transpose_weights

Ints = NDArray[np.int32]

_SPECS = {
    "first": TensorSpec((None,), "int", minimum=0),
    "child": TensorSpec(("classifiers",), "int", minimum=0),
    "is_leaf": TensorSpec(("nodes",), "bool"),
    "roots": TensorSpec((None,), "int", minimum=0),
}


@dataclass(frozen=True, eq=False)
class Forest:
    """Label trees. A node has consecutive classifiers, one for each child.

    A child is a node or, below a leaf, a label.
    """

    weights: csr_array  # (classifiers, features + bias)
    first: Ints  # (nodes + 1): classifiers of node i are first[i] to first[i + 1]
    child: Ints  # (classifiers): node, or column of a label below a leaf
    is_leaf: NDArray[np.bool_]  # (nodes): its children are labels
    roots: Ints  # (trees)

    @cached_property
    def weights_by_feature(self) -> csr_array:
        """The classifiers as (features + bias, classifiers), a copy in memory."""
        return transpose_weights(self.weights)

    def sum_path_weights(self, column: int) -> csr_array:
        """Return (1, features + bias): the sum of the classifiers on the path to a label.

        The sum is averaged over the trees.
        """
        node_of = np.repeat(np.arange(len(self.is_leaf)), np.diff(self.first))
        below_leaf = self.is_leaf[node_of]
        parent = np.full(len(self.is_leaf), -1, dtype=np.int64)  # classifier that leads to a node
        parent[self.child[~below_leaf]] = np.flatnonzero(~below_leaf)
        path: list[int] = []
        for step in np.flatnonzero(below_leaf & (self.child == column)).tolist():
            while step >= 0:
                path.append(step)
                step = int(parent[node_of[step]])
        share = np.full((1, len(path)), 1 / len(self.roots), dtype=np.float32)
        return csr_array(csr_array(share) @ self.weights[path])

    def save(self, folder: Path) -> None:
        """Write the forest into a run folder."""
        save_csr(
            folder, "trees", self.weights,
            first=self.first, child=self.child, is_leaf=self.is_leaf, roots=self.roots,
        )  # fmt: skip

    @classmethod
    def load(cls, folder: Path, n_labels: int, n_features: int) -> Self:
        """Read the forest of a run folder; refuse numbers that point outside their arrays."""
        shape = ("classifiers", n_features + 1)
        weights, arrays = load_csr(folder, "trees", shape, more=_SPECS)
        forest = cls(weights, **arrays)
        if not forest.is_valid(n_labels):
            raise RunError(
                f"{folder / 'trees.safetensors'}: the nodes are not trees over {n_labels:,} labels",
                hint="copy the run folder again, or train again",
            )
        return forest

    def is_valid(self, n_labels: int) -> bool:
        """Return True if the nodes are trees that have each label at most once, so that every
        search ends and no probability is above 1."""
        n_nodes, sizes = len(self.is_leaf), np.diff(self.first)
        covers_all = (
            len(self.first) == n_nodes + 1
            and self.first[0] == 0
            and self.first[-1] == len(self.child)
            and bool(np.all(sizes >= 0))
        )
        has_roots = len(self.roots) > 0 and bool(np.all(self.roots < n_nodes))
        if not (covers_all and has_roots):
            return False
        node_of = np.repeat(np.arange(n_nodes), sizes)
        below_leaf = self.is_leaf[node_of]
        # A child node has a higher number than its parent, so a search always ends.
        low = np.where(below_leaf, 0, node_of + 1)
        high = np.where(below_leaf, n_labels, n_nodes)
        if not np.all((self.child >= low) & (self.child < high)):
            return False
        inner = self.child[~below_leaf]
        if not np.array_equal(np.sort(np.append(inner, self.roots)), np.arange(n_nodes)):
            return False  # a node without a parent that is no root, or with two
        root = np.arange(n_nodes)
        root[inner] = node_of[~below_leaf]
        while not np.array_equal(root[root], root):  # twice as far up each time
            root = root[root]
        places = root[node_of[below_leaf]] * n_labels + self.child[below_leaf]
        return len(np.unique(places)) == len(places)
