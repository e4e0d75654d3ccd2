"""Metrics by group of labels: by training frequency and by ontology level.

A group is measured as if its labels were the whole label space: gold and ranking keep only the
group's labels, in order, and documents without gold in the group are left out (and counted).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from ontodex.evaluation.ranking import (
    count_gold_labels,
    find_hits,
    ndcg,
    precision,
    recall,
)
from ontodex.evaluation.sets import Counts, macro, micro
from ontodex.types import Ranking

# Lower ends of the training-frequency bins.
FREQUENCY_BINS = (0, 1, 10, 100, 1000)
_BLOCK = 4096  # documents at once: their tables stay in cache


@dataclass(frozen=True)
class GroupScores:
    """Metrics of a group of labels, with its size."""

    name: str
    labels: int  # labels of the group that are true somewhere
    occurrences: int  # how often, in all
    documents: int  # documents with gold in the group: only these count
    values: Mapping[str, float]


def bin_frequencies(
    frequency: ArrayLike, lower: Sequence[int] = FREQUENCY_BINS
) -> tuple[NDArray[np.int64], list[str]]:
    """Return the bin of every label by its training frequency, and the names of the bins."""
    bins = np.digitize(np.asarray(frequency), lower) - 1
    names = [
        f"{low:,}" if high - low == 1 else f"{low:,} to {high - 1:,}"
        for low, high in pairwise(lower)
    ]
    return bins.astype(np.int64), [*names, f"{lower[-1]:,} or more"]


def score_groups(
    gold: csr_array,
    ranking: Ranking,
    label_sets: Ranking | None,
    *,
    group: NDArray[np.int64],
    names: Sequence[str],
    ks: Sequence[int] = (1, 3, 5),
    found: NDArray[np.bool_] | None = None,
) -> list[GroupScores]:
    """Return P@k, R@k, nDCG@k and the micro and macro set metrics of every group.

    `group` numbers the group of each gold column, in the order of `names`; -1 is in none. Groups
    that no document has are left out. `found` is `find_hits(gold, ranking)` where it is known.
    """
    found = find_hits(gold, ranking) if found is None else found
    top = _hits_within_groups(ranking.columns, found, group, len(names), max(ks))
    rows_of_gold = np.repeat(np.arange(gold.shape[0]), count_gold_labels(gold))
    sizes = _count_pairs(rows_of_gold, group[gold.indices], gold.shape[0], len(names))
    true = np.flatnonzero(np.bincount(gold.indices))
    if label_sets is not None:
        hit, predicted = _count_sets_by_group(gold, label_sets, group, len(names))
    scores = []
    for number, name in enumerate(names):
        rows = np.flatnonzero(sizes[:, number])
        if not len(rows):
            continue
        inside, n_gold = top[number, rows], sizes[rows, number]
        values = {
            f"{metric}@{k}": float(formula(k, inside, n_gold).mean())
            for metric, formula in (("P", precision), ("R", recall), ("nDCG", ndcg))
            for k in ks
        }
        if label_sets is not None:
            counts = Counts(hit[rows, number], predicted[rows, number], n_gold)
            values |= micro(counts) | macro(counts)
        labels = int(np.sum(group[true] == number))
        scores.append(GroupScores(name, labels, int(n_gold.sum()), len(rows), values))
    return scores


def _hits_within_groups(
    columns: NDArray[np.int32],
    found: NDArray[np.bool_],
    group: NDArray[np.int64],
    n_groups: int,
    k: int,
) -> NDArray[np.bool_]:
    """Mark the hits (groups x documents x k) at the ranks within each group.

    All groups are filled in one pass down the ranks, for a block of documents at a time.
    """
    group_of = np.append(group, -1)  # padding, -1, reads the appended -1: no group
    top = np.zeros((n_groups + 1, len(columns), k + 1), dtype=np.bool_)  # spare group, spare rank
    for start in range(0, len(columns), _BLOCK):
        block = slice(start, start + _BLOCK)
        groups = np.ascontiguousarray(group_of[columns[block]].T)
        here, is_hit = top[:, block], np.ascontiguousarray(found[block].T)
        rows = np.arange(groups.shape[1])
        filled = np.zeros((n_groups + 1, len(rows)), dtype=np.int64)
        for numbers, hit in zip(groups, is_hit, strict=True):
            place = filled[numbers, rows]
            here[numbers, rows, np.minimum(place, k)] = hit
            filled[numbers, rows] = place + 1
    return top[:n_groups, :, :k]


def _count_sets_by_group(
    gold: csr_array, label_sets: Ranking, group: NDArray[np.int64], n_groups: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the hits and the predictions of each document and group."""
    tables = []
    for mask in (find_hits(gold, label_sets), label_sets.columns >= 0):
        rows = np.nonzero(mask)[0]
        tables.append(
            _count_pairs(rows, group[label_sets.columns[mask]], len(label_sets), n_groups)
        )
    return tables[0], tables[1]


def _count_pairs(
    rows: NDArray[np.int64], numbers: NDArray[np.int64], n_rows: int, n_groups: int
) -> NDArray[np.int64]:
    """Count how often each (row, group) pair occurs; group -1 is not counted."""
    cells = rows * (n_groups + 1) + numbers + 1
    counts = np.bincount(cells, minlength=n_rows * (n_groups + 1))
    return counts.reshape(n_rows, n_groups + 1)[:, 1:]
