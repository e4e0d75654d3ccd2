"""Stage 2: concepts -> graph -> levels.

    read_ontology(path)                 any format below, recognised by content -> Ontology
    write_ontology(ontology, path)      the formats that can be written

What an `Ontology` is stands in `ontodex.types`; `graph` builds one and answers questions about it,
`levels` turns it into levels and categories, `search` finds concepts, `show` prints them.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, cast

from ontodex.config import nearest
from ontodex.errors import DataError
from ontodex.files import atomic, open_bytes
from ontodex.ontology import mesh, obo, skos, table
from ontodex.types import Ontology

_HEAD = 64 * 2**10  # what is looked at to recognise a format


@dataclass(frozen=True)
class Format:
    """How a format is read, written (where it can be) and named."""

    read: Callable[[Path], Ontology]
    write: Callable[[Ontology, IO[bytes]], None] | None = None
    suffixes: tuple[str, ...] = ()


FORMATS = {
    "json": Format(table.read_json, table.write_json, (".json", ".jsonl")),
    "turtle": Format(
        partial(skos.read, syntax="turtle"), partial(skos.write, syntax="turtle"), (".ttl",)
    ),
    "ntriples": Format(
        partial(skos.read, syntax="ntriples"), partial(skos.write, syntax="ntriples"), (".nt",)
    ),
    "rdfxml": Format(
        partial(skos.read, syntax="rdfxml"), partial(skos.write, syntax="rdfxml"), (".rdf", ".xml")
    ),
    "jsonld": Format(
        partial(skos.read, syntax="jsonld"), partial(skos.write, syntax="jsonld"), (".jsonld",)
    ),
    "obo": Format(obo.read, obo.write, (".obo",)),
    "mesh-xml": Format(mesh.read_xml),
    "mesh-ascii": Format(mesh.read_ascii),
    "mesh-trees": Format(mesh.read_trees),
    "mesh-tsv": Format(mesh.read_tsv),
    "annif-csv": Format(table.read_annif_csv, table.write_annif_csv, (".csv",)),
    "annif-tsv": Format(table.read_annif_tsv, table.write_annif_tsv, (".tsv",)),
    "edges": Format(table.read_edges, table.write_edges, (".edges",)),
    "labels": Format(table.read_labels),
}


def read_ontology(path: Path, format: str | None = None) -> Ontology:
    """The ontology of a file, plain or .gz, .xz, .bz2; without a format by looking at it."""
    return _format(format or detect(path)).read(path)


def write_ontology(ontology: Ontology, path: Path, format: str | None = None) -> None:
    """Write whole or not at all. What the format cannot hold is left out, as its writer says; a
    name that ends in .gz is packed."""
    name = format or format_of_name(path)
    write = _format(name).write
    if write is None:
        writable = ", ".join(name for name, known in FORMATS.items() if known.write)
        raise DataError(f"{name} is read but not written; written are {writable}", path=path)
    with atomic(path) as file:
        if path.suffix == ".gz":
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                write(ontology, cast(IO[bytes], packed))
        else:
            write(ontology, file)


def format_of_name(path: Path) -> str:
    """The format that a file's name promises."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    suffix = next((s for s in reversed(suffixes) if s != ".gz"), "")
    for name, known in FORMATS.items():
        if suffix in known.suffixes:
            return name
    endings = ", ".join(suffix for known in FORMATS.values() for suffix in known.suffixes)
    raise DataError(
        f"its name does not say which ontology format it should be; known endings are {endings}",
        path=path,
    )


def _format(name: str) -> Format:
    if name not in FORMATS:
        raise DataError(f"there is no ontology format {name!r}{nearest(name, list(FORMATS))}")
    return FORMATS[name]


