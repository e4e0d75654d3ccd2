"""Differences between two versions of an ontology as text for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ontodex.ontology.diff import OntologyDiff
from ontodex.types import Ontology


def format_diff(diff: OntologyDiff, old: Ontology, new: Ontology, *, limit: int) -> list[str]:
    """Return a line of counts, then up to `limit` concepts of each kind of change."""

    def before(label: str) -> str:
        return _describe(label, old)

    def now(label: str) -> str:
        return _describe(label, new)

    def list_names(ontology: Ontology, labels: Sequence[str]) -> str:
        return ", ".join(_name(label, ontology) for label in labels) or "the top"

    def describe_evidence(label: str) -> str:
        found = diff.successors.get(label)
        return f" (guessed: {found.evidence})" if found is not None and found.is_guess else ""

    sections: dict[str, Iterable[str]] = {
        "added": map(now, diff.added),
        "removed": map(before, diff.removed),
        "replaced": (
            f"{before(label)} -> {now(successor)}{describe_evidence(label)}"
            for label, successor in diff.replaced.items()
        ),
        "merged": (
            f"{before(part)} -> {now(label)}{describe_evidence(part)}"
            for label, parts in diff.merged.items()
            for part in parts
        ),
        "split": (
            f"{before(label)} -> {list_names(new, parts)}" for label, parts in diff.split.items()
        ),
        "renamed": (f"{a} -> {b} ({label})" for label, (a, b) in diff.renamed.items()),
        "moved": (
            f"{now(label)}: below {list_names(new, b)}, before below {list_names(old, a)}"
            for label, (a, b) in diff.moved.items()
        ),
    }
    found = {kind: list(rows) for kind, rows in sections.items()}
    lines = [", ".join(f"{len(rows):,} {kind}" for kind, rows in found.items())]
    for kind, rows in found.items():
        lines += _format_section(kind, rows, limit)
    return lines


def _format_section(kind: str, rows: Sequence[str], limit: int) -> Iterator[str]:
    if not rows or not limit:
        return
    yield ""
    yield kind
    yield from (f"  {row}" for row in rows[:limit])
    if len(rows) > limit:
        yield f"  ... and {len(rows) - limit:,} more (--limit, --json)"


def _describe(label: str, ontology: Ontology) -> str:
    name = _name(label, ontology)
    return name if name == label else f"{name} ({label})"


def _name(label: str, ontology: Ontology) -> str:
    return ontology.name(label) if label in ontology else label
