"""Fields of an ontology in the JSON format of ontodex, with their types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


@dataclass(frozen=True)
class Shape:
    """The type of a JSON field: its description, a test, and the value if it is missing."""

    words: str
    fits: Callable[[Any], bool]
    empty: Any


_TEXT = Shape("a text", is_text, "")
_TEXTS = Shape("a list of texts", _are_texts, ())
_IDS = Shape(
    "a list of ids",
    lambda value: isinstance(value, list) and all(isinstance(item, str | int) for item in value),
    (),
)
_FLAG = Shape("true or false", lambda value: isinstance(value, bool), False)
_TEXT_BY_KEY = Shape(
    "an object of texts",
    lambda value: isinstance(value, dict) and all(map(is_text, value.values())),
    {},
)
_TEXTS_BY_KEY = Shape(
    "an object of lists of texts",
    lambda value: isinstance(value, dict) and all(map(_are_texts, value.values())),
    {},
)
FIELDS = {
    "label": _TEXT,
    "alt_labels": _TEXTS,
    "names": _TEXT_BY_KEY,
    "synonyms": _TEXTS_BY_KEY,
    "parents": _IDS,
    "definition": _TEXT,
    "definitions": _TEXT_BY_KEY,
    "schemes": _TEXTS,
    "types": _TEXTS,
    "group_names": _TEXT_BY_KEY,
    "title": _TEXT,
    "notation": _TEXT,
    "deprecated": _FLAG,
    "replaced_by": _TEXT,
    "positions": _TEXTS,
    "categories": _TEXTS_BY_KEY,
    "exact_matches": _TEXTS,
    "retired": _TEXT_BY_KEY,
    "splits": _TEXTS_BY_KEY,
    "problems": _TEXTS,
}
