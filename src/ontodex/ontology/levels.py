"""Compute levels and categories of concepts, and select gold labels of a level.

    level       depth of the shallowest (or deepest) position of a concept; most general = 1
    category    a top category that a concept belongs to; it can belong to several

A position is a tree number if the ontology has them (its depth is the number of segments), else a
path from a root. A concept without a position (Male and Female in MeSH) is at level 1, in the
category UNPLACED, so that no label is lost. Categories are the first letters of tree numbers, under
their declared names. Without tree numbers they are the declared top categories; without these, the
15 largest concepts of level 1 and one for the rest.
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

from ontodex.ontology.graph import compute_ancestors, compute_depths, sort_topologically
from ontodex.types import LabelSpace, Ontology

Rule = Literal["min", "max"]
Expand = Literal["none", "lowest", "all"]

REST = "(other)"
UNPLACED = "(no position)"
# Tree numbers begin with the letters of their group (A01.236); plain numbers with its number (3.1).
_GROUP = re.compile(r"[^\W\d]+|[^.]+")


@dataclass(frozen=True, eq=False)
class Levels:
    """Levels and categories of concepts or label columns; row `i` belongs to concept `i`."""

    level: NDArray[np.int32]  # 1 = most general
    categories: tuple[str, ...]
    membership: csr_array  # (concepts, categories), boolean; no row is empty

    @property
    def n_levels(self) -> int:
        return int(self.level.max(initial=0))

    def at(self, level: int) -> NDArray[np.int64]:
        """Return the concepts of one level."""
        return np.flatnonzero(self.level == level)


def assign_levels(
    ontology: Ontology, *, max_level: int = 7, rule: Rule = "min", largest: int = 15
) -> Levels:
    """Return levels and categories of all concepts; deeper levels count as `max_level`."""
    level = _compute_levels(ontology, max_level, rule)
    names, rows = _assign_categories(ontology, largest)
    return Levels(level, names, _make_membership(rows, len(names)))


MOST_LEVELS = 7  # as the paper has of MeSH
RARE_LEVEL = 0.02  # share of label occurrences below which a level is joined with the one above


def choose_max_level(labels: LabelSpace, rule: Rule = "min") -> int:
    """Return the number of levels to learn: at most 7, and none that hardly any label is at.

    Levels are joined with the one above, from the deepest up, while all labels from there on have
    less than 2 % of the label occurrences in training. So MeSH has 7 levels and EuroVoc 4.
    """
    level = compute_label_levels(labels, max_level=MOST_LEVELS, rule=rule)[: labels.n_seen]
    counts = np.bincount(level, weights=labels.frequency[: labels.n_seen], minlength=2)
    deepest = len(counts) - 1
    while deepest > 1 and counts[deepest:].sum() < RARE_LEVEL * counts.sum():
        deepest -= 1
    return deepest


def map_to_labels(labels: LabelSpace, levels: Levels) -> Levels:
    """Return the levels of the columns of a label space.

    A label outside the ontology has no position.
    """
    concepts, names = _find_concepts(labels), levels.categories
    if UNPLACED not in names and (concepts < 0).any():
        names = (*names, UNPLACED)
    outside = [names.index(UNPLACED)] if UNPLACED in names else []
    indptr, indices = levels.membership.indptr.tolist(), levels.membership.indices.tolist()
    rows = [
        indices[indptr[concept] : indptr[concept + 1]] if concept >= 0 else outside
        for concept in concepts.tolist()
    ]
    return Levels(_take_levels(concepts, levels.level), names, _make_membership(rows, len(names)))


def compute_label_levels(
    labels: LabelSpace, *, max_level: int = 7, rule: Rule = "min"
) -> NDArray[np.int32]:
    """Return the levels of the columns of a label space, without categories."""
    if labels.ontology is None:
        return np.ones(len(labels), dtype=np.int32)
    return _take_levels(_find_concepts(labels), _compute_levels(labels.ontology, max_level, rule))


def compute_label_ancestors(labels: LabelSpace) -> csr_array:
    """Return (columns x columns), true where the column is an ancestor of the row."""
    n = len(labels)
    if labels.ontology is None:
        return csr_array((n, n), dtype=bool)
    index = labels.ontology.index
    pairs = [(column, index[label]) for column, label in enumerate(labels.ids) if label in index]
    column, concept = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    place = csr_array(
        (np.ones(len(column), bool), (column, concept)), shape=(n, len(labels.ontology))
    )
    return csr_array(place @ compute_ancestors(labels.ontology) @ place.T)


def add_ancestors(ontology: Ontology, lists: Iterable[Sequence[str]]) -> list[list[str]]:
    """Return label lists with all ancestors of their labels, the most general first."""
    above, (depth, _) = compute_ancestors(ontology), compute_depths(ontology)
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
    """Return the gold labels at one level; columns of other levels are empty.

    `above` (`compute_label_ancestors`) and `levels` (`map_to_labels`) belong to the columns of
    `gold`. Columns past their end are outside the label space and at no level. `expand` first adds
    ancestors: `all` adds those of every label, `lowest` only those in documents that have labels of
    the last level alone.
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


