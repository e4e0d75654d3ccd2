"""Build an Ontology from records, and compute ancestors, depths and paths of its graph.

Files may not be a clean hierarchy. `build_ontology` merges repeated ids, drops parents that do not
exist and cuts cycles; `Ontology.problems` describes and counts each of these. No function here is
recursive, so a chain of 100,000 concepts works as well as a tree.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from ontodex.errors import DataError
from ontodex.types import Ontology
from ontodex.types.sparse_column import SparseColumn

# Descriptions of problems name this many examples and count the rest.
NAMED = 3
# The transitive closure of a chain grows with its square. More pairs than this (about 3 GB of
# memory) are refused.
MAX_PAIRS = 100_000_000


@dataclass(frozen=True, slots=True)
class Concept:
    """One record of an ontology file. Languages are lower-case tags; "und" is undetermined."""

    id: str
    names: Mapping[str, str] = field(default_factory=dict)
    synonyms: Mapping[str, Sequence[str]] = field(default_factory=dict)
    parents: Sequence[str] = ()
    definition: str = ""
    notation: str = ""
    deprecated: bool = False
    replaced_by: str = ""
    positions: Sequence[str] = ()
    exact_matches: Sequence[str] = ()
    schemes: Sequence[str] = ()
    types: Sequence[str] = ()
    translated_definitions: Mapping[str, str] = field(default_factory=dict)  # by language


def build_ontology(
    concepts: Iterable[Concept],
    *,
    categories: Mapping[str, Iterable[str]] | None = None,
    retired: Mapping[str, str] | None = None,
    splits: Mapping[str, Sequence[str]] | None = None,
    group_names: Mapping[str, str] | None = None,
    title: str = "",
    problems: Iterable[str] = (),
) -> Ontology:
    """Build an ontology from records in any order, read once.

    `categories` maps each declared top category to the concepts at its top. `retired` maps ids that
    are no longer concepts to their successor ("" if there is none), because old documents may have
    them as labels. `splits` maps ids with several successors to all of them. All three are read
    after the last concept, so a reader can fill them while it yields records. `problems` are put
    before those found here.
    """
    columns = _Columns()
    for concept in concepts:
        columns.add(concept)
    parents, broken = columns.make_graph()
    groups, lost = _select_known_groups(categories or {}, columns.index)
    retired = {old: new for old, new in (retired or {}).items() if old not in columns.index}
    found = [*columns.report_repeats(), *broken, *lost, *_report_shared_names(columns)]
    successors = columns.replaced_by | {old: new for old, new in retired.items() if new}
    return Ontology(
        ids=tuple(columns.index),
        names=columns.merge_names(),
        parents=parents,
        synonyms=columns.merge_synonyms(),
        definitions=columns.definitions,
        translated_definitions=columns.translated_definitions,
        notations=columns.notations,
        deprecated=frozenset(columns.deprecated | retired.keys()),
        replaced_by=successors,
        splits={old: tuple(new) for old, new in (splits or {}).items()},
        exact_matches=columns.exact_matches,
        positions=columns.merge_positions(),
        categories=groups,
        schemes={label: _unique(own) for label, own in columns.schemes.items()},
        types={label: _unique(own) for label, own in columns.types.items()},
        group_names=dict(group_names or {}),
        title=title,
        problems=tuple(dict.fromkeys([*problems, *found])),
    )


class _Columns:
    """Collects records in columns one at a time, so that a million of them are never in memory."""

    def __init__(self) -> None:
        self.index: dict[str, int] = {}
        self.names: dict[str, dict[int, str]] = {}
        # All lists may repeat a text until the end: to merge each record would be quadratic.
        self._synonyms: dict[str, dict[int, list[str]]] = {}
        self._positions: dict[int, list[str]] = {}
        self.definitions: dict[str, str] = {}
        self.translated_definitions: dict[str, dict[str, str]] = {}
        self.schemes: dict[str, list[str]] = {}
        self.types: dict[str, list[str]] = {}
        self.notations: dict[str, str] = {}
        self.deprecated: set[str] = set()
        self.replaced_by: dict[str, str] = {}
        self.exact_matches: dict[str, tuple[str, ...]] = {}
        self._repeated: Counter[str] = Counter()
        self._child = array("i")
        self._parent: list[str] = []

    def add(self, concept: Concept) -> None:
        """Add a record; one with a known id adds its new values to the old record."""
        label = concept.id
        if label in self.index:
            self._repeated[label] += 1
        row = self.index.setdefault(label, len(self.index))
        for language, name in concept.names.items():
            self._add_name(language, row, name)
        for language, synonyms in concept.synonyms.items():
            name = concept.names.get(language, "")
            self._add_synonyms(language, row, [text for text in synonyms if text and text != name])
        if concept.positions:
            self._positions.setdefault(row, []).extend(concept.positions)
        for parent in concept.parents:
            self._child.append(row)
            self._parent.append(parent)
        if concept.definition:
            self.definitions.setdefault(label, concept.definition)
        for language, text in concept.translated_definitions.items():
            self.translated_definitions.setdefault(language, {}).setdefault(label, text)
        for groups, own in ((self.schemes, concept.schemes), (self.types, concept.types)):
            if own:
                groups.setdefault(label, []).extend(own)
        if concept.notation:
            self.notations.setdefault(label, concept.notation)
        if concept.deprecated:
            self.deprecated.add(label)
        if concept.replaced_by:
            self.replaced_by.setdefault(label, concept.replaced_by)
        if concept.exact_matches:
            self.exact_matches.setdefault(label, tuple(concept.exact_matches))

    def _add_name(self, language: str, row: int, name: str) -> None:
        column = self.names.setdefault(language, {})
        if name and column.setdefault(row, name) != name:
            self._add_synonyms(language, row, [name])

    def _add_synonyms(self, language: str, row: int, synonyms: Sequence[str]) -> None:
        if synonyms:
            self._synonyms.setdefault(language, {}).setdefault(row, []).extend(synonyms)

    def merge_names(self) -> dict[str, SparseColumn[str]]:
        """Return the names of all languages, sorted by language."""
        n = len(self.index)
        return {tag: SparseColumn(own, n, "") for tag, own in sorted(self.names.items())}

    def merge_synonyms(self) -> dict[str, SparseColumn[tuple[str, ...]]]:
        """Return the synonyms of all languages, each once; empties the lists."""
        n = len(self.index)
        merged: dict[str, SparseColumn[tuple[str, ...]]] = {}
        for tag in sorted(self._synonyms):
            lists = self._synonyms.pop(tag)
            merged[tag] = SparseColumn({row: _unique(own) for row, own in lists.items()}, n, ())
        return merged

    def merge_positions(self) -> SparseColumn[tuple[str, ...]] | None:
        """Return the tree numbers of all concepts, or None if no concept has one."""
        own = {row: _unique(numbers) for row, numbers in self._positions.items()}
        return SparseColumn(own, len(self.index), ()) if own else None

    def report_repeats(self) -> list[str]:
        if not self._repeated:
            return []
        examples = (f"{label!r} ({n + 1} times)" for label, n in self._repeated.items())
        return [
            _format_problem(len(self._repeated), "id", "given more than once, merged", examples)
        ]

    def make_graph(self) -> tuple[csr_array, list[str]]:
        """Return the acyclic matrix of parents, and descriptions of the edges that were removed."""
        ids, n = list(self.index), len(self.index)
        child = np.frombuffer(self._child, dtype=np.intc) if self._child else np.empty(0, np.intc)
        parent = np.fromiter(
            (self.index.get(label, -1) for label in self._parent), np.intc, len(self._parent)
        )
        problems = []
        missing = np.flatnonzero(parent < 0)
        if len(missing):
            examples = (f"{self._parent[i]!r} (of {ids[child[i]]!r})" for i in missing.tolist())
            problems.append(_format_problem(len(missing), "missing parent", "dropped", examples))
        edges = csr_array(
            (np.ones(int((parent >= 0).sum()), bool), (child[parent >= 0], parent[parent >= 0])),
            shape=(n, n),
        )
        edges, cut = cut_cycles(edges)
        if cut:
            examples = (f"{ids[above]!r} as parent of {ids[below]!r}" for below, above in cut)
            problems.append(_format_problem(len(cut), "edge", "closing a cycle cut", examples))
        return edges, problems


def _unique(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def _format_problem(total: int, noun: str, what: str, examples: Iterable[str]) -> str:
    """Return a text with the count, the first few examples and the number of others."""
    named = ", ".join(islice(examples, NAMED))
    more = f" and {total - NAMED:,} more" if total > NAMED else ""
    return f"{total:,} {noun}{'' if total == 1 else 's'} {what}: {named}{more}"


def _select_known_groups(
    categories: Mapping[str, Iterable[str]], index: Mapping[str, int]
) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    groups: dict[str, tuple[str, ...]] = {}
    lost: list[str] = []
    for name, heads in categories.items():
        heads = list(dict.fromkeys(heads))
        known = tuple(label for label in heads if label in index)
        lost += [f"{label!r} (of {name!r})" for label in heads if label not in index]
        if known:
            groups[name] = known
    if not lost:
        return groups, []
    return groups, [_format_problem(len(lost), "missing head", "of a category dropped", lost)]


def _report_shared_names(columns: _Columns) -> list[str]:
    """Return a text per language about preferred names that several concepts share."""
    problems = []
    dead = {columns.index[label] for label in columns.deprecated}
    for language, names in columns.names.items():
        living = [name for row, name in names.items() if row not in dead]
        if len(set(living)) == len(living):
            continue
        shared = [f"{name!r} ({n} concepts)" for name, n in Counter(living).items() if n > 1]
        what = f"of several concepts (language {language})"
        problems.append(_format_problem(len(shared), "name", what, shared))
    return problems


def cut_cycles(parents: csr_array) -> tuple[csr_array, list[tuple[int, int]]]:
    """Return the graph without the edges that close a cycle, and these edges as (child, parent).

    Only strong components are traversed, from the top down, starting at concepts with parents
    outside the component. So the edge that is cut makes a deep concept a parent of one of its own
    ancestors. The result depends only on the file.
    """
    parents.sum_duplicates()
    coordinates = parents.tocoo()
    child, parent = coordinates.row, coordinates.col
    loops = child == parent
    cut = [(int(i), int(i)) for i in child[loops]]
    _, component = connected_components(parents, directed=True, connection="strong")
    inside = (component[child] == component[parent]) & ~loops
    if inside.any():
        has_outer_parent = np.zeros(parents.shape[0], dtype=bool)
        has_outer_parent[child[component[child] != component[parent]]] = True
        members = np.unique(child[inside])
        starts = np.concatenate(
            [members[has_outer_parent[members]], members[~has_outer_parent[members]]]
        ).tolist()
        below = csr_array(
            (np.ones(int(inside.sum()), bool), (parent[inside], child[inside])), parents.shape
        )
        cut += _find_back_edges(below, starts)
    if not cut:
        return parents, []
    bad = coo_array((np.ones(len(cut), bool), tuple(zip(*cut, strict=True))), shape=parents.shape)
    kept = csr_array(parents > csr_array(bad))
    kept.eliminate_zeros()
    return kept, cut


def _find_back_edges(below: csr_array, starts: Sequence[int]) -> list[tuple[int, int]]:
    """Return (child, parent) of the back edges of a depth-first search."""
    indptr, children = below.indptr.tolist(), below.indices.tolist()
    next_edge = indptr[:-1]
    unseen, open_, done = 0, 1, 2
    state = bytearray(len(next_edge))
    found = []
    for start in starts:
        if state[start] != unseen:
            continue
        state[start] = open_
        path = [start]
        while path:
            here = path[-1]
            if next_edge[here] == indptr[here + 1]:
                state[path.pop()] = done
                continue
            child = children[next_edge[here]]
            next_edge[here] += 1
            if state[child] == open_:
                found.append((child, here))
            elif state[child] == unseen:
                state[child] = open_
                path.append(child)
    return found


def compute_ancestors(ontology: Ontology) -> csr_array:
    """Return (concepts x concepts), true where the column is an ancestor of the row."""
    longest = int(compute_depths(ontology)[1].max(initial=0))
    total = longest * (longest - 1) // 2  # pairs on the longest path alone
    if total > MAX_PAIRS:
        raise _too_deep_error()
    parents = csr_array(ontology.parents.astype(bool))  # sums of booleans cannot wrap around
    step, rows, columns, total = parents, [], [], 0
    while step.nnz:
        total += step.nnz
        if total > MAX_PAIRS:
            raise _too_deep_error()
        pairs = step.tocoo()
        rows.append(pairs.row)
        columns.append(pairs.col)
        step = csr_array(parents @ step)
    empty = np.empty(0, np.int32)
    row, column = np.concatenate([empty, *rows]), np.concatenate([empty, *columns])
    return csr_array((np.ones(len(row), bool), (row, column)), shape=parents.shape)


def _too_deep_error() -> DataError:
    return DataError(
        f"the ontology is too deep: over {MAX_PAIRS:,} pairs of a concept and an ancestor",
        hint="check the hierarchy for very long chains of concepts",
    )


def find_reachable(edges: csr_array, start: int) -> set[int]:
    """Return all concepts that the edges lead to from one concept, without itself.

    With `ontology.children` these are the descendants, with `ontology.parents` the ancestors.
    """
    seen = {start}
    waiting = [start]
    while waiting:
        here = waiting.pop()
        for there in edges.indices[edges.indptr[here] : edges.indptr[here + 1]].tolist():
            if there not in seen:
                seen.add(there)
                waiting.append(there)
    seen.remove(start)
    return seen


def sort_topologically(ontology: Ontology) -> list[int]:
    """Return all concepts, each after its parents; roots come first, in file order."""
    indptr, children = ontology.children.indptr.tolist(), ontology.children.indices.tolist()
    waiting = np.diff(ontology.parents.indptr).tolist()
    order = [concept for concept in range(len(ontology)) if not waiting[concept]]
    for here in order:  # grows: a concept is appended after all its parents
        for child in children[indptr[here] : indptr[here + 1]]:
            waiting[child] -= 1
            if not waiting[child]:
                order.append(child)
    return order


def compute_depths(ontology: Ontology) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the length of the shortest and longest path to each concept; a root has 1."""
    indptr, parents = ontology.parents.indptr.tolist(), ontology.parents.indices.tolist()
    shallow, deep = [1] * len(ontology), [1] * len(ontology)
    for here in sort_topologically(ontology):
        above = parents[indptr[here] : indptr[here + 1]]
        if above:
            shallow[here] = 1 + min(shallow[parent] for parent in above)
            deep[here] = 1 + max(deep[parent] for parent in above)
    return np.array(shallow, dtype=np.int32), np.array(deep, dtype=np.int32)


def find_paths(ontology: Ontology, label: str) -> Iterator[list[str]]:
    """Yield every path from a root down to the concept, both included.

    A graph with many parents can have too many paths to list them all.
    """
    indptr, parents = ontology.parents.indptr, ontology.parents.indices
    # Paths are linked lists from the top down, so that long ones share their lower parts.
    waiting: list[tuple[int, Any]] = [(ontology.index[label], None)]
    while waiting:
        here, below = waiting.pop()
        above = parents[indptr[here] : indptr[here + 1]].tolist()
        if above:
            waiting.extend((parent, (here, below)) for parent in reversed(above))
            continue
        path = [ontology.ids[here]]
        while below is not None:
            step, below = below
            path.append(ontology.ids[step])
        yield path
