"""Two systems on the same documents: overlap, average ranks, Wilcoxon, bootstrap intervals.

Everything that is bootstrapped here is a function of sums over documents (a mean, micro-F, the MaF
of two means). A resample only says how often each document is drawn, and documents with equal
numbers are interchangeable, so drawing how often each *distinct* row comes (one multinomial draw)
is the ordinary bootstrap, at a cost that follows the distinct rows and not the documents.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from ontodex.evaluate.ranking import Numbers, hits
from ontodex.evaluate.sets import Counts
from ontodex.types import Ranking

REPLICATES = 1000
_CELLS_AT_ONCE = 2**22


def overlap(first: Ranking, second: Ranking, k: int) -> float:
    """Mean share of the first system's top k that the second one's top k holds too (divisor k;
    paper 002, Table 4)."""
    first, second = first.cut(k), second.cut(k)
    width = int(max(first.columns.max(initial=0), second.columns.max(initial=0))) + 1
    return float(hits(second.scores(width), first).sum(axis=1).mean() / k)


def average_ranks(table: ArrayLike) -> Numbers:
    """Mean rank of each system (column) over the rows of a table of scores, 1 the best; equal
    scores share their mean rank (paper 002, Tables 2 and 3)."""
    ranks = scipy.stats.rankdata(-np.asarray(table, dtype=np.float64), axis=1, method="average")
    return np.asarray(ranks.mean(axis=0), dtype=np.float64)


def wilcoxon(first: ArrayLike, second: ArrayLike) -> float:
    """Two-sided p-value of the Wilcoxon signed-rank test on paired scores; 1 if all are equal.

    Exact up to 50 pairs (equal differences take their mean rank), as in paper 002; the normal
    approximation for more, or when a difference is 0.
    """
    # Rounding makes differences of decimals comparable: 0.3 - 0.2 and 0.2 - 0.1 are ties.
    difference = np.round(np.asarray(first, np.float64) - np.asarray(second, np.float64), 12)
    if not difference.any():
        return 1.0
    is_small = len(difference) <= 50 and bool(difference.all())
    method: Literal["exact", "approx"] = "exact" if is_small else "approx"
    return float(scipy.stats.wilcoxon(difference, method=method).pvalue)


@dataclass(frozen=True)
class Interval:
    """An estimate with a percentile bootstrap interval over documents."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class Difference(Interval):
    """First minus second system, and the two-sided bootstrap p-value of "no difference"."""

    p_value: float


def bootstrap_mean(
    values: Numbers, *, confidence: float = 0.95, replicates: int = REPLICATES, seed: int = 0
) -> Interval:
    """Interval of the mean of one number per document."""
    sums = resampled_sums(values[:, None], replicates=replicates, seed=seed)
    return _interval(float(values.mean()), sums[:, 0] / len(values), confidence)


def bootstrap_micro_f(
    counts: Counts, *, confidence: float = 0.95, replicates: int = REPLICATES, seed: int = 0
) -> Interval:
    """Interval of MiF from counts by document."""
    rows = np.stack([counts.hit, counts.predicted + counts.gold], axis=1).astype(np.float64)
    return _bootstrap(rows, _micro_f, confidence, replicates, seed)


def bootstrap_macro_f(
    counts: Counts, *, confidence: float = 0.95, replicates: int = REPLICATES, seed: int = 0
) -> Interval:
    """Interval of MaF from counts by document."""
    rows = np.stack([counts.precision(), counts.recall()], axis=1) / len(counts.hit)
    return _bootstrap(rows, _macro_f, confidence, replicates, seed)


def compare_means(
    first: Numbers,
    second: Numbers,
    *,
    confidence: float = 0.95,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> Difference:
    """Paired bootstrap of the difference of two means, one number per document each."""
    difference = _paired(first, second)
    sums = resampled_sums(difference[:, None], replicates=replicates, seed=seed)[:, 0]
    return _difference(float(difference.mean()), sums / len(difference), confidence)


def compare_micro_f(
    first: Counts,
    second: Counts,
    *,
    confidence: float = 0.95,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> Difference:
    """Paired bootstrap of the difference of two MiF, from counts by document."""
    _paired(first.hit, second.hit)
    columns = [first.hit, first.predicted + first.gold, second.hit, second.predicted + second.gold]
    rows = np.stack(columns, axis=1).astype(np.float64)
    sums = resampled_sums(rows, replicates=replicates, seed=seed)
    total = rows.sum(axis=0, keepdims=True)
    estimate = float((_micro_f(total[:, :2]) - _micro_f(total[:, 2:]))[0])
    return _difference(estimate, _micro_f(sums[:, :2]) - _micro_f(sums[:, 2:]), confidence)


def resampled_sums(rows: Numbers, *, replicates: int, seed: int) -> Numbers:
    """(replicates x m): the column sums of `rows` (documents x m) over documents drawn with
    replacement."""
    distinct, times = _distinct(rows)
    generator = np.random.default_rng(seed)
    sums = np.empty((replicates, rows.shape[1]))
    step = max(1, _CELLS_AT_ONCE // len(distinct))
    for start in range(0, replicates, step):
        size = min(step, replicates - start)
        drawn = generator.multinomial(len(rows), times / len(rows), size=size)
        sums[start : start + size] = drawn @ distinct
    return sums


def _distinct(rows: Numbers) -> tuple[Numbers, NDArray[np.int64]]:
    """The different rows and how often each occurs."""
    in_order = rows[np.lexsort(rows.T)]
    is_new = np.append(True, np.any(in_order[1:] != in_order[:-1], axis=1))
    starts = np.flatnonzero(is_new)
    return in_order[starts], np.diff(starts, append=len(rows))


def _micro_f(sums: Numbers) -> Numbers:
    return 2 * sums[:, 0] / np.maximum(sums[:, 1], 1)


def _macro_f(means: Numbers) -> Numbers:
    both = means.sum(axis=1)
    product = 2 * means.prod(axis=1)
    return np.divide(product, both, out=np.zeros_like(both), where=both > 0)


def _bootstrap(
    rows: Numbers,
    statistic: Callable[[Numbers], Numbers],
    confidence: float,
    replicates: int,
    seed: int,
) -> Interval:
    estimate = float(statistic(rows.sum(axis=0, keepdims=True))[0])
    drawn = statistic(resampled_sums(rows, replicates=replicates, seed=seed))
    return _interval(estimate, drawn, confidence)


def _interval(estimate: float, drawn: Numbers, confidence: float) -> Interval:
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Interval(estimate, float(low), float(high))


def _difference(estimate: float, drawn: Numbers, confidence: float) -> Difference:
    interval = _interval(estimate, drawn, confidence)
    # One is added to both counts: a bootstrap of R replicates cannot say less than 2 / (R + 1).
    tails = (np.sum(drawn <= 0) + 1, np.sum(drawn >= 0) + 1)
    p_value = min(1.0, 2 * float(min(tails)) / (len(drawn) + 1))
    return Difference(estimate, interval.low, interval.high, p_value)


def _paired(first: NDArray[np.generic], second: NDArray[np.generic]) -> Numbers:
    if len(first) != len(second):
        raise ValueError(f"{len(first):,} and {len(second):,} documents cannot be paired")
    return np.asarray(first, np.float64) - np.asarray(second, np.float64)


__all__ = [
    "Difference",
    "Interval",
    "average_ranks",
    "bootstrap_macro_f",
    "bootstrap_mean",
    "bootstrap_micro_f",
    "compare_means",
    "compare_micro_f",
    "overlap",
    "resampled_sums",
    "wilcoxon",
]
