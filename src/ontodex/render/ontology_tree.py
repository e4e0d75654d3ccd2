"""An ontology as lines of text: the top of the tree, or one concept with its surroundings.

    Economics  http://...  (1,234 below)
      Labour market  http://...  (87 below)
      ... and 12 more

Names come from files of strangers: control characters, which a terminal would obey, are replaced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from ontodex.errors import DataError
from ontodex.io.counts import format_count
from ontodex.io.terminal import replace_control_characters
from ontodex.ontology.graph import compute_depths, find_paths, find_reachable
from ontodex.ontology.search import Search
from ontodex.types import Ontology

MAX_PATHS = 12
MAX_STEPS = 12  # of one path
MAX_SYNONYMS = 40


def format_ontology(
    ontology: Ontology,
    concept: str | None = None,
    *,
    depth: int = 2,
    width: int = 25,
    language: str | None = None,
) -> Iterator[str]:
    """Yield the lines for the top `depth` levels, or for the concept with this id or name; at most
    `width` concepts below one, those with most descendants first."""
    if concept is None:
        lines = _format_overview(ontology, depth, width, language)
    else:
        lines = _format_concepts(ontology, find_concepts(ontology, concept), depth, width, language)
    return map(replace_control_characters, lines)


def find_concepts(ontology: Ontology, wanted: str) -> list[str]:
    """Return the concepts with this id (or the successor of a retired one), name, synonym or
    notation; raise an error with similar names if there is none."""
    successor, seen = wanted, set[str]()
    while successor not in ontology and successor in ontology.replaced_by.keys() - seen:
        seen.add(successor)
        successor = ontology.replaced_by[successor]
    if successor in ontology:
        return [successor]
    hits = Search(ontology).find(wanted)
    same = [hit.label for hit in hits if hit.kind in ("name", "synonym", "notation")]
    if not same:
        near = ", ".join(f"{hit.text!r} ({hit.label})" for hit in hits[:3])
        raise DataError(
            f"no concept has the id, name or notation {wanted!r}",
            hint=f"perhaps {near}"
            if near
            else "ids, names and notations are searched, case does not matter",
        )
    return same


def _format_overview(
    ontology: Ontology, depth: int, width: int, language: str | None
) -> Iterator[str]:
    roots = np.flatnonzero(np.diff(ontology.parents.indptr) == 0).tolist()
    deepest = int(compute_depths(ontology)[0].max(initial=0))
    concepts, levels = format_count(len(ontology), "concept"), format_count(deepest, "level")
    yield f"{concepts}, {len(roots):,} at the top, {levels}"
    for problem in ontology.problems:
        yield f"note: {problem}"
    yield from _format_tree(ontology, roots, depth, width, language)


def _format_tree(
    ontology: Ontology, tops: Sequence[int], depth: int, width: int, language: str | None
) -> Iterator[str]:
    """Yield these concepts and their descendants, indented."""
    edges = ontology.children
    waiting: list[tuple[int, int, int]] = []  # indent, concept (-1: left out), how many below

    def push(concepts: Sequence[int], indent: int) -> None:
        sized = sorted((-len(find_reachable(edges, concept)), concept) for concept in concepts)
        if len(sized) > width:
            waiting.append((indent, -1, len(sized) - width))
        waiting.extend((indent, concept, -size) for size, concept in reversed(sized[:width]))

    push(tops, 0)
    while waiting:
        indent, concept, below = waiting.pop()
        if concept < 0:
            yield f"{'  ' * indent}... and {below:,} more"
            continue
        count = f"  ({below:,} below)" if below else ""
        yield f"{'  ' * indent}{_format_title(ontology, ontology.ids[concept], language)}{count}"
        if below and indent + 1 < depth:
            start, stop = edges.indptr[concept], edges.indptr[concept + 1]
            push(edges.indices[start:stop].tolist(), indent + 1)


def _format_title(ontology: Ontology, label: str, language: str | None) -> str:
    name = add_notation(ontology.name(label, language), ontology.notations.get(label, ""))
    return label if name == label else f"{name}  {label}"


def add_notation(name: str, notation: str) -> str:
    """Return a name with the notation of the concept before it, if it has one."""
    return f"{notation} {name}" if notation and notation != name else name


def _format_concepts(
    ontology: Ontology, labels: Sequence[str], depth: int, width: int, language: str | None
) -> Iterator[str]:
    for number, label in enumerate(labels):
        if number:
            yield ""
        yield _format_title(ontology, label, language)
        yield from _format_facts(ontology, label)
        found_paths = list(islice(find_paths(ontology, label), MAX_PATHS + 1))
        if found_paths != [[label]]:
            yield "place:"
            for path in found_paths[:MAX_PATHS]:
                yield f"  {_format_path(ontology, path, language)}"
            if len(found_paths) > MAX_PATHS:
                yield "  ... and more paths from the top"
        children = [ontology.index[child] for child in ontology.children_of(label)]
        if children:
            below = find_reachable(ontology.children, ontology.index[label])
            yield f"below: {format_count(len(below), 'concept')}"
            for line in _format_tree(ontology, children, depth, width, language):
                yield f"  {line}"


def _format_facts(ontology: Ontology, label: str) -> Iterator[str]:
    """Yield the facts about one concept, a line for each kind."""
    if label in ontology.deprecated:
        new = ontology.replaced_by.get(label)
        yield f"deprecated{f'; use {new}' if new else ''}"
    if label in ontology.notations:
        yield f"notation: {ontology.notations[label]}"
    if ontology.positions is not None and ontology.positions[ontology.index[label]]:
        yield f"positions: {', '.join(ontology.positions[ontology.index[label]])}"
    if len(ontology.names) > 1:
        for tag, name in ontology.names_of(label).items():
            yield f"name ({tag}): {name}"
    synonyms = ontology.synonyms_of(label)
    if synonyms:
        rest = len(synonyms) - MAX_SYNONYMS
        more = f" ... and {rest:,} more" if rest > 0 else ""
        yield f"also: {'; '.join(synonyms[:MAX_SYNONYMS])}{more}"
    if label in ontology.definitions:
        yield f"definition: {' '.join(ontology.definitions[label].split())}"


def _format_path(ontology: Ontology, path: Sequence[str], language: str | None) -> str:
    """A path as names; the middle of a very long one is counted."""
    names = [ontology.name(step, language) for step in path]
    if len(names) > MAX_STEPS:
        half = MAX_STEPS // 2
        names = [*names[:half], f"({len(names) - 2 * half:,} more)", *names[-half:]]
    return " > ".join(names)
