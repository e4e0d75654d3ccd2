"""Label trees: `parabel` and `bonsai`, trained by omikuji, searched by us.

    document ─ root ─ children of the best 10 nodes ─ ... ─ leaves ─ labels, averaged over the trees

A classifier's score s becomes log P = -max(0, 1 - s)^2; log P adds up along a path. Parabel splits
the labels of a node into two equal halves until they are few; Bonsai into up to a hundred clusters
of any size. See docs/papers/parabel.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.config import build, check_least
from ontodex.decide.calibrate import Calibration
from ontodex.errors import RunError
from ontodex.features.matrix import MatrixConfig, MatrixFeatures
from ontodex.features.tfidf import unit_rows
from ontodex.models import omikuji_trees
from ontodex.models.base import Span
from ontodex.models.omikuji_trees import Forest
from ontodex.models.sparse_rows import (
    all_scores,
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

Ints = NDArray[Any]  # of whole numbers
Floats = NDArray[np.float32]

_DOCS_TOGETHER = 1_024  # that one thread searches for (100 MiB)
_FEW_WEIGHTS = 2**25  # of a forest that may be held a second time, by feature (256 MiB)


@dataclass(frozen=True)
class ParabelConfig(MatrixConfig):
    """Settings of `parabel`; the features' settings are among them. Defaults are omikuji's."""

    n_trees: int = 3  # whose answers are averaged
    beam: int = 10  # nodes kept at each level of a tree
    leaf_labels: int = 100  # a node with fewer labels is not split
    max_depth: int = 20  # levels of a tree
    clusters: int = 2  # parts a node is split into
    balanced: bool = True  # parts of equal size
    cost: float = 1.0  # liblinear's C
    prune: float = 0.1  # weights nearer to 0 are dropped

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 1, "n_trees", "beam", "leaf_labels", "max_depth")
        if not 2 <= self.clusters <= self.leaf_labels:  # omikuji breaks off otherwise
            raise ValueError(f"clusters must be from 2 to leaf_labels, not {self.clusters}")
        if self.cost <= 0 or self.prune < 0:
            raise ValueError("cost must be above 0 and prune not negative")


@dataclass(frozen=True)
class BonsaiConfig(ParabelConfig):
    """Settings of `bonsai`: wide and shallow."""

    max_depth: int = 3  # levels of a tree
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
        size = min(_DOCS_TOGETHER, -(-rows.shape[0] // cores()))

        def rank(part: slice) -> Ranking:
            return Ranking.of_sparse(search(forest, rows[part], self.n_labels, self.config.beam), k)

        return Ranking.join(list(in_threads(rank, blocks(rows.shape[0], size))), k)

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


@dataclass(frozen=True, eq=False)
class Beam:
    """What is held of every way, the search of one document in one tree: its best nodes. Ways are
    numbered document by document."""

    way: Ints
    node: Ints
    log_p: Floats

    def take(self, places: NDArray[Any]) -> Beam:
        return Beam(self.way[places], self.node[places], self.log_p[places])

    def joined(self, other: Beam) -> Beam:
        pairs = ((self.way, other.way), (self.node, other.node), (self.log_p, other.log_p))
        return Beam(*(np.concatenate(pair) for pair in pairs))


Score = Callable[[Ints, Ints, Ints], Floats]  # of documents, nodes; and the nodes' classifiers


def search(forest: Forest, rows: csr_array, n_labels: int, beam: int) -> csr_array:
    """(documents, labels): P(label) averaged over the trees, for labels that a beam came to.

    All documents go down all trees together, level by level.
    """
    n_docs, n_trees = rows.shape[0], len(forest.roots)
    score = scorer(forest, rows)
    ways = np.arange(n_docs * n_trees)
    held = Beam(ways, np.tile(forest.roots, n_docs), np.zeros(len(ways), dtype=np.float32))
    while not (done := forest.is_leaf[held.node]).all():
        _, below = descend(forest, score, held.take(~done))
        held = held.take(done).joined(below)
        held = held.take(first_of_each(held.way, held.log_p, beam))
    parent, labels = descend(forest, score, held)
    labels = labels.take(best_children(forest, parent, labels.log_p, beam))
    keys, where = np.unique((labels.way // n_trees) * n_labels + labels.node, return_inverse=True)
    p = np.bincount(where, np.exp(labels.log_p), minlength=len(keys)) / n_trees
    starts = np.searchsorted(keys, np.arange(n_docs + 1) * n_labels)
    found = csr_array((p.astype(np.float32), keys % n_labels, starts), shape=(n_docs, n_labels))
    found.eliminate_zeros()
    return found


def descend(forest: Forest, score: Score, held: Beam) -> tuple[Ints, Beam]:
    """The children of all nodes held, and for each the place of its parent."""
    first = forest.first[held.node].astype(np.int64)
    sizes = forest.first[held.node + 1] - first
    parent = np.repeat(np.arange(len(sizes)), sizes)
    classifier = np.arange(len(parent)) + np.repeat(first - np.cumsum(sizes) + sizes, sizes)
    scores = score(held.way // len(forest.roots), held.node, classifier)
    log_p = held.log_p[parent] - np.maximum(0, 1 - scores) ** 2
    return parent, Beam(held.way[parent], forest.child[classifier], log_p)


def scorer(forest: Forest, rows: csr_array) -> Score:
    """How classifiers are scored, with the same bits: for many documents those of the nodes that
    they come to; for a few, who would hardly meet at a node, all of them at once."""
    if rows.shape[0] > len(forest.is_leaf) or forest.weights.nnz > _FEW_WEIGHTS:
        return partial(scores_by_node, forest, rows)
    scores = all_scores(rows, forest.by_feature)

    def look_up(docs: Ints, nodes: Ints, classifier: Ints) -> Floats:
        return scores[np.repeat(docs, np.diff(forest.first)[nodes]), classifier]

    return look_up


def scores_by_node(
    forest: Forest, rows: csr_array, docs: Ints, nodes: Ints, classifier: Ints
) -> Floats:
    """The scores of `classifier`, those of all nodes one after the other, each for its document."""
    sizes = np.diff(forest.first)[nodes]
    start = np.cumsum(sizes) - sizes
    scores = np.empty(len(classifier), dtype=np.float32)
    order = np.argsort(nodes, kind="stable")
    met, starts = np.unique(nodes[order], return_index=True)
    for node, here in zip(met.tolist(), np.split(order, starts[1:]), strict=True):
        weights = forest.weights[forest.first[node] : forest.first[node + 1]]
        places = start[here][:, None] + np.arange(weights.shape[0])
        scores[places] = product(rows[docs[here]], weights)
    return scores


def best_children(forest: Forest, parent: Ints, log_p: Floats, count: int) -> Ints:
    """The places of the `count` best below each parent; omikuji takes no more labels of a leaf."""
    width = int(np.diff(forest.first).max())  # whatever the documents, so that ties fall the same
    sizes = np.bincount(parent)
    start = np.cumsum(sizes) - sizes
    rows = np.full((len(sizes), width), -np.inf, dtype=np.float32)
    rows[np.arange(width) < sizes[:, None]] = log_p
    best = np.argpartition(-rows, min(count, width) - 1, axis=1)[:, :count]
    return (start[:, None] + best)[best < sizes[:, None]]


def first_of_each(group: Ints, log_p: Floats, count: int) -> Ints:
    """The places of the `count` best of each group, group after group, the best first."""
    order = np.lexsort((-log_p, group))
    _, starts, sizes = np.unique(group[order], return_index=True, return_counts=True)
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
