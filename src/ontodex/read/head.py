"""What stands at the start of a file or folder: all that `detect` looks at."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ontodex.errors import DataError
from ontodex.files import BOM, open_bytes

_BYTES = 2**18
_LONGEST_LINE = 2**26  # a first document of 10 MB on one line must still be recognised
_LINES = 100
# Nobody labels a document with an address and writes another address as its text.
_EDGE = re.compile(r"\t\S+|[0-9]+\t[0-9]+|[a-z]+://\S+\t[a-z]+://\S+")


@dataclass(frozen=True, eq=False)
class Head:
    """The first bytes of a file, unpacked; or the names in a folder; or, of a path that does not
    exist but may be the common beginning of two file names, nothing."""

    path: Path
    is_folder: bool
    start: bytes = b""
    names: tuple[str, ...] = ()  # of a folder, sorted

    @classmethod
    def of(cls, path: Path) -> Head:
        """Look at `path` without reading more of it than needed."""
        if path.is_dir():
            return cls(path, True, names=tuple(sorted(os.listdir(path))))
        if not path.exists():
            return cls(path, False)
        with open_bytes(path) as file:
            start = file.read(_BYTES)
            while b"\n" not in start and len(start) < _LONGEST_LINE:
                block = file.read(_BYTES)
                if not block:
                    break
                start += block
        return cls(path, False, start)

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The whole lines among the first bytes, without their ends."""
        parts = self.start.removeprefix(BOM).split(b"\n")
        whole = parts[:-1] if len(parts) > 1 else parts
        if len(self.start) < _BYTES and parts[-1]:
            whole = parts  # the file ends here, so its last line is whole too
        return tuple(part.removesuffix(b"\r").decode("utf-8", "replace") for part in whole)

    @cached_property
    def object(self) -> dict[str, Any] | None:
        """The JSON object on the first line that has one; a few lines may be damaged."""
        for line in self.lines[:_LINES]:
            try:
                value = json.loads(line) if line.lstrip().startswith("{") else None
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                return value
        return None

    def mostly(self, fits: Callable[[str], Any], *, skip: int = 0) -> bool:
        """Whether more than half of the first lines fit, from the one after `skip` lines on."""
        lines = self.lines[skip:_LINES] if self.start else ()
        return 2 * sum(map(bool, map(fits, lines))) > len(lines)

    @cached_property
    def is_edge_list(self) -> bool:
        """Whether these are an ontology's lines of parent, tab, child rather than labels and text:
        both are numbers or both addresses, or some child is the parent of others."""
        lines = [line for line in self.lines[:_LINES] if line.strip()]
        pairs = [line.split("\t") for line in lines]
        if not pairs or any(len(pair) != 2 for pair in pairs):
            return False
        parents = {parent for parent, child in pairs if parent != child}
        return all(map(_EDGE.fullmatch, lines)) or any(child in parents for _, child in pairs)

    def cells(self, delimiter: str) -> list[str]:
        """The first line as the header of a table."""
        try:
            return next(csv.reader(self.lines[:1], delimiter=delimiter), [])
        except csv.Error:
            return []

    def seen(self) -> str:
        """What is there, in words, for the message that says it was not recognised."""
        if self.is_folder:
            some = ", ".join(self.names[:5]) + (" ..." if len(self.names) > 5 else "")
            return f"a folder with {len(self.names):,} entries ({some})"
        if not self.start:
            return "an empty file"
        first = self.lines[0]
        return f"a first line of {first[:80]!r}" + (" ..." if len(first) > 80 else "")


def missing(path: Path) -> DataError:
    """The error for a path where nothing is."""
    return DataError("there is no such file or folder", path=path)


def check_free(path: Path, looks_like: Callable[[Head], bool]) -> None:
    """Refuse to put a folder in the place of a file, or of a folder that is something else."""
    if not path.exists():
        return
    head = Head.of(path)
    if not path.is_dir() or (head.names and not looks_like(head)):
        raise DataError(
            f"would be replaced, but it is {head.seen()}",
            path=path,
            hint="name a folder that does not exist yet",
        )
