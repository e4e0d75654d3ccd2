"""Text tables (CSV, TSV) row by row, with the line where each row begins."""

from __future__ import annotations

import codecs
import csv
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from ontodex.errors import DataError
from ontodex.files import BOM, atomic_packed, decode, open_bytes
from ontodex.read.columns import Columns, are_columns, cell_of, columns_of
from ontodex.read.head import Head
from ontodex.read.holds import Holds
from ontodex.read.lines import Records
from ontodex.read.objects import dump
from ontodex.types import Corpus, Doc

HOLDS = Holds(fields="all", empty_fields=False, keywords=True, metadata="all")

Row = dict[str, str]


class Rows(Iterator[tuple[int, "Row | DataError"]]):
    """(first line, row) of a table with a header.

    A row that cannot be read is given as its DataError: the rows after it still come.
    """

    def __init__(self, path: Path, delimiter: str) -> None:
        csv.field_size_limit(sys.maxsize)  # a document of 10 MB is one cell
        self._line = 0
        # `map`, not a generator: after bad UTF-8 in one line it goes on with the next.
        self._reader = csv.reader(
            map(self._text, _physical_lines(path)), delimiter=delimiter, strict=True
        )
        try:
            self.header = next(self._reader, [])
        except (csv.Error, DataError) as error:
            raise DataError(f"no header of a table ({error})", path=path, line=1) from error
        if not self.header or len(set(self.header)) < len(self.header):
            raise DataError(
                f"a table starts with different column names, not {self.header}", path=path, line=1
            )

    def _text(self, raw: bytes) -> str:
        self._line += 1  # the csv reader does not count lines that fail here
        return decode(raw)

    def __next__(self) -> tuple[int, Row | DataError]:
        cells: list[str] = []
        try:
            while not cells:  # blank lines are no rows
                line = self._line + 1
                cells = next(self._reader)
        except csv.Error as error:
            return line, DataError(f"not a table row ({error})")
        except DataError as error:
            if error.path is not None:  # of the file as a whole: packed data that is cut off
                raise
            return line, error
        if len(cells) != len(self.header):
            return line, DataError(
                f"{len(cells)} cells, but the header names {len(self.header)} columns",
                hint="cells that contain the separator or line ends must be quoted",
            )
        return line, dict(zip(self.header, cells, strict=True))


def _physical_lines(path: Path) -> Iterator[bytes]:
    """Lines with their ends, which are part of the text inside quotes."""
    with closing(open_bytes(path)) as file:
        for number, raw in enumerate(file):
            yield raw.removeprefix(BOM) if number == 0 else raw


def read_rows(path: Path, rows: Rows, parse: Callable[[int, Row], Doc]) -> Records[Row | DataError]:
    """The document of each row."""

    def parse_row(number: int, row: Row | DataError) -> Doc:
        if isinstance(row, DataError):
            raise row
        return parse(number, row)

    return Records(path, rows, parse_row)


def delimiter_of(head: Head) -> str | None:
    """What separates the columns of a corpus table; None when it is not one."""
    return next((mark for mark in "\t,;" if are_columns(head.cells(mark))), None)


def read(path: Path, *, text_fields: Sequence[str] = ()) -> Iterator[Doc]:
    """The documents of a table with named columns, whatever separates them."""
    rows = Rows(path, delimiter_of(Head.of(path)) or ",")
    try:
        columns = Columns(rows.header, text_fields)
    except DataError as error:
        raise DataError(str(error), path=path, line=1, hint=error.hint) from error
    return read_rows(path, rows, columns.doc)


def write(corpus: Corpus, path: Path, *, delimiter: str) -> int:
    """Write a table with a column for each field that occurs."""
    fields = columns_of(corpus)
    header = ["id", *fields.values(), "keywords", "labels", "metadata"]
    rows = (
        [
            doc.id,
            *(doc.fields.get(name, "") for name in fields),
            cell_of(doc.keywords),
            cell_of(doc.labels),
            dump(doc.metadata) if doc.metadata else "",
        ]
        for doc in corpus
    )
    return write_rows(path, header, rows, delimiter=delimiter)


def write_rows(
    path: Path, header: Sequence[str], rows: Iterable[Sequence[str]], *, delimiter: str
) -> int:
    """Write a table and count its rows. Lines end in CRLF, as RFC 4180 says: the csv module then
    quotes every text with a line end of either kind."""
    count = 0
    with atomic_packed(path) as file:
        text = codecs.getwriter("utf-8")(file)
        writer = csv.writer(text, delimiter=delimiter, lineterminator="\r\n")
        writer.writerow(header)
        for row in rows:
            writer.writerow(row)
            count += 1
    return count
