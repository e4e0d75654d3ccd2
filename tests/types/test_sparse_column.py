from __future__ import annotations

import pytest

from ontodex.types.sparse_column import SparseColumn


def test_a_column_reads_like_a_list_with_empty_values():
    column = SparseColumn({2: "c", 0: "a"}, 4, "")
    assert list(column) == ["a", "", "c", ""]
    assert column == ["a", "", "c", ""]
    assert column != ["a", "", "c"]
    assert column != "a c"
    assert (column[2], column[3], column[-2], column[1:3]) == ("c", "", "c", ["", "c"])
    assert len(column) == 4
    assert "c" in column
    for row in (4, -5):
        with pytest.raises(IndexError):
            column[row]


def test_only_values_are_stored_and_listed():
    column = SparseColumn.of(["", "b", ""], "")
    assert list(column.items()) == [(1, "b")]
    assert column.n_values == 1
    assert column == SparseColumn({1: "b"}, 3, "")
    assert column != SparseColumn({1: "b"}, 4, "")
