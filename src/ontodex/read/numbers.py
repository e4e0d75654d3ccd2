"""Formats that number their labels: numbers -> ids by a list beside the file, and ids -> numbers.

Without a list a label's id is its number. With one, each line is the id of a label, in order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ontodex.errors import DataError
from ontodex.files import read_lines
from ontodex.read.lines import write_lines
from ontodex.read.pairs import beside
from ontodex.types import Corpus

_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")  # as written by str(int), and small enough for int32


@dataclass(frozen=True)
class ListFile:
    """How a format keeps its list: the file's name, the number of the first label, its lines."""

    name: str
    first: int = 0
    id_of: Callable[[str], str] = str
    line_of: Callable[[str], str] = str

    def beside(self, corpus: Path) -> Path | None:
        """The list in the folder of a corpus file, plain or packed."""
        return beside(corpus.parent, self.name)

    def read(self, path: Path) -> list[str]:
        """The ids of a list; they must all differ."""
        seen: dict[str, int] = {}
        for line, text in read_lines(path):
            try:
                id_ = self.id_of(text)
            except DataError as error:
                raise DataError(str(error), path=path, line=line, hint=error.hint) from error
            if not id_ or id_ in seen:
                problem = f"{id_!r} is also on line {seen[id_]}" if id_ else "an empty line"
                raise DataError(
                    f"{problem}, so labels could not be told apart",
                    path=path,
                    line=line,
                    hint="correct the list, or move it away to have the numbers as ids",
                )
            seen[id_] = line
        return list(seen)


class LabelIds:
    """The ids of the labels of one corpus: from the list beside it, or the numbers themselves."""

    def __init__(self, corpus: Path, kind: ListFile) -> None:
        self._path, self._kind = kind.beside(corpus), kind
        self._ids = [] if self._path is None else kind.read(self._path)

    def of(self, digits: Sequence[str], n_labels: int | None = None) -> tuple[str, ...]:
        """The ids of labels given by their digits; `n_labels` is how many the header promises."""
        return tuple(self.of_number(whole(text, "label"), n_labels) for text in digits)

    def of_number(self, number: int, n_labels: int | None = None) -> str:
        """The id of one label."""
        if n_labels is not None and number >= n_labels + self._kind.first:
            raise DataError(f"label {number}, but the header says {n_labels:,} labels")
        if self._path is None:
            return str(number)
        place = number - self._kind.first
        if not 0 <= place < len(self._ids):
            raise DataError(f"label {number}, but {self._path.name} has {len(self._ids):,} labels")
        return self._ids[place]

    def sources(self) -> list[Path]:
        """The list, where there is one."""
        return [] if self._path is None else [self._path]


def whole(text: str, what: str) -> int:
    """A number of ASCII digits, or a DataError that says what it should have been."""
    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    raise DataError(f"{what} {text[:40]!r} is not a whole number from 0")


def number_labels(corpus: Corpus, path: Path, kind: ListFile) -> dict[str, int]:
    """Label -> number for a corpus written at `path`.

    Labels that are numbers keep them. Otherwise the list beside the file says; labels it does not
    have are added at its end, so that corpora written earlier into the same folder stay true.
    """
    labels = sorted({label for labels in corpus.labels() for label in labels})
    there = kind.beside(path)
    if there is None and all(map(_NUMBER.fullmatch, labels)):
        return {label: int(label) for label in labels}
    ids = [] if there is None else kind.read(there)
    lines = [] if there is None else [text for _, text in read_lines(there)]
    known = set(ids)
    new = [label for label in labels if label not in known]
    if new:
        write_lines(there or path.parent / kind.name, [*lines, *map(kind.line_of, new)])
    return {label: number for number, label in enumerate([*ids, *new], start=kind.first)}
