from __future__ import annotations

from collections.abc import Sequence

import pytest

from ontodex.ontology.graph import Concept, build
from ontodex.outline import Place, left_out, lines, outline, rows
from ontodex.run import Suggested, Suggestion

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


def outlined(
    shown: Sequence[Suggestion],
    apart: Sequence[Suggestion],
    chosen: Sequence[Suggestion] | None = None,
) -> list[Place]:
    return outline(Suggested(shown, shown if chosen is None else chosen, apart), ONTOLOGY)


def test_concepts_are_grouped_by_branch_with_their_ancestors_and_the_best_branch_first():
    chosen = [suggestion("road", 0.9), suggestion("water", 0.4), suggestion("quality", 0.7)]
    assert list(lines(outlined(chosen, chosen))) == [
        "Town",
        "  0.900  Road  road",
        "Nature",
        "  0.400  Water  water",
        "    0.700  Water quality  quality",
    ]


def test_a_more_specific_concept_that_scored_close_is_a_warning():
    chosen = [suggestion("quality", 0.5)]
    close = outlined(chosen, [*chosen, suggestion("river", 0.41)])
    assert list(lines(close)) == [
        "Nature",
        "  Water",
        "    0.500  Water quality  quality",
        "           more specific, and close: River water 0.410 (river)",
    ]
    far = outlined(chosen, [*chosen, suggestion("river", 0.39)])
    assert far[-1].more_specific == ()


def test_what_is_compared_is_each_concept_by_itself():
    """A set may have a lead over the rest: 0.9 is far from 0.35, and 0.4 is not."""
    chosen = [suggestion("quality", 0.9), suggestion("road", 0.8)]
    by_itself = [suggestion("quality", 0.4), suggestion("river", 0.35)]
    places = outlined(chosen, [*by_itself, suggestion("pipes", 0.35)])
    assert list(lines(places))[2:4] == [
        "    0.900  Water quality  quality",
        "           more specific, and nearly as likely by itself: River water (river)",
    ]
    surer = outlined(chosen[:1], [suggestion("quality", 0.4), suggestion("river", 0.45)])
    assert list(lines(surer))[3:] == [
        "           more specific, and likelier by itself: River water (river)"
    ]
    assert places[-1].label == "road"
    assert places[-1].more_specific == (), "nothing is said of it by itself: 0.8 counts"


@pytest.mark.parametrize("chance", [0.0, 0.09])
def test_what_has_hardly_a_chance_is_no_warning(chance):
    chosen = [suggestion("quality", chance)]
    assert outlined(chosen, [suggestion("river", chance)])[-1].more_specific == ()


def test_what_was_chosen_and_is_not_shown_is_no_warning():
    chosen = [suggestion("quality", 0.5), suggestion("river", 0.5)]
    assert all(place.more_specific == () for place in outlined(chosen[:1], chosen, chosen))


def test_a_reader_is_told_of_chosen_concepts_that_the_limit_cuts_off():
    chosen = [suggestion("quality", 0.7), suggestion("river", 0.5), suggestion("road", 0.2)]
    cut = Suggested(chosen[:1], chosen, [])
    assert left_out(cut, 0.0) == "and 2 more that were chosen: --limit 3 shows all"
    assert left_out(cut, 0.4) == "and 1 more that were chosen: --limit 2 shows all"
    assert left_out(cut, 0.6) == left_out(Suggested(chosen, chosen, []), 0.0) == ""


def test_parents_that_the_path_does_not_show_are_named():
    places = outlined([suggestion("pipes", 0.5)], [])
    assert list(lines(places)) == [
        "Town",
        "  0.500  Pipes  pipes",
        "         also below: Water, Road",
    ]
    assert rows(places)[0]["other_parents"] == ["Water", "Road"]


@pytest.mark.parametrize("also", ["water", "road"])
def test_concepts_above_or_beside_a_chosen_one_are_no_warning(also):
    chosen = [suggestion("quality", 0.5)]
    places = outlined(chosen, [suggestion(also, 0.5)])
    assert all(place.more_specific == () for place in places)


def test_what_was_chosen_is_not_warned_about():
    chosen = [suggestion("quality", 0.5), suggestion("river", 0.5)]
    assert all(place.more_specific == () for place in outlined(chosen, chosen))


def test_programs_get_the_chosen_ones_by_probability_with_level_and_warnings():
    chosen = [suggestion("quality", 0.5), suggestion("road", 0.6)]
    found = rows(outlined(chosen, [suggestion("river", 0.5)]))
    assert [(row["label"], row["level"]) for row in found] == [("road", 2), ("quality", 3)]
    assert found[1]["more_specific"] == [{"label": "river", "name": "River water", "apart": 0.5}]
    assert found[1]["path"] == ["Nature", "Water", "Water quality"]
    assert [row["apart"] for row in found] == [0.6, 0.5]
    apart = [suggestion("quality", 0.4), suggestion("river", 0.35)]
    assert rows(outlined(chosen, apart))[1]["apart"] == 0.4


def test_a_label_outside_the_ontology_has_a_branch_of_its_own():
    found = outlined([suggestion("x9", 0.5)], [])
    assert list(lines(found)) == ["(not in the ontology)", "  0.500  x9  x9"]


def test_no_concepts_make_no_lines():
    assert outlined([], [suggestion("road", 0.1)]) == []


def test_names_that_a_terminal_would_obey_are_made_harmless():
    odd = Suggestion("road", "Ro\x1b[31mad", 0.5, ("Town", "Road"))
    assert "\x1b" not in "".join(lines(outlined([odd], [])))
