"""Two systems on the same documents: overlap, average ranks, Wilcoxon, bootstrap intervals.

Every bootstrapped statistic is a function of sums over documents (a mean, micro-F, the MaF of two
means). A resample is a count for each document, and documents with equal numbers are
interchangeable. So one multinomial draw of a count for each *distinct* row is the ordinary
bootstrap, and its cost depends on the distinct rows, not on the documents.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from ontodex.evaluation.ranking import Numbers, find_hits
from ontodex.evaluation.sets import Counts
from ontodex.types import Ranking

REPLICATES = 1000
_CELLS_AT_ONCE = 2**22


def overlap(first: Ranking, second: Ranking, k: int) -> float:
    """Return the mean share of the first system's top k that is in the second's top k.

    The divisor is k (AttentionXML, Table 4).
    """
    first, second = first.cut(k), second.cut(k)
    width = int(max(first.columns.max(initial=0), second.columns.max(initial=0))) + 1
    return float(find_hits(second.scores(width), first).sum(axis=1).mean() / k)


def average_ranks(table: ArrayLike) -> Numbers:
    """Return the mean rank of each system (column) over the rows of a table of scores.

    1 is the best; equal scores share their mean rank (AttentionXML, Tables 2 and 3).
    """
    ranks = scipy.stats.rankdata(-np.asarray(table, dtype=np.float64), axis=1, method="average")
    return np.asarray(ranks.mean(axis=0), dtype=np.float64)


def wilcoxon(first: ArrayLike, second: ArrayLike) -> float:
    """Return the two-sided p-value of the Wilcoxon signed-rank test; 1 if all pairs are equal.

    Exact up to 50 pairs (equal differences take their mean rank), as in AttentionXML; the
    normal approximation for more, or when a difference is 0.
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
    """Return the interval of the mean of one number per document."""
    sums = resample_sums(values[:, None], replicates=replicates, seed=seed)
    return _interval(float(values.mean()), sums[:, 0] / len(values), confidence)


def bootstrap_micro_f(
    counts: Counts, *, confidence: float = 0.95, replicates: int = REPLICATES, seed: int = 0
) -> Interval:
    """Return the interval of MiF from counts by document."""
    rows = np.stack([counts.hit, counts.predicted + counts.gold], axis=1).astype(np.float64)
    return _bootstrap(rows, _micro_f, confidence, replicates, seed)


def bootstrap_macro_f(
    counts: Counts, *, confidence: float = 0.95, replicates: int = REPLICATES, seed: int = 0
) -> Interval:
    """Return the interval of MaF from counts by document."""
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
    """Return the paired bootstrap of the difference of two means of one number per document."""
    difference = _subtract_pairs(first, second)
    sums = resample_sums(difference[:, None], replicates=replicates, seed=seed)[:, 0]
    return _difference(float(difference.mean()), sums / len(difference), confidence)


def compare_micro_f(
    first: Counts,
    second: Counts,
    *,
    confidence: float = 0.95,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> Difference:
    """Return the paired bootstrap of the difference of two MiF, from counts by document."""
    _subtract_pairs(first.hit, second.hit)  # refuses counts of other documents
    columns = [first.hit, first.predicted + first.gold, second.hit, second.predicted + second.gold]
    rows = np.stack(columns, axis=1).astype(np.float64)
    sums = resample_sums(rows, replicates=replicates, seed=seed)
    total = rows.sum(axis=0, keepdims=True)
    estimate = float((_micro_f(total[:, :2]) - _micro_f(total[:, 2:]))[0])
    return _difference(estimate, _micro_f(sums[:, :2]) - _micro_f(sums[:, 2:]), confidence)


def resample_sums(rows: Numbers, *, replicates: int, seed: int) -> Numbers:
    """Return the column sums (replicates x m) of `rows` (documents x m) of resampled documents."""
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
    """Return the distinct rows and how often each occurs."""
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
    drawn = statistic(resample_sums(rows, replicates=replicates, seed=seed))
    return _interval(estimate, drawn, confidence)


def _interval(estimate: float, drawn: Numbers, confidence: float) -> Interval:
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Interval(estimate, float(low), float(high))


def _difference(estimate: float, drawn: Numbers, confidence: float) -> Difference:
    interval = _interval(estimate, drawn, confidence)
    # One is added to both counts: the smallest p-value of R replicates is 2 / (R + 1).
    tails = (np.sum(drawn <= 0) + 1, np.sum(drawn >= 0) + 1)
    p_value = min(1.0, 2 * float(min(tails)) / (len(drawn) + 1))
    return Difference(estimate, interval.low, interval.high, p_value)


def _subtract_pairs(first: NDArray[np.generic], second: NDArray[np.generic]) -> Numbers:
    if len(first) != len(second):
        raise ValueError(f"{len(first):,} and {len(second):,} documents cannot be paired")
    return np.asarray(first, np.float64) - np.asarray(second, np.float64)
