"""Metrics that use the ontology: P, R, F with ancestors added, and near misses.

`ancestors` is a (columns x columns) matrix with an entry where the row's label has the column's
label as an ancestor (parents, their parents and so on; not itself). Gold columns past its end have
no ancestors.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.evaluation.ranking import count_gold_labels, find_hits
from ontodex.evaluation.sets import Counts, macro, micro
from ontodex.types import Ranking


def count_with_ancestors(gold: csr_array, label_sets: Ranking, ancestors: csr_array) -> Counts:
    """Count hits, predictions and gold of each document, with all ancestors on both sides."""
    width = gold.shape[1]
    square = _extend_columns(ancestors, width)
    truth = _with_ancestors(gold, square)
    answer = _with_ancestors(_pattern(label_sets.scores(width)), square)
    shared = csr_array(truth.multiply(answer))
    return Counts(count_gold_labels(shared), count_gold_labels(answer), count_gold_labels(truth))


def hierarchical_metrics(
    gold: csr_array, label_sets: Ranking, ancestors: csr_array
) -> dict[str, float]:
    """Return hMiP, hMiR, hMiF, hMaP, hMaR, hMaF: set metrics of label sets with their ancestors.

    A label predicted one level too high or too low is partly correct.
    """
    counts = count_with_ancestors(gold, label_sets, ancestors)
    return {f"h{name}": value for name, value in (micro(counts) | macro(counts)).items()}


def find_near_misses(gold: csr_array, ranking: Ranking, ancestors: csr_array) -> NDArray[np.bool_]:
    """Mark the wrong labels (documents x k) that are an ancestor or a descendant of a true one."""
    square = _extend_columns(ancestors, gold.shape[1])
    above = find_hits(csr_array(_pattern(gold) @ square), ranking)
    wrong = (ranking.columns >= 0) & ~find_hits(gold, ranking)
    rows, ranks = np.nonzero(wrong & ~above)
    # From the predicted label upwards: a label has few ancestors but may have many descendants.
    own_ancestors = square[ranking.columns[rows, ranks]]
    gold_above = own_ancestors.multiply(_pattern(gold)[rows]).sum(axis=1) > 0
    near = above & wrong
    near[rows, ranks] = gold_above
    return near


def _extend_columns(ancestors: csr_array, width: int) -> csr_array:
    """Return the pattern for `width` columns; labels past the end have no ancestors."""
    missing = width - ancestors.shape[0]
    if missing < 0:
        raise ValueError(f"ancestors of {ancestors.shape[0]:,} labels, gold has {width:,} columns")
    indptr = np.pad(ancestors.indptr, (0, missing), mode="edge")
    ones = np.ones(len(ancestors.indices), dtype=np.int32)
    return csr_array((ones, ancestors.indices, indptr), shape=(width, width))


def _pattern(matrix: csr_array) -> csr_array:
    """Return ones where entries are stored, in 32 bits so that sums do not overflow."""
    ones = np.ones(len(matrix.indices), dtype=np.int32)
    return csr_array((ones, matrix.indices, matrix.indptr), shape=matrix.shape)


def _with_ancestors(labels: csr_array, square: csr_array) -> csr_array:
    """Return the labels and all their ancestors."""
    pattern = _pattern(labels)
    return _pattern(csr_array(pattern + pattern @ square))
