"""Read the start of a file or folder, from which its format is detected."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from ontodex.errors import DataError
from ontodex.io.counts import format_count
from ontodex.io.files import BOM, SEPARATOR_LINE, open_utf8

_BYTES = 2**18
_LONGEST_LINE = 2**26  # a first document of 10 MB on one line must still be recognised
_LINES = 100
SEPARATOR_CELLS = ["sep="]  # a SEPARATOR_LINE, divided by its separator
# Lines of two addresses are edges: no document has an address as its text.
_EDGE = re.compile(r"\t\S+|[0-9]+\t[0-9]+|[a-z]+://\S+\t[a-z]+://\S+")


@dataclass(frozen=True, eq=False)
class Head:
    """The first bytes of a file, unpacked, or the names in a folder.

    Both are empty for a path that does not exist; it may be the common part of two file names.
    """

    path: Path
    is_folder: bool
    start: bytes = b""
    names: tuple[str, ...] = ()  # of a folder, sorted

    @classmethod
    def of(cls, path: Path) -> Head:
        """Read the start of `path`, at least one line."""
        if path.is_dir():
            return cls(path, True, names=tuple(sorted(os.listdir(path))))
        if not path.exists():
            return cls(path, False)
        with open_utf8(path, log_guess=False) as file:
            blocks, size = [file.read(_BYTES)], _BYTES
            while blocks[-1] and b"\n" not in blocks[-1] and size < _LONGEST_LINE:
                blocks.append(file.read(_BYTES))
                size += _BYTES
        return cls(path, False, b"".join(blocks))

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The complete lines among the first bytes, without line ends and Excel's `sep=;`."""
        parts = self.start.removeprefix(BOM).split(b"\n")
        whole = parts[:-1] if len(parts) > 1 else parts
        if len(self.start) < _BYTES and parts[-1]:
            whole = parts  # the file ends here, so its last line is complete
        lines = tuple(part.removesuffix(b"\r").decode("utf-8", "replace") for part in whole)
        return lines[1:] if lines and SEPARATOR_LINE.fullmatch(lines[0]) else lines

    @cached_property
    def object(self) -> dict[str, Any] | None:
        """The first JSON object on a line; damaged lines are skipped."""
        return next(self._objects(), None)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The keys of the JSON objects on the first lines."""
        return tuple(dict.fromkeys(key for found in self._objects() for key in found))

    def _objects(self) -> Iterator[dict[str, Any]]:
        for line in self.lines[:_LINES]:
            try:
                value = json.loads(line) if line.lstrip().startswith("{") else None
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                yield value

    def most_lines_match(self, fits: Callable[[str], Any], *, skip: int = 0) -> bool:
        """Return whether more than half of the first lines, after `skip` lines, fit."""
        lines = self.lines[skip:_LINES] if self.start else ()
        return 2 * sum(map(bool, map(fits, lines))) > len(lines)

    @cached_property
    def is_edge_list(self) -> bool:
        """True for the lines of an ontology with parent, tab, child; not for labels and text.

        Both are numbers or both addresses, or some child is the parent of others.
        """
        lines = [line for line in self.lines[:_LINES] if line.strip()]
        pairs = [line.split("\t") for line in lines]
        if not pairs or any(len(pair) != 2 for pair in pairs):
            return False
        parents = {parent for parent, child in pairs if parent != child}
        return all(map(_EDGE.fullmatch, lines)) or any(child in parents for _, child in pairs)

    def cells(self, delimiter: str) -> list[str]:
        """Return the cells of the first line, as the header of a table."""
        try:
            return trim_cells(next(csv.reader(self.lines[:1], delimiter=delimiter), []))
        except csv.Error:
            return []

    def table_columns(self, delimiter: str) -> list[str]:
        """Return the columns of a text table; none if the first two rows do not look like one."""
        try:
            rows = islice(csv.reader(self._rows(), delimiter=delimiter), 2)
            header, first = map(trim_cells, rows)
        except (csv.Error, ValueError):
            return []
        is_header = len(header) > 1 and all(header) and len(set(header)) == len(header)
        return header if is_header and 1 < len(first) <= len(header) else []

    def _rows(self) -> Iterator[str]:
        return (line + "\n" for line in self.lines)

    def describe(self) -> str:
        """Describe the file or folder for an error message."""
        if self.is_folder:
            some = ", ".join(self.names[:5]) + (" ..." if len(self.names) > 5 else "")
            return f"a folder with {format_count(len(self.names), 'entry', 'entries')} ({some})"
        if not self.start:
            return "an empty file"
        first = self.lines[0]
        return f"a file that begins with {first[:80]!r}" + (" ..." if len(first) > 80 else "")


def trim_cells(cells: Sequence[str]) -> list[str]:
    """Return the cells without spaces around them and without the empty ones at the end.

    Spreadsheets write separators for empty columns at the right of a table.
    """
    trimmed = [cell.strip() for cell in cells]
    while trimmed and not trimmed[-1]:
        trimmed.pop()
    return trimmed


def missing_error(path: Path) -> DataError:
    """Return the error for a path that does not exist."""
    return DataError("there is no such file or folder", path=path)


def check_replaceable(path: Path, looks_like: Callable[[Head], bool]) -> None:
    """Raise a DataError unless `path` is free or a folder of the same format."""
    if not path.exists():
        return
    head = Head.of(path)
    if not path.is_dir() or (head.names and not looks_like(head)):
        raise DataError(
            f"cannot be replaced, because it is {head.describe()}",
            path=path,
            hint="name a folder that does not exist yet",
        )
