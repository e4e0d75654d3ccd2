"""Ranking metrics, one number per document: P@k, R@k, F1@k, RP@k, nDCG@k, PSP@k, PSnDCG@k.

`gold` is the (documents x columns) matrix of `LabelSpace.gold`; each stored entry is a true label.
Labels outside the label space are columns that no ranking contains: they count as misses.
A document without gold has P@k 0 and NaN elsewhere, so that a caller who forgets it notices.
`evaluate` leaves such documents out and counts them.

The metrics `precision`, `recall`, `f1`, `r_precision` and `ndcg` take k, the hits (documents x at
least k) and the number of gold labels of each document. `psp` and `psndcg` take k and the gains.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.types import LabelSpace, Ranking

Numbers = NDArray[np.float64]
Metric = Callable[[int, NDArray[np.bool_], NDArray[np.int64]], Numbers]

# Cells of the table in which `find_hits` looks labels up: few enough for the processor's cache.
_TABLE_CELLS = 2**22


def count_gold_labels(gold: csr_array) -> NDArray[np.int64]:
    """Return the number of gold labels of each document."""
    return np.diff(gold.indptr).astype(np.int64)


def find_hits(gold: csr_array, ranking: Ranking) -> NDArray[np.bool_]:
    """Mark the ranks (documents x k) whose label is true.

    Padding never is, and a label that a ranking repeats counts at its first rank only.
    """
    n_docs, width = _check_shape(gold, ranking)
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


def _check_shape(gold: csr_array, ranking: Ranking) -> tuple[int, int]:
    """Return (documents, columns); refuse a ranking that does not fit the gold labels."""
    n_docs, width = gold.shape
    if len(ranking) != n_docs:
        raise ValueError(f"gold has {n_docs:,} documents but the ranking has {len(ranking):,}")
    highest = int(ranking.columns.max(initial=-1))
    if highest >= width:
        raise ValueError(f"the ranking has column {highest} but gold has {width:,} columns")
    return n_docs, width


def _first_only(found: NDArray[np.bool_], cells: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return `found` where a cell occurs for the first time."""
    _, first = np.unique(cells, return_index=True)
    is_first = np.zeros(cells.size, dtype=np.bool_)
    is_first[first] = True
    return found & is_first.reshape(cells.shape)


def precision(k: int, found: NDArray[np.bool_], sizes: NDArray[np.int64]) -> Numbers:
    """Return P@k: |top-k and gold| / k.

    The divisor is k even where fewer labels are returned or true: returning less never raises P@k.
    """
    return found[:, :k].sum(axis=1) / k


def recall(k: int, found: NDArray[np.bool_], sizes: NDArray[np.int64]) -> Numbers:
    """Return R@k: |top-k and gold| / |gold|."""
    return _ratio(found[:, :k].sum(axis=1), sizes)


def f1(k: int, found: NDArray[np.bool_], sizes: NDArray[np.int64]) -> Numbers:
    """Return F1@k: the harmonic mean of P@k and R@k of each document, as Annif computes it.

    It is 2 |top-k and gold| / (k + |gold|); a document with other than k labels cannot reach 1.
    """
    return np.where(sizes > 0, 2 * found[:, :k].sum(axis=1) / (k + sizes), np.nan)


def r_precision(k: int, found: NDArray[np.bool_], sizes: NDArray[np.int64]) -> Numbers:
    """Return RP@k: |top-k and gold| / min(k, |gold|), so every document can reach 1."""
    return _ratio(found[:, :k].sum(axis=1), np.minimum(sizes, k))


def ndcg(k: int, found: NDArray[np.bool_], sizes: NDArray[np.int64]) -> Numbers:
    """Return nDCG@k: hits discounted by 1 / log2(rank + 1), over those of an ideal ranking.

    The ideal ranking has min(k, |gold|) hits at the top (AttentionXML, Eq. 8).
    """
    top = found[:, :k]
    ideal = np.concatenate([[0.0], np.cumsum(_discount(k))])
    return _ratio(top @ _discount(k)[: top.shape[1]], ideal[np.minimum(sizes, k)])


