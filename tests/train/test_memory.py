"""Memory of batches that differ in size goes back to the system."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from ontodex.train.device import give_memory_back


def resident() -> int:
    """Bytes of this process in memory."""
    return 4096 * int(Path("/proc/self/statm").read_text().split()[1])


@pytest.mark.skipif(sys.platform != "linux", reason="what glibc does by itself")
def test_freed_blocks_of_any_size_are_given_back_even_between_blocks_in_use():
    give_memory_back()
    sizes = np.random.default_rng(0).integers(2**20, 2**23, 40)
    for _ in range(2):  # freeing the first large ones is what teaches glibc to keep the next
        before = resident()
        blocks = [np.ones(size, dtype=np.int8) for size in sizes]
        held = resident() - before
        del blocks[::2]
        kept = resident() - before
        assert held > 0.9 * sizes.sum()
        assert kept < 0.6 * held
        blocks.clear()
