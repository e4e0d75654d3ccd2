"""Loose records -> Ontology: a graph without cycles, and what can be asked of the graph.

Files are never trusted to be a clean hierarchy. `build` merges repeated ids, drops parents that do
not exist, cuts cycles, and says each of these in a counted sentence of `Ontology.problems`. Nothing
here recurses: a chain of 100,000 concepts is as good as a tree.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from ontodex.errors import DataError
from ontodex.types import Ontology

T = TypeVar("T")

# Sentences name this many examples and count the rest.
NAMED = 3
# The closure of a long chain grows with its square; past this many pairs (about 3 GB while it is
# made) we refuse instead of filling the memory.
MAX_PAIRS = 100_000_000


@dataclass(frozen=True, slots=True)
class Concept:
    """One record of an ontology file. Languages are lower-case tags, "und" where none is said."""

    id: str
    names: Mapping[str, str] = field(default_factory=dict)
    synonyms: Mapping[str, Sequence[str]] = field(default_factory=dict)
    parents: Sequence[str] = ()
    definition: str = ""
    notation: str = ""
    deprecated: bool = False
    replaced_by: str = ""
    positions: Sequence[str] = ()


def build(
    concepts: Iterable[Concept],
    *,
    categories: Mapping[str, Iterable[str]] | None = None,
    retired: Mapping[str, str] | None = None,
    problems: Iterable[str] = (),
) -> Ontology:
    """An Ontology from records in any order, read once; `problems` are put before those found here.

    `categories` names the concepts that head each declared top group. `retired` are ids that are no
    concepts any more, with their successor ("" where there is none): a label of an old document may
    still be one of them. Both are looked at after the last concept, so a reader can fill them while
    its records are being taken.
    """
    columns = _Columns()
    for concept in concepts:
        columns.add(concept)
    parents, broken = columns.graph()
    groups, lost = _known_groups(categories or {}, columns.index)
    retired = {old: new for old, new in (retired or {}).items() if old not in columns.index}
    found = [*columns.repeats(), *broken, *lost, *_shared_names(columns)]
    successors = columns.replaced_by | {old: new for old, new in retired.items() if new}
    return Ontology(
        ids=tuple(columns.index),
        names=columns.filled(columns.names, ""),
        parents=parents,
        synonyms=columns.filled(columns.synonyms, ()),
        definitions=columns.definitions,
        notations=columns.notations,
        deprecated=frozenset(columns.deprecated | retired.keys()),
        replaced_by=successors,
        positions=columns.filled({"": columns.positions}, ())[""] if columns.positions else None,
        categories=groups,
        problems=tuple(dict.fromkeys([*problems, *found])),
    )


class _Columns:
    """Records turned into columns one at a time, so that a million of them never exist together."""

    def __init__(self) -> None:
        self.index: dict[str, int] = {}
        self.names: dict[str, list[str]] = {}
        self.synonyms: dict[str, list[tuple[str, ...]]] = {}
        self.positions: list[tuple[str, ...]] = []
        self.definitions: dict[str, str] = {}
        self.notations: dict[str, str] = {}
        self.deprecated: set[str] = set()
        self.replaced_by: dict[str, str] = {}
        self._repeated: Counter[str] = Counter()
        self._child = array("i")
        self._parent: list[str] = []

    def add(self, concept: Concept) -> None:
        """Take a record; one whose id is known already adds what is new in it."""
        label = concept.id
        if label in self.index:
            self._repeated[label] += 1
        row = self.index.setdefault(label, len(self.index))
        for language, name in concept.names.items():
            self._name(language, row, name)
        for language, synonyms in concept.synonyms.items():
            name = concept.names.get(language, "")
            self._also(language, row, [text for text in synonyms if text and text != name])
        if concept.positions:
            _extend(self.positions, row, ())
            self.positions[row] = _joined(self.positions[row], concept.positions)
        for parent in concept.parents:
            self._child.append(row)
            self._parent.append(parent)
        if concept.definition:
            self.definitions.setdefault(label, concept.definition)
        if concept.notation:
            self.notations.setdefault(label, concept.notation)
        if concept.deprecated:
            self.deprecated.add(label)
        if concept.replaced_by:
            self.replaced_by.setdefault(label, concept.replaced_by)

    def _name(self, language: str, row: int, name: str) -> None:
        column = self.names.setdefault(language, [])
        _extend(column, row, "")
        if not column[row]:
            column[row] = name
        elif name and name != column[row]:
            self._also(language, row, [name])

    def _also(self, language: str, row: int, synonyms: Sequence[str]) -> None:
        if synonyms:
            column = self.synonyms.setdefault(language, [])
            _extend(column, row, ())
            column[row] = _joined(column[row], synonyms)

    def filled(self, columns: Mapping[str, list[T]], empty: T) -> dict[str, list[T]]:
        """The columns by language, each as long as there are concepts."""
        for column in columns.values():
            _extend(column, len(self.index) - 1, empty)
        return dict(sorted(columns.items()))

    def repeats(self) -> list[str]:
        if not self._repeated:
            return []
        examples = (f"{label!r} ({n + 1} times)" for label, n in self._repeated.items())
        return [_report(len(self._repeated), "id", "given more than once, merged", examples)]

    def graph(self) -> tuple[csr_array, list[str]]:
        """The acyclic matrix of parents, and sentences about the edges that are not in it."""
        ids, n = list(self.index), len(self.index)
        child = np.frombuffer(self._child, dtype=np.intc) if self._child else np.empty(0, np.intc)
        parent = np.fromiter(
            (self.index.get(label, -1) for label in self._parent), np.intc, len(self._parent)
        )
        problems = []
        missing = np.flatnonzero(parent < 0)
        if len(missing):
            examples = (f"{self._parent[i]!r} (of {ids[child[i]]!r})" for i in missing.tolist())
            problems.append(_report(len(missing), "missing parent", "dropped", examples))
        edges = csr_array(
            (np.ones(int((parent >= 0).sum()), bool), (child[parent >= 0], parent[parent >= 0])),
            shape=(n, n),
        )
        edges, cut = cut_cycles(edges)
        if cut:
            examples = (f"{ids[above]!r} as parent of {ids[below]!r}" for below, above in cut)
            problems.append(_report(len(cut), "edge", "closing a cycle cut", examples))
        return edges, problems


def _extend(column: list[T], row: int, empty: T) -> None:
    """Make `column[row]` exist."""
    if len(column) <= row:
        column.extend([empty] * (row + 1 - len(column)))


def _joined(old: tuple[str, ...], new: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*old, *new]))


def _report(total: int, noun: str, what: str, examples: Iterable[str]) -> str:
    """A sentence that counts, names the first few and says how many more there are."""
    named = ", ".join(islice(examples, NAMED))
    more = f" and {total - NAMED:,} more" if total > NAMED else ""
    return f"{total:,} {noun}{'' if total == 1 else 's'} {what}: {named}{more}"


def _known_groups(
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
    return groups, [_report(len(lost), "missing head", "of a category dropped", lost)]


def _shared_names(columns: _Columns) -> list[str]:
    """One sentence a language about preferred names that several living concepts have."""
    problems = []
    dead = {columns.index[label] for label in columns.deprecated}
    for language, names in columns.names.items():
        living = [name for row, name in enumerate(names) if name and row not in dead]
        if len(set(living)) == len(living):
            continue
        shared = [f"{name!r} ({n} concepts)" for name, n in Counter(living).items() if n > 1]
        what = f"of several concepts (language {language})"
        problems.append(_report(len(shared), "name", what, shared))
    return problems


def cut_cycles(parents: csr_array) -> tuple[csr_array, list[tuple[int, int]]]:
    """The graph without the edges that close a cycle, and those edges as (child, parent).

    Only concepts that reach each other (strong components) are walked. The walk goes from the top
    down, starting where the component hangs on the rest of the graph, so what is cut is a deep
    concept's claim to stand above one of its own ancestors. The same file is always cut alike.
    """
    parents.sum_duplicates()
    coordinates = parents.tocoo()
    child, parent = coordinates.row, coordinates.col
    loops = child == parent
    cut = [(int(i), int(i)) for i in child[loops]]
    _, component = connected_components(parents, directed=True, connection="strong")
    inside = (component[child] == component[parent]) & ~loops
    if inside.any():
        hung = np.zeros(parents.shape[0], dtype=bool)
        hung[child[component[child] != component[parent]]] = True
        members = np.unique(child[inside])
        starts = np.concatenate([members[hung[members]], members[~hung[members]]]).tolist()
        below = csr_array(
            (np.ones(int(inside.sum()), bool), (parent[inside], child[inside])), parents.shape
        )
        cut += _back_edges(below, starts)
    if not cut:
        return parents, []
    bad = coo_array((np.ones(len(cut), bool), tuple(zip(*cut, strict=True))), shape=parents.shape)
    kept = csr_array(parents > csr_array(bad))
    kept.eliminate_zeros()
    return kept, cut


def _back_edges(below: csr_array, starts: Sequence[int]) -> list[tuple[int, int]]:
    """(child, parent) of the edges that lead a depth-first walk back to a concept on its way."""
    indptr, children = below.indptr.tolist(), below.indices.tolist()
    next_edge = indptr[:-1]
    unseen, open_, done = 0, 1, 2
    state = bytearray(len(next_edge))
    found = []
    for start in starts:
        if state[start] != unseen:
            continue
        state[start] = open_
        way = [start]
        while way:
            here = way[-1]
            if next_edge[here] == indptr[here + 1]:
                state[way.pop()] = done
                continue
            child = children[next_edge[here]]
            next_edge[here] += 1
            if state[child] == open_:
                found.append((child, here))
            elif state[child] == unseen:
                state[child] = open_
                way.append(child)
    return found


def ancestors(ontology: Ontology) -> csr_array:
    """(concepts x concepts), true where the column is above the row, at any distance."""
    longest = int(depths(ontology)[1].max(initial=0))
    total = longest * (longest - 1) // 2  # the longest way alone has so many pairs
    if total > MAX_PAIRS:
        raise _too_deep()
    parents = csr_array(ontology.parents.astype(bool))  # sums of booleans cannot wrap around
    step, rows, columns, total = parents, [], [], 0
    while step.nnz:
        total += step.nnz
        if total > MAX_PAIRS:
            raise _too_deep()
        pairs = step.tocoo()
        rows.append(pairs.row)
        columns.append(pairs.col)
        step = csr_array(parents @ step)
    empty = np.empty(0, np.int32)
    row, column = np.concatenate([empty, *rows]), np.concatenate([empty, *columns])
    return csr_array((np.ones(len(row), bool), (row, column)), shape=parents.shape)


def _too_deep() -> DataError:
    return DataError(
        f"the ontology is too deep: over {MAX_PAIRS:,} pairs of a concept and an ancestor",
        hint="use levels or walk the graph instead of asking for all ancestors",
    )


def descendants(ontology: Ontology) -> csr_array:
    """(concepts x concepts), true where the column is below the row, at any distance."""
    return csr_array(ancestors(ontology).T.tocsr())


def reachable(edges: csr_array, start: int) -> set[int]:
    """Everything the edges lead to from one concept, without it: `ontology.children` gives the
    descendants, `ontology.parents` the ancestors."""
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


def topological(ontology: Ontology) -> list[int]:
    """All concepts, each after its parents; roots first, in file order."""
    indptr, children = ontology.children.indptr.tolist(), ontology.children.indices.tolist()
    waiting = np.diff(ontology.parents.indptr).tolist()
    order = [concept for concept in range(len(ontology)) if not waiting[concept]]
    for here in order:  # grows: a concept joins when all its parents have been here
        for child in children[indptr[here] : indptr[here + 1]]:
            waiting[child] -= 1
            if not waiting[child]:
                order.append(child)
    return order


def depths(ontology: Ontology) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Length of the shortest and of the longest way down to each concept; a root has 1."""
    indptr, parents = ontology.parents.indptr.tolist(), ontology.parents.indices.tolist()
    shallow, deep = [1] * len(ontology), [1] * len(ontology)
    for here in topological(ontology):
        above = parents[indptr[here] : indptr[here + 1]]
        if above:
            shallow[here] = 1 + min(shallow[parent] for parent in above)
            deep[here] = 1 + max(deep[parent] for parent in above)
    return np.array(shallow, dtype=np.int32), np.array(deep, dtype=np.int32)


def paths(ontology: Ontology, label: str) -> Iterator[list[str]]:
    """Every way from a root down to the concept, both included, made one at a time: a graph with
    many parents can have more of them than anyone would wait for."""
    indptr, parents = ontology.parents.indptr, ontology.parents.indices
    # Ways are linked lists from the top step down, so that long ones share their lower parts.
    waiting: list[tuple[int, Any]] = [(ontology.index[label], None)]
    while waiting:
        here, below = waiting.pop()
        above = parents[indptr[here] : indptr[here + 1]].tolist()
        if above:
            waiting.extend((parent, (here, below)) for parent in reversed(above))
            continue
        way = [ontology.ids[here]]
        while below is not None:
            step, below = below
            way.append(ontology.ids[step])
        yield way
