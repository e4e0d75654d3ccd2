"""Patterns of words: runs of letters, digits and their marks in any script."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache

_ALONE = r"\u3040-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
INVISIBLE = "\u00ad\u200c\u200d\u2060"  # soft hyphen and joiners: inside a word, not part of it

# Where no character of this set occurs, a word is simply a run of letters and digits, and a regular
# expression finds it three times faster. The set is wider than needed, never narrower.
_RARE = re.compile(
    r"[\u00ad\u0300-\u036f\u0483-\u0489\u0591-\u1fff\u200c\u200d\u2060\u20d0-\u20f0"
    r"\u2c00-\U0010ffff]"
)


@cache
def _plain_pattern(punctuation: bool) -> re.Pattern[str]:
    """Compile the pattern of words in text without rare characters."""
    return re.compile(r"[^\W_]+|[^\w\s]|_" if punctuation else r"[^\W_]+")


@cache
def _full_pattern(punctuation: bool) -> re.Pattern[str]:
    """Compile the pattern of words with combining marks and joiners inside, and of ideographs."""
    points = (*range(0x300, 0x20000), *range(0xE0100, 0xE01F0))  # all planes that have marks
    inner = _ranges(point for point in points if unicodedata.category(chr(point))[0] == "M")
    # Possessive, so that the engine keeps no backtracking positions in ten megabytes of accents.
    word = rf"[{_ALONE}]|[^\W_{_ALONE}]++(?:[{inner}{INVISIBLE}]++[^\W_{_ALONE}]*+)*+"
    return re.compile(rf"{word}|[^\w\s]|_" if punctuation else word)


def _ranges(points: Iterable[int]) -> str:
    """Return sorted code points as the inside of a character class."""
    runs: list[list[int]] = []
    for point in points:
        if runs and runs[-1][1] == point - 1:
            runs[-1][1] = point
        else:
            runs.append([point, point])
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in runs)


def choose_pattern(text: str, *, punctuation: bool) -> re.Pattern[str]:
    """Return the fastest pattern that finds the words of a text, or words and marks."""
    rare = not text.isascii() and _RARE.search(text) is not None
    return _full_pattern(punctuation) if rare else _plain_pattern(punctuation)
