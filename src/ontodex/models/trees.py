"""Label trees: `parabel` and `bonsai`, trained by omikuji, searched by us.

    document ─ root ─ children of the best 10 nodes ─ ... ─ leaves ─ labels, averaged over the trees

A classifier's score s becomes log P = -max(0, 1 - s)^2; log P adds up along a path. Parabel splits
the labels of a node into two equal halves until they are few; Bonsai into up to a hundred clusters
of any size. See docs/papers/parabel.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.config import build
from ontodex.decide.calibrate import Calibration
from ontodex.errors import RunError
from ontodex.features.matrix import MatrixConfig, MatrixFeatures
from ontodex.features.tfidf import unit_rows
from ontodex.models import omikuji_trees
from ontodex.models.base import Span
from ontodex.models.omikuji_trees import Forest
from ontodex.models.sparse_rows import (
    as_rows,
    blocks,
    calibrated,
    cores,
    in_threads,
    load_about,
    load_rows,
    product,
    save_about,
    save_rows,
    spans,
    training_gold,
    with_bias,
)
from ontodex.types import Corpus, Doc, LabelSpace, Ranking

_SCORES_TOGETHER = 2**24  # label scores held at a time by one thread (64 MiB)


@dataclass(frozen=True)
class ParabelConfig(MatrixConfig):
    """Settings of `parabel`; the features' settings are among them. Defaults are omikuji's."""

    n_trees: int = 3
    beam: int = 10  # nodes kept at each level of a tree
    leaf_labels: int = 100  # a node with fewer labels is not split
    max_depth: int = 20
    clusters: int = 2  # parts a node is split into
    balanced: bool = True  # parts of equal size
    cost: float = 1.0  # liblinear's C
    prune: float = 0.1  # weights nearer to 0 are dropped

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("n_trees", "beam", "leaf_labels", "max_depth"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 2 <= self.clusters <= self.leaf_labels:  # omikuji breaks off otherwise
            raise ValueError(f"clusters must be from 2 to leaf_labels, not {self.clusters}")
        if self.cost <= 0 or self.prune < 0:
            raise ValueError("cost must be above 0 and prune not negative")


@dataclass(frozen=True)
class BonsaiConfig(ParabelConfig):
    """Settings of `bonsai`: wide and shallow."""

    max_depth: int = 3
    clusters: int = 100
    balanced: bool = False


class Parabel:
    """Balanced binary label trees."""

    Config: ClassVar[type[ParabelConfig]] = ParabelConfig

    def __init__(self, config: ParabelConfig, *, device: str = "cpu") -> None:
        self.config = config
        self.features = MatrixFeatures(config)
        self.forest: Forest | None = None
        self.n_labels = 0
        self.calibration = Calibration.none()

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        self.refit(train, labels)
        self.calibration = calibrated(self._rank, dev, labels.gold(dev))

    def refit(self, train: Corpus, labels: LabelSpace) -> None:
        rows = unit_rows(as_rows(self.features.fit(train)))
        gold = training_gold(train, labels)
        self.n_labels = labels.n_seen
        self.forest = omikuji_trees.train(rows, gold, self._settings())

    def _settings(self) -> dict[str, Any]:
        """Ours by the names that omikuji gives them."""
        config = self.config
        return {
            "n_trees": config.n_trees,
            "min_branch_size": config.leaf_labels,
            "max_depth": config.max_depth,
            "cluster_k": config.clusters,
            "cluster_balanced": config.balanced,
            "linear_c": config.cost,
            "linear_weight_threshold": config.prune,
        }

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        return self.calibration.apply(self._rank(corpus, k))

    def _rank(self, corpus: Corpus, k: int) -> Ranking:
        forest = self._fitted()
        rows = with_bias(unit_rows(as_rows(self.features.transform(corpus))))
        size = min(_SCORES_TOGETHER // self.n_labels, -(-rows.shape[0] // cores()))

        def rank(part: slice) -> Ranking:
            scores = search(forest, rows[part], self.n_labels, self.config.beam)
            best = Ranking.top(scores, k)
            return best.keep(best.probabilities > 0)  # 0: the search did not get there

        return Ranking.join(list(in_threads(rank, blocks(rows.shape[0], max(size, 1)))), k)

    def explain(self, doc: Doc, column: int) -> Sequence[Span]:
        """Value x weight, the weights of all classifiers on the way to the label added up and
        averaged over the trees."""
        return spans(self.features, doc, path_weights(self._fitted(), column))

    def save(self, folder: Path) -> None:
        forest = self._fitted()
        save_rows(
            folder, "trees", forest.weights,
            first=forest.first, child=forest.child, is_leaf=forest.is_leaf, roots=forest.roots,
        )  # fmt: skip
        self.features.save(folder)
        save_about(folder, self.config, self.calibration)

    @classmethod
    def load(cls, folder: Path, labels: LabelSpace, *, device: str = "cpu") -> Self:
        about = load_about(folder)
        model = cls(build(cls.Config, about["config"], "model"), device=device)
        model.features = MatrixFeatures.load(folder)
        weights, arrays = load_rows(folder, "trees")
        model.forest = Forest(weights, **arrays)
        model.n_labels = labels.n_seen
        model.calibration = about["calibration"]
        _check(model.forest, labels.n_seen, model.features.n_features, folder)
        return model

    def _fitted(self) -> Forest:
        if self.forest is None:
            raise RunError(f"{type(self).__name__.lower()} was asked before it was fitted")
        return self.forest


class Bonsai(Parabel):
    """Wide, shallow label trees with clusters of any size."""

    Config = BonsaiConfig


# ------------------------------------------------------------------------------------- beam search


def search(forest: Forest, rows: csr_array, n_labels: int, beam: int) -> NDArray[np.float32]:
    """(documents, labels): P(label) averaged over the trees, 0 where no beam came by."""
    total = np.zeros((rows.shape[0], n_labels), dtype=np.float32)
    for root in forest.roots.tolist():
        docs, nodes, log_p = _leaves(forest, rows, root, beam)
        for node, here in _by_node(nodes):
            below = _descend(forest, rows, node, docs[here], log_p[here])
            found = np.where(_largest(below, beam), np.exp(below), 0)
            labels = forest.child[forest.first[node] : forest.first[node + 1]]
            total[np.ix_(docs[here], labels)] += found
    return total / np.float32(len(forest.roots))


Beam = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]  # document, node, log P


def _leaves(forest: Forest, rows: csr_array, root: int, beam: int) -> Beam:
    """The best leaves of each document; all documents go down together, level by level."""
    docs = np.arange(rows.shape[0])
    nodes = np.full(len(docs), root, dtype=np.int32)
    log_p = np.zeros(len(docs), dtype=np.float32)
    while len(docs) and not (done := forest.is_leaf[nodes]).all():
        found: list[Beam] = [(docs[done], nodes[done], log_p[done])]
        docs, nodes, log_p = docs[~done], nodes[~done], log_p[~done]
        for node, here in _by_node(nodes):
            below = _descend(forest, rows, node, docs[here], log_p[here])
            children = forest.child[forest.first[node] : forest.first[node + 1]]
            found.append(
                (
                    np.repeat(docs[here], len(children)),
                    np.tile(children, len(here)),
                    below.ravel(),
                )
            )
        docs, nodes, log_p = (np.concatenate(parts) for parts in zip(*found, strict=True))
        best = _first_of_each(docs, log_p, beam)
        docs, nodes, log_p = docs[best], nodes[best], log_p[best]
    return docs, nodes, log_p


def _descend(
    forest: Forest,
    rows: csr_array,
    node: int,
    docs: NDArray[np.int64],
    log_p: NDArray[np.float32],
) -> NDArray[np.float32]:
    """(documents, children): log P of a node's children for documents that reached it."""
    weights = forest.weights[forest.first[node] : forest.first[node + 1]]
    scores = product(rows[docs], weights)
    return np.asarray(log_p[:, None] - np.maximum(0, 1 - scores) ** 2)


