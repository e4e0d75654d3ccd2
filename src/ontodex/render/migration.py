"""The report of a migration: what a curator must look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ontodex.ontology.diff import OntologyDiff
from ontodex.types import Ontology

NAMED = 10  # concepts named of each kind; --json has all


def make_migration_report(
    diff: OntologyDiff,
    *,
    lost: Mapping[str, int],
    found_by_name: Sequence[str],
    not_served: Sequence[str],
    decisions: Mapping[str, int] | None,
) -> dict[str, Any]:
    """Return the report as plain values for JSON."""
    guessed = {
        label: list(found.concepts) for label, found in diff.successors.items() if found.is_guess
    }
    return {
        "counts": {kind: len(rows) for kind, rows in diff.to_dict().items() if kind != "evidence"},
        "look_at": {
            "lost": {label: n for label, n in sorted(lost.items(), key=_get_sort_key) if n},
            "split": {label: list(parts) for label, parts in diff.split.items()},
            "guessed": guessed,
            "not_served": list(not_served),
        },
        "n_found_by_name": len(found_by_name),
        "decisions": dict(decisions) if decisions is not None else None,
    }


def _get_sort_key(pair: tuple[str, int]) -> tuple[int, str]:
    return -pair[1], pair[0]


def format_migration(report: Mapping[str, Any], old: Ontology, new: Ontology) -> str:
    """Return the report as text for the terminal."""
    counts, look_at = report["counts"], report["look_at"]
    lines = [", ".join(f"{n:,} {kind}" for kind, n in counts.items())]
    lines.append(f"new concepts that are found by their names: {report['n_found_by_name']:,}")
    if (decisions := report["decisions"]) is not None:
        lines.append(
            f"decisions moved to successors: {decisions['moved']:,}; "
            f"about concepts without one: {decisions['stuck']:,}"
        )

    def name(label: str) -> str:
        ontology = new if label in new else old
        return f"{ontology.name(label)} ({label})" if label in ontology else label

    sections = {
        "concepts that are gone without a successor, with their training documents": [
            f"{name(label)}: {n:,}" for label, n in look_at["lost"].items()
        ],
        "split concepts, whose new parts are suggested by name only": [
            f"{name(label)} -> {', '.join(map(name, parts))}"
            for label, parts in look_at["split"].items()
        ],
        "successors that were guessed by a name": [
            f"{name(label)} -> {', '.join(map(name, found))}"
            for label, found in look_at["guessed"].items()
        ],
        "new concepts that cannot be suggested (give --train CORPUS, or train again)": [
            name(label) for label in look_at["not_served"]
        ],
    }
    if any(sections.values()):
        lines += ["", "Look at:"]
    for title, rows in sections.items():
        if rows:
            lines += [f"  {title}: {len(rows):,}", *(f"    {row}" for row in rows[:NAMED])]
            if len(rows) > NAMED:
                lines.append(f"    ... and {len(rows) - NAMED:,} more (--json)")
    return "\n".join(lines)
