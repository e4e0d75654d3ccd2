"""Ontology -> levels and categories, and gold labels lifted to a level.

    level       depth of a concept's shallowest (or deepest) position; most general = 1
    category    the top groups a concept descends from; it can be in several

A position is a tree number where the ontology has them (its segments are counted), else a way down
from a root. Without either, MeSH's Male and Female, a concept is at level 1 in a category of its
own, so that no label is lost. Categories are the letters of tree numbers (with the names that the
ontology declares for them); else the top groups it declares; else the concepts of level 1, the
largest 15 and the rest.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.ontology.graph import ancestors, depths, topological
from ontodex.types import LabelSpace, Ontology

Rule = Literal["min", "max"]
Expand = Literal["none", "lowest", "all"]

REST = "(other)"
UNPLACED = "(no position)"
# Tree numbers begin with the letters of their group (A01.236); plain numbers with its number (3.1).
_GROUP = re.compile(r"[^\W\d]+|[^.]+")


@dataclass(frozen=True, eq=False)
class Levels:
    """Where concepts (or label columns) stand; row `i` of everything is concept `i`."""

    level: NDArray[np.int32]  # 1 = most general
    categories: tuple[str, ...]
    membership: csr_array  # (concepts, categories), true where it belongs; no row is empty

    @property
    def n_levels(self) -> int:
        return int(self.level.max(initial=0))

    def at(self, level: int) -> NDArray[np.int64]:
        """The concepts of one level."""
        return np.flatnonzero(self.level == level)


def assign(
    ontology: Ontology, *, max_level: int = 7, rule: Rule = "min", largest: int = 15
) -> Levels:
    """Level and categories of every concept; deeper than `max_level` folds into the last."""
    level = _levels(ontology, max_level, rule)
    names, rows = _categories(ontology, largest)
    return Levels(level, names, _membership(rows, len(names)))


def for_labels(labels: LabelSpace, levels: Levels) -> Levels:
    """The same for the columns of a label space; a label outside the ontology has no position."""
    concepts, names = _concepts(labels), levels.categories
    if UNPLACED not in names and (concepts < 0).any():
        names = (*names, UNPLACED)
    outside = [names.index(UNPLACED)] if UNPLACED in names else []
    indptr, indices = levels.membership.indptr.tolist(), levels.membership.indices.tolist()
    rows = [
        indices[indptr[concept] : indptr[concept + 1]] if concept >= 0 else outside
        for concept in concepts.tolist()
    ]
    return Levels(_at(concepts, levels.level), names, _membership(rows, len(names)))


def label_levels(
    labels: LabelSpace, *, max_level: int = 7, rule: Rule = "min"
) -> NDArray[np.int32]:
    """The levels that `assign` and `for_labels` give the columns, without their categories."""
    if labels.ontology is None:
        return np.ones(len(labels), dtype=np.int32)
    return _at(_concepts(labels), _levels(labels.ontology, max_level, rule))


def label_ancestors(labels: LabelSpace) -> csr_array:
    """(columns x columns), true where the label of a column is above that of a row."""
    n = len(labels)
    if labels.ontology is None:
        return csr_array((n, n), dtype=bool)
    index = labels.ontology.index
    pairs = [(column, index[label]) for column, label in enumerate(labels.ids) if label in index]
    column, concept = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    place = csr_array(
        (np.ones(len(column), bool), (column, concept)), shape=(n, len(labels.ontology))
    )
    return csr_array(place @ ancestors(labels.ontology) @ place.T)


def lists_with_ancestors(ontology: Ontology, lists: Iterable[Sequence[str]]) -> list[list[str]]:
    """Label lists with all ancestors of their labels, the most general first."""
    above, (depth, _) = ancestors(ontology), depths(ontology)
    complete = []
    for labels in lists:
        known = [ontology.index[label] for label in labels if label in ontology]
        wanted = set(known)
        for concept in known:
            wanted.update(above.indices[above.indptr[concept] : above.indptr[concept + 1]].tolist())
        ordered = sorted(wanted, key=lambda concept: (depth[concept], concept))
        outside = [label for label in labels if label not in ontology]
        complete.append([*(ontology.ids[concept] for concept in ordered), *outside])
    return complete


def lift(
    gold: csr_array,
    above: csr_array,
    levels: Levels,
    *,
    level: int,
    expand: Expand = "none",
) -> csr_array:
    """The gold labels for training one level: those at it, other columns empty.

    `above` (`label_ancestors`) and `levels` (`for_labels`) are about the columns of `gold`; labels
    past their end are outside the label space and at no level. `expand` first adds ancestors:
    `all` those of every label, `lowest` only in documents whose labels are all of the last level.
    """
    n = len(levels.level)
    known = csr_array(gold[:, :n].astype(bool))
    if expand != "none":
        chosen = known
        if expand == "lowest":
            higher = known @ (levels.level < levels.n_levels).astype(np.int64)
            chosen = csr_array(known.multiply((higher == 0)[:, None]))
        known = csr_array(known + chosen @ above)
    rows, columns = known.nonzero()
    kept = levels.level[columns] == level
    data = np.ones(int(kept.sum()), dtype=gold.dtype)
    return csr_array((data, (rows[kept], columns[kept])), shape=gold.shape)


def _levels(ontology: Ontology, max_level: int, rule: Rule) -> NDArray[np.int32]:
    if max_level < 1:
        raise ValueError(f"max_level must be at least 1, not {max_level}")
    shallow, deep = depths(ontology)
    level = shallow if rule == "min" else deep
    pick = min if rule == "min" else max
    for concept, positions in enumerate(ontology.positions or ()):
        if positions:
            level[concept] = pick(position.count(".") + 1 for position in positions)
    return np.minimum(level, max_level)


def _concepts(labels: LabelSpace) -> NDArray[np.int64]:
    """The concept of each column, -1 outside the ontology."""
    known = labels.ontology.index if labels.ontology is not None else {}
    return np.array([known.get(label, -1) for label in labels.ids], dtype=np.int64)


def _at(concepts: NDArray[np.int64], level: NDArray[np.int32]) -> NDArray[np.int32]:
    """The levels of these concepts; 1, where -1 points to, outside the ontology."""
    return np.append(level, np.int32(1))[concepts]


def _membership(rows: Sequence[Sequence[int]], n_categories: int) -> csr_array:
    indptr = np.cumsum([0, *map(len, rows)])
    indices = np.fromiter((g for row in rows for g in row), np.int32, int(indptr[-1]))
    data = np.ones(len(indices), dtype=bool)
    return csr_array((data, indices, indptr), shape=(len(rows), n_categories))


def _categories(ontology: Ontology, largest: int) -> tuple[tuple[str, ...], list[list[int]]]:
    """Category names, and for each concept the sorted numbers of its categories."""
    if ontology.positions is not None:
        heads = _by_position(ontology, ontology.positions)
    elif ontology.categories:
        index = ontology.index
        heads = {name: [index[head] for head in own] for name, own in ontology.categories.items()}
    else:
        heads = _by_top(ontology, largest)
    rows = _inherited(ontology, heads.values())
    lonely = np.diff(ontology.parents.indptr) + np.diff(ontology.children.indptr) == 0
    names = [*heads, *(name for name in (REST, UNPLACED) if name not in heads)]
    rest, unplaced = (frozenset([names.index(name)]) for name in (REST, UNPLACED))
    for concept, row in enumerate(rows):
        if not row:
            rows[concept] = unplaced if lonely[concept] else rest
    kinds = set(rows)
    used = sorted(frozenset().union(*kinds))
    renumbered = {old: new for new, old in enumerate(used)}
    ordered = {kind: sorted(renumbered[g] for g in kind) for kind in kinds}
    return tuple(names[number] for number in used), [ordered[row] for row in rows]


def _inherited(ontology: Ontology, heads: Iterable[Iterable[int]]) -> list[frozenset[int]]:
    """For each concept, the categories that it heads or stands below a head of. Tree numbers say
    everything about the concepts that have them, so those inherit nothing."""
    rows: list[frozenset[int]] = [frozenset()] * len(ontology)
    for number, members in enumerate(heads):
        for concept in members:
            rows[concept] |= {number}
    indptr, parents = ontology.parents.indptr.tolist(), ontology.parents.indices.tolist()
    # Equal sets are kept once: a million concepts have few different ones.
    known: dict[frozenset[int], frozenset[int]] = {}
    for concept in topological(ontology):
        row = rows[concept]
        if ontology.positions is None or not ontology.positions[concept]:
            row = row.union(
                *(rows[parent] for parent in parents[indptr[concept] : indptr[concept + 1]])
            )
        rows[concept] = known.setdefault(row, row)
    return rows


def _by_position(ontology: Ontology, positions: Sequence[tuple[str, ...]]) -> dict[str, list[int]]:
    """Concepts by the letters of their tree numbers, under the names declared for the letters."""
    declared = {
        _letters(position): name
        for name, heads in ontology.categories.items()
        for head in heads
        for position in positions[ontology.index[head]]
        if "." not in position
    }
    groups: dict[str, list[int]] = {name: [] for name in ontology.categories}
    for concept, own in enumerate(positions):
        for letters in map(_letters, own):
            groups.setdefault(declared.get(letters, letters), []).append(concept)
    return groups


def _letters(position: str) -> str:
    match = _GROUP.match(position)
    return match.group() if match else position


def _by_top(ontology: Ontology, largest: int) -> dict[str, list[int]]:
    """The `largest` concepts of level 1 by descendants, each its own category; the others as one.
    A lone root would put everything into one category, so its children stand in for it."""
    children = ontology.children
    n_children, n_parents = np.diff(children.indptr), np.diff(ontology.parents.indptr)
    tops = np.flatnonzero((n_parents == 0) & (n_children > 0)).tolist()
    while len(tops) == 1 and n_children[tops[0]]:
        tops = children.indices[children.indptr[tops[0]] : children.indptr[tops[0] + 1]].tolist()
    below: Counter[int] = Counter()
    for kind, concepts in Counter(_inherited(ontology, ([top] for top in tops))).items():
        below.update({tops[number]: concepts for number in kind})
    tops.sort(key=lambda top: (-below[top], top))
    groups: dict[str, list[int]] = {}
    for top in tops[:largest]:
        groups.setdefault(ontology.name(ontology.ids[top]), []).append(top)
    return groups | ({REST: tops[largest:]} if tops[largest:] else {})
