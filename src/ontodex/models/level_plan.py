"""Which labels stand at which level, in which categories, and how finely each category reads.

    columns ─ level (depth in the ontology) ─ categories of the level ─ chunks p_g of each

(paper 000, sections 2.1 and 2.1.3; ontology/levels.py says what a level and a category are.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.errors import ConfigError
from ontodex.ontology.levels import (
    UNPLACED,
    Expand,
    Levels,
    assign,
    for_labels,
    label_ancestors,
    lift,
)
from ontodex.ontology.levels import Rule as LevelRule
from ontodex.types import LabelSpace, Ranking

Columns = NDArray[np.int64]
Pooling = Literal["dynamic", "max", "fixed"]
Categories = Literal["dealt", "largest"]

MOST_CATEGORIES = 16  # as many as MeSH has letters


@dataclass(frozen=True, eq=False)
class Category:
    """Labels of one level that share a bottleneck."""

    name: str
    chunks: int  # p_g, the parts of the text that are pooled apart for it
    members: Columns  # places among the level's columns


@dataclass(frozen=True, eq=False)
class Level:
    """The labels of one level; `columns` are those of the label space, rising."""

    number: int  # 1 = most general
    columns: Columns
    categories: tuple[Category, ...]

    def __len__(self) -> int:
        return len(self.columns)


def place_labels(
    labels: LabelSpace, *, max_level: int, rule: LevelRule, categories: Categories = "dealt"
) -> Levels:
    """Level and categories of every column."""
    if labels.ontology is None:
        raise ConfigError(
            "levelwise learns level by level of an ontology, and none was given",
            hint='give --ontology FILE, or --set model.ontology="cluster" for levels learned from '
            "the documents",
        )
    ontology = labels.ontology
    if categories == "largest":
        return for_labels(labels, assign(ontology, max_level=max_level, rule=rule))
    # Every top on its own: the 15 largest of EuroVoc's hundreds would leave 94 % of the labels to
    # one category, the rest.
    tops = assign(ontology, max_level=max_level, rule=rule, largest=len(ontology))
    return deal_out(for_labels(labels, tops), labels.frequency)


def deal_out(placed: Levels, frequency: NDArray[np.integer[Any]]) -> Levels:
    """The same with at most `MOST_CATEGORIES`: where there are more, each top joins the category
    with the fewest label occurrences so far, the most frequent top first. Labels without position
    stay a category of their own."""
    names = placed.categories
    tops = [g for g, name in enumerate(names) if name != UNPLACED]
    if len(tops) <= MOST_CATEGORIES:
        return placed
    occurrences = placed.membership.astype(np.int64).T @ frequency
    joins = np.full(len(names), MOST_CATEGORIES)
    loads, heads = [0] * MOST_CATEGORIES, [""] * MOST_CATEGORIES
    for top in sorted(tops, key=lambda g: -occurrences[g]):
        group = int(np.argmin(loads))
        joins[top] = group
        loads[group] += max(1, int(occurrences[top]))
        heads[group] = heads[group] or f"{names[top]} and others"
    if len(tops) < len(names):
        heads.append(UNPLACED)
    dealt = csr_array(
        (np.ones(len(names), np.int64), (np.arange(len(names)), joins)),
        shape=(len(names), len(heads)),
    )
    return Levels(placed.level, tuple(heads), csr_array((placed.membership @ dealt) > 0))


def gold_by_level(
    gold: csr_array, labels: LabelSpace, placed: Levels, expand: Expand
) -> dict[int, csr_array]:
    """For each level that has a learned label: its gold, of all learned labels' columns. What was
    not learned may add ancestors, but no network can predict it."""
    above = label_ancestors(labels) if expand != "none" else csr_array((0, 0))
    numbers = np.unique(placed.level[: labels.n_seen]).tolist()
    lifted = {m: lift(gold, above, placed, level=m, expand=expand) for m in numbers}
    return {m: csr_array(own[:, : labels.n_seen]) for m, own in lifted.items()}


def plan_levels(
    golds: Mapping[int, csr_array],
    placed: Levels,
    n_seen: int,
    *,
    pooling: Pooling,
    chunks: int,
) -> list[Level]:
    """The levels with their categories; a category without a learned label is left out."""
    return [_level(number, gold, placed, n_seen, pooling, chunks) for number, gold in golds.items()]


def _level(
    number: int, gold: csr_array, placed: Levels, n_seen: int, pooling: Pooling, chunks: int
) -> Level:
    columns = np.flatnonzero(placed.level[:n_seen] == number)
    membership = csr_array(placed.membership[columns])
    counts = np.bincount(gold.indices, minlength=gold.shape[1])[columns]
    occurrences = membership.astype(np.int64).T @ counts
    by_category = csr_array(membership.T.tocsr())
    categories = []
    for g in np.flatnonzero(np.diff(by_category.indptr)).tolist():
        members = by_category.indices[by_category.indptr[g] : by_category.indptr[g + 1]]
        share = occurrences[g] / max(1, occurrences.sum())
        p = chunks_of(float(share), pooling, chunks)
        categories.append(Category(placed.categories[g], p, np.sort(members).astype(np.int64)))
    return Level(number, columns, tuple(categories))


def chunks_of(share: float, pooling: Pooling, chunks: int) -> int:
    """p_g = clamp(round(P w_g), 1, P) for a category with the share w_g of the level's label
    occurrences (section 2.1.3); 1 for max pooling, P for every category where it is fixed."""
    if pooling == "max":
        return 1
    if pooling == "fixed":
        return chunks
    return min(max(int(share * chunks + 0.5), 1), chunks)


def local_gold(gold: csr_array, level: Level) -> csr_array:
    """The gold of a level with the level's own columns only."""
    return csr_array(gold[:, level.columns])


def gold_of(gold: csr_array, columns: NDArray[np.int64]) -> csr_array:
    """The gold of some columns, in the shape of all."""
    wanted = np.zeros(gold.shape[1], dtype=gold.dtype)
    wanted[columns] = 1
    found = csr_array(gold.multiply(wanted[None, :]))
    found.eliminate_zeros()
    return found


def to_json(levels: Sequence[Level]) -> list[dict[str, Any]]:
    return [
        {
            "level": level.number,
            "columns": level.columns.tolist(),
            "categories": [
                {"name": c.name, "chunks": c.chunks, "members": c.members.tolist()}
                for c in level.categories
            ],
        }
        for level in levels
    ]


def from_json(stored: Sequence[Mapping[str, Any]]) -> list[Level]:
    """What `to_json` gave."""
    return [
        Level(
            int(one["level"]),
            np.array(one["columns"], dtype=np.int64),
            tuple(
                Category(c["name"], int(c["chunks"]), np.array(c["members"], dtype=np.int64))
                for c in one["categories"]
            ),
        )
        for one in stored
    ]


def side_by_side(rankings: Sequence[Ranking]) -> Ranking:
    """The answers of all levels about the same documents in one ranking; they share no column."""
    columns = np.hstack([ranking.columns for ranking in rankings])
    probabilities = np.hstack([ranking.probabilities for ranking in rankings])
    return Ranking.sort(columns, probabilities, columns.shape[1])
