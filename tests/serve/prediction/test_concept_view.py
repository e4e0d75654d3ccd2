"""Concepts as JSON, for a run whose ontology has more concepts than labels."""

from __future__ import annotations

import pytest

from ontodex.ontology.graph import Concept, build_ontology
from ontodex.serve.prediction.concept_view import ConceptGroups, ConceptView
from ontodex.serve.prediction.run_metadata import MAX_LANGUAGE, OntologyIndex


@pytest.fixture
def concepts(served) -> ConceptView:
    return served.concepts


def test_a_label_outside_the_ontology_is_its_own_name_and_has_no_path(concepts):
    assert not concepts.has("whale")
    assert concepts.get_ref("whale") == {"label": "whale", "name": "whale", "notation": ""}
    assert concepts.get_path("whale") == concepts.get_paths("whale", 5) == []
    assert concepts.get_children("whale") == []
    details = concepts.get_details("whale")
    assert (details["n_children"], details["frequency"], details["suggestible"]) == (0, 0, False)


def test_names_follow_the_language_and_fall_back_to_the_default(concepts):
    assert [step["name"] for step in concepts.get_path("newt", "de")] == ["Natur", "Tiere", "Newt"]
    assert concepts.languages == ["de", "en"]


def test_a_language_that_no_request_can_name_is_not_offered(served):
    names = {"en": "Fish", "x" * MAX_LANGUAGE: "Kala", "x" * (MAX_LANGUAGE + 1): "Pisces"}
    ontology = build_ontology([Concept("fish", names)])
    view = ConceptView(OntologyIndex(ontology), served.metadata.labels)
    assert view.languages == ["en", "x" * MAX_LANGUAGE]


def test_the_number_of_paths_is_limited(concepts):
    assert len(concepts.get_paths("fish", 1)) == 1
    assert concepts.get_paths("fish", 0) == []


def test_children_are_sorted_by_name(concepts):
    assert concepts.get_children("animals", "de") == ["fish", "newt"]
    assert concepts.roots == ["nature", "http://e.org/road"]


def test_members_of_schemes_and_types_are_found_and_counted(served):
    ontology = build_ontology(
        [
            Concept("a", schemes=["s:main"], types=["t:Place"]),
            Concept("b", schemes=["s:main", "s:other"]),
            Concept("c", {"en": "C"}, schemes=["s:other"], types=["http://e.org/x#Person"]),
        ],
        group_names={"s:main": "Main scheme"},
    )
    view = ConceptView(OntologyIndex(ontology), served.metadata.labels)
    assert view.find_members(ConceptGroups(schemes=("s:other",))) == {"b", "c"}
    assert view.find_members(ConceptGroups(types=("t:Place",), subtrees=("c",))) == {"a", "c"}
    assert [(each["name"], each["n_concepts"]) for each in view.schemes] == [
        ("Main scheme", 2),
        ("s:other", 2),
    ]
    assert {each["name"] for each in view.types} == {"t:Place", "Person"}


def test_a_definition_is_shown_in_the_language_of_the_names(served):
    both = {"en": "Hill", "de": "Berg"}
    ontology = build_ontology(
        [Concept("h", both, definition="High.", translated_definitions={"de": "Hoch."})]
    )
    view = ConceptView(OntologyIndex(ontology), served.metadata.labels)
    assert view.get_details("h", "de")["definition"] == "Hoch."
    assert view.get_details("h", "fi")["definition"] == "High."