def detect(path: Path) -> str:
    """The format of a file by its first 64 KiB, or a sentence about what was seen."""
    with open_bytes(path) as file:
        raw = file.read(_HEAD)
    text = raw.removeprefix(b"\xef\xbb\xbf").decode("utf-8", errors="replace")
    head = text.lstrip()
    # Not of `head`: a tab before the first child is the empty parent of an edge.
    lines = [line.rstrip("\r") for line in text.split("\n")]
    if len(raw) == _HEAD:
        lines.pop()  # cut in the middle
    lines = [line for line in lines if line.strip()]
    for name, matches in _SIGNS.items():
        if matches(head, lines):
            return name
    seen = f"it begins with {head[:60]!r}" if head else "it is empty"
    raise DataError(
        f"not an ontology format that is known here; {seen}",
        path=path,
        hint=f"ontodex convert {path} OUT.json --from FORMAT, and OUT.json in its place, "
        f"if the format is one of {', '.join(FORMATS)}",
    )


_TRIPLE = re.compile(r'(?:<[^<>"\s]*>|_:\S+)\s+<[^<>"\s]*>\s')
_TURTLE = re.compile(r"^[ \t]*(?:@prefix|@base|prefix|base)\s", re.MULTILINE | re.IGNORECASE)
_XML_ROOT = re.compile(r"<(?![?!])(?:\w+:)?(\w+)")


def _root(head: str) -> str:
    match = _XML_ROOT.search(head) if head.startswith("<") else None
    return match[1] if match else ""


def _is_mesh_row(line: str) -> bool:
    columns = line.split("\t")
    return len(columns) >= 4 and all(
        mesh.TREE_NUMBER.fullmatch(number) for number in columns[3].split("|") if number
    )


def _are_edges(lines: list[str]) -> bool:
    """Two ids a line: between spaces only with digits, between tabs anything, but with spaces in it
    only where some child is the parent of others."""
    for line in lines:
        ends = line.split("\t") if "\t" in line else line.split()
        if len(ends) != 2:
            return False
        if "\t" not in line and not all(re.search(r"\d", end) for end in ends):
            return False
    pairs = [line.split("\t") for line in lines if "\t" in line]
    parents = {parent for parent, child in pairs if parent != child}
    has_spaces = any(" " in end for pair in pairs for end in pair)
    return bool(lines) and (not has_spaces or any(child in parents for _, child in pairs))


# Asked in this order: the first that says yes names the format.
_SIGNS: dict[str, Callable[[str, list[str]], bool]] = {
    "mesh-xml": lambda head, lines: _root(head) == "DescriptorRecordSet",
    "rdfxml": lambda head, lines: _root(head) == "RDF",
    "jsonld": lambda head, lines: head[:1] in ("{", "[") and bool(
        re.search(r'"@(context|graph|id)"\s*:', head)
    ),
    "json": lambda head, lines: head[:1] in ("{", "["),
    "mesh-ascii": lambda head, lines: head.startswith("*NEWRECORD"),
    "obo": lambda head, lines: head.startswith("format-version:") or "[Term]" in lines,
    "ntriples": lambda head, lines: bool(lines) and all(
        _TRIPLE.match(line) and line.rstrip().endswith(".")
        for line in lines
        if not line.startswith("#")
    ),
    "turtle": lambda head, lines: bool(_TURTLE.search(head)),
    "mesh-trees": lambda head, lines: bool(lines) and all(
        mesh.TREE_NUMBER.fullmatch(line.rpartition(";")[2]) for line in lines
    ),
    "annif-tsv": lambda head, lines: bool(lines) and all(
        re.match(r"<[^<>\t]+>\t", line) for line in lines
    ),
    "annif-csv": lambda head, lines: bool(lines) and bool(
        {"uri"} < set(lines[0].replace('"', "").split(","))
    ),
    "mesh-tsv": lambda head, lines: bool(lines) and all(map(_is_mesh_row, lines)),
    "edges": lambda head, lines: _are_edges(lines),
    "labels": lambda head, lines: bool(lines) and not any(
        "\t" in line or len(line) > 200 or "\ufffd" in line or "\0" in line for line in lines
    ),
}  # fmt: skip

__all__ = ["FORMATS", "Format", "detect", "format_of_name", "read_ontology", "write_ontology"]
