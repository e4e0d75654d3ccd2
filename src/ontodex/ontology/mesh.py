"""Read MeSH: descriptor XML, ASCII (.bin), mtrees, and TSV with tree numbers.

    tree number     A01.236.249     the position: level 3, below the parent A01.236
    first letter    A               the category: Anatomy

A descriptor with several tree numbers has several parents. The graph of descriptors has a few
cycles, because two descriptors can be above each other in different places. A few edges are cut for
this reason; positions, levels and categories stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ontodex.errors import DataError
from ontodex.io import xml
from ontodex.io.files import read_lines
from ontodex.ontology.graph import Concept, build_ontology
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
TREE_NUMBER = re.compile(r"[A-Z]\d++(?:\.\d++)*+")
UNIQUE_ID = re.compile(r"[A-Z]\d{6,}+")  # of descriptors (D000001), qualifiers and chemicals


def read_xml(path: Path) -> Ontology:
    """Read the descriptors of a desc*.xml file: names, terms of all concepts, scope notes."""
    records = xml.read_elements(path, ["DescriptorRecord"])
    return _build((_parse_element(record, path) for record in records), path)


def read_ascii(path: Path) -> Ontology:
    """Read the descriptors of a d*.bin file; skip qualifiers and supplementary records."""
    return _build(_parse_ascii(path), path)


def read_trees(path: Path) -> Ontology:
    """Read the headings of an mtrees*.bin file, which has no ids: the name is the id."""
    positions: dict[str, list[str]] = {}
    for number, line in read_lines(path):
        if line:
            name, semicolon, position = line.rpartition(";")
            if not semicolon or not name:
                raise DataError(f"expected 'Name;A01', not {line[:40]!r}", path=path, line=number)
            _check_tree_numbers([position], path, number)
            positions.setdefault(name, []).append(position)
    return _build(
        (Concept(name, {LANGUAGE: name}, positions=own) for name, own in positions.items()), path
    )


def read_tsv(path: Path) -> Ontology:
    """Read rows of id, name, synonyms and tree numbers (both separated by bars).

    A table without the column of tree numbers has no hierarchy. Further columns are ignored.
    """
    return _build(_parse_rows(path), path)


def _build(records: Iterable[Concept], path: Path) -> Ontology:
    """Build the ontology, with parents and categories from tree numbers."""
    concepts = list(records)
    if not concepts:
        raise DataError("has no descriptor", path=path)
    place = {position: concept.id for concept in concepts for position in concept.positions}
    categories: dict[str, list[str]] = {}
    for position, label in sorted(place.items()):
        if "." not in position:
            categories.setdefault(CATEGORIES.get(position[0], position[0]), []).append(label)
    return build_ontology(
        (_add_parents(concept, place) for concept in concepts), categories=categories
    )


def _add_parents(concept: Concept, place: dict[str, str]) -> Concept:
    above = [position.rpartition(".")[0] for position in concept.positions]
    # A tree number without a descriptor is kept, and reported as a missing parent.
    return replace(concept, parents=[place.get(number, number) for number in above if number])


def _parse_element(record: Any, path: Path) -> Concept:
    label = record.findtext("DescriptorUI", "").strip()
    if not label:
        raise DataError("a DescriptorRecord has no DescriptorUI", path=path, line=record.sourceline)
    positions = _get_texts(record, "TreeNumberList/TreeNumber")
    _check_tree_numbers(positions, path, record.sourceline)
    notes = _get_texts(record, "ConceptList/Concept[@PreferredConceptYN='Y']/ScopeNote")
    return Concept(
        id=label,
        names={LANGUAGE: record.findtext("DescriptorName/String", "").strip()},
        synonyms={LANGUAGE: _get_texts(record, "ConceptList/Concept/TermList/Term/String")},
        definition=next(iter(notes), ""),
        positions=positions,
    )


def _get_texts(record: Any, tag_path: str) -> list[str]:
    return [(element.text or "").strip() for element in record.iterfind(tag_path)]


def _parse_ascii(path: Path) -> Iterator[Concept]:
    for number, fields in _read_ascii_records(path):
        if "MH" not in fields:
            continue
        if "UI" not in fields:
            raise DataError(f"{fields['MH'][0]!r} has no UI", path=path, line=number)
        entries = [*fields.get("ENTRY", ()), *fields.get("PRINT ENTRY", ())]
        positions = fields.get("MN", [])
        _check_tree_numbers(positions, path, number)
        yield Concept(
            id=fields["UI"][0],
            names={LANGUAGE: fields["MH"][0]},
            synonyms={LANGUAGE: [entry.partition("|")[0] for entry in entries]},
            definition=fields.get("MS", [""])[0],
            positions=positions,
        )


def _read_ascii_records(path: Path) -> Iterator[tuple[int, dict[str, list[str]]]]:
    """Yield (first line, field -> values) of each record."""
    fields: dict[str, list[str]] = {}
    start = 1
    for number, line in read_lines(path):
        if line == "*NEWRECORD":
            if fields:
                yield start, fields
            fields, start = {}, number
        elif line:
            name, equals, value = line.partition(" =")
            if not equals:
                raise DataError(
                    f"expected 'FIELD = value', not {line[:40]!r}", path=path, line=number
                )
            fields.setdefault(name, []).append(value.strip())
    if fields:
        yield start, fields


def _parse_rows(path: Path) -> Iterator[Concept]:
    for number, line in read_lines(path):
        if not line:
            continue
        columns = line.split("\t")
        if len(columns) < 3 or not columns[0]:
            raise DataError(
                f"{len(columns)} columns; a row needs id, name, synonyms and, where there is a "
                "hierarchy, tree numbers",
                path=path,
                line=number,
            )
        positions = [position for cell in columns[3:4] for position in cell.split("|") if position]
        _check_tree_numbers(positions, path, number)
        yield Concept(
            id=columns[0],
            names={LANGUAGE: columns[1]},
            synonyms={LANGUAGE: columns[2].split("|")},
            positions=positions,
        )


def _check_tree_numbers(positions: Iterable[str], path: Path, line: int) -> None:
    for position in positions:
        if not TREE_NUMBER.fullmatch(position):
            raise DataError(
                f"{position[:40]!r} is not a tree number like A01.236.249", path=path, line=line
            )
