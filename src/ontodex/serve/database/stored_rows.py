"""Decode stored rows, and find those that cannot be shown.

A row may be damaged: an older version stored values that no answer can contain, or another program
changed the database. Such a row raises DamagedRowError here, and the database sets it aside.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ontodex.corpora.characters import check_value, replace_surrogates
from ontodex.errors import DataError, OntodexError
from ontodex.serve.http.json_limits import JsonLimits, check_json

# Version 0.1 stored what is beyond the limits of today; up to here it can still be answered.
SHOWABLE = JsonLimits(200, 10_000_000, 4000, 1_000_000_000, 1_000_000_000)
VERDICTS = ("accept", "reject", "add")
HEAD = 10_000  # characters of each JSON column that a list reads
_LETTERS = r"(?:[^\"\\\x00-\x1f]|\\u[0-9a-fA-F]{4}|\\[^u])*+"
_FIELD = re.compile(rf'\s*[{{,]\s*("{_LETTERS}")\s*:\s*"({_LETTERS})(")?')
_EMPTY = {"fields": "{}", "keywords": "[]", "metadata": "{}"}
_JSON = ("fields", "keywords", "metadata")
_TEXTS = ("id", "batch", "state", "added_at", "added_by")
_OPTIONAL_TEXTS = ("done_at", "done_by")


class DamagedRowError(OntodexError):
    """A stored document that cannot be shown."""

    def __init__(self, number: int, reason: str, *, is_set_aside: bool = False) -> None:
        hint = "GET /quarantine lists such documents"
        super().__init__(f"document {number} cannot be shown: {reason}", hint=hint)
        self.number, self.reason, self.is_set_aside = number, reason, is_set_aside


def decode_document(row: Any) -> Mapping[str, Any]:
    """Return a row of `documents` with its JSON columns decoded."""
    if reason := _find_wrong_type(row):
        raise DamagedRowError(row["number"], reason)
    decoded = {}
    for name in _JSON:
        try:
            decoded[name] = _decode_json(row[name])
            _CHECKS[name](decoded[name])
        except (DataError, ValueError, RecursionError) as error:
            reason = f"its {name} are damaged ({_shorten(error)})"
            raise DamagedRowError(row["number"], reason) from error
    return {**row, **decoded}


def measure_row(row: Any) -> int:
    """Return the number of characters of the JSON in a row."""
    return sum(len(row[name]) for name in _JSON)


def decode_head(row: Any) -> Mapping[str, Any]:
    """Return a row that was cut after `HEAD` characters, for lists: the beginning of its fields.

    Keywords and metadata that were cut are empty.
    """
    whole = {name: row[name] for name in _JSON if not _is_cut(row[name])}
    decoded = decode_document({**row, **{name: whole.get(name, _EMPTY[name]) for name in _JSON}})
    return decoded if "fields" in whole else {**decoded, "fields": _parse_beginning(row["fields"])}


def _is_cut(value: Any) -> bool:
    return isinstance(value, str) and len(value) > HEAD


def _parse_beginning(text: str) -> dict[str, str]:
    """Return the fields at the beginning of their JSON, the last one as far as it goes."""
    fields, at = {}, 0
    while found := _FIELD.match(text, at):
        name, value, end = found.groups()
        fields[replace_surrogates(json.loads(name))] = replace_surrogates(json.loads(f'"{value}"'))
        if not end:
            break
        at = found.end()
    return fields


def _shorten(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:200]


def _find_wrong_type(row: Any) -> str:
    """Return what is wrong with the columns of a document; SQLite stores any type anywhere."""
    for name in (*_TEXTS, *_JSON, *_OPTIONAL_TEXTS):
        value = row[name]
        if not isinstance(value, str) and not (value is None and name in _OPTIONAL_TEXTS):
            return f"its {name} is of type {type(value).__name__}, not text"
    if row["state"] not in ("open", "done", "quarantined", "deleted"):
        return f"its state is {row['state'][:20]!r}"
    return ""


def _decode_json(text: str) -> Any:
    """Return the value of a JSON column.

    Early versions stored lone surrogates and NaN, which no answer and no file can contain; these
    are replaced, by U+FFFD and null.
    """
    value = json.loads(text, parse_constant=lambda _: None)
    if "\\ud" not in text.lower():
        return value
    return json.loads(replace_surrogates(json.dumps(value, ensure_ascii=False)))


def _check_fields(value: Any) -> None:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise DataError("not an object of texts")


def _check_keywords(value: Any) -> None:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise DataError("not a list of texts")


def _check_metadata(value: Any) -> None:
    if not isinstance(value, dict):
        raise DataError("not an object")
    check_json(value, SHOWABLE)


_CHECKS = {"fields": _check_fields, "keywords": _check_keywords, "metadata": _check_metadata}


def find_damage(row: Any) -> str:
    """Return why a decision cannot be shown; "" if it can."""
    for name in ("label", "user", "time"):
        if not isinstance(row[name], str):
            return f"its {name} is of type {type(row[name]).__name__}, not text"
    for name in ("run", "request_id"):
        if not isinstance(row[name], str | None):
            return f"its {name} is of type {type(row[name]).__name__}, not text"
    if row["verdict"] not in VERDICTS:
        return f"its verdict is {str(row['verdict'])[:20]!r}"
    if not isinstance(row["probability"], int | float | None):
        return f"its probability is of type {type(row['probability']).__name__}, not a number"
    try:
        check_json(row["probability"], SHOWABLE)
        check_value([row["label"], row["user"], row["time"]])
    except DataError as error:
        return str(error)
    return ""


def decode_answer(text: Any) -> dict[str, Any] | None:
    """Return a stored prediction; None if there is none, or a damaged one: it is made again."""
    try:
        answer = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(answer, dict) or not {"ranked", "chosen"} <= answer.keys():
        return None
    return answer if all(map(_is_ranking, answer.values())) else None


def _is_ranking(value: Any) -> bool:
    """Return whether a value is a list of [label, probability]."""
    return isinstance(value, list) and all(
        isinstance(pair, list)
        and len(pair) == 2
        and isinstance(pair[0], str)
        and isinstance(pair[1], int | float)
        for pair in value
    )
