from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from ontodex.decide import hierarchy
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.ontology.levels import compute_label_ancestors
from ontodex.types import LabelSpace, Ranking

# animal ─ mammal ─ cat          pet ─ cat (two parents)
ONTOLOGY = build_ontology(
    [
        Concept("cat", parents=["mammal", "pet"]),
        Concept("mammal", parents=["animal"]),
        Concept("animal"),
        Concept("pet"),
    ]
)
COLUMNS = ("animal", "cat", "outsider", "mammal", "pet")  # not the ontology's order
LABELS = LabelSpace(COLUMNS, np.ones(5, np.int64), 10, ONTOLOGY)


def sets(*rows: dict[int, float], k: int = 5) -> Ranking:
    dense = np.zeros((len(rows), len(COLUMNS)))
    for i, row in enumerate(rows):
        for column, probability in row.items():
            dense[i, column] = probability
    return Ranking.of_sparse(csr_array(dense), k)


def as_dicts(ranking: Ranking) -> list[dict[int, float]]:
    return [
        {int(c): pytest.approx(float(p)) for c, p in zip(row, values, strict=True) if c >= 0}
        for row, values in zip(ranking.columns, ranking.probabilities, strict=True)
    ]


def test_every_ancestor_is_added_as_probable_as_its_best_descendant():
    ancestors = compute_label_ancestors(LABELS)
    closed = hierarchy.add_ancestors(sets({1: 0.4, 3: 0.6}, {2: 0.9}, {}, k=2), ancestors)
    assert as_dicts(closed) == [{0: 0.6, 1: 0.4, 3: 0.6, 4: 0.4}, {2: 0.9}, {}]


def test_ancestors_are_dropped_unless_they_are_to_be_kept():
    ancestors = compute_label_ancestors(LABELS)
    chosen = sets({0: 0.9, 1: 0.4, 2: 0.5}, {0: 0.9, 4: 0.2})
    keep = np.zeros(5, dtype=bool)
    kept = hierarchy.drop_ancestors(chosen, ancestors, keep)
    assert as_dicts(kept) == [{1: 0.4, 2: 0.5}, {0: 0.9, 4: 0.2}]
    keep[0] = True
    kept = hierarchy.drop_ancestors(chosen, ancestors, keep)
    assert as_dicts(kept) == [{0: 0.9, 1: 0.4, 2: 0.5}, {0: 0.9, 4: 0.2}]


@given(st.integers(0, 10_000), st.integers(1, 8))
@settings(max_examples=30, deadline=None)
def test_adding_and_dropping_ancestors_equal_the_definition_in_loops(seed, n):
    rng = np.random.default_rng(seed)
    parents = [[str(j) for j in range(i) if rng.random() < 0.4] for i in range(n)]
    ontology = build_ontology(Concept(str(i), parents=above) for i, above in enumerate(parents))
    labels = LabelSpace(ontology.ids, np.ones(n, np.int64), 1, ontology)
    ancestors = compute_label_ancestors(labels)
    above = [set(row.nonzero()[0]) for row in ancestors.toarray()]
    chosen = Ranking.of_sparse(csr_array(rng.random((3, n)) * (rng.random((3, n)) < 0.4)), n)

    closed = hierarchy.add_ancestors(chosen, ancestors)
    dropped = hierarchy.drop_ancestors(chosen, ancestors, np.zeros(n, dtype=bool))
    for i in range(3):
        before = {int(c) for c in chosen.columns[i] if c >= 0}
        expected = before | {a for c in before for a in above[c]}
        assert {int(c) for c in closed.columns[i] if c >= 0} == expected
        expected = {c for c in before if not any(c in above[other] for other in before)}
        assert {int(c) for c in dropped.columns[i] if c >= 0} == expected