def _compute_levels(ontology: Ontology, max_level: int, rule: Rule) -> NDArray[np.int32]:
    if max_level < 1:
        raise ValueError(f"max_level must be at least 1, not {max_level}")
    shallow, deep = compute_depths(ontology)
    level = shallow if rule == "min" else deep
    pick = min if rule == "min" else max
    for concept, positions in enumerate(ontology.positions or ()):
        if positions:
            level[concept] = pick(position.count(".") + 1 for position in positions)
    return np.minimum(level, max_level)


def _find_concepts(labels: LabelSpace) -> NDArray[np.int64]:
    """Return the concept of each column, -1 outside the ontology."""
    known = labels.ontology.index if labels.ontology is not None else {}
    return np.array([known.get(label, -1) for label in labels.ids], dtype=np.int64)


def _take_levels(concepts: NDArray[np.int64], level: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the levels of these concepts, and 1 for -1 (outside the ontology)."""
    return np.append(level, np.int32(1))[concepts]


def _make_membership(rows: Sequence[Sequence[int]], n_categories: int) -> csr_array:
    indptr = np.cumsum([0, *map(len, rows)])
    indices = np.fromiter((g for row in rows for g in row), np.int32, int(indptr[-1]))
    data = np.ones(len(indices), dtype=bool)
    return csr_array((data, indices, indptr), shape=(len(rows), n_categories))


def _assign_categories(ontology: Ontology, largest: int) -> tuple[tuple[str, ...], list[list[int]]]:
    """Return category names, and for each concept the sorted numbers of its categories."""
    if ontology.positions is not None:
        heads = _group_by_position(ontology, ontology.positions)
    elif ontology.categories:
        index = ontology.index
        heads = {name: [index[head] for head in own] for name, own in ontology.categories.items()}
    else:
        heads = _group_by_top(ontology, largest)
    rows = _inherit(ontology, heads.values())
    isolated = np.diff(ontology.parents.indptr) + np.diff(ontology.children.indptr) == 0
    names = [*heads, *(name for name in (REST, UNPLACED) if name not in heads)]
    rest, unplaced = (frozenset([names.index(name)]) for name in (REST, UNPLACED))
    for concept, row in enumerate(rows):
        if not row:
            rows[concept] = unplaced if isolated[concept] else rest
    kinds = set(rows)
    used = sorted(frozenset().union(*kinds))
    renumbered = {old: new for new, old in enumerate(used)}
    ordered = {kind: sorted(renumbered[g] for g in kind) for kind in kinds}
    return tuple(names[number] for number in used), [ordered[row] for row in rows]


def _inherit(ontology: Ontology, heads: Iterable[Iterable[int]]) -> list[frozenset[int]]:
    """Return for each concept the categories of itself and its ancestors.

    `heads` are the top concepts of each category. Concepts with tree numbers inherit nothing,
    because their tree numbers name all their categories.
    """
    rows: list[frozenset[int]] = [frozenset()] * len(ontology)
    for number, members in enumerate(heads):
        for concept in members:
            rows[concept] |= {number}
    indptr, parents = ontology.parents.indptr.tolist(), ontology.parents.indices.tolist()
    # Equal sets are stored once: a million concepts have few different ones.
    known: dict[frozenset[int], frozenset[int]] = {}
    for concept in sort_topologically(ontology):
        row = rows[concept]
        if ontology.positions is None or not ontology.positions[concept]:
            row = row.union(
                *(rows[parent] for parent in parents[indptr[concept] : indptr[concept + 1]])
            )
        rows[concept] = known.setdefault(row, row)
    return rows


def _group_by_position(
    ontology: Ontology, positions: Sequence[tuple[str, ...]]
) -> dict[str, list[int]]:
    """Group concepts by the first letters of their tree numbers, under the declared names."""
    declared = {
        _get_letters(position): name
        for name, heads in ontology.categories.items()
        for head in heads
        for position in positions[ontology.index[head]]
        if "." not in position
    }
    groups: dict[str, list[int]] = {name: [] for name in ontology.categories}
    for concept, own in enumerate(positions):
        for letters in map(_get_letters, own):
            groups.setdefault(declared.get(letters, letters), []).append(concept)
    return groups


def _get_letters(position: str) -> str:
    match = _GROUP.match(position)
    return match.group() if match else position


def _group_by_top(ontology: Ontology, largest: int) -> dict[str, list[int]]:
    """Make a category of each of the `largest` concepts of level 1, and one of the others.

    The size of a concept is the number of its descendants. A single root is replaced by its
    children.
    """
    children = ontology.children
    n_children, n_parents = np.diff(children.indptr), np.diff(ontology.parents.indptr)
    tops = np.flatnonzero((n_parents == 0) & (n_children > 0)).tolist()
    while len(tops) == 1 and n_children[tops[0]]:
        tops = children.indices[children.indptr[tops[0]] : children.indptr[tops[0] + 1]].tolist()
    below: Counter[int] = Counter()
    for kind, concepts in Counter(_inherit(ontology, ([top] for top in tops))).items():
        below.update({tops[number]: concepts for number in kind})
    tops.sort(key=lambda top: (-below[top], top))
    groups: dict[str, list[int]] = {}
    for top in tops[:largest]:
        groups.setdefault(ontology.name(ontology.ids[top]), []).append(top)
    return groups | ({REST: tops[largest:]} if tops[largest:] else {})
