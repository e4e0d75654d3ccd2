"""Label trees against the number of labels: seconds to build, and how tight the clusters are.

    python bench/label_tree.py --labels 10000 100000 1000000

One synthetic document a label (bench/synthetic.py), so that a label's vector is its document's:
about ten values each, groups of fifty labels planted. Tightness is the mean cosine of a label with
the centre of its cluster of 8 to 16. Beside it stands that of clusters by chance, and that of the
tree which omikuji builds from the same vectors with the same cluster size, where it is installed,
up to `--omikuji` labels. Omikuji shows a tree only with its classifiers, so its seconds hold some
of their training. Seconds are of processor time, over all cores. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.features.tfidf import normalise_rows
from ontodex.models.trees import omikuji
from ontodex.models.trees.label_tree import build_tree
from synthetic import Drawn, Shape, draw

CLUSTER = 16


def vectors_of(n_labels: int) -> csr_array:
    """(labels, features), rows of length 1."""
    shape = Shape(
        labels=n_labels,
        features=max(1_000, n_labels // 2),
        documents=n_labels,
        labels_a_document=1.0,
        words_of_group=6,
        noise_words=1,
    )
    drawn: Drawn = draw(shape, n_labels, part=0, cover=True)
    ones = np.ones(len(drawn.words), dtype=np.float32)
    label = np.empty(n_labels, dtype=np.int64)
    label[drawn.label_owner] = drawn.labels
    pairs = (label[drawn.word_owner], drawn.words)
    return normalise_rows(csr_array(csr_array((ones, pairs), shape=(n_labels, shape.features))))


def omikuji_clusters(vectors: csr_array) -> NDArray[np.int64]:
    """The cluster of each label in omikuji's tree over documents that have one label each."""
    n = vectors.shape[0]
    one_each = csr_array((np.ones(n, np.int8), (np.arange(n), np.arange(n))))
    # It shows its trees only with their classifiers: these are trained as little as it lets one.
    settings = {
        "n_trees": 1,
        "min_branch_size": CLUSTER,
        "max_depth": 40,
        "linear_max_iter": 1,
        "linear_weight_threshold": 10.0,
    }
    forest = omikuji.train_forest(vectors, one_each, settings)
    cluster = np.empty(n, dtype=np.int64)
    for node in np.flatnonzero(forest.is_leaf).tolist():
        cluster[forest.child[forest.first[node] : forest.first[node + 1]]] = node
    return np.unique(cluster, return_inverse=True)[1].astype(np.int64)


def compute_cohesion(vectors: csr_array, nodes: NDArray[np.int64]) -> float:
    """Return the mean cosine of labels with the centre of their node."""
    n = len(nodes)
    members = csr_array((np.ones(n, np.float32), (nodes, np.arange(n))))
    sums = csr_array(members @ vectors)
    # The cosines of a cluster's labels with their centre add up to the length of their sum.
    return float(np.sqrt(csr_array(sums.multiply(sums)).sum(axis=1)).sum() / n)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--labels", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--omikuji", type=int, default=1_000_000, help="most labels to compare at")
    arguments = parser.parse_args()
    sys.stdout.write(
        "| labels | values | wall s | CPU s | clusters | tightness | by chance "
        "| omikuji | its clusters | its CPU s |\n"
        "|---|---|---|---|---|---|---|---|---|---|\n"
    )
    for n_labels in arguments.labels:
        vectors = vectors_of(n_labels)
        began = time.perf_counter(), time.process_time()
        tree = build_tree(vectors, seed=1, cluster=CLUSTER)
        wall, busy = time.perf_counter() - began[0], time.process_time() - began[1]
        nodes = tree.find_nodes(tree.height)
        tight = compute_cohesion(vectors, nodes)
        chance = compute_cohesion(vectors, np.random.default_rng(0).permutation(nodes))
        theirs = "| | |"
        if n_labels <= arguments.omikuji and find_spec("omikuji") is not None:
            start = resource.getrusage(resource.RUSAGE_CHILDREN)  # it is a process of its own
            clusters = omikuji_clusters(vectors)
            end = resource.getrusage(resource.RUSAGE_CHILDREN)
            their_busy = end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime
            theirs = f"{compute_cohesion(vectors, clusters):.4f} | {clusters.max() + 1:,} "
            theirs += f"| {their_busy:.1f} |"
        sys.stdout.write(
            f"| {n_labels:,} | {vectors.nnz:,} | {wall:.1f} | {busy:.1f} "
            f"| {tree.count_nodes(tree.height):,} | {tight:.4f} | {chance:.4f} | {theirs}\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
