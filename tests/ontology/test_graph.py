"""build(): loose records in, a graph without cycles out, every repair reported."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from ontodex.errors import DataError
from ontodex.ontology import graph
from ontodex.ontology.graph import (
    Concept,
    build_ontology,
    compute_ancestors,
    compute_depths,
    find_paths,
    find_reachable,
)


def edges(*pairs):
    """An ontology from (child, parent) pairs; concepts in order of first mention."""
    parents = {}
    for child, parent in pairs:
        parents.setdefault(child, []).append(parent)
    return build_ontology(
        Concept(label, parents=parents.get(label, []))
        for label in dict.fromkeys(label for pair in pairs for label in pair)
    )


def test_records_become_columns_in_file_order():
    ontology = build_ontology(
        [
            Concept("b", {"en": "Bear", "de": "Bär"}, {"en": ["ursine"]}, ["a"], notation="1.2"),
            Concept("a", {"en": "Animal"}, definition="It moves.", deprecated=True),
        ]
    )
    assert ontology.ids == ("b", "a")
    assert ontology.names == {"de": ["Bär", ""], "en": ["Bear", "Animal"]}
    assert ontology.synonyms == {"en": [("ursine",), ()]}
    assert ontology.parents_of("b") == ["a"]
    assert ontology.children_of("a") == ["b"]
    assert ontology.definitions == {"a": "It moves."}
    assert ontology.notations == {"b": "1.2"}
    assert ontology.deprecated == {"a"}
    assert ontology.positions is None
    assert ontology.problems == ()


def test_a_repeated_id_is_merged_and_counted():
    ontology = build_ontology(
        [
            Concept("x", {"en": "first"}, parents=["p"]),
            Concept("p"),
            Concept("q"),
            Concept("x", {"en": "second", "fr": "deux"}, {"en": ["third"]}, ["q"]),
        ]
    )
    assert len(ontology) == 3
    assert ontology.name("x") == "first"
    assert ontology.name("x", "fr") == "deux"
    assert ontology.synonyms_of("x") == ("second", "third")
    assert ontology.parents_of("x") == ["p", "q"]
    assert ontology.problems == ("1 id given more than once, merged: 'x' (2 times)",)


def test_missing_parents_are_dropped_named_and_counted():
    ontology = build_ontology(Concept(f"c{i}", parents=[f"gone{i}"]) for i in range(5))
    assert ontology.parents.nnz == 0
    (problem,) = ontology.problems
    assert problem == (
        "5 missing parents dropped: 'gone0' (of 'c0'), 'gone1' (of 'c1'), 'gone2' (of 'c2') "
        "and 2 more"
    )


def test_names_shared_by_concepts_that_are_not_deprecated_are_reported_once_per_language():
    ontology = build_ontology(
        [
            Concept("1", {"en": "Mercury"}),
            Concept("2", {"en": "Mercury"}),
            Concept("3", {"en": "Venus"}, deprecated=True),
            Concept("4", {"en": "Venus"}),
        ]
    )
    assert ontology.problems == (
        "1 name of several concepts (language en): 'Mercury' (2 concepts)",
    )


def test_heads_of_categories_that_do_not_exist_are_reported():
    ontology = build_ontology([Concept("a")], categories={"one": ["a", "b"], "none": ["c"]})
    assert ontology.categories == {"one": ("a",)}
    assert ontology.problems == (
        "2 missing heads of a category dropped: 'b' (of 'one'), 'c' (of 'none')",
    )


def test_retired_ids_are_known_but_are_not_concepts():
    ontology = build_ontology([Concept("new")], retired={"old": "new", "lost": ""})
    assert "old" not in ontology
    assert ontology.deprecated == {"old", "lost"}
    assert ontology.replaced_by == {"old": "new"}


@pytest.mark.parametrize("length", [1, 2, 1000])
def test_a_loop_of_any_length_loses_exactly_one_edge(length):
    labels = [f"c{i}" for i in range(length)]
    ontology = edges(*((labels[i], labels[(i + 1) % length]) for i in range(length)))
    assert ontology.parents.nnz == length - 1
    assert any(problem.startswith("1 edge closing a cycle cut") for problem in ontology.problems)
    assert compute_ancestors(ontology).diagonal().sum() == 0


def test_the_edge_from_the_deeper_concept_is_cut():
    # root > eye disease > squint, and squint also claims to stand above eye disease
    ontology = edges(("eye", "root"), ("squint", "eye"), ("eye", "squint"))
    assert ontology.parents_of("eye") == ["root"]
    assert ontology.parents_of("squint") == ["eye"]
    assert ontology.problems == ("1 edge closing a cycle cut: 'squint' as parent of 'eye'",)


@st.composite
def graphs(draw):
    n = draw(st.integers(1, 12))
    pairs = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=40))
    return n, pairs


def closure_by_loops(n, pairs):
    above = {i: {b for a, b in pairs if a == i} for i in range(n)}
    changed = True
    while changed:
        changed = False
        for i in range(n):
            wider = above[i] | {c for b in above[i] for c in above[b]}
            changed |= wider != above[i]
            above[i] = wider
    return above


@settings(deadline=None, max_examples=50)
@given(graphs())
def test_any_graph_becomes_acyclic_and_every_cut_edge_closed_a_cycle(example):
    n, pairs = example
    rows, columns = [a for a, _ in pairs], [b for _, b in pairs]
    matrix = csr_array((np.ones(len(pairs), bool), (rows, columns)), shape=(n, n))
    kept, cut = graph.cut_cycles(matrix)
    left = set(zip(*kept.nonzero(), strict=True))
    assert left | set(cut) == set(pairs)
    assert not left & set(cut)
    above = closure_by_loops(n, list(left))
    assert all(i not in above[i] for i in range(n))
    for child, parent in cut:  # putting any one back makes a cycle again
        assert child == parent or child in above[parent]


@settings(deadline=None, max_examples=50)
@given(graphs())
def test_closure_depths_and_paths_equal_their_definitions_in_loops(example):
    n, pairs = example
    pairs = [(a, b) for a, b in pairs if b < a]  # acyclic: parents have smaller numbers
    ontology = build_ontology(
        Concept(str(i), parents=[str(b) for a, b in pairs if a == i]) for i in range(n)
    )
    above = closure_by_loops(n, pairs)
    dense = compute_ancestors(ontology).toarray()
    assert dense.dtype == bool
    for i in range(n):
        assert set(np.flatnonzero(dense[i])) == above[i]
        assert find_reachable(ontology.parents, i) == above[i]
        assert find_reachable(ontology.children, i) == {j for j in range(n) if i in above[j]}
    shallow, deep = compute_depths(ontology)
    for i in range(n):
        ways = list(find_paths(ontology, str(i)))
        lengths = [len(way) for way in ways]
        assert (shallow[i], deep[i]) == (min(lengths), max(lengths))
        assert len({tuple(way) for way in ways}) == len(ways)
        assert len(ontology.path(str(i))) == min(lengths)


def test_more_than_255_paths_to_an_ancestor_do_not_wrap_around():
    # 16 x 16 = 256 ways from the bottom to the top: a byte counter would come back to 0
    pairs = [("m", f"u{i}") for i in range(16)] + [(f"u{i}", "top") for i in range(16)]
    pairs += [(f"l{i}", "m") for i in range(16)] + [("low", f"l{i}") for i in range(16)]
    ontology = edges(*pairs)
    closure = compute_ancestors(ontology)
    assert closure[ontology.index["low"], ontology.index["top"]]


def test_a_chain_of_100_000_concepts_is_no_recursion_and_its_closure_is_refused():
    n = 100_000
    ontology = build_ontology(
        Concept(str(i), parents=[str(i - 1)] if i else ["99999"]) for i in range(n)
    )
    assert ontology.problems == ("1 edge closing a cycle cut: '99999' as parent of '0'",)
    shallow, deep = compute_depths(ontology)
    assert shallow[-1] == deep[-1] == n
    assert len(next(find_paths(ontology, str(n - 1)))) == n
    assert len(find_reachable(ontology.parents, n - 1)) == n - 1
    with pytest.raises(DataError, match="too deep"):
        compute_ancestors(ontology)


def test_a_closure_past_the_limit_is_refused_for_any_shape_of_graph(monkeypatch):
    wide = build_ontology(Concept(f"{i}", parents=[f"{i - 4}"] if i > 3 else []) for i in range(40))
    assert compute_ancestors(wide).nnz == 4 * (10 * 9 // 2)  # four chains of ten
    monkeypatch.setattr(graph, "MAX_PAIRS", 179)
    with pytest.raises(DataError, match="over 179 pairs"):
        compute_ancestors(wide)


def test_no_concepts_at_all_is_an_empty_ontology():
    ontology = build_ontology([])
    assert len(ontology) == 0
    assert compute_ancestors(ontology).shape == (0, 0)
    assert compute_depths(ontology)[0].shape == (0,)
