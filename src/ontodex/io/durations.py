"""Durations as people write them: 50ms, 90s, 10m, 2h."""

from __future__ import annotations

import re

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_WRITTEN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h)\s*")


def parse_duration(text: str) -> float:
    """Return the seconds of a duration; ValueError where it is none."""
    found = _WRITTEN.fullmatch(text)
    if found is None or len(text) > 20:
        raise ValueError(f"a time is a number with ms, s, m or h, as 50ms or 10m, not {text!r:.40}")
    return float(found[1]) * _UNITS[found[2]]


def format_clock(seconds: float) -> str:
    """Return minutes and seconds, as 3:07; with hours, as 1:03:07."""
    minutes, rest = divmod(round(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
