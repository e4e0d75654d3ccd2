"""Candidates, properties and previews of the reconciliation service."""

from __future__ import annotations

import pytest

from ontodex.serve import reconciliation


@pytest.fixture
def concepts(served):
    return served.concepts


def test_a_complete_name_is_a_certain_match(concepts):
    (fish,) = reconciliation.find_candidates(concepts, "  FISH ", 5)
    assert (fish["id"], fish["score"], fish["match"]) == ("fish", 100.0, True)
    assert fish["description"] == "Nature > Animals > Fish"
    (synonym,) = reconciliation.find_candidates(concepts, "pisces", 5)
    assert (synonym["id"], synonym["score"], synonym["match"]) == ("fish", 95.0, True)


def test_a_part_of_a_name_or_a_typo_is_a_candidate_only(concepts):
    (prefix,) = reconciliation.find_candidates(concepts, "road", 5)
    assert prefix["id"] == "http://e.org/road"
    assert 60 < prefix["score"] < 95
    assert not prefix["match"]
    (typo,) = reconciliation.find_candidates(concepts, "Road safty", 5)
    assert (typo["id"], typo["match"]) == ("http://e.org/road", False)
    assert reconciliation.find_candidates(concepts, "   ", 5) == []


def test_other_cells_of_the_row_lower_the_score_of_what_disagrees(concepts):
    def score(*wanted: tuple[str, str]) -> tuple[float, bool]:
        (found,) = reconciliation.find_candidates(concepts, "Fish", 5, wanted)
        return found["score"], found["match"]

    assert score(("broader", "animals"), ("notation", "12")) == (100.0, True)
    assert score(("broader", "Animals")) == (100.0, True)  # by name too
    assert score(("broader", "oak")) == (80.0, False)
    assert score(("broader", "oak"), ("notation", "13")) == (60.0, False)
    assert score(("colour", "red")) == (100.0, True)  # not known, so not compared


def test_a_table_is_extended_by_texts_and_concepts(concepts):
    found = reconciliation.extend_rows(
        concepts, ["fish", "unknown"], ["notation", "broader", "altLabel", "nonsense"]
    )
    assert [one["id"] for one in found["meta"]] == ["notation", "broader", "altLabel"]
    assert "type" in found["meta"][1]
    assert found["rows"]["fish"] == {
        "notation": [{"str": "12"}],
        "broader": [{"id": "animals", "name": "Animals"}],
        "altLabel": [{"str": "Pisces"}],
    }
    assert found["rows"]["unknown"] == {"notation": [], "broader": [], "altLabel": []}


def test_a_preview_escapes_what_the_ontology_says(concepts):
    page = reconciliation.render_preview(concepts, "fish")
    assert "<h1>Fish</h1>" in page
    assert "Cold-blooded" in page
    assert "<script" not in page
