from __future__ import annotations

import pytest

from ontodex.corpora.parsing.sparse_rows import format_features, is_header, is_row, parse_features
from ontodex.errors import DataError


def test_indices_are_counted_from_0():
    assert parse_features("1:0.5 3:2", first=1) == {0: 0.5, 2: 2.0}
    assert parse_features("") == {}


def test_a_row_is_formatted_in_order_and_read_back():
    assert format_features({7: 1.5, 0: 2.0}, first=1) == "1:2 8:1.5"
    assert parse_features(format_features({7: 0.1, 0: 1e-9})) == {0: 1e-9, 7: 0.1}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1:2 x", "'x' is not index:value"),
        ("1:2 1:3", "a feature is given twice"),
        ("9:1", "feature 9, but the header says 5 features"),
        ("1:nan", "not finite"),
    ],
)
def test_damaged_rows_are_refused(text, problem):
    with pytest.raises(DataError, match=problem):
        parse_features(text, width=5)


def test_an_index_before_the_first_is_refused():
    with pytest.raises(DataError, match="feature 0, but the first one is 1"):
        parse_features("0:1", first=1)


def test_headers_and_rows_are_recognised():
    assert is_header("3 4 5", 3)
    assert not is_header("3 4", 3)
    assert is_row("1,2 0:1")
    assert is_row(" 0:1")
    assert not is_row("some text")
