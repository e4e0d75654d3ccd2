"""Differences between two versions of an ontology as text."""

from __future__ import annotations

from ontodex.ontology.diff import compare_ontologies
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.render.ontology_diff import format_diff

OLD = build_ontology(
    [
        Concept("t", {"en": "Top"}),
        Concept("a", {"en": "Ants"}, parents=["t"]),
        Concept("b", {"en": "Bees"}),
        Concept("c", {"en": "Cows"}),
        Concept("d", {"en": "Ducks"}),
    ]
)
NEW = build_ontology(
    [
        Concept("t", {"en": "Top"}),
        Concept("a", {"en": "Ant"}),
        Concept("n1", {"en": "Bees"}),
        Concept("n2", {"en": "Newts"}),
    ]
)


def test_every_change_is_a_line_below_its_kind():
    lines = format_diff(compare_ontologies(OLD, NEW), OLD, NEW, limit=1)
    assert lines == [
        "1 added, 2 removed, 1 replaced, 0 merged, 0 split, 1 renamed, 1 moved",
        "",
        "added",
        "  Newts (n2)",
        "",
        "removed",
        "  Cows (c)",
        "  ... and 1 more (--limit, --json)",
        "",
        "replaced",
        "  Bees (b) -> Bees (n1) (guessed: same name)",
        "",
        "renamed",
        "  Ants -> Ant (a)",
        "",
        "moved",
        "  Ant (a): below the top, before below Top",
    ]


def test_without_a_limit_there_are_only_counts():
    assert len(format_diff(compare_ontologies(OLD, NEW), OLD, NEW, limit=0)) == 1
