"""Levels without an ontology: a tree of label clusters, learned from the documents.

    TF-IDF of documents ─ label vectors ─ balanced tree (trees/label_tree.py) ─ clusters as labels

The networks predict a cluster like a label. A cluster is true where a document has a label below
it, and it is never part of a predicted label set. This is ours, not the paper's.
"""

from __future__ import annotations

import numpy as np

from ontodex.features.tfidf import Tfidf, TfidfConfig
from ontodex.models.levelwise.config import LevelsConfig
from ontodex.models.levelwise.streams import tokenise_words
from ontodex.models.trees import label_tree
from ontodex.models.trees.label_tree import LabelTree
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.types import Corpus, LabelSpace

CLUSTER, CHILDREN = 16, 8  # most labels of a smallest cluster; children of a cluster


def build_label_tree(train: Corpus, labels: LabelSpace, config: LevelsConfig) -> LabelTree:
    """Return a balanced tree of the learned labels."""
    tokens = tokenise_words(train, config)
    tfidf = TfidfConfig(min_df=config.min_count, max_length=config.max_length)
    features = Tfidf.fit(tokens, tfidf).transform(tokens)
    vectors = label_tree.build_label_vectors(features, labels.gold(train)[:, : labels.n_seen])
    return label_tree.build_tree(
        vectors, seed=config.train.seed, cluster=CLUSTER, children=CHILDREN
    )


def add_clusters(labels: LabelSpace, tree: LabelTree) -> LabelSpace:
    """Return the learned labels, followed by one column per cluster, with the tree as ontology.

    The frequency of a cluster is the sum of the frequencies of its labels.
    """
    n, own = tree.n_labels, labels.frequency[: tree.n_labels]
    ids, frequency, concepts = list(labels.ids[:n]), own.tolist(), []
    above = [""] * n  # the cluster of each label at the level above the current one
    for level in range(1, tree.height + 1):
        node_of = tree.find_nodes(level)
        together = np.argsort(node_of, kind="stable")
        for node, members in enumerate(np.split(together, np.cumsum(np.bincount(node_of))[:-1])):
            name = f"cluster {level}.{node}"
            parent = above[members[0]]
            concepts.append(Concept(name, parents=[parent] if parent else []))
            ids.append(name)
            frequency.append(int(own[members].sum()))
            for column in members.tolist():
                above[column] = name
    labelled = zip(labels.ids[:n], above, strict=True)
    concepts += [Concept(label, parents=[parent] if parent else []) for label, parent in labelled]
    counts = np.array(frequency, dtype=np.int64)
    return LabelSpace(tuple(ids), counts, labels.n_docs, build_ontology(concepts))
