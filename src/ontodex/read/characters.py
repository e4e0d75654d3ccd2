"""Characters that no file of ours may hold: NUL, and halves of surrogate pairs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ontodex.errors import DataError

_HALVES = re.compile("[\ud800-\udfff]")


def check_text(text: str, where: str = "") -> None:
    """A DataError when the text has such a character; `where` begins the message."""
    problem = None
    if "\0" in text:
        problem = "a NUL character in text"
    elif not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            problem = f"half a surrogate pair ({text[error.start]!a}) in text, which UTF-8 has not"
    if problem:
        raise DataError(f"{where}: {problem}" if where else problem)


def check_value(value: Any, where: str = "") -> None:
    """The same for every text in a JSON value, keys included."""
    for text in _texts(value):
        check_text(text, where)


def repaired(text: str) -> str:
    """The text with U+FFFD in the place of each half of a surrogate pair."""
    return _HALVES.sub("\ufffd", text)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield key
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
