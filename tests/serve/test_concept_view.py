"""Concepts as JSON, for a run whose ontology has more concepts than labels."""

from __future__ import annotations

import pytest

from ontodex.serve.concept_view import ConceptView


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


def test_the_number_of_paths_is_limited(concepts):
    assert len(concepts.get_paths("fish", 1)) == 1
    assert concepts.get_paths("fish", 0) == []


def test_children_are_sorted_by_name(concepts):
    assert concepts.get_children("animals", "de") == ["fish", "newt"]
    assert concepts.roots == ["nature", "http://e.org/road"]
