"""Tables with named columns: which column is what, for CSV, TSV and Parquet alike.

id | title, abstract, body, text | keywords | labels | metadata (a JSON object)

A column named "field:X" is the text field X; any other column is one key of the metadata, unless
`text_fields` names it. Lists in a cell are separated by | or ;, or written as a JSON list.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ontodex.errors import DataError
from ontodex.read.objects import id_of, parse_object, strings_of
from ontodex.types import Corpus, Doc

TEXT_COLUMNS = ("title", "abstract", "body", "text")
_PREFIX = "field:"
_KNOWN = ("id", "keywords", "labels", "metadata")


def are_columns(names: Sequence[str]) -> bool:
    """Whether these are the headings of a corpus: several, one of them text, none twice."""
    return (
        len(names) > 1
        and len(set(names)) == len(names)
        and any(name in TEXT_COLUMNS or name.startswith(_PREFIX) for name in names)
    )


class Columns:
    """The columns of one table, sorted by what they mean."""

    def __init__(
        self, names: Sequence[str], text_fields: Sequence[str] = (), *, keep_empty: bool = False
    ) -> None:
        wanted = {*TEXT_COLUMNS, *text_fields}
        self.fields = {
            name: name.removeprefix(_PREFIX)
            for name in names
            if name in wanted or name.startswith(_PREFIX)
        }
        self._keep_empty = keep_empty  # where a cell can also hold nothing at all
        self.has_id = "id" in names
        self.others = [name for name in names if name not in _KNOWN and name not in self.fields]
        if not self.fields:
            raise DataError(
                f"no column with text; the columns are {list(names)}",
                hint="name the one with text: ontodex convert IN OUT.jsonl --from csv (or tsv, "
                "parquet) --text-field NAME",
            )

    def doc(self, number: int, row: Mapping[str, Any]) -> Doc:
        """The document in a row; a table without ids numbers its rows from 1."""
        fields = {
            field: row[name]
            for name, field in self.fields.items()
            if (row[name] is not None if self._keep_empty else row[name])
        }
        metadata = {name: row[name] for name in self.others if row[name] not in (None, "")}
        return Doc(
            id_of(row, "id") if self.has_id else str(number),
            fields or {"text": ""},
            strings_in(row.get("keywords"), "keywords"),
            strings_in(row.get("labels"), "labels"),
            metadata | metadata_in(row.get("metadata")),
        )


def strings_in(cell: Any, column: str) -> tuple[str, ...]:
    """The texts of a cell: a list, or a text separated by | or ; or written as JSON."""
    if cell is None or isinstance(cell, list):
        return strings_of({column: cell}, column)
    if not isinstance(cell, str):
        return (str(cell),)
    if cell.startswith("["):
        try:
            return strings_of({column: json.loads(cell)}, column)
        except json.JSONDecodeError as error:
            raise DataError(f"{column!r} starts with [ but is not a JSON list") from error
    separator = "|" if "|" in cell else ";"
    return tuple(part for part in map(str.strip, cell.split(separator)) if part)


def cell_of(strings: Sequence[str]) -> str:
    """A list as a cell: joined by | where that is read back as it was, else JSON."""
    joined = "|".join(strings)
    if joined.count("|") == len(strings) - 1 and strings_in_plain(joined) == tuple(strings):
        return joined
    return json.dumps(list(strings), ensure_ascii=False) if strings else ""


def strings_in_plain(cell: str) -> tuple[str, ...]:
    """What `strings_in` makes of a cell, nothing when it would take it for JSON."""
    return () if cell.startswith("[") else strings_in(cell, "")


def metadata_in(cell: str | None) -> dict[str, Any]:
    """The metadata column: a JSON object, or nothing."""
    return (parse_object(cell) or {}) if cell else {}


def columns_of(corpus: Corpus) -> dict[str, str]:
    """Field -> column for every field that some document has, the usual ones first."""
    found = corpus.field_names() or ["text"]
    names = [*(n for n in TEXT_COLUMNS if n in found), *(n for n in found if n not in TEXT_COLUMNS)]
    return {name: name if name in TEXT_COLUMNS else _PREFIX + name for name in names}
