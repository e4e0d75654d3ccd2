"""Levels where there is no ontology: clusters of labels, found in the documents that have them.

    documents' TF-IDF ─ label vectors ─ balanced tree (label_tree.py) ─ clusters as labels above

A cluster is a label of the level-wise networks, true where a document has a label below it; it is
never an answer.
"""

from __future__ import annotations

import numpy as np

from ontodex.features.tfidf import Tfidf, TfidfConfig
from ontodex.models import label_tree
from ontodex.models.label_tree import LabelTree
from ontodex.models.level_network import LevelwiseConfig
from ontodex.models.level_reading import word_tokens
from ontodex.ontology.graph import Concept, build
from ontodex.types import Corpus, LabelSpace

CLUSTER, CHILDREN = 16, 8  # labels of the smallest cluster at the most; clusters below a cluster


def grow_tree(train: Corpus, labels: LabelSpace, config: LevelwiseConfig) -> LabelTree:
    """The tree of the learned labels."""
    tokens = word_tokens(train, config)
    weighed = TfidfConfig(min_df=config.min_count, max_length=config.max_length)
    features = Tfidf.fit(tokens, weighed).transform(tokens)
    vectors = label_tree.label_vectors(features, labels.gold(train)[:, : labels.n_seen])
    return label_tree.build(vectors, seed=config.train.seed, cluster=CLUSTER, children=CHILDREN)


def with_clusters(labels: LabelSpace, tree: LabelTree) -> LabelSpace:
    """The learned labels, then a column for each cluster, with the tree as their ontology; a
    cluster is as frequent as its labels together."""
    n, own = tree.n_labels, labels.frequency[: tree.n_labels]
    ids, frequency, concepts = list(labels.ids[:n]), own.tolist(), []
    above = [""] * n  # the cluster over each label, one level up from where the walk is
    for level in range(1, tree.height + 1):
        node_of = tree.node_of(level)
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
    return LabelSpace(tuple(ids), counts, labels.n_docs, build(concepts))
