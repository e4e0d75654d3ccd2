"""The report of a migration."""

from __future__ import annotations

from ontodex.ontology.diff import compare_ontologies
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.render.migration import NAMED, format_migration, make_migration_report

GONE = [f"g{n:02}" for n in range(NAMED + 1)]
OLD = build_ontology(
    [Concept("b", {"en": "Bees"}), *(Concept(label, {"en": f"Gone {label}"}) for label in GONE)]
)
NEW = build_ontology([Concept("n1", {"en": "Bees"}), Concept("n2", {"en": "Newts"})])
DIFF = compare_ontologies(OLD, NEW)


def make_report(**changes):
    facts = {"lost": {}, "found_by_name": [], "not_served": [], "decisions": None}
    return make_migration_report(DIFF, **(facts | changes))


def test_lost_concepts_with_most_documents_come_first_and_those_without_are_left_out():
    lost = make_report(lost={"a": 1, "b": 5, "c": 0, "d": 5})["look_at"]["lost"]
    assert list(lost.items()) == [("b", 5), ("d", 5), ("a", 1)]


def test_the_text_counts_the_changes_and_says_what_to_look_at():
    report = make_report(
        lost=dict.fromkeys(GONE, 3),
        found_by_name=["n2"],
        not_served=["n2"],
        decisions={"moved": 1200, "stuck": 4},
    )
    lines = format_migration(report, OLD, NEW).splitlines()
    assert lines[:5] == [
        "1 added, 11 removed, 0 renamed, 0 moved, 1 replaced, 0 merged, 0 split",
        "new concepts that are found by their names: 1",
        "decisions moved to successors: 1,200; about concepts without one: 4",
        "",
        "Look at:",
    ]
    title = "  concepts that are gone without a successor, with their training documents: 11"
    start = lines.index(title)
    assert lines[start + 1] == "    Gone g00 (g00): 3"
    assert lines[start + 1 + NAMED] == "    ... and 1 more (--json)"
    assert lines[-4:] == [
        "  successors that were guessed by a name: 1",
        "    Bees (b) -> Bees (n1)",
        "  new concepts that cannot be suggested (give --train CORPUS, or train again): 1",
        "    Newts (n2)",
    ]
