"""The tree in lines of text."""

import pytest

from ontodex.errors import DataError
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.render.ontology_tree import find_concepts, format_ontology

#  Law ── Tax law ── Value added tax
#      └─ Trade law ────┘ (two ways)         Farming
ONTOLOGY = build_ontology(
    [
        Concept("1", {"en": "Law", "fr": "droit"}),
        Concept("2", {"en": "Tax law"}, parents=["1"]),
        Concept("3", {"en": "Trade law"}, parents=["1", "gone"]),
        Concept(
            "4",
            {"en": "Value added tax"},
            {"en": ["VAT"], "fr": ["TVA"]},
            parents=["2", "3"],
            definition="A tax\non value.",
            notation="4.1",
        ),
        Concept("5", {"en": "Farming"}),
        Concept("6", {"en": "Sales tax"}, deprecated=True, replaced_by="4"),
    ],
    retired={"0": "4"},
)


def test_the_top_of_the_tree_with_counts_and_notes():
    assert list(format_ontology(ONTOLOGY)) == [
        "6 concepts, 3 at the top, 3 levels",
        "note: 1 missing parent dropped: 'gone' (of '3')",
        "Law  1  (3 below)",
        "  Tax law  2  (1 below)",
        "  Trade law  3  (1 below)",
        "Farming  5",
        "Sales tax  6",
    ]


def test_depth_and_width_limit_what_is_printed():
    assert [line.split("  ")[0] for line in format_ontology(ONTOLOGY, depth=1)][2:] == [
        "Law", "Farming", "Sales tax",
    ]  # fmt: skip
    assert list(format_ontology(ONTOLOGY, depth=3, width=1))[2:] == [
        "Law  1  (3 below)",
        "  Tax law  2  (1 below)",
        "    4.1 Value added tax  4",
        "  ... and 1 more",
        "... and 2 more",
    ]


def test_a_concept_is_shown_with_every_path_to_it():
    assert list(format_ontology(ONTOLOGY, "vat")) == [
        "4.1 Value added tax  4",
        "notation: 4.1",
        "name (en): Value added tax",
        "also: VAT; TVA",
        "definition: A tax on value.",
        "place:",
        "  Law > Tax law > Value added tax",
        "  Law > Trade law > Value added tax",
    ]
    assert list(format_ontology(ONTOLOGY, "1", language="fr", depth=1)) == [
        "droit  1",
        "name (en): Law",
        "name (fr): droit",
        "below: 3 concepts",
        "  Tax law  2  (1 below)",
        "  Trade law  3  (1 below)",
    ]


def test_deprecated_and_retired_concepts_point_to_their_successor():
    assert "deprecated; use 4" in list(format_ontology(ONTOLOGY, "6"))
    assert next(format_ontology(ONTOLOGY, "0")) == "4.1 Value added tax  4"


def test_a_cycle_of_successors_ends():
    ring = build_ontology([Concept("a")], retired={"x": "y", "y": "x"})
    with pytest.raises(DataError, match="no concept has the id, name or notation"):
        find_concepts(ring, "x")


def test_a_concept_is_found_by_its_notation():
    assert next(format_ontology(ONTOLOGY, "4.1")) == "4.1 Value added tax  4"


def test_an_unknown_name_offers_near_ones():
    with pytest.raises(
        DataError, match="no concept has the id, name or notation 'Tax lwa'"
    ) as caught:
        format_ontology(ONTOLOGY, "Tax lwa")
    assert caught.value.hint == "perhaps 'Tax law' (2)"


def test_a_name_of_two_concepts_shows_both():
    twins = build_ontology([Concept("a", {"en": "Mercury"}), Concept("b", {"en": "Mercury"})])
    assert list(format_ontology(twins, "mercury")) == ["Mercury  a", "", "Mercury  b"]


def test_control_characters_are_not_printed():
    nasty = build_ontology([Concept("a\x1b[2J", {"en": "\x1b]0;owned\x07Evil\u202egnp"})])
    assert list(format_ontology(nasty))[1] == "\ufffd]0;owned\ufffdEvil\ufffdgnp  a\ufffd[2J"


def test_a_chain_of_100_000_and_a_lattice_with_2_to_the_60_paths_are_shown():
    chain = build_ontology(
        Concept(f"c{i}", parents=[f"c{i - 1}"] if i else []) for i in range(100_000)
    )
    lines = list(format_ontology(chain, "c99999"))
    assert "(99,988 more)" in lines[2]
    assert next(format_ontology(chain, depth=2)) == "100,000 concepts, 1 at the top, 100,000 levels"
    lattice = build_ontology(
        Concept(f"{i}{side}", parents=[f"{i - 1}a", f"{i - 1}b"] if i else [])
        for i in range(60)
        for side in "ab"
    )
    lines = list(format_ontology(lattice, "59a"))
    assert lines[-1] == "  ... and more paths from the top"
    assert len(lines) == 1 + 1 + 12 + 1
