"""Read and write OBO 1.2 and 1.4.

    [Term]
    id: HP:0000003
    name: Multicystic kidney dysplasia
    alt_id: HP:0004715
    synonym: "Multicystic kidneys" EXACT []
    is_a: HP:0000107 ! Renal cyst

Parents are `is_a` only: other relationships, such as part_of, do not make one concept a kind of
another. Synonyms of every scope are read. `alt_id` are retired ids of the term. `consider` is
ignored, because the standard does not allow to replace a term by it automatically. OBO has no
language tags; names are read as English, as those of the OBO Foundry are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ontodex.errors import DataError
from ontodex.io.files import read_lines
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.types import Ontology

LANGUAGE = "en"
# Possessive: nothing is kept to go back to, which would take 16 bytes for each character.
_QUOTED = re.compile(r'"((?:[^"\\]++|\\.)*+)"')
_ESCAPED = re.compile(r"\\(.)")
_MEANING = {"n": "\n", "t": "\t", "W": " "}
_SPECIAL = re.compile(r'[\\"{}!\n\t]|^ | $')
_TAGS = {"id", "name", "def", "synonym", "is_a", "alt_id", "is_obsolete", "replaced_by"}


def read(path: Path) -> Ontology:
    """Read the terms of an OBO file; obsolete ones become deprecated concepts."""
    retired: dict[str, str] = {}
    splits: dict[str, list[str]] = {}
    concepts = _read_concepts(path, retired, splits)
    ontology = build_ontology(concepts, retired=retired, splits=splits)
    if not len(ontology):
        raise DataError("has no [Term]", path=path)
    return ontology


def _read_concepts(
    path: Path, retired: dict[str, str], splits: dict[str, list[str]]
) -> Iterator[Concept]:
    for number, tags in _read_stanzas(path):
        ids = tags.get("id", [])
        if len(ids) != 1 or not ids[0]:
            raise DataError(
                f"a [Term] must have one id, this one has {len(ids)}", path=path, line=number
            )
        for old in tags.get("alt_id", ()):
            retired[old] = ids[0]
        successors = tags.get("replaced_by", [])
        if len(successors) > 1:
            splits[ids[0]] = successors
        yield Concept(
            id=ids[0],
            names={LANGUAGE: tags["name"][0]} if "name" in tags else {},
            synonyms={LANGUAGE: tags["synonym"]} if "synonym" in tags else {},
            parents=tags.get("is_a", ()),
            definition=tags.get("def", [""])[0],
            deprecated=tags.get("is_obsolete") == ["true"],
            replaced_by=successors[0] if successors else "",
        )


def _read_stanzas(path: Path) -> Iterator[tuple[int, dict[str, list[str]]]]:
    """Yield (first line, tag -> values) of each [Term]."""
    tags: dict[str, list[str]] | None = None
    start = 0
    for number, raw in read_lines(path):
        line = raw.strip(" \t")
        if line.startswith("["):
            if tags is not None:
                yield start, tags
            tags, start = ({} if line.startswith("[Term]") else None), number
        elif tags is not None and line and line[0] != "!":
            tag, colon, value = line.partition(":")
            if not colon:
                raise DataError(f"expected 'tag: value', not {line[:40]!r}", path=path, line=number)
            if tag in _TAGS:
                tags.setdefault(tag, []).append(_parse_value(tag, value.strip(" \t"), path, number))
    if tags is not None:
        yield start, tags


def _parse_value(tag: str, text: str, path: Path, line: int) -> str:
    """Return the text of a tag without quotes, modifiers, comment and escapes."""
    if tag in ("def", "synonym"):
        quoted = _QUOTED.match(text)
        if quoted is None:
            raise DataError(
                f"{tag} needs a text in quotes, not {text[:40]!r}", path=path, line=line
            )
        text = quoted[1]
    else:
        if (comment := text.find(" !")) >= 0:
            text = text[:comment].rstrip()
        if text.endswith("}") and "=" in text[(start := text.rfind(" {")) :] and start >= 0:
            text = text[:start].rstrip()
    return _ESCAPED.sub(lambda m: _MEANING.get(m[1], m[1]), text) if "\\" in text else text


def write(ontology: Ontology, file: IO[bytes]) -> None:
    """Write one [Term] per concept, with names and synonyms in the default language.

    Notations, tree numbers, categories, exact matches and other languages are left out.
    """
    language = ontology.language
    retired: dict[str, list[str]] = {}
    for old, new in ontology.replaced_by.items():
        if old not in ontology:
            retired.setdefault(new, []).append(old)
    file.write(b"format-version: 1.4\n")
    for label in ontology.ids:
        lines = ["", "[Term]", f"id: {_escape(label)}"]
        if (name := ontology.name(label)) != label:
            lines.append(f"name: {_escape(name)}")
        lines += [f"alt_id: {_escape(old)}" for old in sorted(retired.get(label, ()))]
        if label in ontology.definitions:
            lines.append(f'def: "{_escape(ontology.definitions[label])}" []')
        for synonym in ontology.synonyms_of(label, language):
            lines.append(f'synonym: "{_escape(synonym)}" EXACT []')
        lines += [f"is_a: {_escape(parent)}" for parent in ontology.parents_of(label)]
        if label in ontology.deprecated:
            lines.append("is_obsolete: true")
        if label in ontology.replaced_by:
            successors = ontology.splits.get(label, (ontology.replaced_by[label],))
            lines += [f"replaced_by: {_escape(successor)}" for successor in successors]
        file.write(("\n".join(lines) + "\n").encode())


def _escape(text: str) -> str:
    letters = {meaning: letter for letter, meaning in _MEANING.items()}
    return _SPECIAL.sub(lambda m: "\\" + letters.get(m[0], m[0]), text)
