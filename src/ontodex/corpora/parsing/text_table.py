"""Read and write text tables (CSV, TSV) row by row."""

from __future__ import annotations

import codecs
import csv
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from ontodex.corpora.field_mapping import NO_MAPPING, FieldMapping
from ontodex.corpora.parsing.capabilities import FormatCapabilities
from ontodex.corpora.parsing.columns import (
    Columns,
    format_strings,
    is_header,
    name_columns,
    standardise,
)
from ontodex.corpora.parsing.file_head import SEPARATOR_CELLS, Head, trim_cells
from ontodex.corpora.parsing.json_objects import dump_json
from ontodex.corpora.parsing.records import Records
from ontodex.errors import DataError
from ontodex.io.files import BOM, decode, open_atomic_packed, open_utf8
from ontodex.types import Corpus, Doc

CAPABILITIES = FormatCapabilities(fields="all", empty_fields=False, keywords=True, metadata="all")

DELIMITERS = "\t,;"

Row = dict[str, str]


class Rows(Iterator[tuple[int, "Row | DataError"]]):
    """Yields (first line, row) of a table with a header.

    For a damaged row it yields the DataError, and then continues with the next row.
    """

    def __init__(self, path: Path, delimiter: str) -> None:
        csv.field_size_limit(sys.maxsize)  # a document of 10 MB is one cell
        self._line = 0
        # `map`, not a generator: it continues after invalid UTF-8 in one line.
        self._reader = csv.reader(
            map(self._text, _physical_lines(path)), delimiter=delimiter, strict=True
        )
        try:
            self.header = trim_cells(next(self._reader, []))
            if self.header == SEPARATOR_CELLS:
                self.header = trim_cells(next(self._reader, []))
        except (csv.Error, DataError) as error:
            if isinstance(error, DataError) and error.path is not None:
                raise  # of the whole file, with its name
            raise DataError(
                f"the header of the table cannot be read ({error})", path=path, line=1
            ) from error
        if not self.header or len(set(self.header)) < len(self.header):
            raise DataError(
                f"a table must start with different column names, not {self.header}",
                path=path,
                line=1,
            )

    def _text(self, raw: bytes) -> str:
        self._line += 1  # the csv reader does not count lines that fail to decode
        return decode(raw)

    def __next__(self) -> tuple[int, Row | DataError]:
        cells: list[str] = []
        try:
            while not any(cells):  # skip blank lines, and rows of empty cells below a table
                line = self._line + 1
                cells = next(self._reader)
        except csv.Error as error:
            return line, DataError(f"not a table row ({error})")
        except DataError as error:
            if (
                error.path is not None
            ):  # an error of the whole file: compressed data that is cut off
                raise
            return line, error
        if not any(cells[len(self.header) :]):  # empty columns at the right, as in the header
            cells = cells[: len(self.header)]
        if len(cells) != len(self.header):
            return line, DataError(
                f"{len(cells)} cells, but the header names {len(self.header)} columns",
                hint="cells that contain the separator or line ends must be quoted",
            )
        return line, dict(zip(self.header, cells, strict=True))


def _physical_lines(path: Path) -> Iterator[bytes]:
    """Yield lines with their ends, which are text inside quotes."""
    with closing(open_utf8(path)) as file:
        for number, raw in enumerate(file):
            yield raw.removeprefix(BOM) if number == 0 else raw


def read_rows(path: Path, rows: Rows, parse: Callable[[int, Row], Doc]) -> Records[Row | DataError]:
    """Read the document of each row."""

    def parse_row(number: int, row: Row | DataError) -> Doc:
        if isinstance(row, DataError):
            raise row
        return parse(number, row)

    return Records(path, rows, parse_row)


def detect_delimiter(head: Head) -> str | None:
    """Return the separator of the columns of a corpus table, or None for another file."""
    return next((mark for mark in DELIMITERS if is_header(head.cells(mark))), None)


def read(path: Path, *, mapping: FieldMapping = NO_MAPPING) -> Iterator[Doc]:
    """Read the documents of a table with named columns and any separator."""
    head = Head.of(path)
    found = None if mapping else detect_delimiter(head)
    # A table with columns of any name: the separator that divides its header most often.
    rows = Rows(path, found or max(DELIMITERS, key=lambda mark: len(head.cells(mark))))
    rows.header = standardise(rows.header, mapping.columns)
    try:
        columns = Columns(rows.header, mapping)
    except DataError as error:
        raise error.at(path, 1) from error
    records = read_rows(path, rows, columns.doc)
    records.has_ids = columns.has_id
    return records


def write(corpus: Corpus, path: Path, *, delimiter: str) -> int:
    """Write a table with a column for each field that occurs."""
    fields = name_columns(corpus)
    header = ["id", *fields.values(), "keywords", "labels", "metadata"]
    rows = (
        [
            doc.id,
            *(doc.fields.get(name, "") for name in fields),
            format_strings(doc.keywords),
            format_strings(doc.labels),
            dump_json(doc.metadata) if doc.metadata else "",
        ]
        for doc in corpus
    )
    return write_rows(path, header, rows, delimiter=delimiter)


def write_rows(
    path: Path, header: Sequence[str], rows: Iterable[Sequence[str]], *, delimiter: str
) -> int:
    """Write a table and return the number of rows.

    Lines end in CRLF (RFC 4180), so that the csv module quotes texts with either line end.
    """
    count = 0
    with open_atomic_packed(path) as file:
        text = codecs.getwriter("utf-8")(file)
        writer = csv.writer(text, delimiter=delimiter, lineterminator="\r\n")
        writer.writerow(header)
        for row in rows:
            writer.writerow(row)
            count += 1
    return count
