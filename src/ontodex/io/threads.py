"""Divide work into blocks and run it in threads.

Threads use every core for work that releases Python's lock, such as products of sparse matrices.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

import numpy as np

T = TypeVar("T")


def count_cores() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def make_blocks(n: int, size: int) -> list[slice]:
    """Divide `n` items into consecutive slices of at most `size`, of about equal length."""
    count = max(1, -(-n // max(size, 1)))
    edges = np.linspace(0, n, count + 1).astype(int).tolist()
    return [slice(start, end) for start, end in pairwise(edges)]


def map_in_threads(work: Callable[[slice], T], blocks: list[slice]) -> Iterator[T]:
    """Yield the result of `work` for each block, in order."""
    if len(blocks) == 1:
        yield work(blocks[0])
        return
    with ThreadPoolExecutor(count_cores()) as pool:
        yield from pool.map(work, blocks)
