"""Arrays with one number per column, as JSON: the commonest value, and the columns that differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


def encode_array(array: NDArray[Any]) -> dict[str, Any]:
    """Return the array as plain values."""
    distinct, counts = np.unique(array, return_counts=True)
    usual = distinct[counts.argmax()] if len(distinct) else array.dtype.type(0)
    columns = np.flatnonzero(array != usual)
    return {
        "columns": len(array),
        "usual": usual.item(),
        "at": columns.tolist(),
        "values": array[columns].tolist(),
    }


@dataclass(frozen=True)
class ArrayJson:
    """An array as `encode_array` describes it; no value is negative."""

    columns: int
    usual: float
    at: tuple[int, ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.at) != len(self.values) or len(set(self.at)) < len(self.at):
            raise ValueError("columns and values of an array do not fit together")
        if not all(0 <= column < self.columns for column in self.at):
            raise ValueError("a column of an array is outside the labels")
        if not all(0 <= value < 2**53 for value in (self.usual, *self.values)):
            raise ValueError("a value of an array is negative or too large")


def decode_array(stored: ArrayJson, n_columns: int, dtype: type) -> NDArray[Any]:
    """Return the array that `encode_array` described."""
    if stored.columns != n_columns:
        raise ValueError(f"made for {stored.columns:,} labels, not for {n_columns:,}")
    array: NDArray[Any] = np.full(n_columns, stored.usual, dtype=dtype)
    array[list(stored.at)] = stored.values
    return array
