from __future__ import annotations

from functools import partial

import pytest

from ontodex.ontology.graph import Concept, build_ontology
from ontodex.ontology.related import find_ancestors, find_more_specific, find_other_parents

ONTOLOGY = build_ontology(
    [
        Concept("nature"),
        Concept("water", parents=["nature"]),
        Concept("quality", parents=["water"]),
        Concept("river", parents=["quality"]),
        Concept("town"),
        Concept("road", parents=["town"]),
        Concept("pipes", parents=["water", "road", "town"]),
    ]
)


def more_specific(predicted: dict[str, float], candidates: dict[str, float]):
    return find_more_specific(predicted, candidates, partial(find_ancestors, ONTOLOGY))


def test_ancestors_are_collected_over_all_parents():
    assert find_ancestors(ONTOLOGY, "river") == {"quality", "water", "nature"}
    assert find_ancestors(ONTOLOGY, "pipes") == {"water", "nature", "road", "town"}
    assert find_ancestors(ONTOLOGY, "town") == frozenset()


def test_other_parents_are_those_that_the_shortest_path_leaves_out():
    assert ONTOLOGY.path("pipes") == ["town", "pipes"]
    assert find_other_parents(ONTOLOGY, "pipes") == ["water", "road"]
    assert find_other_parents(ONTOLOGY, "river") == []


def test_a_label_outside_the_ontology_has_no_relatives():
    assert find_ancestors(ONTOLOGY, "x9") == frozenset()
    assert find_other_parents(ONTOLOGY, "x9") == []
    assert more_specific({"x9": 0.5}, {"river": 0.5}) == {"x9": []}


def test_a_descendant_with_four_fifths_of_the_probability_is_close():
    assert more_specific({"quality": 0.5}, {"quality": 0.5, "river": 0.41}) == {
        "quality": ["river"]
    }
    assert more_specific({"quality": 0.5}, {"quality": 0.5, "river": 0.39}) == {"quality": []}


def test_probabilities_are_compared_on_the_scale_of_the_candidates():
    """The predicted set may have raised 0.4 to 0.9; 0.35 is close to 0.4."""
    assert more_specific({"quality": 0.9}, {"quality": 0.4, "river": 0.35}) == {
        "quality": ["river"]
    }
    assert more_specific({"quality": 0.9}, {"river": 0.35}) == {"quality": []}


@pytest.mark.parametrize("probability", [0.0, 0.09])
def test_an_improbable_descendant_is_never_close(probability):
    assert more_specific({"quality": probability}, {"river": probability}) == {"quality": []}


def test_predicted_labels_are_not_listed_again():
    assert more_specific({"quality": 0.5, "river": 0.5}, {"quality": 0.5, "river": 0.5}) == {
        "quality": [],
        "river": [],
    }


@pytest.mark.parametrize("label", ["water", "road"])
def test_ancestors_and_unrelated_concepts_are_not_more_specific(label):
    assert more_specific({"quality": 0.5}, {label: 0.5}) == {"quality": []}


def test_the_most_probable_comes_first_and_ties_are_ordered_by_id():
    candidates = {"river": 0.5, "quality": 0.6, "pipes": 0.5}
    assert more_specific({"water": 0.5}, candidates) == {"water": ["quality", "pipes", "river"]}
