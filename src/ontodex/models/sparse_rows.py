"""What linear systems, trees and neighbours share: sparse rows, their products, their files.

A classifier is a sparse row over the features and a last column, the bias; documents get a last
column of ones to meet it. Products and everything else that takes long run outside Python's lock,
so threads keep every core busy.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from ontodex.decide.calibrate import Calibration
from ontodex.errors import DataError, RunError
from ontodex.features.matrix import Matrix, MatrixFeatures
from ontodex.files import write_text
from ontodex.models.base import Span
from ontodex.train import store
from ontodex.types import Corpus, Doc, LabelSpace, Ranking

T = TypeVar("T")

_TOGETHER = 64  # documents that share reading the weights; more would share fewer features
CALIBRATION_RANKS = 50  # answers of a dev document that calibration looks at


def as_rows(matrix: Matrix) -> csr_array:
    """Features of any kind as float32 rows with sorted columns."""
    rows: csr_array = csr_array(matrix).astype(np.float32)
    rows.sum_duplicates()
    if rows.nnz <= np.iinfo(np.int32).max:  # half the memory, and all that liblinear takes
        rows.indices, rows.indptr = rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
    return rows


def training_gold(train: Corpus, labels: LabelSpace) -> csr_array:
    """(documents, labels that training documents have)."""
    if not labels.n_seen:
        raise DataError("no training document has a label", path=train.folder)
    return csr_array(labels.gold(train)[:, : labels.n_seen])


def with_bias(rows: csr_array) -> csr_array:
    """One more column, of ones."""
    ones = csr_array(np.ones((rows.shape[0], 1), dtype=np.float32))
    return csr_array(hstack([rows, ones], format="csr", dtype=np.float32))


def by_feature(weights: csr_array) -> csr_array:
    """(features + bias, classifiers): the form in which `all_scores` reads classifiers."""
    return csr_array(weights.T)


def all_scores(rows: csr_array, weights: csr_array) -> NDArray[np.float32]:
    """(documents, classifiers) by weights (features + bias, classifiers).

    Only the weights of features that the documents have are read. Terms are added in the order of
    the features: the same bits whatever the documents beside one.
    """
    parts = [_scores_together(rows[part], weights) for part in blocks(rows.shape[0], _TOGETHER)]
    return np.concatenate(parts)


def _scores_together(rows: csr_array, weights: csr_array) -> NDArray[np.float32]:
    used, place = np.unique(rows.indices, return_inverse=True)
    spread = np.zeros((len(used), rows.shape[0]), dtype=np.float32)
    spread[place, np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))] = rows.data
    return np.asarray((weights[used].T @ spread).T)


def product(rows: csr_array, others: csr_array) -> NDArray[np.float32]:
    """rows @ others.T as a dense array.

    The side with fewer rows is spread out: over all features, or where that would take longer, over
    the features it has and one empty place for all others. In any case the terms of a sum are added
    in the order of the features, so that a document's scores are the same bits whatever the
    documents beside it.
    """
    if rows.shape[0] < others.shape[0]:
        return np.ascontiguousarray(product(others, rows).T)
    n_few, n_features = others.shape
    owner = np.repeat(np.arange(n_few), np.diff(others.indptr))
    if n_few * n_features <= rows.nnz:
        everywhere = np.zeros((n_features, n_few), dtype=np.float32)
        everywhere[others.indices, owner] = others.data
        return rows @ everywhere
    place = np.zeros(n_features, dtype=np.int32)
    place[others.indices] = 1
    used = np.flatnonzero(place)
    place[used] = np.arange(1, len(used) + 1)
    spread = np.zeros((len(used) + 1, n_few), dtype=np.float32)
    spread[place[others.indices], owner] = others.data
    shape = (rows.shape[0], len(spread))
    return csr_array((rows.data, place[rows.indices], rows.indptr), shape=shape) @ spread


def cores() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def blocks(n: int, size: int) -> list[slice]:
    """Consecutive slices of at most `size`, of about equal length."""
    parts = max(1, -(-n // max(size, 1)))
    edges = np.linspace(0, n, parts + 1).astype(int).tolist()
    return [slice(a, b) for a, b in pairwise(edges)]


def in_threads(work: Callable[[slice], T], parts: list[slice]) -> Iterator[T]:
    """The results of `work` on each part, in order."""
    if len(parts) == 1:
        yield work(parts[0])
        return
    with ThreadPoolExecutor(cores()) as pool:
        yield from pool.map(work, parts)


def calibrated(rank: Callable[[Corpus, int], Ranking], dev: Corpus, gold: csr_array) -> Calibration:
    """A calibration fitted on dev; without dev documents none, and scores stay as they are."""
    if not len(dev):
        return Calibration.none()
    return Calibration.fit(rank(dev, CALIBRATION_RANKS), gold)


def spans(features: MatrixFeatures, doc: Doc, weights: csr_array) -> list[Span]:
    """The pieces of a text with value x weight of one classifier; the bias has no words."""
    weight = dict(zip(weights.indices.tolist(), weights.data.tolist(), strict=True))
    return [
        Span(piece.start, piece.end, piece.value * weight[piece.column])
        for piece in features.spans(doc)
        if piece.column in weight
    ]


# ---------------------------------------------------------------------------------- save and load


def save_rows(folder: Path, name: str, rows: csr_array, **more: NDArray[Any]) -> None:
    """Write a sparse matrix, and arrays that belong to it, as one safetensors file."""
    arrays = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
    shape = np.array(rows.shape, dtype=np.int64)
    store.save_tensors(folder, name, {**arrays, "shape": shape, **more})


def load_rows(folder: Path, name: str) -> tuple[csr_array, dict[str, NDArray[Any]]]:
    """What `save_rows` wrote, memory-mapped and checked."""
    try:
        arrays = store.load_tensors(folder, name)
        data, indices, indptr = (arrays.pop(key) for key in ("data", "indices", "indptr"))
        shape = tuple(arrays.pop("shape").tolist())
        rows = csr_array((data, indices, indptr), shape=shape)
        rows.check_format(full_check=True)
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise RunError(
            f"{folder / name}: not sparse rows as training writes them ({error})"
        ) from error
    if not bool(np.all(np.isfinite(rows.data))):
        raise RunError(f"{folder / name}: a weight is not a finite number")
    return rows, arrays


def save_about(
    folder: Path, config: Any, calibration: Calibration, **more: Mapping[str, Any] | int | float
) -> None:
    """Write model.json: the settings, the calibration and what else is small."""
    about = {"config": asdict(config), "calibration": calibration.to_json(), **more}
    write_text(folder / "model.json", json.dumps(about, indent=1, ensure_ascii=False) + "\n")


def load_about(folder: Path) -> dict[str, Any]:
    """What `save_about` wrote; `calibration` is read back already."""
    try:
        about = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        return {**about, "calibration": Calibration.from_json(about["calibration"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{folder / 'model.json'}: cannot be read ({error})") from error
