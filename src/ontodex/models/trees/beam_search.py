"""Beam search in label trees: keep the best nodes of each level and rank the labels below them.

    root ─ children of the kept nodes ─ the `beam` best ─ ... ─ leaves ─ labels, averaged over trees

A classifier's score s becomes log P = -max(0, 1 - s)^2; log P adds up along a path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.models.baselines.sparse_rows import multiply_rows, score_all
from ontodex.models.trees.forest import Forest

Ints = NDArray[Any]  # of whole numbers
Floats = NDArray[np.float32]
Scorer = Callable[[Ints, Ints, Ints], Floats]  # (documents, nodes, classifiers of the nodes)

_FEW_WEIGHTS = 2**25  # of a forest that may be held a second time, by feature (256 MiB)


@dataclass(frozen=True, eq=False)
class Beam:
    """The nodes that are kept. A search is one document in one tree; searches are numbered document
    by document."""

    search: Ints
    node: Ints
    log_p: Floats

    def take(self, places: NDArray[Any]) -> Beam:
        return Beam(self.search[places], self.node[places], self.log_p[places])

    def concatenate(self, other: Beam) -> Beam:
        pairs = ((self.search, other.search), (self.node, other.node), (self.log_p, other.log_p))
        return Beam(*(np.concatenate(pair) for pair in pairs))


def beam_search(forest: Forest, rows: csr_array, n_labels: int, beam: int) -> csr_array:
    """Return (documents, labels): P(label), averaged over the trees, of the labels found.

    All documents go down all trees together, level by level.
    """
    n_docs, n_trees = rows.shape[0], len(forest.roots)
    score = make_scorer(forest, rows)
    searches = np.arange(n_docs * n_trees)
    kept = Beam(searches, np.tile(forest.roots, n_docs), np.zeros(len(searches), dtype=np.float32))
    while not (at_leaf := forest.is_leaf[kept.node]).all():
        _, below = expand_nodes(forest, score, kept.take(~at_leaf))
        kept = kept.take(at_leaf).concatenate(below)
        kept = kept.take(select_best_of_each(kept.search, kept.log_p, beam))
    parent, labels = expand_nodes(forest, score, kept)
    labels = labels.take(select_best_children(forest, parent, labels.log_p, beam))
    return _average_trees(labels, n_docs, n_trees, n_labels)


def _average_trees(labels: Beam, n_docs: int, n_trees: int, n_labels: int) -> csr_array:
    documents = labels.search // n_trees
    keys, where = np.unique(documents * n_labels + labels.node, return_inverse=True)
    p = np.bincount(where, np.exp(labels.log_p), minlength=len(keys)) / n_trees
    starts = np.searchsorted(keys, np.arange(n_docs + 1) * n_labels)
    found = csr_array((p.astype(np.float32), keys % n_labels, starts), shape=(n_docs, n_labels))
    found.eliminate_zeros()
    return found


def expand_nodes(forest: Forest, score: Scorer, kept: Beam) -> tuple[Ints, Beam]:
    """Return the children of all kept nodes, and for each child the place of its parent."""
    first = forest.first[kept.node].astype(np.int64)
    sizes = forest.first[kept.node + 1] - first
    parent = np.repeat(np.arange(len(sizes)), sizes)
    classifier = np.arange(len(parent)) + np.repeat(first - np.cumsum(sizes) + sizes, sizes)
    scores = score(kept.search // len(forest.roots), kept.node, classifier)
    log_p = kept.log_p[parent] - np.maximum(0, 1 - scores) ** 2
    return parent, Beam(kept.search[parent], forest.child[classifier], log_p)


def make_scorer(forest: Forest, rows: csr_array) -> Scorer:
    """Return the function that scores classifiers; both choices give the same bits.

    For many documents it scores the nodes that they reach. A few documents rarely share a node, so
    all classifiers are scored at once.
    """
    if rows.shape[0] > len(forest.is_leaf) or forest.weights.nnz > _FEW_WEIGHTS:
        return partial(score_by_node, forest, rows)
    scores = score_all(rows, forest.weights_by_feature)

    def look_up(docs: Ints, nodes: Ints, classifier: Ints) -> Floats:
        return scores[np.repeat(docs, np.diff(forest.first)[nodes]), classifier]

    return look_up


def score_by_node(
    forest: Forest, rows: csr_array, docs: Ints, nodes: Ints, classifier: Ints
) -> Floats:
    """Return the score of each of `classifier`: those of all `nodes`, each for its document."""
    sizes = np.diff(forest.first)[nodes]
    start = np.cumsum(sizes) - sizes
    scores = np.empty(len(classifier), dtype=np.float32)
    order = np.argsort(nodes, kind="stable")
    reached, starts = np.unique(nodes[order], return_index=True)
    for node, here in zip(reached.tolist(), np.split(order, starts[1:]), strict=True):
        weights = forest.weights[forest.first[node] : forest.first[node + 1]]
        places = start[here][:, None] + np.arange(weights.shape[0])
        scores[places] = multiply_rows(rows[docs[here]], weights)
    return scores


def select_best_children(forest: Forest, parent: Ints, log_p: Floats, count: int) -> Ints:
    """Return the places of the `count` best children of each parent, as omikuji selects them."""
    width = int(np.diff(forest.first).max())  # the same for any documents, so that ties are too
    sizes = np.bincount(parent)
    start = np.cumsum(sizes) - sizes
    rows = np.full((len(sizes), width), -np.inf, dtype=np.float32)
    rows[np.arange(width) < sizes[:, None]] = log_p
    best = np.argpartition(-rows, min(count, width) - 1, axis=1)[:, :count]
    return (start[:, None] + best)[best < sizes[:, None]]


def select_best_of_each(group: Ints, log_p: Floats, count: int) -> Ints:
    """Return the places of the `count` best of each group, group after group, best first."""
    order = np.lexsort((-log_p, group))
    _, starts, sizes = np.unique(group[order], return_index=True, return_counts=True)
    rank = np.arange(len(order)) - np.repeat(starts, sizes)
    return order[rank < count]
