"""Parse JSON objects and check the types of their values; errors name the key."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ontodex.corpora.characters import check_value
from ontodex.errors import DataError

# Deeper values could be read but not written again: Python's limit is met earlier there.
MAX_DEPTH = 100
# Escapes for characters that text must not have: NUL and halves of surrogate pairs.
_SUSPECT = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")


def parse_object(text: str) -> dict[str, Any] | None:
    """Parse the JSON object in a line; return None for a blank line."""
    if not text or text.isspace():
        return None
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"not JSON: {error.msg} (column {error.colno})") from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits; deep nesting
        raise DataError(f"JSON that cannot be read ({error})") from error
    if not isinstance(value, dict):
        raise DataError(f"a JSON {_kind(value)} where an object was expected: {text[:60]!r}")
    check_json(value, text)
    return value


def check_json(value: Any, text: str) -> None:
    """Raise a DataError for characters that text must not have, and for deep nesting."""
    if text.count("[") + text.count("{") > MAX_DEPTH and not _is_shallow(value):
        raise DataError(f"JSON that is nested more than {MAX_DEPTH} levels deep")
    if _SUSPECT.search(text):
        check_value(value)


def _is_shallow(value: Any) -> bool:
    """Return whether lists and objects are nested at most MAX_DEPTH levels deep."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            item
            for outer in level
            if isinstance(outer, dict | list)
            for item in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return True
    return False


def dump_json(value: Mapping[str, Any]) -> str:
    """Return the object as one line of JSON, without ASCII escapes."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DataError(f"a value that JSON cannot store ({error}): {str(value)[:80]}") from error


def get_id(value: Mapping[str, Any], key: str) -> str:
    """Return the id under `key`; a whole number becomes text."""
    found = value.get(key)
    if isinstance(found, int) and not isinstance(found, bool):
        return str(found)
    if isinstance(found, str) and found:
        return found
    if found is None or found == "":
        raise DataError(
            f"no {key}; this object has {list(value)}",
            hint=f"every document needs {key!r}, a text that no other document has",
        )
    raise DataError(f"{key!r} is {_kind(found)} {str(found)[:40]!r}, not a text")


def get_text(value: Mapping[str, Any], key: str) -> str:
    """Return the text under `key`: "" for a missing or null value, a list joined by lines."""
    found = value.get(key)
    if found is None:
        return ""
    if isinstance(found, list) and all(isinstance(item, str) for item in found):
        return "\n".join(found)
    if not isinstance(found, str):
        raise DataError(f"{key!r} is {_kind(found)} {str(found)[:40]!r}, not a text")
    return found


def get_strings(value: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """Return the list of texts under `key`, empty if missing; whole numbers become text."""
    found = value.get(key)
    if found is None:
        return ()
    if not isinstance(found, list):
        raise DataError(f"{key!r} is {_kind(found)} {str(found)[:40]!r}, not a list of texts")
    if not all(type(item) is str for item in found):
        found = [str(item) if type(item) is int else item for item in found]
    for item in found:
        if not isinstance(item, str) or not item:
            raise DataError(f"{key!r} has the item {item!r}, which is not a text")
    return tuple(found)


def get_list(value: Mapping[str, Any], key: str) -> list[Any]:
    """Return the list under `key`, empty if missing."""
    found = value.get(key)
    if found is None:
        return []
    if not isinstance(found, list):
        raise DataError(f"{key!r} is {_kind(found)} {str(found)[:40]!r}, not a list")
    return found


def get_object(value: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the object under `key`, empty if missing."""
    found = value.get(key)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise DataError(f"{key!r} is {_kind(found)} {str(found)[:40]!r}, not an object")
    return found


def get_rest(value: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
    """Return the values under all keys but the known ones."""
    return {key: item for key, item in value.items() if key not in known}


def _kind(value: Any) -> str:
    names = {dict: "object", list: "list", str: "text", bool: "truth value", type(None): "null"}
    return names.get(type(value), "number")
