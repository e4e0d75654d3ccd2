"""Read and write files record by record; reading continues after a damaged record."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path
from typing import Generic, TypeVar

from ontodex.errors import DataError
from ontodex.io.files import BOM, decode, open_atomic_packed, read_raw_lines
from ontodex.types import Doc

R = TypeVar("R")


class Records(Iterator[Doc], Generic[R]):
    """Yields `parse(number, record)` for each record of a file, without those that give None.

    `number` counts documents from 1. After a DataError the next record can be requested; `check`
    lists every damaged line in this way. File and line are added to the error here.
    """

    has_ids = True  # else documents are numbered from 1
    deleted: Collection[str] = ()  # ids of records in earlier files that this file deletes

    def __init__(
        self,
        path: Path,
        records: Iterator[tuple[int | None, R]],
        parse: Callable[[int, R], Doc | None],
    ) -> None:
        self._path, self._records, self._parse = path, records, parse
        self._number = 0
        self.line: int | None = 0  # of the last document; None if records are no lines

    def __next__(self) -> Doc:
        while True:
            self.line, record = next(self._records)
            self._number += 1
            try:
                doc = self._parse(self._number, record)
            except DataError as error:
                if error.path is not None:
                    raise
                raise error.at(self._path, self.line) from error
            if doc is not None:
                return doc
            self._number -= 1


def read_text_records(path: Path, parse: Callable[[int, str], Doc | None]) -> Records[bytes]:
    """Read one document per line; `parse` gets the decoded line."""
    return Records(path, read_raw_lines(path), lambda number, raw: parse(number, decode(raw)))


def read_paired_records(
    first: Path, second: Path, parse: Callable[[int, tuple[str, str]], Doc | None]
) -> Records[tuple[bytes, bytes]]:
    """Read one document per pair of lines of two files of equal length."""

    def parse_pair(number: int, pair: tuple[bytes, bytes]) -> Doc | None:
        return parse(number, (decode(pair[0]), decode(pair[1])))

    return Records(first, zip_lines(first, second), parse_pair)


def zip_lines(first: Path, second: Path) -> Iterator[tuple[int, tuple[bytes, bytes]]]:
    """Yield (line number, both lines) of two files; raise a DataError if one ends early."""
    for one, other in zip_longest(read_raw_lines(first), read_raw_lines(second)):
        if one is None or other is None:
            ended, longer = (first, second) if one is None else (second, first)
            line = (one or other)[0]
            raise DataError(
                f"ends before line {line:,}, but {longer.name} has more lines",
                path=ended,
                line=line,
                hint="the two files must describe the same documents, line by line",
            )
        yield one[0], (one[1], other[1])


def write_lines(path: Path, lines: Iterable[str]) -> int:
    """Write lines, compressed by the ending of the name, and return their number."""
    return write_columns((path,), ((line,) for line in lines))


def write_columns(paths: tuple[Path, ...], rows: Iterable[tuple[str, ...]]) -> int:
    """Write one line to each file per row; all files appear together or not at all."""
    count = 0
    with ExitStack() as stack:
        files = [stack.enter_context(open_atomic_packed(path)) for path in paths]
        for count, row in enumerate(rows, start=1):
            for file, line in zip(files, row, strict=True):
                raw = line.encode()
                # A text that starts with U+FEFF needs a byte order mark before it.
                if count == 1 and raw.startswith(BOM):
                    file.write(BOM)
                file.write(raw + b"\n")
    return count