def psp(k: int, gains: Numbers, best: Numbers) -> Numbers:
    """Return PSP@k: the gains of the top k over the mean of the best gains of all documents.

    `compute_propensity_gains` returns both. The mean over documents is the PSP@k of the Extreme
    Classification Repository: the sum of all gains over the sum of all best gains (a ratio of sums,
    not a mean of ratios). So a single document can be above 1.
    """
    return _over_mean(gains[:, :k].sum(axis=1), best[:, :k].sum(axis=1))


def psndcg(k: int, gains: Numbers, best: Numbers) -> Numbers:
    """Return PSnDCG@k: like `psp`, with gains and best gains discounted by 1 / log2(rank + 1)."""
    return _over_mean(gains[:, :k] @ _discount(k), best[:, :k] @ _discount(k))


def score_documents(metric: Metric, k: int, gold: csr_array, ranking: Ranking) -> Numbers:
    """Return a metric at k of each document: `score_documents(ndcg, 5, gold, ranking)`."""
    return metric(k, _find_hits_at(k, gold, ranking), count_gold_labels(gold))


def compute_propensity_gains(
    k: int, gold: csr_array, ranking: Ranking, propensity: Numbers
) -> tuple[Numbers, Numbers]:
    """Return the gains at each rank and the best possible gains, both (documents x k).

    The gain of a hit is 1 / propensity, that of a miss 0. The best ranking has the true labels by
    falling 1 / propensity.
    """
    if len(propensity) != gold.shape[1]:
        raise ValueError(f"{len(propensity):,} propensities for {gold.shape[1]:,} gold columns")
    weight = 1 / propensity
    top = ranking.cut(k)
    gains = np.where(_find_hits_at(k, gold, ranking), weight[top.columns], 0)
    return gains, _best_weights(gold, weight, k)


def compute_propensities(
    labels: LabelSpace, n_columns: int, *, a: float = 0.55, b: float = 1.5
) -> Numbers:
    """Return the propensity of every gold column.

    Columns past the label space were never seen in training.
    """
    never_seen = LabelSpace(("",), np.zeros(1, dtype=np.int64), labels.n_docs).propensity(a, b)
    unknown = np.repeat(never_seen, n_columns - len(labels))
    return np.concatenate([labels.propensity(a, b), unknown])


def _find_hits_at(k: int, gold: csr_array, ranking: Ranking) -> NDArray[np.bool_]:
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    return find_hits(gold, ranking.cut(k))


def _discount(k: int) -> Numbers:
    """Return 1 / log2(rank + 1) of the ranks 1 to k."""
    return 1 / np.log2(np.arange(2, k + 2))


def _ratio(
    part: NDArray[np.floating | np.integer], whole: NDArray[np.floating | np.integer]
) -> Numbers:
    """Return part / whole, NaN where the whole is 0."""
    empty = np.full(part.shape, np.nan)
    return np.divide(part, whole, out=empty, where=whole > 0)


def _over_mean(gain: Numbers, ideal: Numbers) -> Numbers:
    """Return the gains over the mean of the ideal gains."""
    return _ratio(gain, np.full(gain.shape, ideal.mean()))


def _best_weights(gold: csr_array, weight: Numbers, k: int) -> Numbers:
    """Return the k largest weights of each document's true labels, 0 where there are fewer."""
    by_weight = np.argsort(-weight, kind="stable")
    place = np.empty(len(weight), dtype=np.int64)
    place[by_weight] = np.arange(len(weight))
    sizes = count_gold_labels(gold)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    # One sort of (document, place by weight) keys orders every document's labels at once.
    keys = np.sort(rows * len(weight) + place[gold.indices])
    rank = np.arange(len(keys)) - gold.indptr[rows]
    top = rank < k
    best = np.zeros((len(sizes), k))
    best[rows[top], rank[top]] = weight[by_weight[keys[top] % max(len(weight), 1)]]
    return best
