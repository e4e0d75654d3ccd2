from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ontodex.io.threads import count_cores, make_blocks, map_in_threads


@given(st.integers(0, 5000), st.integers(0, 700))
def test_blocks_cover_everything_once_and_none_is_too_long(n, size):
    blocks = make_blocks(n, size)
    assert [i for block in blocks for i in range(block.start, block.stop)] == list(range(n))
    assert max(block.stop - block.start for block in blocks) <= max(size, 1)


@pytest.mark.parametrize("size", [3, 100])
def test_results_come_in_the_order_of_the_blocks(size):
    blocks = make_blocks(20, size)
    assert list(map_in_threads(lambda block: block.start, blocks)) == [b.start for b in blocks]


def test_there_is_a_core():
    assert count_cores() >= 1
