"""Metrics that know the ontology: P, R, F with ancestors added, and near misses.

`ancestors` is a (columns x columns) matrix with an entry where the row's label has the column's
label as an ancestor (parents, their parents and so on; not itself). Gold columns past its end have
no ancestors.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.evaluate.ranking import gold_sizes, hits
from ontodex.evaluate.sets import Counts, macro, micro
from ontodex.types import Ranking


def count_with_ancestors(gold: csr_array, decided: Ranking, ancestors: csr_array) -> Counts:
    """Hits, predictions and gold of each document after both sides got all their ancestors."""
    width = gold.shape[1]
    square = _widened(ancestors, width)
    truth = _with_ancestors(gold, square)
    answer = _with_ancestors(_pattern(decided.scores(width)), square)
    shared = csr_array(truth.multiply(answer))
    return Counts(gold_sizes(shared), gold_sizes(answer), gold_sizes(truth))


def hierarchical_metrics(
    gold: csr_array, decided: Ranking, ancestors: csr_array
) -> dict[str, float]:
    """hMiP, hMiR, hMiF, hMaP, hMaR, hMaF: the set metrics of ancestor-augmented label sets. A
    label predicted one level too high or low is partly right."""
    counts = count_with_ancestors(gold, decided, ancestors)
    return {f"h{name}": value for name, value in (micro(counts) | macro(counts)).items()}


def near_misses(gold: csr_array, ranking: Ranking, ancestors: csr_array) -> NDArray[np.bool_]:
    """(documents x k): wrong labels in the right branch, an ancestor or a descendant of a true
    label."""
    square = _widened(ancestors, gold.shape[1])
    above = hits(csr_array(_pattern(gold) @ square), ranking)
    wrong = (ranking.columns >= 0) & ~hits(gold, ranking)
    rows, ranks = np.nonzero(wrong & ~above)
    # Going up from the answers is cheap: a label has few ancestors but may have many descendants.
    own_ancestors = square[ranking.columns[rows, ranks]]
    gold_above = own_ancestors.multiply(_pattern(gold)[rows]).sum(axis=1) > 0
    near = above & wrong
    near[rows, ranks] = gold_above
    return near


def _widened(ancestors: csr_array, width: int) -> csr_array:
    """The same pattern for `width` columns; labels past the end have no ancestors."""
    missing = width - ancestors.shape[0]
    if missing < 0:
        raise ValueError(f"ancestors of {ancestors.shape[0]:,} labels, gold has {width:,} columns")
    indptr = np.pad(ancestors.indptr, (0, missing), mode="edge")
    ones = np.ones(len(ancestors.indices), dtype=np.int32)
    return csr_array((ones, ancestors.indices, indptr), shape=(width, width))


def _pattern(matrix: csr_array) -> csr_array:
    """Ones where entries are stored; wide enough that sums of them do not overflow."""
    ones = np.ones(len(matrix.indices), dtype=np.int32)
    return csr_array((ones, matrix.indices, matrix.indptr), shape=matrix.shape)


def _with_ancestors(labels: csr_array, square: csr_array) -> csr_array:
    pattern = _pattern(labels)
    return _pattern(csr_array(pattern + pattern @ square))
