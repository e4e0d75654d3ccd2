"""Label vectors from a label graph: DeepWalk (paper 001, section 3.2).

    gold ─ labels that share a document  ┐
    ontology ─ parents and children      ┴ graph ─ random walks ─ skip-gram ─ one vector a label
                                            (l, l)   (walks, steps)              (l, e)

Walks are numpy; skip-gram is gensim's, or torch's where a GPU should do it. Vectors are kept in
half precision beside the training corpus, and `ontodex prepare` can carry them to a machine that
has no gensim.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from ontodex.config import check_least, check_seed
from ontodex.errors import ConfigError
from ontodex.features import cache
from ontodex.features.cache import settings_of
from ontodex.features.skip_gram import skip_gram
from ontodex.features.tokens import Tokens
from ontodex.features.vectors import Vectors, train_vectors
from ontodex.types import Corpus, LabelSpace, Ontology

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class LabelGraphConfig:
    """What label vectors are made from; a system's settings inherit these."""

    graph: Literal["cooccurrence", "ontology"] = "cooccurrence"  # where edges come from
    label_size: int = 100  # of a label's vector
    walks: int = 10  # from each label
    walk_length: int = 40  # labels on a walk
    walk_window: int = 5  # labels this far apart on a walk are told to be alike
    walk_passes: int = 5  # of skip-gram over the walks
    skip_gram: Literal["gensim", "torch"] = "gensim"  # torch: on the device the network trains on
    walk_seed: int = 0  # of the walks

    def __post_init__(self) -> None:
        check_least(self, 1, "label_size", "walks", "walk_length", "walk_window", "walk_passes")
        check_seed(self, "walk_seed")


def label_vectors(
    train: Corpus, labels: LabelSpace, config: LabelGraphConfig, *, device: str = "cpu"
) -> Floats:
    """(labels, label_size); labels that the graph does not have (with `cooccurrence`, those no
    training document has) are zero. Found beside the corpus where they were made before."""
    made = cache.cached(
        train, _recipe(labels, config), lambda: _walked(train, labels, config, device)
    )
    vectors = np.zeros((len(labels), config.label_size), dtype=np.float32)
    columns = [labels.column[label] for label in made.lists["labels"]]
    vectors[columns] = made.arrays["vectors"]
    return vectors


def graph_vectors(
    train: Corpus, labels: LabelSpace, config: LabelGraphConfig
) -> tuple[cache.Recipe, cache.Parts]:
    """What to keep beside a copy of the corpus, so that `label_vectors` finds it there."""
    return _recipe(labels, config), _walked(train, labels, config, "cpu")


def _recipe(labels: LabelSpace, config: LabelGraphConfig) -> cache.Recipe:
    """What the vectors are found by, besides the training corpus."""
    known = hashlib.sha256("\n".join(labels.ids).encode())
    if config.graph == "ontology":
        known.update(ontology_graph(labels).indices.tobytes())
    settings = settings_of(LabelGraphConfig, config)
    return {"label_vectors": 1, **settings, "labels": known.hexdigest()}


def _walked(
    train: Corpus, labels: LabelSpace, config: LabelGraphConfig, device: str
) -> cache.Parts:
    graph = build_graph(train, labels, config)
    steps = random_walks(graph, config.walks, config.walk_length, seed=config.walk_seed)
    found = _learned(steps, labels.ids[: graph.shape[0]], config, device)
    return cache.Parts({"vectors": found.array.astype(np.float16)}, {"labels": found.words})


def _learned(
    steps: NDArray[np.int32], words: tuple[str, ...], config: LabelGraphConfig, device: str
) -> Vectors:
    size, window, passes = config.label_size, config.walk_window, config.walk_passes
    if config.skip_gram == "torch":
        shape = {"size": size, "window": window, "passes": passes, "seed": config.walk_seed}
        return Vectors(words, skip_gram(steps, len(words), **shape, device=device))
    ends = np.arange(0, steps.size + 1, config.walk_length)
    return train_vectors(
        Tokens(words, steps.ravel().view(np.uint32), ends),
        size=size,
        seed=config.walk_seed,
        window=window,
        epochs=passes,
        subsample=0,
    )


# ------------------------------------------------------------------------------------- the graph


def build_graph(train: Corpus, labels: LabelSpace, config: LabelGraphConfig) -> csr_array:
    """(nodes, nodes), 1 where there is an edge; nodes are the first columns of the label space."""
    if config.graph == "ontology":
        return ontology_graph(labels)
    gold = labels.gold(train)[:, : labels.n_seen]
    return cooccurrence_graph(csr_array(gold))


def cooccurrence_graph(gold: csr_array) -> csr_array:
    """An edge where two labels share a document."""
    wide = csr_array(gold.astype(np.int32))  # counts outgrow the 8 bits of gold
    shared = coo_array(wide.T @ wide)
    apart = shared.row != shared.col
    return _edges(shared.row[apart], shared.col[apart], shared.shape[0])


def _edges(row: NDArray[Any], column: NDArray[Any], n: int) -> csr_array:
    """A graph of n nodes with these edges, each once."""
    graph = csr_array((np.ones(len(row), np.int8), (row, column)), shape=(n, n))
    graph.sum_duplicates()
    graph.data[:] = 1
    return graph


def ontology_graph(labels: LabelSpace) -> csr_array:
    """An edge between each concept and its parents."""
    ontology = labels.ontology
    if ontology is None:
        raise ConfigError(
            "[model] graph = 'ontology' needs an ontology",
            hint="give one with --ontology, or --set model.graph=cooccurrence",
        )
    edges = coo_array(ontology.parents)
    column = _columns(ontology, labels)
    child, parent = column[edges.row], column[edges.col]
    known = (child >= 0) & (parent >= 0)
    child, parent = child[known], parent[known]
    both = np.concatenate([child, parent]), np.concatenate([parent, child])
    return _edges(*both, len(labels))


def _columns(ontology: Ontology, labels: LabelSpace) -> NDArray[np.int64]:
    """The column of each concept; -1 where it has none."""
    return np.array([labels.column.get(label, -1) for label in ontology.ids], dtype=np.int64)


# ------------------------------------------------------------------------------------- the walks


def random_walks(graph: csr_array, per_node: int, length: int, *, seed: int) -> NDArray[np.int32]:
    """(nodes x per_node, length): the nodes met from each node on, any edge as likely as another
    at each step. A node without edges stays where it is."""
    n = graph.shape[0]
    random = np.random.default_rng(seed)
    first, degree = graph.indptr[:-1], np.diff(graph.indptr)
    walks = np.empty((per_node * n, length), dtype=np.int32)
    walks[:, 0] = np.concatenate([random.permutation(n) for _ in range(per_node)])
    for step in range(1, length):
        here = walks[:, step - 1]
        edge = first[here] + (random.random(len(here)) * degree[here]).astype(np.int64)
        alone = degree[here] == 0
        walks[:, step] = here
        walks[~alone, step] = graph.indices[edge[~alone]]
    return walks


__all__ = ["LabelGraphConfig", "graph_vectors", "label_vectors", "random_walks"]
