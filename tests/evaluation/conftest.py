"""Tiny rankings and gold, written as lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy.sparse import csr_array

from ontodex.types import Ranking


def _rank(*rows: Sequence[int], p: Sequence[Sequence[float]] | None = None) -> Ranking:
    """A ranking of these columns; probabilities fall from 0.9 unless given."""
    columns = np.array(rows, dtype=np.int32)
    falling = np.broadcast_to(np.linspace(0.9, 0.1, columns.shape[1]), columns.shape)
    probabilities = np.array(p if p is not None else falling, dtype=np.float32)
    return Ranking(columns, np.where(columns >= 0, probabilities, 0).astype(np.float32))


def _gold(*rows: Sequence[int], n: int) -> csr_array:
    """Gold with these columns true, `n` columns wide."""
    indptr = np.cumsum([0, *map(len, rows)])
    indices = np.array([column for row in rows for column in sorted(row)], dtype=np.int32)
    return csr_array((np.ones(len(indices), np.int8), indices, indptr), shape=(len(rows), n))


@pytest.fixture(scope="session")
def rank() -> Callable[..., Ranking]:
    return _rank


@pytest.fixture(scope="session")
def truth() -> Callable[..., csr_array]:
    return _gold
