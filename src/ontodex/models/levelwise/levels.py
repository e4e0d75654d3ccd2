"""Levels and categories of the labels (Deep Level-wise XMLC, sections 2.1 and 2.1.3).

    columns ─ level (depth in the ontology) ─ categories of the level ─ chunks p_g of each category

ontology/levels.py computes levels and categories of an ontology; this module plans the networks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.config import check_range
from ontodex.errors import ConfigError, RunError
from ontodex.models.levelwise.config import Categories, Pooling
from ontodex.ontology.levels import (
    UNPLACED,
    Expand,
    Levels,
    assign_levels,
    compute_label_ancestors,
    lift,
    map_to_labels,
)
from ontodex.ontology.levels import Rule as LevelRule
from ontodex.types import LabelSpace, Ranking

Columns = NDArray[np.int64]

MOST_CATEGORIES = 16  # as many as MeSH has letters
MAX_CHUNKS = 10**4
MAX_LEVEL = 10**4


@dataclass(frozen=True, eq=False)
class Category:
    """Labels of one level that share a bottleneck."""

    name: str
    chunks: int  # p_g, chunks of the text that are pooled separately for it
    members: Columns  # positions among the columns of the level


@dataclass(frozen=True, eq=False)
class Level:
    """The labels of one level; `columns` are columns of the label space, in ascending order."""

    number: int  # 1 = most general
    columns: Columns
    categories: tuple[Category, ...]

    def __len__(self) -> int:
        return len(self.columns)


def place_labels(
    labels: LabelSpace, *, max_level: int, rule: LevelRule, categories: Categories = "balanced"
) -> Levels:
    """Return the level and the categories of every column."""
    if labels.ontology is None:
        raise ConfigError(
            "levelwise trains one network per level of an ontology, and no ontology was given",
            hint='pass --ontology FILE, or --set model.ontology="cluster" to learn levels from '
            "the documents",
        )
    ontology = labels.ontology
    if categories == "largest":
        return map_to_labels(labels, assign_levels(ontology, max_level=max_level, rule=rule))
    # Each top concept is first a category by itself. With the 15 largest of EuroVoc's 527, 94 % of
    # the labels would share the category of the rest.
    tops = assign_levels(ontology, max_level=max_level, rule=rule, largest=len(ontology))
    return balance_categories(map_to_labels(labels, tops), labels.frequency)


def balance_categories(placed: Levels, frequency: NDArray[np.integer[Any]]) -> Levels:
    """Merge the categories into at most `MOST_CATEGORIES` of similar size.

    Each top concept, the most frequent first, joins the category with the fewest label occurrences
    so far. Labels without a position keep a category of their own.
    """
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
    merging = csr_array(
        (np.ones(len(names), np.int64), (np.arange(len(names)), joins)),
        shape=(len(names), len(heads)),
    )
    return Levels(placed.level, tuple(heads), csr_array((placed.membership @ merging) > 0))


def split_gold_by_level(
    gold: csr_array, labels: LabelSpace, placed: Levels, expand: Expand
) -> dict[int, csr_array]:
    """Return the gold matrix of each level that has a learned label, with all learned columns.

    A label that is not learned may add its ancestors, but no network can predict it.
    """
    above = compute_label_ancestors(labels) if expand != "none" else csr_array((0, 0))
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
    """Return the levels with their categories, without categories that have no learned label."""
    return [
        _plan_level(number, gold, placed, n_seen, pooling, chunks) for number, gold in golds.items()
    ]


def _plan_level(
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
        p = count_chunks(float(share), pooling, chunks)
        categories.append(Category(placed.categories[g], p, np.sort(members).astype(np.int64)))
    return Level(number, columns, tuple(categories))


def count_chunks(share: float, pooling: Pooling, chunks: int) -> int:
    """Return p_g = clamp(round(P w_g), 1, P) of a category (section 2.1.3).

    `share` is w_g, the category's share of the label occurrences of its level. Max pooling has one
    chunk, fixed pooling P chunks for every category.
    """
    if pooling == "max":
        return 1
    if pooling == "fixed":
        return chunks
    return min(max(int(share * chunks + 0.5), 1), chunks)


def select_level_gold(gold: csr_array, level: Level) -> csr_array:
    """Return the gold matrix of a level with the columns of the level only."""
    return csr_array(gold[:, level.columns])


def select_gold(gold: csr_array, columns: NDArray[np.int64]) -> csr_array:
    """Return the gold matrix with all other columns set to 0, in the same shape."""
    wanted = np.zeros(gold.shape[1], dtype=gold.dtype)
    wanted[columns] = 1
    found = csr_array(gold.multiply(wanted[None, :]))
    found.eliminate_zeros()
    return found


def to_json(levels: Sequence[Level]) -> list[dict[str, Any]]:
    """Return the levels as JSON values."""
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


@dataclass(frozen=True)
class _CategoryJson:
    """A category as JSON."""

    name: str
    chunks: int
    members: tuple[int, ...]

    def __post_init__(self) -> None:
        check_range(self, 1, MAX_CHUNKS, "chunks")
        if not self.members or len(set(self.members)) < len(self.members):
            raise ValueError(f"category {self.name[:40]!r} has no labels, or one twice")


@dataclass(frozen=True)
class LevelJson:
    """A level as JSON: its labels, each in a category."""

    level: int
    columns: tuple[int, ...]
    categories: tuple[_CategoryJson, ...]

    def __post_init__(self) -> None:
        check_range(self, 1, MAX_LEVEL, "level")
        members = {member for category in self.categories for member in category.members}
        if not self.columns or members != set(range(len(self.columns))):
            raise ValueError(f"level {self.level} must have labels, each in a category")


def from_json(stored: Sequence[LevelJson], n_columns: int) -> list[Level]:
    """Return the levels that `to_json` wrote; together they must hold every column once."""
    columns = sorted(column for one in stored for column in one.columns)
    numbers = [one.level for one in stored]
    if columns != list(range(n_columns)) or numbers != sorted(set(numbers)):
        raise RunError(
            f"the levels do not hold each of the {n_columns:,} columns exactly once",
            hint="copy the run folder again, or train again",
        )
    return [
        Level(
            one.level,
            np.array(one.columns, dtype=np.int64),
            tuple(
                Category(c.name, c.chunks, np.array(c.members, dtype=np.int64))
                for c in one.categories
            ),
        )
        for one in stored
    ]


def join_levels(rankings: Sequence[Ranking]) -> Ranking:
    """Return the predictions of all levels for the same documents in one ranking.

    Levels share no column.
    """
    columns = np.hstack([ranking.columns for ranking in rankings])
    probabilities = np.hstack([ranking.probabilities for ranking in rankings])
    return Ranking.sort(columns, probabilities, columns.shape[1])
