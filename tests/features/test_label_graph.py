from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_array

from ontodex.errors import ConfigError
from ontodex.features.label_graph import (
    LabelGraphConfig,
    build_cooccurrence_graph,
    build_graph,
    compute_label_vectors,
    draw_walks,
)
from ontodex.features.prepare import PrepareConfig, prepare
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.types import Corpus, Doc, LabelSpace

GOLD = csr_array(
    np.array([[1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0]], np.int8)
)
SMALL = LabelGraphConfig(label_size=8, walks=10, walk_length=10, walk_passes=3)


def corpus() -> Corpus:
    """Two groups of labels that never meet, and one label that is always alone."""
    rng = np.random.default_rng(0)
    groups = [["a", "b", "c"], ["x", "y", "z"]]
    docs = [
        Doc(str(i), {"text": "w"}, labels=tuple(rng.choice(groups[i % 2], 2, replace=False)))
        for i in range(40)
    ]
    return Corpus.of([*docs, Doc("alone", {"text": "w"}, labels=("q",))])


def test_labels_that_share_a_document_are_neighbours_and_none_is_its_own():
    graph = build_cooccurrence_graph(GOLD).toarray()
    dense = GOLD.toarray()
    for i in range(4):
        for j in range(4):
            shared = any(row[i] and row[j] for row in dense)
            assert graph[i, j] == (1 if shared and i != j else 0)


def test_a_label_in_more_documents_than_a_byte_counts_keeps_its_edges():
    often = csr_array(np.ones((256, 2), np.int8))  # 256 overflows 8 bits to 0
    assert build_cooccurrence_graph(often).toarray().tolist() == [[0, 1], [1, 0]]


def test_the_ontology_gives_edges_between_parents_and_children():
    ontology = build_ontology(
        [
            Concept("top", {"en": "top"}),
            Concept("a", {"en": "a"}, parents=("top",)),
            Concept("b", {"en": "b"}, parents=("top",)),
        ]
    )
    labels = LabelSpace.of(corpus(), ontology)
    graph = build_graph(corpus(), labels, LabelGraphConfig(graph="ontology"))
    met = {frozenset((labels.ids[i], labels.ids[j])) for i, j in zip(*graph.nonzero(), strict=True)}
    assert met == {frozenset({"top", "a"}), frozenset({"top", "b"})}
    with pytest.raises(ConfigError, match="needs an ontology"):
        build_graph(corpus(), LabelSpace.of(corpus()), LabelGraphConfig(graph="ontology"))


def test_walks_start_everywhere_follow_edges_and_stay_where_there_are_none():
    graph = build_cooccurrence_graph(GOLD)
    walks = draw_walks(graph, per_node=5, length=7, seed=0)
    assert walks.shape == (20, 7)
    assert np.bincount(walks[:, 0]).tolist() == [5, 5, 5, 5]
    edges = set(zip(*(place.tolist() for place in graph.nonzero()), strict=True)) | {(3, 3)}
    steps = {(a, b) for walk in walks.tolist() for a, b in pairwise(walk)}
    assert steps <= edges


def test_every_edge_is_as_likely_as_another():
    graph = csr_array(np.array([[0, 1, 1, 1], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]]))
    walks = draw_walks(graph, per_node=3_000, length=2, seed=1)
    second = walks[walks[:, 0] == 0][:, 1]
    np.testing.assert_allclose(np.bincount(second)[1:] / 3_000, 1 / 3, atol=0.03)


@pytest.mark.parametrize("by", ["gensim", "torch"])
def test_labels_of_one_group_lie_together(by, monkeypatch):
    if by == "torch":  # as where gensim is not installed
        monkeypatch.setattr("ontodex.features.label_graph.find_spec", lambda name: None)
    labels = LabelSpace.of(corpus())
    vectors = compute_label_vectors(corpus(), labels, SMALL)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    same, other = unit[labels.column["a"]] @ unit[[labels.column["b"], labels.column["x"]]].T
    assert same > other + 0.2
    np.testing.assert_array_equal(vectors, compute_label_vectors(corpus(), labels, SMALL))


def test_prepared_vectors_are_found_without_gensim(tmp_path, monkeypatch):
    train = Corpus.write(corpus(), tmp_path / "train")
    part = train.select(np.arange(30))
    labels = [LabelSpace.of(c) for c in (train, part)]
    here = [
        compute_label_vectors(c, known, SMALL)
        for c, known in zip((train, part), labels, strict=True)
    ]
    shape = {"label_size": 8, "walks": 10, "walk_length": 10, "walk_passes": 3}
    config = PrepareConfig(graph_vectors=True, **shape)
    carried = prepare({"train": train}, tmp_path / "out", config, training_parts=[train, part])[
        "train"
    ]
    monkeypatch.setitem(sys.modules, "gensim", None)
    monkeypatch.delitem(sys.modules, "gensim.models", raising=False)
    there = [
        compute_label_vectors(c, known, SMALL)
        for c, known in zip((carried, carried.select(np.arange(30))), labels, strict=True)
    ]
    for one, two in zip(here, there, strict=True):
        np.testing.assert_array_equal(one, two)
    assert compute_label_vectors(carried, labels[0], LabelGraphConfig(label_size=9)).any()
