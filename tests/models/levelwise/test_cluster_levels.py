"""Levels learned from the documents."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from levelwise_planted import BRIEF, CONFIG, PlantedLevelwise
from scipy.sparse import csr_array

from ontodex.config import vary
from ontodex.models.levelwise.cluster_levels import add_clusters
from ontodex.models.trees.label_tree import build_tree
from ontodex.types import Corpus, Doc, LabelSpace, Ranking


def test_clusters_replace_an_ontology_and_are_never_predicted(tmp_path, monkeypatch):
    from ontodex.models.levelwise import system as levelwise

    system = PlantedLevelwise(vary(CONFIG, ontology="cluster", train=BRIEF, merge="pointer"))
    many = Corpus.of(
        [
            Doc(str(i), {"text": f"word{i % 20} side{i % 20 // 10}"}, (), (f"l{i % 20}",))
            for i in range(60)
        ]
    )
    labels = LabelSpace.of(many)
    asked: list[tuple[list[Ranking], csr_array]] = []
    original = levelwise.find_best_shifts

    def record(rankings: list[Ranking], gold: csr_array, thresholds: Any) -> object:
        asked.append((rankings, gold))
        return original(rankings, gold, thresholds)

    monkeypatch.setattr(levelwise, "find_best_shifts", record)
    system.fit(many, many, labels)
    attention = system.explain_set(many[0])
    predicted = system.predict_levels(many.select([0]))[-1]
    candidates = system.merging.make_candidates(predicted, system.thresholds).columns[0]
    assert (candidates >= 20).any(), "the pointer generator reads clusters"
    assert sorted(attention.predicted) == sorted(candidates[(candidates >= 0) & (candidates < 20)])
    pointer = system.merging.pointer
    raw = pointer.explain_set(system.merging.make_candidates(predicted, system.thresholds))
    ones = np.ones((2, raw.coverage.shape[1]))
    mixed = dataclasses.replace(
        raw, chosen=np.array([20, 3]), chosen_probabilities=np.array([0.9, 0.8]),
        generated=np.array([0.1, 0.2]), attention=np.ones((2, len(raw.predicted))),
        level_attention=ones, coverage=ones,
    )  # fmt: skip
    with monkeypatch.context() as patch:
        patch.setattr(pointer, "explain_set", lambda predicted: mixed)
        shown = system.explain_set(many[0])
    assert (shown.chosen.tolist(), shown.generated.tolist()) == ([3], [0.2])
    assert attention.attention.shape == (len(attention.chosen), len(attention.predicted))
    assert len(attention.coverage) == len(attention.generated) == len(attention.chosen)
    ((clusters, labels_said), gold) = asked[0]  # moved by what can be answered alone
    assert (clusters.columns == -1).all()
    assert (labels_said.columns >= 0).any()
    assert gold.indices.max() < 20
    assert system.passes[-1].logit_shifts[0] == 0
    assert [level.number for level in system.levels] == [1, 2]
    assert len(system.levels[0]) == 2
    assert len(system.levels[1]) == 20
    assert system.rank(many, 50).columns.max() < 20
    assert system.decide(many).columns.max() < 20
    system.save(tmp_path)
    loaded = PlantedLevelwise.load(tmp_path, labels)
    np.testing.assert_array_equal(loaded.rank(many, 5).columns, system.rank(many, 5).columns)


@settings(deadline=None, max_examples=50)
@given(n=st.integers(1, 60), children=st.sampled_from([2, 4]), seed=st.integers(0, 5))
def test_a_cluster_stands_above_its_labels_and_is_as_frequent_as_they_are(n, children, seed):
    rng = np.random.default_rng(seed)
    tree = build_tree(csr_array(rng.random((n, 4))), seed=seed, cluster=2, children=children)
    frequency = rng.integers(1, 9, n)
    space = add_clusters(LabelSpace(tuple(f"l{i}" for i in range(n)), frequency, 9, None), tree)
    above = {f"l{i}": [] for i in range(n)}  # from the top down
    for level in range(1, tree.height + 1):
        for node in range(tree.count_nodes(level)):
            members = [i for i in range(n) if tree.find_nodes(level)[i] == node]
            cluster = f"cluster {level}.{node}"
            assert space.frequency[space.column[cluster]] == sum(frequency[i] for i in members)
            for i in members:
                above[f"l{i}"].append(cluster)
    assert space.ontology is not None
    assert {label: space.ontology.path(label)[:-1] for label in above} == above
    assert space.ids[:n] == tuple(above)
    assert len(space) == n + sum(tree.count_nodes(level) for level in range(1, tree.height + 1))
