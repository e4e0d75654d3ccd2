"""MeSH in its four shapes: descriptor XML, ASCII (.bin), mtrees, and TSV with tree numbers.

    tree number     A01.236.249     the position; its segments are the level, A01.236 the parent
    first letter    A               the category: Anatomy

A descriptor with several tree numbers has several parents. As a graph of descriptors MeSH is not
quite a hierarchy (a pair of them can stand above each other in different places), so a few edges
are cut; positions, and with them levels and categories, are not touched by that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ontodex import guarded_xml
from ontodex.errors import DataError
from ontodex.files import read_lines
from ontodex.ontology.graph import Concept, build
from ontodex.types import Ontology

LANGUAGE = "en"
CATEGORIES = {
    "A": "Anatomy",
    "B": "Organisms",
    "C": "Diseases",
    "D": "Chemicals and Drugs",
    "E": "Techniques and Equipment",
    "F": "Psychiatry and Psychology",
    "G": "Phenomena and Processes",
    "H": "Disciplines and Occupations",
    "I": "Anthropology, Education and Society",
    "J": "Technology, Industry and Agriculture",
    "K": "Humanities",
    "L": "Information Science",
    "M": "Named Groups",
    "N": "Health Care",
    "V": "Publication Characteristics",
    "Z": "Geographic Locations",
}
TREE_NUMBER = re.compile(r"[A-Z]\d+(?:\.\d+)*")


def read_xml(path: Path) -> Ontology:
    """Descriptors of a desc*.xml file: names, terms of all their concepts, scope notes."""
    records = guarded_xml.elements(path, ["DescriptorRecord"])
    return _ontology((_of_element(record, path) for record in records), path)


def read_ascii(path: Path) -> Ontology:
    """Descriptors of a d*.bin file; qualifier and supplementary records are passed over."""
    return _ontology(_of_ascii(path), path)


def read_trees(path: Path) -> Ontology:
    """Headings of an mtrees*.bin file. It has no identifiers: a heading's name is its id."""
    positions: dict[str, list[str]] = {}
    for number, line in read_lines(path):
        if line:
            name, semicolon, position = line.rpartition(";")
            if not semicolon or not name:
                raise DataError(f"no 'Name;A01' but {line[:40]!r}", path=path, line=number)
            _check([position], path, number)
            positions.setdefault(name, []).append(position)
    return _ontology(
        (Concept(name, {LANGUAGE: name}, positions=own) for name, own in positions.items()), path
    )


def read_tsv(path: Path) -> Ontology:
    """Rows of identifier, name, synonyms and tree numbers (both bar-separated); more is ignored."""
    return _ontology(_of_rows(path), path)


def _ontology(records: Iterable[Concept], path: Path) -> Ontology:
    """Parents and categories from tree numbers."""
    concepts = list(records)
    if not concepts:
        raise DataError("holds no descriptor", path=path)
    place = {position: concept.id for concept in concepts for position in concept.positions}
    categories: dict[str, list[str]] = {}
    for position, label in sorted(place.items()):
        if "." not in position:
            categories.setdefault(CATEGORIES.get(position[0], position[0]), []).append(label)
    return build((_with_parents(concept, place) for concept in concepts), categories=categories)


def _with_parents(concept: Concept, place: dict[str, str]) -> Concept:
    above = [position.rpartition(".")[0] for position in concept.positions]
    # A number without a descriptor stays as it is, and is reported as a missing parent.
    return replace(concept, parents=[place.get(number, number) for number in above if number])


def _of_element(record: Any, path: Path) -> Concept:
    label = record.findtext("DescriptorUI", "").strip()
    if not label:
        raise DataError("a DescriptorRecord has no DescriptorUI", path=path, line=record.sourceline)
    positions = _texts(record, "TreeNumberList/TreeNumber")
    _check(positions, path, record.sourceline)
    notes = _texts(record, "ConceptList/Concept[@PreferredConceptYN='Y']/ScopeNote")
    return Concept(
        id=label,
        names={LANGUAGE: record.findtext("DescriptorName/String", "").strip()},
        synonyms={LANGUAGE: _texts(record, "ConceptList/Concept/TermList/Term/String")},
        definition=next(iter(notes), ""),
        positions=positions,
    )


def _texts(record: Any, tag_path: str) -> list[str]:
    return [(element.text or "").strip() for element in record.iterfind(tag_path)]


def _of_ascii(path: Path) -> Iterator[Concept]:
    for number, fields in _ascii_records(path):
        if "MH" not in fields:
            continue
        if "UI" not in fields:
            raise DataError(f"{fields['MH'][0]!r} has no UI", path=path, line=number)
        entries = [*fields.get("ENTRY", ()), *fields.get("PRINT ENTRY", ())]
        positions = fields.get("MN", [])
        _check(positions, path, number)
        yield Concept(
            id=fields["UI"][0],
            names={LANGUAGE: fields["MH"][0]},
            synonyms={LANGUAGE: [entry.partition("|")[0] for entry in entries]},
            definition=fields.get("MS", [""])[0],
            positions=positions,
        )


def _ascii_records(path: Path) -> Iterator[tuple[int, dict[str, list[str]]]]:
    """(line it begins at, field -> values) of each record."""
    fields: dict[str, list[str]] = {}
    begun = 1
    for number, line in read_lines(path):
        if line == "*NEWRECORD":
            if fields:
                yield begun, fields
            fields, begun = {}, number
        elif line:
            name, equals, value = line.partition(" =")
            if not equals:
                raise DataError(f"no 'FIELD = value' but {line[:40]!r}", path=path, line=number)
            fields.setdefault(name, []).append(value.strip())
    if fields:
        yield begun, fields


def _of_rows(path: Path) -> Iterator[Concept]:
    for number, line in read_lines(path):
        if not line:
            continue
        columns = line.split("\t")
        if len(columns) < 4 or not columns[0]:
            raise DataError(
                f"{len(columns)} columns; a row has identifier, name, synonyms, tree numbers",
                path=path,
                line=number,
            )
        positions = [position for position in columns[3].split("|") if position]
        _check(positions, path, number)
        yield Concept(
            id=columns[0],
            names={LANGUAGE: columns[1]},
            synonyms={LANGUAGE: columns[2].split("|")},
            positions=positions,
        )


def _check(positions: Iterable[str], path: Path, line: int) -> None:
    for position in positions:
        if not TREE_NUMBER.fullmatch(position):
            raise DataError(
                f"{position[:40]!r} is no tree number like A01.236.249", path=path, line=line
            )
