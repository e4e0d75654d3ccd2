"""JSON objects from elsewhere: their values, checked, or a sentence that names the key."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ontodex.errors import DataError
from ontodex.read.characters import check_value

# JSON can spell with escapes what text may not hold: NUL and halves of surrogate pairs.
_SUSPECT = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")


def parse_object(text: str) -> dict[str, Any] | None:
    """The JSON object in a line; None when the line is blank."""
    if not text or text.isspace():
        return None
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"not JSON: {error.msg} (column {error.colno})") from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits; deep nesting
        raise DataError(f"not JSON that can be read ({error})") from error
    if not isinstance(value, dict):
        raise DataError(f"a JSON {_kind(value)} where an object was expected: {text[:60]!r}")
    if _SUSPECT.search(text):
        check_value(value)
    return value


def dump(value: Mapping[str, Any]) -> str:
    """The object on one line, text as it is."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DataError(f"a value that JSON cannot hold ({error}): {str(value)[:80]}") from error


def id_of(value: Mapping[str, Any], key: str) -> str:
    """The id under `key`; whole numbers are taken as their digits."""
    given = value.get(key)
    if isinstance(given, int) and not isinstance(given, bool):
        return str(given)
    if isinstance(given, str) and given:
        return given
    if given is None or given == "":
        raise DataError(
            f"no {key}; this object has {list(value)}",
            hint=f"every document needs {key!r}, a text that no other document has",
        )
    raise DataError(f"{key!r} is {_kind(given)} {str(given)[:40]!r}, not a text")


def text_of(value: Mapping[str, Any], key: str) -> str:
    """The text under `key`; a missing or null value is no text, a list is its items by line."""
    given = value.get(key)
    if given is None:
        return ""
    if isinstance(given, list) and all(isinstance(item, str) for item in given):
        return "\n".join(given)
    if not isinstance(given, str):
        raise DataError(f"{key!r} is {_kind(given)} {str(given)[:40]!r}, not a text")
    return given


def strings_of(value: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """The list of texts under `key` (numbers are taken as their digits); missing is empty."""
    given = value.get(key)
    if given is None:
        return ()
    if not isinstance(given, list):
        raise DataError(f"{key!r} is {_kind(given)} {str(given)[:40]!r}, not a list of texts")
    if not all(type(item) is str for item in given):
        given = [str(item) if type(item) is int else item for item in given]
    for item in given:
        if not isinstance(item, str) or not item:
            raise DataError(f"{key!r} has {item!r} in it, not a text")
    return tuple(given)


def object_of(value: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The object under `key`; missing is empty."""
    given = value.get(key)
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise DataError(f"{key!r} is {_kind(given)} {str(given)[:40]!r}, not an object")
    return given


def rest_of(value: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
    """What stands under other keys than the known ones."""
    return {key: item for key, item in value.items() if key not in known}


def _kind(value: Any) -> str:
    names = {dict: "object", list: "list", str: "text", bool: "truth value", type(None): "null"}
    return names.get(type(value), "number")
