from __future__ import annotations

import pytest

from ontodex.io.counts import format_count


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 documents"), (1, "1 document"), (1200, "1,200 documents")]
)
def test_one_has_no_plural(number, text):
    assert format_count(number, "document") == text


def test_an_irregular_plural_is_given():
    assert format_count(1, "entry", "entries") == "1 entry"
    assert format_count(2, "entry", "entries") == "2 entries"
