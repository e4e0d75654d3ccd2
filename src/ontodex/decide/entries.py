"""The labels of a ranking one by one, with whether they are correct, and where they can be cut."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.types import Ranking


@dataclass(frozen=True, eq=False)
class Entries:
    """(document, label) pairs of a ranking; `hits` marks those in the gold labels."""

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    hits: NDArray[np.bool_]


def list_entries(ranking: Ranking, gold: csr_array) -> Entries:
    """Return the entries with a probability above 0, by document and rank."""
    rows, ranks = np.nonzero(ranking.probabilities > 0)
    columns = ranking.columns[rows, ranks].astype(np.int64)
    probabilities = ranking.probabilities[rows, ranks].astype(np.float64)
    width = gold.shape[1]
    hits = np.isin(rows * width + columns, encode_pairs(gold, width)) & (columns < width)
    return Entries(rows, columns, probabilities, hits)


def list_decided_entries(ranking: Ranking, accepted: csr_array, rejected: csr_array) -> Entries:
    """Return the entries about which people have decided; `hits` marks the accepted ones."""
    found, width = list_entries(ranking, accepted), accepted.shape[1]
    decided = encode_pairs(csr_array(accepted + rejected), width)
    is_decided = np.isin(found.rows * width + found.columns, decided) & (found.columns < width)
    return Entries(
        found.rows[is_decided],
        found.columns[is_decided],
        found.probabilities[is_decided],
        found.hits[is_decided],
    )


def encode_pairs(matrix: csr_array, width: int) -> NDArray[np.int64]:
    """Return row * width + column of the non-zero entries in the first `width` columns."""
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    inside = (matrix.indices < width) & (matrix.data != 0)
    return np.asarray((rows * width + matrix.indices)[inside], dtype=np.int64)


def mask_above(ranking: Ranking, thresholds: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Mark the labels whose probability is above the threshold of their column; never padding."""
    if not len(thresholds):
        return np.zeros(ranking.columns.shape, dtype=bool)
    own = thresholds[np.maximum(ranking.columns, 0)]  # padding has probability 0
    return np.asarray(ranking.probabilities.astype(np.float64) > own)


@dataclass(frozen=True, eq=False)
class Cuts:
    """Every threshold that divides the entries of a group, from few entries above it to many."""

    groups: NDArray[np.int64]
    thresholds: NDArray[np.float64]  # half-way to the next lower probability
    highest: NDArray[np.float64]  # the group's highest probability
    hits: NDArray[np.int64]  # above the threshold
    answers: NDArray[np.int64]  # entries above the threshold


def find_cuts(groups: NDArray[np.int64], found: Entries) -> Cuts:
    """Return the cuts of each group of entries; `groups` numbers the group of each entry."""
    order = np.lexsort((-found.probabilities, groups))
    groups, values, hits = groups[order], found.probabilities[order], found.hits[order]
    n = len(groups)
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    lengths = np.diff(np.append(starts, n))
    last = np.zeros(n, dtype=bool)  # the last entry of its group
    last[np.append(starts[1:], n)[: len(starts)] - 1] = True
    below = np.where(last, 0.0, np.append(values[1:], 0.0)[:n])
    can_cut = last | (below < values)  # equal probabilities stay together
    total = np.cumsum(hits)
    before: NDArray[np.int64] = np.repeat(total[starts] - hits[starts], lengths)
    answers = np.arange(n) - np.repeat(starts, lengths) + 1
    return Cuts(
        groups[can_cut],
        ((values + below) / 2)[can_cut],
        np.repeat(values[starts], lengths)[can_cut],
        (total - before)[can_cut],
        answers[can_cut],
    )
