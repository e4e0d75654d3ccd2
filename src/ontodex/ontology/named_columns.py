"""Read a vocabulary from a table with named columns, as spreadsheet programs write it.

    id;name_en;name_fi;synonyms;parents;notation
    p2;libraries;kirjastot;reading rooms|book rooms;p1;02.6

Capitals do not count in the names of columns. A cell with several values has | between them, or ;
where columns are not divided by it. Columns of other names are left out and named in the log.
"""

from __future__ import annotations

import csv
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ontodex.errors import DataError
from ontodex.io.files import SEPARATOR_LINE, read_lines
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.types import Ontology

logger = logging.getLogger(__name__)

DELIMITERS = "\t;,"
UNDETERMINED = "und"  # language of names in columns without a language
ADVICE = (
    "name the columns in the first line: id, name (or name_en, name_fi ...), synonyms, parents, "
    "notation"
)
_IDS = ("id", "uri", "identifier")
_DOCUMENTS = {"text", "abstract", "body"}  # columns of a corpus
_PARENTS = ("parents", "parent", "broader")
_NAME = re.compile(r"(?:name|label|preflabel)(?:[_@ -]([a-z]{2,3}(?:-[a-z]+)?))?")
_SYNONYM = re.compile(r"(?:synonyms?|altlabels?|alt_labels?)(?:[_@ -]([a-z]{2,3}(?:-[a-z]+)?))?")


def is_header(line: str) -> bool:
    """Return whether a line names the columns of a vocabulary: an id and a name."""
    return any(_find_columns(_split(line, mark), mark) is not None for mark in DELIMITERS)


def list_table_columns(lines: Sequence[str]) -> list[str]:
    """Return the columns of a table whose names are not known; none if the lines are no table."""
    for mark in DELIMITERS:
        rows = [_split(line, mark) for line in lines]
        least = 2 if mark == ";" else 3  # a name may have a comma, and edges have a tab
        if len(rows) > 1 and len(rows[0]) >= least and len(set(map(len, rows))) == 1:
            return rows[0]
    return []


def _split(line: str, mark: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=mark), [])]
    except csv.Error:
        return []


@dataclass(frozen=True)
class _Columns:
    """The positions of the columns of a vocabulary."""

    mark: str  # between columns
    id: int
    names: dict[int, str]  # -> language
    synonyms: dict[int, str]
    parents: int | None
    notation: int | None
    definition: int | None
    others: tuple[str, ...]

    def make_concept(self, cells: Sequence[str]) -> Concept:
        names = {tag: cells[at] for at, tag in self.names.items() if cells[at]}
        synonyms = {tag: self._divide(cells[at]) for at, tag in self.synonyms.items() if cells[at]}
        return Concept(
            cells[self.id],
            names,
            synonyms,
            parents=self._divide(_get(cells, self.parents)),
            notation=_get(cells, self.notation),
            definition=_get(cells, self.definition),
        )

    def _divide(self, cell: str) -> list[str]:
        mark = "|" if "|" in cell or self.mark == ";" else ";"
        return [part for part in map(str.strip, cell.split(mark)) if part]


def _get(cells: Sequence[str], at: int | None) -> str:
    return "" if at is None else cells[at]


def _find_columns(header: Sequence[str], mark: str) -> _Columns | None:
    """Return the columns of a vocabulary; None for any other header."""
    lower = [name.lower() for name in header]
    positions = {name: at for at, name in reversed(list(enumerate(lower)))}
    id_ = next((positions[name] for name in _IDS if name in positions), None)
    names = _find_languages(lower, _NAME)
    if id_ is None or not names or _DOCUMENTS & positions.keys():
        return None
    synonyms = _find_languages(lower, _SYNONYM)
    parents = next((positions[name] for name in _PARENTS if name in positions), None)
    notation, definition = positions.get("notation"), positions.get("definition")
    used = {id_, parents, notation, definition, *names, *synonyms}
    others = tuple(name for at, name in enumerate(header) if at not in used and name)
    return _Columns(mark, id_, names, synonyms, parents, notation, definition, others)


def _find_languages(lower: Sequence[str], pattern: re.Pattern[str]) -> dict[int, str]:
    found = ((at, pattern.fullmatch(name)) for at, name in enumerate(lower))
    return {at: match[1] or UNDETERMINED for at, match in found if match}


def read(path: Path) -> Ontology:
    """Read rows with the columns id and name, and perhaps synonyms, parents and notation."""
    return build_ontology(_parse(path))


def _parse(path: Path) -> Iterator[Concept]:
    lines = read_lines(path)
    filled = (found for found in lines if found[1].strip())
    first, header = next(
        (found for found in filled if not SEPARATOR_LINE.fullmatch(found[1])), (1, "")
    )
    found = (_find_columns(_split(header, mark), mark) for mark in DELIMITERS)
    columns = next(filter(None, found), None)
    if columns is None:
        raise DataError("the first line does not name an id and a name", path=path, hint=ADVICE)
    if columns.others:
        logger.warning("%s: columns left out: %s", path, ", ".join(columns.others))
    width = len(_split(header, columns.mark))
    rows = csv.reader((line + "\n" for _, line in lines), delimiter=columns.mark, strict=True)
    try:
        for row in rows:
            number = rows.line_num + first
            cells = [cell.strip() for cell in row]
            if not any(cells):  # blank lines, and rows of empty cells below a table
                continue
            if len(cells) != width:
                raise DataError(
                    f"{len(cells)} columns, but the header has {width}", path=path, line=number
                )
            if not cells[columns.id]:
                raise DataError("a row without an id", path=path, line=number)
            yield columns.make_concept(cells)
    except csv.Error as error:
        raise DataError(
            f"not a table row ({error})", path=path, line=rows.line_num + first
        ) from error
