"""Levels, categories, chunks and gold by level."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from levelwise_planted import (
    ABOVE,
    CONFIG,
    DEV,
    GOLD,
    LABELS,
    ONTOLOGY,
    TEST,
    TRAIN,
    PlantedLevelwise,
    fit_system,
)
from scipy.sparse import csr_array

from ontodex.config import vary
from ontodex.errors import ConfigError
from ontodex.evaluation.sets import set_metrics
from ontodex.models.levelwise.levels import (
    MOST_CATEGORIES,
    balance_categories,
    count_chunks,
    place_labels,
    plan_levels,
    select_gold,
)
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.ontology.levels import UNPLACED, Levels, add_ancestors
from ontodex.types import Corpus, Doc, LabelSpace
from ontodex.types.loop_config import LoopConfig


def test_one_level_is_a_flat_network(work):
    flat = fit_system(work, max_level=1)
    assert [len(level) for level in flat.levels] == [6]
    assert len(flat.passes) == 1
    assert set_metrics(GOLD, flat.decide(TEST))["MiF"] > 0.75


def test_a_missing_ontology_is_an_error_that_offers_clusters():
    with pytest.raises(ConfigError, match="ontology") as caught:
        PlantedLevelwise(CONFIG).fit(TRAIN, DEV, LabelSpace.of(TRAIN))
    assert "cluster" in caught.value.hint


def test_an_ontology_without_edges_is_one_level():
    flat = build_ontology([Concept(label) for label in LABELS.ids])
    system = PlantedLevelwise(vary(CONFIG, train=LoopConfig(epochs=1, batch_size=32)))
    system.fit(TRAIN, DEV, LabelSpace.of(TRAIN, flat))
    assert [level.number for level in system.levels] == [1]
    assert len(system.passes) == 1


def test_a_level_with_one_label_is_trained_like_any_other():
    chain = build_ontology([Concept("nature"), Concept("water", parents=["nature"])])
    corpus = Corpus.of(
        [Doc(str(i), {"text": "water wave"}, (), ("nature", "water")) for i in range(6)]
    )
    system = PlantedLevelwise(vary(CONFIG, train=LoopConfig(epochs=1, batch_size=4)))
    labels = LabelSpace.of(corpus, chain)
    system.fit(corpus, corpus, labels)
    assert [len(level) for level in system.levels] == [1, 1]
    assert system.rank(corpus, 2).columns.shape == (6, 2)


def test_label_lists_get_their_ancestors_most_general_first():
    assert add_ancestors(ONTOLOGY, [["water", "odd"], []]) == [
        ["nature", "water", "odd"],
        [],
    ]


def test_expanded_gold_adds_ancestors_to_training_but_not_to_final_gold():
    leaves = Corpus.of(
        [
            dataclasses.replace(doc, labels=tuple(x for x in doc.labels if x in ABOVE) or ("town",))
            if i % 2
            else doc
            for i, doc in enumerate(TRAIN)
        ]
    )
    labels = LabelSpace.of(leaves, ONTOLOGY)
    plain, lifted = (
        PlantedLevelwise(vary(CONFIG, expand=expand)).prepare_data(leaves, DEV, labels)
        for expand in ("none", "lowest")
    )
    for stage in (plain, lifted):
        assert (stage.gold != labels.gold(leaves)).nnz == 0
    assert (lifted.targets.local[0].toarray() >= plain.targets.local[0].toarray()).all()
    assert lifted.targets.local[0].nnz > plain.targets.local[0].nnz
    assert (lifted.targets.local[1] != plain.targets.local[1]).nnz == 0


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, 1), (0.01, 1), (0.047, 2), (0.25, 8), (0.9, 29), (1.0, 32)]
)
def test_chunks_follow_the_share_of_a_category(share, expected):
    assert count_chunks(share, "dynamic", 32) == expected
    assert count_chunks(share, "max", 32) == 1
    assert count_chunks(share, "fixed", 8) == 8


def test_levels_are_planned_from_occurrences():
    """Columns 0, 1 at level 1; 2, 3 at level 2, where category x has 3 of 4 occurrences."""
    membership = csr_array(np.array([[1, 0], [0, 1], [1, 0], [0, 1]], dtype=bool))
    placed = Levels(np.array([1, 1, 2, 2], dtype=np.int32), ("x", "y"), membership)
    one = csr_array(np.array([[1, 0, 0, 0], [0, 1, 0, 0]]))
    two = csr_array(np.array([[0, 0, 1, 1], [0, 0, 1, 0], [0, 0, 1, 0]]))
    levels = plan_levels({1: one, 2: two}, placed, 4, pooling="dynamic", chunks=8)
    assert [level.columns.tolist() for level in levels] == [[0, 1], [2, 3]]
    assert [(c.name, c.chunks, c.members.tolist()) for c in levels[1].categories] == [
        ("x", 6, [0]),
        ("y", 2, [1]),
    ]


def test_many_tops_become_balanced_categories():
    """40 tops with a label each, of 1 to 40 documents; label 40 is below the two heaviest, which
    the dealing puts into different categories; label 41 has no position."""
    names = (*(f"top {g}" for g in range(40)), UNPLACED)
    rows = [*([g] for g in range(40)), [38, 39], [40]]
    membership = np.zeros((42, 41), dtype=bool)
    for row, columns in enumerate(rows):
        membership[row, columns] = True
    placed = Levels(np.ones(42, dtype=np.int32), names, csr_array(membership))
    frequency = np.array([*range(1, 41), 5, 7])
    balanced = balance_categories(placed, frequency)
    assert len(balanced.categories) == MOST_CATEGORIES + 1
    weights = balanced.membership.T.astype(int) @ frequency
    assert weights[:-1].max() - weights[:-1].min() < 20
    assert balanced.membership[[41]].indices.tolist() == [MOST_CATEGORIES], "alone, as before"
    assert len(balanced.membership[[40]].indices) == 2
    assert np.diff(balanced.membership.indptr).min() == 1


def test_few_tops_are_categories_as_they_are():
    placed = Levels(np.array([1], dtype=np.int32), ("x",), csr_array(np.ones((1, 1), bool)))
    assert balance_categories(placed, np.array([1])) is placed


def test_the_gold_of_some_columns_keeps_the_shape_of_all():
    gold = csr_array(np.array([[1, 0, 1, 1], [0, 1, 0, 0]], np.int8))
    found = select_gold(gold, np.array([1, 3]))
    assert found.toarray().tolist() == [[0, 0, 0, 1], [0, 1, 0, 0]]
    assert found.nnz == 2


def test_of_many_tops_the_largest_are_categories_or_all_are_balanced():
    tops = [Concept(f"t{i}", {"en": f"t{i}"}) for i in range(20)]
    below = [Concept(f"b{i}", {"en": f"b{i}"}, parents=[f"t{i}"]) for i in range(20)]
    corpus = Corpus.of(Doc(f"{i}", {"text": "x"}, (), (f"b{i}",)) for i in range(20))
    labels = LabelSpace.of(corpus, build_ontology([*tops, *below]))
    balanced, largest = (
        place_labels(labels, max_level=1, rule="min", categories=way)
        for way in ("balanced", "largest")
    )
    sizes = [
        np.sort(np.bincount(p.membership[:20].indices))[::-1].tolist() for p in (balanced, largest)
    ]
    assert sizes == [[2] * 4 + [1] * 12, [5] + [1] * 15]
