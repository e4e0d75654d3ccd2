"""Measure the memory that Arrow takes in a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa


@contextmanager
def measure_arrow() -> Iterator[pa.MemoryPool]:
    """Give a memory pool that counts what Arrow takes while the block runs."""
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    pa.set_memory_pool(pool)
    try:
        yield pool
    finally:
        pa.set_memory_pool(before)
