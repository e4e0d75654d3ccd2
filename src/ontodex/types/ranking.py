"""The ranking of labels that every system predicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

PADDING = -1


@dataclass(frozen=True, eq=False)
class Ranking:
    """The k best columns of each document with their probabilities, best first.

    Rows with fewer than k labels end in column -1 with probability 0. Equal probabilities are
    ordered by column, so a ranking never depends on the batch it was computed in.

    >>> ranking = run.rank(ontodex.open_corpus("test.jsonl"), 2)
    >>> ranking.columns.shape, [run.labels.ids[column] for column in ranking.columns[0]]
    ((6, 2), ['fish', 'oak'])
    """

    columns: NDArray[np.int32]
    probabilities: NDArray[np.float32]

    def __post_init__(self) -> None:
        columns, scores = self.columns, self.probabilities
        if columns.ndim != 2 or columns.shape != scores.shape:
            raise ValueError(
                f"columns {columns.shape} and probabilities {scores.shape} must have one shape"
            )
        if not bool(np.all((scores >= 0) & (scores <= 1))):  # also refuses NaN
            raise ValueError("probabilities must be in [0, 1]")
        if bool(np.any(scores[:, 1:] > scores[:, :-1])):
            raise ValueError("probabilities must not increase along a row")
        if bool(np.any((columns[:, 1:] >= 0) & (columns[:, :-1] < 0))):
            raise ValueError("padding must be at the end of a row")

    @classmethod
    def top(cls, probabilities: NDArray[Any], k: int) -> Ranking:
        """Take the k best of a dense (documents x labels) array, zeros included."""
        n, width = probabilities.shape
        kept = min(k, width)
        if kept < width:
            columns = np.argpartition(-probabilities, kept - 1, axis=1)[:, :kept] if kept else None
        else:
            columns = np.broadcast_to(np.arange(width), (n, width))
        if columns is None:
            return cls(np.empty((n, 0), np.int32), np.empty((n, 0), np.float32))
        return cls.sort(columns, np.take_along_axis(probabilities, columns, axis=1), k)

    @classmethod
    def of_sparse(cls, scores: csr_array, k: int) -> Ranking:
        """Take the k best stored entries of each row of a sparse matrix."""
        lengths = np.diff(scores.indptr)
        width = int(lengths.max(initial=0))
        columns = np.full((len(lengths), width), PADDING, dtype=np.int32)
        values = np.zeros((len(lengths), width), dtype=np.float32)
        filled = np.arange(width) < lengths[:, None]
        columns[filled], values[filled] = scores.indices, scores.data
        return cls.sort(columns, values, k)

    @classmethod
    def sort(cls, columns: NDArray[Any], probabilities: NDArray[Any], k: int) -> Ranking:
        """Sort candidates (-1 = none) and pad or cut them to k."""
        last = np.iinfo(np.int32).max
        ties = np.where(columns < 0, last, columns)
        values = np.where(columns < 0, -1.0, probabilities)
        order = np.lexsort((ties, -values), axis=1)[:, :k]
        sorted_columns = np.take_along_axis(columns, order, axis=1).astype(np.int32)
        sorted_values = np.take_along_axis(values, order, axis=1).astype(np.float32)
        pad = ((0, 0), (0, k - sorted_columns.shape[1]))
        return cls(
            np.pad(sorted_columns, pad, constant_values=PADDING),
            np.pad(np.maximum(sorted_values, 0), pad),
        )

    @classmethod
    def join(cls, parts: Sequence[Ranking], k: int) -> Ranking:
        """Concatenate the rankings of consecutive documents."""
        parts = [part.cut(k) for part in parts]
        return cls(
            np.concatenate([np.empty((0, k), np.int32), *(part.columns for part in parts)]),
            np.concatenate([np.empty((0, k), np.float32), *(part.probabilities for part in parts)]),
        )

    def __len__(self) -> int:
        return int(self.columns.shape[0])

    @property
    def k(self) -> int:
        return int(self.columns.shape[1])

    def cut(self, k: int) -> Ranking:
        """Return the first k ranks, padded if there are fewer."""
        pad = ((0, 0), (0, max(0, k - self.k)))
        return Ranking(
            np.pad(self.columns[:, :k], pad, constant_values=PADDING),
            np.pad(self.probabilities[:, :k], pad),
        )

    def take(self, rows: NDArray[Any] | slice) -> Ranking:
        """Return the rankings of these documents."""
        return Ranking(self.columns[rows], self.probabilities[rows])

    def keep(self, mask: NDArray[np.bool_]) -> Ranking:
        """Return the labels where `mask` (documents x k) is true, without gaps."""
        return self.sort(np.where(mask, self.columns, PADDING), self.probabilities, self.k)

    def scores(self, n_columns: int) -> csr_array:
        """Return the probabilities as a sparse (documents x columns) matrix."""
        filled = self.columns >= 0
        indptr = np.concatenate([[0], np.cumsum(filled.sum(axis=1))])
        data, indices = self.probabilities[filled], self.columns[filled]
        return csr_array((data, indices, indptr), shape=(len(self), n_columns))
