from __future__ import annotations

import pytest

from ontodex.ontology.graph import Concept, build
from ontodex.outline import lines, outline, rows
from ontodex.run import Suggestion

ONTOLOGY = build(
    [
        Concept("nature", {"en": "Nature"}),
        Concept("water", {"en": "Water"}, parents=["nature"]),
        Concept("quality", {"en": "Water quality"}, parents=["water"]),
        Concept("river", {"en": "River water"}, parents=["quality"]),
        Concept("town", {"en": "Town"}),
        Concept("road", {"en": "Road"}, parents=["town"]),
        Concept("pipes", {"en": "Pipes"}, parents=["water", "road", "town"]),
    ]
)


def suggestion(label: str, probability: float) -> Suggestion:
    known = label in ONTOLOGY
    path = [ONTOLOGY.name(step) for step in ONTOLOGY.path(label)] if known else []
    return Suggestion(label, ONTOLOGY.name(label) if known else label, probability, tuple(path))


def test_concepts_are_grouped_by_branch_with_their_ancestors_and_the_best_branch_first():
    chosen = [suggestion("road", 0.9), suggestion("water", 0.4), suggestion("quality", 0.7)]
    assert list(lines(outline(chosen, chosen, ONTOLOGY))) == [
        "Town",
        "  0.900  Road  road",
        "Nature",
        "  0.400  Water  water",
        "    0.700  Water quality  quality",
    ]


def test_a_more_specific_concept_that_scored_close_is_a_warning():
    chosen = [suggestion("quality", 0.5)]
    close = outline(chosen, [*chosen, suggestion("river", 0.41)], ONTOLOGY)
    assert list(lines(close)) == [
        "Nature",
        "  Water",
        "    0.500  Water quality  quality",
        "           close, and more specific: River water 0.410 (river)",
    ]
    far = outline(chosen, [*chosen, suggestion("river", 0.39)], ONTOLOGY)
    assert far[-1].more_specific == ()


def test_what_is_compared_is_each_concept_by_itself():
    """A set may have a lead over the rest: 0.9 is far from 0.35, and 0.4 is not."""
    chosen = [suggestion("quality", 0.9), suggestion("road", 0.8)]
    by_itself = [suggestion("quality", 0.4), suggestion("river", 0.35)]
    places = outline(chosen, [*by_itself, suggestion("pipes", 0.35)], ONTOLOGY)
    assert list(lines(places))[2:4] == [
        "    0.900  Water quality  quality",
        "           close to its own 0.400, and more specific: River water 0.350 (river)",
    ]
    assert places[-1].label == "road"
    assert places[-1].more_specific == (), "nothing is said of it by itself: 0.8 counts"


def test_what_has_no_chance_is_close_to_nothing():
    chosen = [suggestion("quality", 0.0)]
    assert outline(chosen, [suggestion("river", 0.0)], ONTOLOGY)[-1].more_specific == ()


def test_parents_that_the_path_does_not_show_are_named():
    places = outline([suggestion("pipes", 0.5)], [], ONTOLOGY)
    assert list(lines(places)) == [
        "Town",
        "  0.500  Pipes  pipes",
        "         also below: Water, Road",
    ]
    assert rows(places)[0]["other_parents"] == ["Water", "Road"]


@pytest.mark.parametrize("also", ["water", "road"])
def test_concepts_above_or_beside_a_chosen_one_are_no_warning(also):
    chosen = [suggestion("quality", 0.5)]
    places = outline(chosen, [suggestion(also, 0.5)], ONTOLOGY)
    assert all(place.more_specific == () for place in places)


def test_what_was_chosen_is_not_warned_about():
    chosen = [suggestion("quality", 0.5), suggestion("river", 0.5)]
    assert all(place.more_specific == () for place in outline(chosen, chosen, ONTOLOGY))


def test_programs_get_the_chosen_ones_by_probability_with_level_and_warnings():
    chosen = [suggestion("quality", 0.5), suggestion("road", 0.6)]
    found = rows(outline(chosen, [suggestion("river", 0.5)], ONTOLOGY))
    assert [(row["label"], row["level"]) for row in found] == [("road", 2), ("quality", 3)]
    assert found[1]["more_specific"] == [
        {"label": "river", "name": "River water", "probability": 0.5}
    ]
    assert found[1]["path"] == ["Nature", "Water", "Water quality"]
    assert [row["apart"] for row in found] == [0.6, 0.5]
    apart = [suggestion("quality", 0.4), suggestion("river", 0.35)]
    assert rows(outline(chosen, apart, ONTOLOGY))[1]["apart"] == 0.4


def test_a_label_outside_the_ontology_has_a_branch_of_its_own():
    found = outline([suggestion("x9", 0.5)], [], ONTOLOGY)
    assert list(lines(found)) == ["(not in the ontology)", "  0.500  x9  x9"]


def test_no_concepts_make_no_lines():
    assert outline([], [suggestion("road", 0.1)], ONTOLOGY) == []


def test_names_that_a_terminal_would_obey_are_made_harmless():
    odd = Suggestion("road", "Ro\x1b[31mad", 0.5, ("Town", "Road"))
    assert "\x1b" not in "".join(lines(outline([odd], [], ONTOLOGY)))
