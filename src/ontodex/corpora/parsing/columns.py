"""Read and write documents in tables with named columns: CSV, TSV and Parquet.

id | title, abstract, body, text | keywords | labels | metadata (a JSON object)

A column "field:X" is the text field X. A `FieldMapping` names other columns for text, labels and
id. Any other column is a key of the metadata. Lists in a cell are separated by |, ; or line ends,
or written as a JSON list. In a text table capitals and spaces around the usual names do not count.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ontodex.corpora.characters import replace_surrogates
from ontodex.corpora.field_mapping import (
    FIELDS_HINT,
    NO_MAPPING,
    FieldMapping,
    list_columns,
)
from ontodex.corpora.parsing.json_objects import check_json, get_id, get_strings, parse_object
from ontodex.errors import DataError, UnmappedTableError
from ontodex.types import Corpus, Doc

TEXT_COLUMNS = ("title", "abstract", "body", "text")
_USUAL = {"id", *TEXT_COLUMNS, "keywords", "labels", "metadata"}
_PREFIX = "field:"


def is_header(header: Sequence[str]) -> bool:
    """Return whether these are columns of a corpus: several, all different, one of them text."""
    names = standardise(header)
    return (
        len(names) > 1
        and len(set(names)) == len(names)
        and any(name in TEXT_COLUMNS or name.startswith(_PREFIX) for name in names)
    )


def standardise(header: Sequence[str], named: Collection[str] = ()) -> list[str]:
    """Return the columns with the usual names in lower case: Title and ID are title and id.

    Those in `named` stay as they are.
    """
    lower = [name.lower() for name in header]
    return [
        low if low in _USUAL and name not in named and lower.count(low) == 1 else name
        for name, low in zip(header, lower, strict=True)
    ]


class Columns:
    """The columns of a table by their meaning."""

    def __init__(
        self, names: Sequence[str], mapping: FieldMapping = NO_MAPPING, *, keep_empty: bool = False
    ) -> None:
        mapping.check(names)
        self.fields = {name: name for name in mapping.text_fields} or {
            name: name.removeprefix(_PREFIX)
            for name in names
            if name in TEXT_COLUMNS or name.startswith(_PREFIX)
        }
        if not self.fields:
            raise unmapped_error(names)
        self._keep_empty = keep_empty  # for tables that distinguish empty from missing cells
        self._id, self._label = mapping.id_field or "id", mapping.label_field or "labels"
        self._separator = mapping.label_separator
        self.has_id = self._id in names
        known = {self._id, self._label, "keywords", "metadata", *self.fields}
        self.others = [name for name in names if name not in known]

    def doc(self, number: int, row: Mapping[str, Any]) -> Doc:
        """Return the document of a row; rows of a table without ids are numbered from 1."""
        fields = {
            field: row[name]
            for name, field in self.fields.items()
            if (row[name] is not None if self._keep_empty else row[name])
        }
        metadata = {name: row[name] for name in self.others if row[name] not in (None, "")}
        keywords = None if self._label == "keywords" else row.get("keywords")
        return Doc(
            get_id(row, self._id) if self.has_id else str(number),
            fields or {"text": ""},
            parse_strings(keywords, "keywords"),
            parse_strings(row.get(self._label), self._label, self._separator),
            metadata | parse_metadata(row.get("metadata")),
        )


def unmapped_error(names: Sequence[str]) -> UnmappedTableError:
    """Return the error for a table whose text is in none of the columns that are known."""
    shown = tuple(map(replace_surrogates, names))
    error = UnmappedTableError(
        f"no column is known to hold text; the columns are {list_columns(shown)}",
        hint=f"say which columns to read: {FIELDS_HINT}",
    )
    error.columns = shown
    return error


def parse_strings(cell: Any, column: str, separator: str = "") -> tuple[str, ...]:
    """Return the texts of a cell: a list, a JSON list, or a text with separators.

    Unless it is given, the separator is | or ; or the end of a line.
    """
    if cell is None or isinstance(cell, list):
        return get_strings({column: cell}, column)
    if not isinstance(cell, str):
        return (str(cell),)
    if cell.startswith("[") and not separator:
        try:
            found = json.loads(cell)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{column!r} starts with [ but is not a JSON list") from error
        check_json(found, cell)
        return get_strings({column: found}, column)
    separator = separator or next((mark for mark in "|;" if mark in cell), "\n")
    return tuple(part for part in map(str.strip, cell.split(separator)) if part)


def format_strings(strings: Sequence[str]) -> str:
    """Return a list as a cell: joined by | if that can be read back, else as JSON."""
    joined = "|".join(strings)
    if joined.count("|") == len(strings) - 1 and _parse_plain(joined) == tuple(strings):
        return joined
    return json.dumps(list(strings), ensure_ascii=False) if strings else ""


def _parse_plain(cell: str) -> tuple[str, ...]:
    """Parse a cell that is not JSON; return nothing for one that looks like JSON."""
    return () if cell.startswith("[") else parse_strings(cell, "")


def parse_metadata(cell: str | None) -> dict[str, Any]:
    """Parse the metadata column: a JSON object or nothing."""
    return (parse_object(cell) or {}) if cell else {}


def name_columns(corpus: Corpus) -> dict[str, str]:
    """Return field -> column for all text fields of a corpus, the usual ones first."""
    found = corpus.field_names() or ["text"]
    names = [*(n for n in TEXT_COLUMNS if n in found), *(n for n in found if n not in TEXT_COLUMNS)]
    return {name: name if name in TEXT_COLUMNS else _PREFIX + name for name in names}
