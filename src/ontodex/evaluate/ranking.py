"""Ranked metrics, one number per document each: P@k, R@k, RP@k, nDCG@k, PSP@k, PSnDCG@k.

`gold` is the (documents x columns) matrix of `LabelSpace.gold`; each stored entry is a true label.
Labels outside the label space are columns that no ranking can name: they count as misses.
A document without gold has P@k 0 and NaN elsewhere, so that one forgotten cannot pass unseen;
`evaluate` leaves such documents out and counts them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.types import LabelSpace, Ranking

Numbers = NDArray[np.float64]

# Cells of the table in which `hits` looks labels up: small enough to stay in a processor's cache.
_TABLE_CELLS = 2**22


def gold_sizes(gold: csr_array) -> NDArray[np.int64]:
    """How many true labels each document has."""
    return np.diff(gold.indptr).astype(np.int64)


def hits(gold: csr_array, ranking: Ranking) -> NDArray[np.bool_]:
    """(documents x k): whether the label at this rank is true. Padding never is, and a label that
    a ranking repeats counts at its first rank only."""
    n_docs, width = _checked_shape(gold, ranking)
    found = np.empty(ranking.columns.shape, dtype=np.bool_)
    step = max(1, _TABLE_CELLS // max(width, 1))
    is_gold = np.zeros(max(step * width, 1), dtype=np.bool_)
    for start in range(0, n_docs, step):
        columns = ranking.columns[start : start + step]
        offsets = width * np.arange(len(columns), dtype=np.int64)
        ends = gold.indptr[start : start + len(columns) + 1]
        true_cells = gold.indices[ends[0] : ends[-1]] + np.repeat(offsets, np.diff(ends))
        cells = columns + offsets[:, None]
        is_gold[true_cells] = True
        found_here = is_gold[cells] & (columns >= 0)
        is_gold[cells[found_here]] = False
        if found_here.sum() > len(true_cells) - is_gold[true_cells].sum():  # something repeats
            found_here = _first_only(found_here, cells)
        is_gold[true_cells] = False
        found[start : start + step] = found_here
    return found


def _checked_shape(gold: csr_array, ranking: Ranking) -> tuple[int, int]:
    n_docs, width = gold.shape
    if len(ranking) != n_docs:
        raise ValueError(f"gold has {n_docs:,} documents but the ranking has {len(ranking):,}")
    highest = int(ranking.columns.max(initial=-1))
    if highest >= width:
        raise ValueError(f"the ranking names column {highest} but gold has {width:,} columns")
    return n_docs, width


def _first_only(found: NDArray[np.bool_], cells: NDArray[np.int64]) -> NDArray[np.bool_]:
    """`found` where a cell is met for the first time."""
    _, first = np.unique(cells, return_index=True)
    is_first = np.zeros(cells.size, dtype=np.bool_)
    is_first[first] = True
    return found & is_first.reshape(cells.shape)


# ------------------------------------------------- formulas: hits (documents x >= k) and |gold| in


def precision(k: int, found: NDArray[np.bool_], sizes: NDArray[np.int64]) -> Numbers:
    """|top-k and gold| / k. The divisor is k even where fewer labels are returned or true:
    returning less must never raise P@k."""
    return found[:, :k].sum(axis=1) / k


def recall(k: int, found: NDArray[np.bool_], sizes: NDArray[np.int64]) -> Numbers:
    """|top-k and gold| / |gold|."""
    return _ratio(found[:, :k].sum(axis=1), sizes)


def r_precision(k: int, found: NDArray[np.bool_], sizes: NDArray[np.int64]) -> Numbers:
    """|top-k and gold| / min(k, |gold|): 1 is within reach of every document."""
    return _ratio(found[:, :k].sum(axis=1), np.minimum(sizes, k))


def ndcg(k: int, found: NDArray[np.bool_], sizes: NDArray[np.int64]) -> Numbers:
    """Hits discounted by 1 / log2(rank + 1), over the same of an ideal ranking, which has
    min(k, |gold|) hits at the top (paper 002, Eq. 8)."""
    top = found[:, :k]
    ideal = np.concatenate([[0.0], np.cumsum(_discount(k))])
    return _ratio(top @ _discount(k)[: top.shape[1]], ideal[np.minimum(sizes, k)])


def psp(k: int, gains: Numbers, best: Numbers) -> Numbers:
    """Gains of the top k (`propensity_gains`), over the mean over documents of the best gains.

    The mean of these numbers is the figure of the Extreme Classification Repository: the sum of all
    gains over the sum of all best gains (a ratio of sums, not a mean of ratios). One document's
    number can therefore be above 1.
    """
    return _over_mean(gains[:, :k].sum(axis=1), best[:, :k].sum(axis=1))


def psndcg(k: int, gains: Numbers, best: Numbers) -> Numbers:
    """As `psp`, with gains and best gains discounted by 1 / log2(rank + 1)."""
    return _over_mean(gains[:, :k] @ _discount(k), best[:, :k] @ _discount(k))


# --------------------------------------------------------------- the same from gold and a ranking


def precision_at(k: int, gold: csr_array, ranking: Ranking) -> Numbers:
    """P@k of each document; `precision` says how it is defined."""
    return precision(k, _found_at(k, gold, ranking), gold_sizes(gold))


def recall_at(k: int, gold: csr_array, ranking: Ranking) -> Numbers:
    """R@k of each document (`recall`)."""
    return recall(k, _found_at(k, gold, ranking), gold_sizes(gold))


def r_precision_at(k: int, gold: csr_array, ranking: Ranking) -> Numbers:
    """R-Precision@k of each document (`r_precision`)."""
    return r_precision(k, _found_at(k, gold, ranking), gold_sizes(gold))


def ndcg_at(k: int, gold: csr_array, ranking: Ranking) -> Numbers:
    """nDCG@k of each document (`ndcg`)."""
    return ndcg(k, _found_at(k, gold, ranking), gold_sizes(gold))


def psp_at(k: int, gold: csr_array, ranking: Ranking, propensity: Numbers) -> Numbers:
    """PSP@k of each document (`psp`); `propensity` has a number for every gold column."""
    return psp(k, *propensity_gains(k, gold, ranking, propensity))


def psndcg_at(k: int, gold: csr_array, ranking: Ranking, propensity: Numbers) -> Numbers:
    """PSnDCG@k of each document (`psndcg`)."""
    return psndcg(k, *propensity_gains(k, gold, ranking, propensity))


def propensity_gains(
    k: int, gold: csr_array, ranking: Ranking, propensity: Numbers
) -> tuple[Numbers, Numbers]:
    """Two (documents x k) arrays: 1 / propensity of the hit at each rank (0 for a miss), and what
    the best possible ranking would have there: the true labels by falling 1 / propensity."""
    if len(propensity) != gold.shape[1]:
        raise ValueError(f"{len(propensity):,} propensities for {gold.shape[1]:,} gold columns")
    weight = 1 / propensity
    top = ranking.cut(k)
    gains = np.where(_found_at(k, gold, ranking), weight[top.columns], 0)
    return gains, _best_weights(gold, weight, k)


def propensity_of_columns(
    labels: LabelSpace, n_columns: int, *, a: float = 0.55, b: float = 1.5
) -> Numbers:
    """Propensity of every gold column; those past the label space were never seen in training."""
    never_seen = LabelSpace(("",), np.zeros(1, dtype=np.int64), labels.n_docs).propensity(a, b)
    unknown = np.repeat(never_seen, n_columns - len(labels))
    return np.concatenate([labels.propensity(a, b), unknown])


def _found_at(k: int, gold: csr_array, ranking: Ranking) -> NDArray[np.bool_]:
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    return hits(gold, ranking.cut(k))


def _discount(k: int) -> Numbers:
    return 1 / np.log2(np.arange(2, k + 2))


def _ratio(
    part: NDArray[np.floating | np.integer], whole: NDArray[np.floating | np.integer]
) -> Numbers:
    """part / whole, NaN where there is no whole."""
    empty = np.full(part.shape, np.nan)
    return np.divide(part, whole, out=empty, where=whole > 0)


def _over_mean(gain: Numbers, ideal: Numbers) -> Numbers:
    return _ratio(gain, np.full(gain.shape, ideal.mean()))


def _best_weights(gold: csr_array, weight: Numbers, k: int) -> Numbers:
    """(documents x k): the k largest weights among each document's true labels, 0 where none."""
    by_weight = np.argsort(-weight, kind="stable")
    place = np.empty(len(weight), dtype=np.int64)
    place[by_weight] = np.arange(len(weight))
    sizes = gold_sizes(gold)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    # One sort of (document, place by weight) keys orders every document's labels at once.
    keys = np.sort(rows * len(weight) + place[gold.indices])
    rank = np.arange(len(keys)) - gold.indptr[rows]
    top = rank < k
    best = np.zeros((len(sizes), k))
    best[rows[top], rank[top]] = weight[by_weight[keys[top] % max(len(weight), 1)]]
    return best