def _largest(values: NDArray[np.float32], count: int) -> NDArray[np.bool_]:
    """Where the `count` largest values of each row are. omikuji takes no more from one node."""
    if values.shape[1] <= count:
        return np.ones(values.shape, dtype=bool)
    chosen = np.zeros(values.shape, dtype=bool)
    places = np.argpartition(-values, count - 1, axis=1)[:, :count]
    np.put_along_axis(chosen, places, True, axis=1)
    return chosen


def _by_node(nodes: NDArray[np.int32]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Each node with the places where it stands."""
    order = np.argsort(nodes, kind="stable")
    _, starts = np.unique(nodes[order], return_index=True)
    for start, end in pairwise([*starts.tolist(), len(order)]):
        yield int(nodes[order[start]]), order[start:end]


def _first_of_each(
    docs: NDArray[np.int64], log_p: NDArray[np.float32], count: int
) -> NDArray[np.int64]:
    """The places of the `count` best of each document."""
    order = np.lexsort((-log_p, docs))
    _, starts, sizes = np.unique(docs[order], return_index=True, return_counts=True)
    rank = np.arange(len(order)) - np.repeat(starts, sizes)
    return order[rank < count]


def path_weights(forest: Forest, column: int) -> csr_array:
    """(1, features + bias): the classifiers on the way to a label, added up, mean over trees."""
    node_of = np.repeat(np.arange(len(forest.is_leaf)), np.diff(forest.first))
    below_leaf = forest.is_leaf[node_of]
    parent = np.full(len(forest.is_leaf), -1, dtype=np.int64)  # classifier that leads to a node
    parent[forest.child[~below_leaf]] = np.flatnonzero(~below_leaf)
    way: list[int] = []
    for step in np.flatnonzero(below_leaf & (forest.child == column)).tolist():
        while step >= 0:
            way.append(step)
            step = int(parent[node_of[step]])
    share = np.full((1, len(way)), 1 / len(forest.roots), dtype=np.float32)
    return csr_array(csr_array(share) @ forest.weights[way])


def _check(forest: Forest, n_labels: int, n_features: int, folder: Path) -> None:
    """Numbers that point outside their arrays must not be followed."""
    n_nodes, n_classifiers = len(forest.is_leaf), forest.weights.shape[0]
    fits = (
        forest.weights.shape[1] == n_features + 1
        and forest.first.shape == (n_nodes + 1,)
        and forest.child.shape == (n_classifiers,)
        and bool(np.all(np.diff(forest.first) >= 0))
        and forest.first[0] == 0
        and forest.first[-1] == n_classifiers
        and bool(np.all((forest.roots >= 0) & (forest.roots < n_nodes)))
        and len(forest.roots) > 0
    )
    if fits:
        node_of = np.repeat(np.arange(n_nodes), np.diff(forest.first))
        below_leaf = forest.is_leaf[node_of]
        # A child node has a higher number than its parent, so a search always ends.
        low = np.where(below_leaf, 0, node_of + 1)
        high = np.where(below_leaf, n_labels, n_nodes)
        fits = bool(np.all((forest.child >= low) & (forest.child < high)))
    if not fits:
        raise RunError(f"{folder}: the trees do not fit the labels and features beside them")
