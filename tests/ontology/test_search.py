"""Search: what people type finds the concept they mean, best match first."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ontodex.ontology.graph import Concept, build_ontology
from ontodex.ontology.search import Search, count_edits, normalise

ANIMALS = build_ontology(
    [
        Concept("1", {"en": "Horse", "de": "Pferd"}, {"en": ["Steed"]}),
        Concept("2", {"en": "Horse racing"}),
        Concept("3", {"en": "Sea horse"}, {"en": ["Hippocampus (fish)"]}),
        Concept("4", {"en": "Hippocampus"}),
        Concept("5", {"en": "Old horse"}, deprecated=True),
        Concept("6", {"en": "Sjögren syndrome"}),
        Concept("7", {"en": "Steed"}, deprecated=True),
    ]
)
SEARCH = Search(ANIMALS)


def found(query, limit=10):
    return [(hit.label, hit.kind) for hit in SEARCH.find(query, limit)]


def test_whole_names_come_before_beginnings_before_words():
    assert found("horse") == [
        ("1", "name"),
        ("2", "prefix"),
        ("3", "words"),
        ("5", "words"),  # deprecated: last of its kind
    ]


def test_case_spaces_and_letter_forms_do_not_matter():
    assert found("  hOrSe   RACING ")[0] == ("2", "name")
    assert found("\uff28\uff2f\uff32\uff33\uff25")[0] == ("1", "name")
    assert normalise("Straße\u00a0 A") == "strasse a"


def test_a_synonym_says_so_and_shows_what_matched():
    hit = SEARCH.find("steed")[0]
    assert (hit.label, hit.text, hit.kind) == ("1", "Steed", "synonym")
    assert SEARCH.find("STEED")[1].label == "7"  # its name, but deprecated


def test_a_notation_is_found_whole_and_by_its_beginning_but_never_by_a_typo():
    concepts = [
        Concept("a", {"en": "Libraries"}, notation="02.6"),
        Concept("b", {"en": "Archives"}, notation="02.61"),
        Concept("c", {"en": "Museums"}, notation="02.7"),
    ]
    hits = Search(build_ontology(concepts)).find("02.6")
    assert [(hit.label, hit.text, hit.kind) for hit in hits] == [
        ("a", "02.6", "notation"),
        ("b", "02.61", "prefix"),
    ]


def test_an_id_is_found_first_and_each_concept_once():
    assert found("3")[0] == ("3", "id")
    labels = [label for label, _ in found("hippocampus")]
    assert labels == ["4", "3"]


def test_all_words_must_be_inside_in_any_order():
    assert found("racing horse") == [("2", "words")]
    assert found("camp ippo")[0] == ("4", "words")
    assert found("horse bicycle") == []


@pytest.mark.parametrize("typo", ["hrose racing", "horze racing", "horse raccing", "hotse rading"])
def test_one_or_two_typos_are_forgiven(typo):
    assert found(typo)[0] == ("2", "similar")


def test_a_missing_accent_is_a_typo_and_short_words_allow_none():
    assert found("sjogren syndrome")[0] == ("6", "similar")
    assert found("hxx") == []


def test_one_language_hides_the_others():
    assert [hit.label for hit in SEARCH.find("pferd")] == ["1"]
    assert Search(ANIMALS, language="en").find("pferd") == []


def test_limit_and_empty_queries():
    assert len(SEARCH.find("h", limit=2)) == 2
    assert SEARCH.find("") == SEARCH.find("   ") == []
    assert SEARCH.find("horse", limit=0) == []


def test_an_empty_ontology_finds_nothing():
    assert Search(build_ontology([])).find("anything at all") == []


def edits_by_definition(a, b):
    """Optimal string alignment, the whole table."""
    table = [[i + j if i * j == 0 else 0 for j in range(len(b) + 1)] for i in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            table[i][j] = min(
                table[i - 1][j] + 1,
                table[i][j - 1] + 1,
                table[i - 1][j - 1] + (a[i - 1] != b[j - 1]),
            )
            if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
                table[i][j] = min(table[i][j], table[i - 2][j - 2] + 1)
    return table[-1][-1]


@settings(deadline=None, max_examples=50)
@given(st.text("abc", max_size=8), st.text("abc", max_size=8), st.integers(0, 3))
def test_edits_equal_the_whole_table_as_far_as_asked(a, b, most):
    true = edits_by_definition(a, b)
    assert min(count_edits(a, b, most), most + 1) == min(true, most + 1)


@settings(deadline=None, max_examples=50)
@given(st.text(max_size=20))
def test_no_query_breaks_the_search_and_every_hit_holds_the_query_or_is_near(query):
    for hit in SEARCH.find(query):
        if hit.kind in ("name", "synonym"):
            assert normalise(hit.text) == normalise(query)
        elif hit.kind == "prefix":
            assert normalise(hit.text).startswith(normalise(query))
