"""Top-k, one threshold, a threshold for each label. A label is in when it is *above* its threshold.

Both kinds of threshold are the exact optimum on the documents they are tuned on, found by sorting
once and looking at every cut (no grid).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.types import Ranking

NO_EVIDENCE = 0.5  # the threshold of calibrated probabilities when there is nothing to tune on


@dataclass(frozen=True)
class Top:
    """The k best labels of every document."""

    k: int

    def choose(self, ranking: Ranking) -> NDArray[np.bool_]:
        best = np.arange(ranking.k) < self.k
        return np.asarray(best & (ranking.columns >= 0) & (ranking.probabilities > 0))


@dataclass(frozen=True)
class Threshold:
    """All labels above one probability."""

    value: float

    def choose(self, ranking: Ranking) -> NDArray[np.bool_]:
        return np.asarray(ranking.probabilities.astype(np.float64) > self.value)


@dataclass(frozen=True, eq=False)
class PerLabel:
    """All labels above the probability of their column."""

    values: NDArray[np.float64]
    start: float  # of labels of which dev says nothing

    def choose(self, ranking: Ranking) -> NDArray[np.bool_]:
        return above(ranking, self.values)

    def widened(self, n_columns: int) -> PerLabel:
        """The same with new labels after the others."""
        more = n_columns - len(self.values)
        return replace(self, values=np.append(self.values, np.full(more, self.start)))


def above(ranking: Ranking, thresholds: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Where the probability is above the threshold of its column; padding never is."""
    if not len(thresholds):
        return np.zeros(ranking.columns.shape, dtype=bool)
    own = thresholds[np.maximum(ranking.columns, 0)]  # padding has probability 0
    return np.asarray(ranking.probabilities.astype(np.float64) > own)


@dataclass(frozen=True, eq=False)
class Entries:
    """The answers of a ranking one by one, with whether they are right."""

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    hits: NDArray[np.bool_]


def entries(ranking: Ranking, gold: csr_array) -> Entries:
    """Answers with a probability above 0, by document and rank."""
    rows, ranks = np.nonzero(ranking.probabilities > 0)
    columns = ranking.columns[rows, ranks].astype(np.int64)
    probabilities = ranking.probabilities[rows, ranks].astype(np.float64)
    width = gold.shape[1]
    true = np.isin(rows * width + columns, pairs(gold, width)) & (columns < width)
    return Entries(rows, columns, probabilities, true)


def pairs(matrix: csr_array, width: int) -> NDArray[np.int64]:
    """row * width + column of the non-zero entries in the first `width` columns."""
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    kept = (matrix.indices < width) & (matrix.data != 0)
    return np.asarray((rows * width + matrix.indices)[kept], dtype=np.int64)


def tune_one(found: Entries, n_gold: int) -> Threshold:
    """The threshold with the highest micro-F: 2 hits / (answers + gold labels).

    Every distinct probability is tried; among equals the highest wins (fewer labels).
    """
    cuts = _cuts(np.zeros(len(found.columns), dtype=np.int64), found)
    if not cuts.hits.any():
        return Threshold(NO_EVIDENCE)
    best = int(np.argmax(2 * cuts.hits / (cuts.answers + n_gold)))
    return Threshold(float(cuts.thresholds[best]))


def tune_each(
    found: Entries, gold_counts: NDArray[Any], shrink: float, start: Threshold
) -> PerLabel:
    """A threshold for each label, pulled towards the one threshold where a label is rare.

    best_j maximises 2 hits_j - F (answers_j + gold_j), F being the micro-F that is reached: a label
    adds to micro-F only what it wins over that rate. The F and the thresholds are found in turns
    (Dinkelbach's method, which ends at the exact joint optimum). Then

        threshold_j = (n_j best_j + shrink * one) / (n_j + shrink),   n_j = gold documents of j

    and a label without gold documents keeps the one threshold.
    """
    thresholds = np.full(len(gold_counts), start.value)
    cuts = _cuts(found.columns, found)
    if not cuts.hits.any():
        return PerLabel(thresholds, start.value)
    n_gold = int(gold_counts.sum())
    starts = np.flatnonzero(np.diff(cuts.labels, prepend=-1))
    labels = cuts.labels[starts]
    rate, reached = 0.0, -1.0
    while rate > reached:
        reached = rate
        gain = 2 * cuts.hits - rate * cuts.answers
        best = _first_largest(gain, starts)
        worth = gain[best] > 0  # else the label is better never chosen
        hits, answers = cuts.hits[best][worth].sum(), cuts.answers[best][worth].sum()
        rate = 2 * hits / (answers + n_gold)
    own = np.where(worth, cuts.thresholds[best], cuts.top[starts])
    weight = gold_counts[labels]
    thresholds[labels] = (weight * own + shrink * start.value) / np.maximum(weight + shrink, 1e-300)
    thresholds[labels[weight == 0]] = start.value
    return PerLabel(thresholds, start.value)


@dataclass(frozen=True, eq=False)
class _Cuts:
    """Every place where the answers of a group can be cut, from few answers to many."""

    labels: NDArray[np.int64]
    thresholds: NDArray[np.float64]  # half-way to the next lower probability
    top: NDArray[np.float64]  # the group's highest probability
    hits: NDArray[np.int64]
    answers: NDArray[np.int64]


def _cuts(groups: NDArray[np.int64], found: Entries) -> _Cuts:
    order = np.lexsort((-found.probabilities, groups))
    groups, values, hits = groups[order], found.probabilities[order], found.hits[order]
    n = len(groups)
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    lengths = np.diff(np.append(starts, n))
    last = np.zeros(n, dtype=bool)  # the last answer of its group
    last[np.append(starts[1:], n)[: len(starts)] - 1] = True
    below = np.where(last, 0.0, np.append(values[1:], 0.0)[:n])
    can_cut = last | (below < values)  # equal probabilities stay together
    total = np.cumsum(hits)
    before: NDArray[np.int64] = np.repeat(total[starts] - hits[starts], lengths)
    answers = np.arange(n) - np.repeat(starts, lengths) + 1
    return _Cuts(
        groups[can_cut],
        ((values + below) / 2)[can_cut],
        np.repeat(values[starts], lengths)[can_cut],
        (total - before)[can_cut],
        answers[can_cut],
    )


def _first_largest(values: NDArray[np.float64], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The position of the first largest value of each group."""
    lengths = np.diff(np.append(starts, len(values)))
    largest = np.repeat(np.maximum.reduceat(values, starts), lengths)
    at = np.flatnonzero(values == largest)
    groups = np.searchsorted(starts, at, side="right") - 1
    return at[np.flatnonzero(np.diff(groups, prepend=-1))]
