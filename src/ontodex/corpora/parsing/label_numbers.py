"""Translate numbers of labels to ids and back, by a list of labels beside the corpus.

Each line of the list is the id of a label, in order. Without a list, the number is the id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ontodex.corpora.parsing.file_pairs import find_beside
from ontodex.corpora.parsing.records import write_lines
from ontodex.errors import DataError
from ontodex.io.counts import format_count
from ontodex.io.files import read_lines
from ontodex.types import Corpus

_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")  # as written by str(int), and small enough for int32


@dataclass(frozen=True)
class LabelList:
    """The list of labels of a format: file name, number of the first label, format of a line."""

    name: str
    first: int = 0
    id_of: Callable[[str], str] = str
    line_of: Callable[[str], str] = str

    def find_beside_corpus(self, corpus: Path) -> Path | None:
        """Return the list in the folder of a corpus file, plain or packed, or None."""
        return find_beside(corpus.parent, self.name)

    def read(self, path: Path) -> list[str]:
        """Read the ids of a list, which must all differ."""
        seen: dict[str, int] = {}
        for line, text in read_lines(path):
            try:
                id_ = self.id_of(text)
            except DataError as error:
                raise DataError(str(error), path=path, line=line, hint=error.hint) from error
            if not id_ or id_ in seen:
                problem = f"{id_!r} is also on line {seen[id_]}" if id_ else "an empty line"
                raise DataError(
                    f"{problem}; each line must have a different label",
                    path=path,
                    line=line,
                    hint="correct the list, or remove it to use the numbers as ids",
                )
            seen[id_] = line
        return list(seen)


class LabelIds:
    """The ids of the labels of a corpus: from the list beside it, or the numbers themselves."""

    def __init__(self, corpus: Path, kind: LabelList) -> None:
        self._path, self._kind = kind.find_beside_corpus(corpus), kind
        self._ids = [] if self._path is None else kind.read(self._path)

    def of(self, digits: Sequence[str], n_labels: int | None = None) -> tuple[str, ...]:
        """Return the ids of labels by their numbers; `n_labels` is the number in the header."""
        return tuple(self.look_up_number(parse_number(text, "label"), n_labels) for text in digits)

    def look_up_number(self, number: int, n_labels: int | None = None) -> str:
        """Return the id of one label."""
        if n_labels is not None and number >= n_labels + self._kind.first:
            raise DataError(
                f"label {number}, but the header says {format_count(n_labels, 'label')}"
            )
        if self._path is None:
            return str(number)
        place = number - self._kind.first
        if not 0 <= place < len(self._ids):
            size = format_count(len(self._ids), "label")
            raise DataError(f"label {number}, but {self._path.name} has {size}")
        return self._ids[place]

    def sources(self) -> list[Path]:
        """Return the list of labels, if there is one."""
        return [] if self._path is None else [self._path]


def parse_number(text: str, what: str) -> int:
    """Parse a number of ASCII digits; `what` names it in the error."""
    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    raise DataError(f"{what} {text[:40]!r} is not a whole number from 0")


def number_labels(corpus: Corpus, path: Path, kind: LabelList) -> dict[str, int]:
    """Return label -> number for a corpus to be written at `path`.

    If all labels are numbers, they keep them. Otherwise the list beside the file decides, and new
    labels are appended to it, so that corpora written earlier in the same folder stay valid.
    """
    labels = sorted({label for labels in corpus.labels() for label in labels})
    there = kind.find_beside_corpus(path)
    if there is None and all(map(_NUMBER.fullmatch, labels)):
        return {label: int(label) for label in labels}
    ids = [] if there is None else kind.read(there)
    lines = [] if there is None else [text for _, text in read_lines(there)]
    known = set(ids)
    new = [label for label in labels if label not in known]
    if new:
        write_lines(there or path.parent / kind.name, [*lines, *map(kind.line_of, new)])
    return {label: number for number, label in enumerate([*ids, *new], start=kind.first)}
