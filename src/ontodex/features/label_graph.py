"""Label vectors from a label graph: DeepWalk (DXML, section 3.2).

    gold - labels that share a document  +
    ontology - parents and children      + graph - random walks - skip-gram - one vector per label
                                            (l, l)   (walks, steps)              (l, e)

Walks use numpy; skip-gram uses gensim, or torch where gensim is not installed. Vectors are saved in
half precision beside the training corpus, and `ontodex prepare` can write them for a machine
without gensim.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from ontodex.config import check_least
from ontodex.errors import ConfigError, DataError
from ontodex.features import cache
from ontodex.features.cache import pick_settings
from ontodex.features.skip_gram import train_skip_gram
from ontodex.features.tokens import Tokens
from ontodex.features.vectors import Vectors, train_vectors
from ontodex.types import Corpus, LabelSpace, Ontology

Floats = NDArray[np.float32]

_WINDOW = 5  # labels within this distance on a walk get similar vectors
_SEED = 0  # of the walks and of skip-gram


@dataclass(frozen=True)
class LabelGraphConfig:
    """Settings of label vectors; a system's settings inherit these."""

    graph: Literal["cooccurrence", "ontology"] = "cooccurrence"  # source of the edges
    label_size: int = 100  # numbers of a label's vector
    walks: int = 10  # from each label
    walk_length: int = 40  # labels on a walk
    walk_passes: int = 5  # passes of skip-gram over the walks

    def __post_init__(self) -> None:
        check_least(self, 1, "label_size", "walks", "walk_length", "walk_passes")


def compute_label_vectors(
    train: Corpus, labels: LabelSpace, config: LabelGraphConfig, *, device: str = "cpu"
) -> Floats:
    """Return (labels, label_size) vectors, from the cache beside the corpus where it has them.

    Labels outside the graph are zero; with `cooccurrence`, those without a training document.
    """
    found = cache.load_or_compute(
        train,
        _recipe(labels, config),
        lambda: _compute_parts(train, labels, config, device),
        lambda parts: _check_parts(parts, labels, config),
    )
    vectors = np.zeros((len(labels), config.label_size), dtype=np.float32)
    columns = [labels.column[label] for label in found.lists["labels"]]
    vectors[columns] = found.arrays["vectors"]
    return vectors


def _check_parts(parts: cache.Parts, labels: LabelSpace, config: LabelGraphConfig) -> None:
    known = parts.lists["labels"]
    cache.check_array(parts, "vectors", "f", (len(known), config.label_size))
    if len(set(known)) < len(known) or not all(label in labels.column for label in known):
        raise DataError("prepared features: a label is unknown or there twice")
    if not np.isfinite(parts.arrays["vectors"]).all():
        raise DataError("prepared features: the vectors of the labels are not finite")


def compute_graph_vectors(
    train: Corpus, labels: LabelSpace, config: LabelGraphConfig
) -> tuple[cache.Recipe, cache.Parts]:
    """Return what `compute_label_vectors` will look for in the cache beside a corpus."""
    return _recipe(labels, config), _compute_parts(train, labels, config, "cpu")


def _recipe(labels: LabelSpace, config: LabelGraphConfig) -> cache.Recipe:
    """Return the cache key of the vectors besides the training corpus."""
    digest = hashlib.sha256("\n".join(labels.ids).encode())
    if config.graph == "ontology":
        digest.update(build_ontology_graph(labels).indices.tobytes())
    settings = pick_settings(LabelGraphConfig, config)
    return {"label_vectors": 2, **settings, "labels": digest.hexdigest()}


def _compute_parts(
    train: Corpus, labels: LabelSpace, config: LabelGraphConfig, device: str
) -> cache.Parts:
    """Walk on the graph and learn the vectors."""
    graph = build_graph(train, labels, config)
    steps = draw_walks(graph, config.walks, config.walk_length, seed=_SEED)
    found = _learn_vectors(steps, labels.ids[: graph.shape[0]], config, device)
    return cache.Parts({"vectors": found.array.astype(np.float16)}, {"labels": found.words})


def _learn_vectors(
    steps: NDArray[np.int32], words: tuple[str, ...], config: LabelGraphConfig, device: str
) -> Vectors:
    """Learn the vectors of the labels on the walks by skip-gram."""
    size, passes = config.label_size, config.walk_passes
    if find_spec("gensim") is None:
        shape = {"size": size, "window": _WINDOW, "passes": passes, "seed": _SEED}
        return Vectors(words, train_skip_gram(steps, len(words), **shape, device=device))
    ends = np.arange(0, steps.size + 1, config.walk_length)
    return train_vectors(
        Tokens(words, steps.ravel().view(np.uint32), ends),
        size=size,
        seed=_SEED,
        window=_WINDOW,
        epochs=passes,
        subsample=0,
    )


def build_graph(train: Corpus, labels: LabelSpace, config: LabelGraphConfig) -> csr_array:
    """Return (nodes, nodes), 1 for an edge; nodes are the first columns of the label space."""
    if config.graph == "ontology":
        return build_ontology_graph(labels)
    gold = labels.gold(train)[:, : labels.n_seen]
    return build_cooccurrence_graph(csr_array(gold))


def build_cooccurrence_graph(gold: csr_array) -> csr_array:
    """Return a graph with an edge between labels that share a document."""
    wide = csr_array(gold.astype(np.int32))  # counts outgrow the 8 bits of gold
    shared = coo_array(wide.T @ wide)
    differ = shared.row != shared.col
    return _build_edges(shared.row[differ], shared.col[differ], shared.shape[0])


def _build_edges(row: NDArray[Any], column: NDArray[Any], n: int) -> csr_array:
    """Return a graph of n nodes with these edges, each once."""
    graph = csr_array((np.ones(len(row), np.int8), (row, column)), shape=(n, n))
    graph.sum_duplicates()
    graph.data[:] = 1
    return graph


def build_ontology_graph(labels: LabelSpace) -> csr_array:
    """Return a graph with an edge between each concept and its parents."""
    ontology = labels.ontology
    if ontology is None:
        raise ConfigError(
            "[model] graph = 'ontology' needs an ontology",
            hint="give one with --ontology, or --set model.graph=cooccurrence",
        )
    edges = coo_array(ontology.parents)
    column = _find_columns(ontology, labels)
    child, parent = column[edges.row], column[edges.col]
    known = (child >= 0) & (parent >= 0)
    child, parent = child[known], parent[known]
    both = np.concatenate([child, parent]), np.concatenate([parent, child])
    return _build_edges(*both, len(labels))


def _find_columns(ontology: Ontology, labels: LabelSpace) -> NDArray[np.int64]:
    """Return the column of each concept; -1 where it has none."""
    return np.array([labels.column.get(label, -1) for label in ontology.ids], dtype=np.int64)


def draw_walks(graph: csr_array, per_node: int, length: int, *, seed: int) -> NDArray[np.int32]:
    """Return (nodes x per_node, length) random walks from each node, with equally likely edges.

    A walk from a node without edges stays there.
    """
    n = graph.shape[0]
    random = np.random.default_rng(seed)
    first, degree = graph.indptr[:-1], np.diff(graph.indptr)
    walks = np.empty((per_node * n, length), dtype=np.int32)
    walks[:, 0] = np.concatenate([random.permutation(n) for _ in range(per_node)])
    for step in range(1, length):
        here = walks[:, step - 1]
        edge = first[here] + (random.random(len(here)) * degree[here]).astype(np.int64)
        is_isolated = degree[here] == 0
        walks[:, step] = here
        walks[~is_isolated, step] = graph.indices[edge[~is_isolated]]
    return walks
