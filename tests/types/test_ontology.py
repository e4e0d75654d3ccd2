from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from ontodex.types import Ontology
from ontodex.types.sparse_column import SparseColumn


def diamond() -> Ontology:
    """root <- left, right <- leaf, and a far way: root <- left <- middle <- leaf2."""
    ids = ("root", "left", "right", "leaf", "middle", "leaf2")
    edges = [(1, 0), (2, 0), (3, 1), (3, 2), (4, 1), (5, 4), (5, 2)]
    rows, columns = zip(*edges, strict=True)
    parents = csr_array((np.ones(len(edges), np.int8), (rows, columns)), shape=(6, 6))
    names = {
        "en": SparseColumn.of(("Root", "Left", "", "Leaf", "Middle", "Leaf 2"), ""),
        "de": SparseColumn({2: "Rechts"}, 6, ""),
    }
    return Ontology(ids, names, parents, {"en": SparseColumn({1: ("L",)}, 6, ())})


def test_the_path_is_a_shortest_one_from_a_root():
    assert diamond().path("leaf2") == ["root", "right", "leaf2"]
    assert diamond().path("root") == ["root"]


def test_a_name_falls_back_to_another_language_and_then_to_the_id():
    ontology = diamond()
    assert ontology.name("right") == "Rechts"
    assert ontology.name("left", "de") == "Left"
    assert Ontology(("x",), {}, csr_array((1, 1))).name("x") == "x"


def test_neighbours_in_the_graph():
    ontology = diamond()
    assert ontology.parents_of("leaf") == ["left", "right"]
    assert ontology.children_of("left") == ["leaf", "middle"]
    assert ontology.synonyms_of("left") == ("L",)
    assert "leaf" in ontology
    assert "twig" not in ontology
