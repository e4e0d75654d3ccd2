"""Files read record by record, so that one damaged record does not hide the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path
from typing import Generic, TypeVar

from ontodex.errors import DataError
from ontodex.files import BOM, atomic_packed, decode, raw_lines
from ontodex.types import Doc

R = TypeVar("R")


class Records(Iterator[Doc], Generic[R]):
    """`parse(number, record)` of each record of a file; where it gives None, there is no document.

    `number` counts documents from 1. After a DataError of one record the next one can be asked
    for: that is how `check` lists every damaged line. The error gets the file and the line here.
    """

    def __init__(
        self,
        path: Path,
        records: Iterator[tuple[int, R]],
        parse: Callable[[int, R], Doc | None],
    ) -> None:
        self._path, self._records, self._parse = path, records, parse
        self._number = 0
        self.line = 0  # of the document given last

    def __next__(self) -> Doc:
        while True:
            self.line, record = next(self._records)
            self._number += 1
            try:
                doc = self._parse(self._number, record)
            except DataError as error:
                if error.path is not None:
                    raise
                raise DataError(
                    str(error), path=self._path, line=self.line, hint=error.hint
                ) from error
            if doc is not None:
                return doc
            self._number -= 1


def text_records(path: Path, parse: Callable[[int, str], Doc | None]) -> Records[bytes]:
    """A document a line; `parse` gets the decoded line."""
    return Records(path, raw_lines(path), lambda number, raw: parse(number, decode(raw)))


def paired_records(
    first: Path, second: Path, parse: Callable[[int, tuple[str, str]], Doc | None]
) -> Records[tuple[bytes, bytes]]:
    """A document for each pair of lines of two files of equal length."""

    def decoded(number: int, pair: tuple[bytes, bytes]) -> Doc | None:
        return parse(number, (decode(pair[0]), decode(pair[1])))

    return Records(first, zip_lines(first, second), decoded)


def zip_lines(first: Path, second: Path) -> Iterator[tuple[int, tuple[bytes, bytes]]]:
    """(line number, the two lines) of two files; a DataError when one of them ends early."""
    for one, other in zip_longest(raw_lines(first), raw_lines(second)):
        if one is None or other is None:
            ended, longer = (first, second) if one is None else (second, first)
            line = (one or other)[0]
            raise DataError(
                f"ends before line {line:,}, but {longer.name} goes on",
                path=ended,
                line=line,
                hint="the two files must describe the same documents, line by line",
            )
        yield one[0], (one[1], other[1])


def write_lines(path: Path, lines: Iterable[str]) -> int:
    """Write one line after another (packed by the name's ending) and count them."""
    return write_columns((path,), ((line,) for line in lines))


def write_columns(paths: tuple[Path, ...], rows: Iterable[tuple[str, ...]]) -> int:
    """Write files side by side, one line of each a row; they appear together or not at all."""
    count = 0
    with ExitStack() as stack:
        files = [stack.enter_context(atomic_packed(path)) for path in paths]
        for count, row in enumerate(rows, start=1):
            for file, line in zip(files, row, strict=True):
                raw = line.encode()
                # A text that starts with U+FEFF would be read as a byte order mark: write one more.
                if count == 1 and raw.startswith(BOM):
                    file.write(BOM)
                file.write(raw + b"\n")
    return count
