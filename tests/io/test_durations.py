from __future__ import annotations

import pytest

from ontodex.io.durations import format_clock, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("50ms", 0.05), ("90s", 90.0), ("10m", 600.0), ("1.5h", 5400.0), (" 2 m ", 120.0)],
)
def test_a_duration_is_a_number_with_a_unit(text, seconds):
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "10", "m", "-1s", "1 day", "1e9h", "9" * 30 + "h"])
def test_anything_else_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match="as 50ms or 10m"):
        parse_duration(text)


def test_a_clock_shows_hours_only_where_there_are_any():
    assert format_clock(187.4) == "3:07"
    assert format_clock(3787) == "1:03:07"
    assert format_clock(-1) == "0:00"
