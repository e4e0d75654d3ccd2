"""Limits of the JSON that the service takes in, so that all of it can be stored and answered.

Every JSON body passes `parse_body` before any schema sees it. Every document passes
`check_document` before it is stored, whether it came as JSON or as an uploaded file.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ontodex.corpora.characters import check_text, check_value
from ontodex.errors import DataError
from ontodex.types import Doc


@dataclass(frozen=True)
class JsonLimits:
    """The largest JSON value that is taken."""

    depth: int  # levels of objects and arrays
    values: int  # keys and items of all objects and arrays together
    digits: int  # of one number
    characters: int  # of one string
    key_characters: int


BODY = JsonLimits(32, 1_000_000, 400, 10_000_000, 2000)
METADATA = JsonLimits(16, 10_000, 400, 1_000_000, 500)
MAX_METADATA = 1_000_000  # characters of the metadata of one document, as JSON
MAX_FIELDS = 200  # text fields of one document
MAX_KEYWORDS = 10_000
MAX_ID = 2000  # characters
MAX_FIELD_NAME = 500  # characters
MAX_TEXT = 10_000_000  # characters of all fields together


def parse_body(raw: bytes) -> Any:
    """Return the value of a JSON body.

    Raise a DataError if it is beyond the limits, and a JSONDecodeError if it is no JSON.
    """
    limits = BODY
    try:
        value = json.loads(
            raw,
            parse_int=lambda digits: int(_check_digits(digits, limits)),
            parse_float=lambda digits: float(_check_digits(digits, limits)),
            parse_constant=_refuse_constant,
            object_pairs_hook=_make_object,
        )
    except RecursionError:
        raise DataError(_describe_depth(limits)) from None
    check_json(value, limits)
    return value


def _check_digits(digits: str, limits: JsonLimits) -> str:
    if len(digits) > limits.digits:
        raise DataError(f"a number has more than {limits.digits} digits")
    return digits


def _refuse_constant(name: str) -> None:
    raise DataError(f"{name} is not a number in JSON")


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object. A key that is there twice is refused: each program may take another one."""
    made = dict(pairs)
    if len(made) < len(pairs):
        ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise DataError(f"the key {twice[:40]!r} is given twice in one object")
    return made


def _describe_depth(limits: JsonLimits) -> str:
    return f"nested deeper than {limits.depth} levels"


def check_json(value: Any, limits: JsonLimits) -> None:
    """Raise a DataError if a JSON value is beyond the limits. Does not recurse."""
    n_values, level, depth = 0, [value], 0
    while level:
        below: list[Any] = []
        for item in level:
            if isinstance(item, str):
                if len(item) > limits.characters:
                    raise DataError(f"a string has more than {limits.characters:,} characters")
            elif isinstance(item, Mapping):
                _check_keys(item, limits)
                below.extend(item.values())
            elif isinstance(item, list | tuple):
                below.extend(item)
            else:
                _check_scalar(item, limits)
        depth += any(isinstance(item, Mapping | list | tuple) for item in level)
        n_values += len(below)
        if depth > limits.depth:
            raise DataError(_describe_depth(limits))
        if n_values > limits.values:
            raise DataError(f"more than {limits.values:,} keys and items")
        level = below


def _check_keys(item: Mapping[Any, Any], limits: JsonLimits) -> None:
    for key in item:
        if not isinstance(key, str):
            raise DataError(f"a key is of type {type(key).__name__}, not a string")
        if len(key) > limits.key_characters:
            raise DataError(f"a key has more than {limits.key_characters:,} characters")


def _check_scalar(item: Any, limits: JsonLimits) -> None:
    if item is None or isinstance(item, bool):
        return
    if isinstance(item, int):
        # 3.3 bits a digit; printing a long integer takes quadratic time and may be refused.
        if item.bit_length() > 10 * limits.digits // 3:
            raise DataError(f"a number has more than {limits.digits} digits")
    elif isinstance(item, float):
        if not math.isfinite(item):
            raise DataError("NaN and infinite numbers are not JSON")
    else:
        raise DataError(f"a value of type {type(item).__name__} is not JSON")


def check_metadata(value: Mapping[str, Any]) -> None:
    """Raise a DataError if metadata cannot be stored, or not be answered."""
    check_json(value, METADATA)
    check_value(value)
    if len(json.dumps(value)) > MAX_METADATA:
        raise DataError(f"has more than {MAX_METADATA:,} characters as JSON")


def check_document(doc: Doc) -> None:
    """Raise a DataError if a document cannot be stored, or not be answered."""
    _check_size("id", "characters", len(doc.id), MAX_ID)
    _check_size("fields", "names", len(doc.fields), MAX_FIELDS)
    _check_size(
        "name of a field", "characters", max(map(len, doc.fields), default=0), MAX_FIELD_NAME
    )
    _check_size("text", "characters", sum(map(len, doc.fields.values())), MAX_TEXT)
    _check_size("keywords", "keywords", len(doc.keywords), MAX_KEYWORDS)
    _check_size("keywords", "characters", sum(map(len, doc.keywords)), MAX_TEXT)
    for text in (doc.id, *doc.fields, *doc.fields.values(), *doc.keywords):
        check_text(text)
    try:
        check_metadata(doc.metadata)
    except DataError as error:
        raise DataError(f"document {doc.id[:100]!r}: metadata: {error}") from error


def _check_size(what: str, unit: str, size: int, limit: int) -> None:
    if size > limit:
        raise DataError(
            f"the {what} of a document has {size:,} {unit}; at most {limit:,} are taken"
        )
