"""Check text for characters that files must not have: NUL and halves of surrogate pairs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ontodex.errors import DataError

_HALVES = re.compile("[\ud800-\udfff]")


def check_text(text: str, where: str = "") -> None:
    """Raise a DataError if the text has such a character; `where` starts the message."""
    problem = None
    if "\0" in text:
        problem = "a NUL character in text"
    elif not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            problem = (
                f"half a surrogate pair ({text[error.start]!a}) in text, which is not valid UTF-8"
            )
    if problem:
        raise DataError(f"{where}: {problem}" if where else problem)


def check_value(value: Any, where: str = "") -> None:
    """Check every text in a JSON value, keys included."""
    for text in _texts(value):
        check_text(text, where)


def replace_surrogates(text: str) -> str:
    """Replace each half of a surrogate pair by U+FFFD."""
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
