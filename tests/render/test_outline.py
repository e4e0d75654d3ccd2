"""The outline of suggestions in the ontology, for a terminal and for programs."""

from __future__ import annotations

from collections.abc import Sequence

from ontodex.ontology.graph import Concept, build_ontology
from ontodex.render.outline import (
    Place,
    build_outline,
    describe_hidden,
    describe_no_suggestion,
    format_outline,
    outline_to_rows,
)
from ontodex.types.answers import DocumentSuggestions, Suggestion

ONTOLOGY = build_ontology(
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


def outline_of(
    shown: Sequence[Suggestion],
    standalone: Sequence[Suggestion],
    label_set: Sequence[Suggestion] | None = None,
) -> list[Place]:
    is_own_set = label_set is not None
    candidates = shown if label_set is None else label_set
    found = DocumentSuggestions(shown, candidates, standalone, is_own_set)
    return build_outline(found, ONTOLOGY)


def test_concepts_are_grouped_by_branch_with_their_ancestors_and_the_best_branch_first():
    chosen = [suggestion("road", 0.9), suggestion("water", 0.4), suggestion("quality", 0.7)]
    assert list(format_outline(outline_of(chosen, chosen))) == [
        "Town",
        "  0.900  Road  road",
        "Nature",
        "  0.400  Water  water",
        "    0.700  Water quality  quality",
    ]


def test_a_more_specific_concept_that_scored_close_is_a_warning():
    chosen = [suggestion("quality", 0.5)]
    close = outline_of(chosen, [*chosen, suggestion("river", 0.41)])
    assert list(format_outline(close)) == [
        "Nature",
        "  Water",
        "    0.500  Water quality  quality",
        "           more specific, and close: River water 0.410 (river)",
    ]
    far = outline_of(chosen, [*chosen, suggestion("river", 0.39)])
    assert far[-1].more_specific == ()


def test_more_specific_concepts_are_compared_by_standalone_probability():
    """Labels of the set have a lead over the rest: 0.9 is far from 0.35, but 0.4 is not."""
    chosen = [suggestion("quality", 0.9), suggestion("road", 0.8)]
    by_itself = [suggestion("quality", 0.4), suggestion("river", 0.35)]
    places = outline_of(chosen, [*by_itself, suggestion("pipes", 0.35)])
    assert list(format_outline(places))[2:4] == [
        "    0.900  Water quality  quality",
        "           more specific, and nearly as likely by itself: River water (river)",
    ]
    surer = outline_of(chosen[:1], [suggestion("quality", 0.4), suggestion("river", 0.45)])
    assert list(format_outline(surer))[3:] == [
        "           more specific, and likelier by itself: River water (river)"
    ]
    assert places[-1].label == "road"
    assert places[-1].more_specific == (), "without a standalone probability, 0.8 counts"


def test_a_label_of_the_set_that_is_not_shown_causes_no_warning():
    chosen = [suggestion("quality", 0.5), suggestion("river", 0.5)]
    assert all(place.more_specific == () for place in outline_of(chosen[:1], chosen, chosen))


def test_labels_of_the_set_that_the_limit_hides_are_counted():
    chosen = [suggestion("quality", 0.7), suggestion("river", 0.5), suggestion("road", 0.2)]
    cut = DocumentSuggestions(chosen[:1], chosen, [], is_own_set=True)
    whole = DocumentSuggestions(chosen, chosen, [], is_own_set=True)
    assert describe_hidden(cut, 0.0) == "and 2 more that were chosen: --limit 3 shows all"
    assert describe_hidden(cut, 0.4) == "and 1 more that were chosen: --limit 2 shows all"
    assert describe_hidden(cut, 0.6) == describe_hidden(whole, 0.0) == ""


def test_parents_that_the_path_does_not_show_are_named():
    places = outline_of([suggestion("pipes", 0.5)], [])
    assert list(format_outline(places)) == [
        "Town",
        "  0.500  Pipes  pipes",
        "         also below: Water, Road",
    ]
    assert outline_to_rows(places)[0]["other_parents"] == ["Water", "Road"]


def test_rows_are_ordered_by_probability_and_have_level_and_warnings():
    chosen = [suggestion("quality", 0.5), suggestion("road", 0.6)]
    found = outline_to_rows(outline_of(chosen, [suggestion("river", 0.5)]))
    assert [(row["label"], row["level"]) for row in found] == [("road", 2), ("quality", 3)]
    assert found[1]["more_specific"] == [
        {"label": "river", "name": "River water", "standalone_probability": 0.5}
    ]
    assert found[1]["path"] == ["Nature", "Water", "Water quality"]
    assert [row["standalone_probability"] for row in found] == [0.6, 0.5]
    standalone = [suggestion("quality", 0.4), suggestion("river", 0.35)]
    assert outline_to_rows(outline_of(chosen, standalone))[1]["standalone_probability"] == 0.4


def test_a_label_outside_the_ontology_has_a_branch_of_its_own():
    found = outline_of([suggestion("x9", 0.5)], [])
    assert list(format_outline(found)) == ["(not in the ontology)", "  0.500  x9  x9"]


def test_no_concepts_make_no_lines():
    assert outline_of([], [suggestion("road", 0.1)]) == []


def test_control_characters_in_names_do_not_reach_the_terminal():
    odd = Suggestion("road", "Ro\x1b[31mad", 0.5, ("Town", "Road"))
    assert "\x1b" not in "".join(format_outline(outline_of([odd], [])))


def test_where_no_label_is_chosen_the_best_are_listed_as_not_chosen():
    standalone = [Suggestion(f"l{i}", f"L{i}", 0.1, ()) for i in range(7)]
    found = DocumentSuggestions([], [], standalone, is_own_set=True)
    head, *best = describe_no_suggestion(found, 0.0).splitlines()
    assert head == "no concept was chosen; the best are"
    assert [line.split() for line in best] == [
        ["0.100", f"L{i}", f"l{i}", "not", "chosen"] for i in range(5)
    ]


def test_an_empty_ranking_is_reported():
    found = DocumentSuggestions([], [], [], is_own_set=False)
    assert describe_no_suggestion(found, 0.0) == "no concept was chosen, and none has a chance"
