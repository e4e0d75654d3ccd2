"""Sparse documents and linear classifiers: their products, their scores and their weighted words.

A classifier is a sparse row over the features and a last column, the bias. Documents get a last
column of ones to match it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from ontodex.decide.calibrate import Calibration
from ontodex.errors import DataError, RunError
from ontodex.features.matrix import Matrix, MatrixFeatures
from ontodex.io.threads import make_blocks
from ontodex.types import Corpus, Doc, LabelSpace, Ranking
from ontodex.types.answers import Span

_BLOCK_DOCS = 64  # documents that share reading the weights; more would share fewer features
CALIBRATION_RANKS = 50  # ranks of a dev document that calibration uses


def check_unit_rows(path: Path, rows: csr_array) -> None:
    """Refuse stored rows that are longer than 1: training scales rows to this length."""
    lengths = np.sqrt(csr_array(rows.multiply(rows)).sum(axis=1))
    if not bool(np.all(lengths <= 1 + 1e-3)):
        raise RunError(f"{path}: a row is longer than 1", hint="train again")


def to_csr(matrix: Matrix) -> csr_array:
    """Convert features of any kind to float32 rows with sorted columns."""
    rows: csr_array = csr_array(matrix).astype(np.float32)
    rows.sum_duplicates()
    if rows.nnz <= np.iinfo(np.int32).max:  # half the memory, and the only type liblinear takes
        rows.indices, rows.indptr = rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
    return rows


def select_seen_labels(train: Corpus, labels: LabelSpace) -> csr_array:
    """Return the training labels as (documents, labels that training documents have)."""
    if not labels.n_seen:
        raise DataError("no training document has a label", path=train.folder)
    return csr_array(labels.gold(train)[:, : labels.n_seen])


def add_bias(rows: csr_array) -> csr_array:
    """Append a column of ones."""
    ones = csr_array(np.ones((rows.shape[0], 1), dtype=np.float32))
    return csr_array(hstack([rows, ones], format="csr", dtype=np.float32))


def transpose_weights(weights: csr_array) -> csr_array:
    """Return classifiers as (features + bias, classifiers), the layout that `score_all` reads."""
    return csr_array(weights.T)


def score_all(rows: csr_array, weights: csr_array) -> NDArray[np.float32]:
    """Return the scores (documents, classifiers) for weights (features + bias, classifiers).

    Only the weights of features that the documents have are read. Terms are added in the order of
    the features, so that a document's scores have the same bits in any batch.
    """
    blocks = make_blocks(rows.shape[0], _BLOCK_DOCS)
    return np.concatenate([_score_block(rows[block], weights) for block in blocks])


def _score_block(rows: csr_array, weights: csr_array) -> NDArray[np.float32]:
    used, place = np.unique(rows.indices, return_inverse=True)
    dense = np.zeros((len(used), rows.shape[0]), dtype=np.float32)
    dense[place, np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))] = rows.data
    return np.asarray((weights[used].T @ dense).T)


def multiply_rows(rows: csr_array, others: csr_array) -> NDArray[np.float32]:
    """Return rows @ others.T as a dense array.

    The side with fewer rows is made dense: over all features or, where that would take longer, over
    the features it has and one empty column for all others. In both cases the terms of a sum are
    added in the order of the features, so that a document's scores have the same bits in any batch.
    """
    if rows.shape[0] < others.shape[0]:
        return np.ascontiguousarray(multiply_rows(others, rows).T)
    n_few, n_features = others.shape
    owner = np.repeat(np.arange(n_few), np.diff(others.indptr))
    if n_few * n_features <= rows.nnz:
        dense = np.zeros((n_features, n_few), dtype=np.float32)
        dense[others.indices, owner] = others.data
        return rows @ dense
    place = np.zeros(n_features, dtype=np.int32)
    place[others.indices] = 1
    used = np.flatnonzero(place)
    place[used] = np.arange(1, len(used) + 1)
    dense = np.zeros((len(used) + 1, n_few), dtype=np.float32)
    dense[place[others.indices], owner] = others.data
    shape = (rows.shape[0], len(dense))
    return csr_array((rows.data, place[rows.indices], rows.indptr), shape=shape) @ dense


def calibrate_on_dev(
    rank: Callable[[Corpus, int], Ranking], dev: Corpus, gold: csr_array
) -> Calibration:
    """Fit a calibration on dev; without dev documents, return one that changes nothing."""
    if not len(dev):
        return Calibration.identity()
    return Calibration.fit(rank(dev, CALIBRATION_RANKS), gold)


def weigh_spans(features: MatrixFeatures, doc: Doc, weights: csr_array) -> list[Span]:
    """Return the parts of a text that are features, each with value x weight of one classifier."""
    weight = dict(zip(weights.indices.tolist(), weights.data.tolist(), strict=True))
    return [
        Span(part.start, part.end, part.value * weight[part.column])
        for part in features.find_spans(doc)
        if part.column in weight
    ]
