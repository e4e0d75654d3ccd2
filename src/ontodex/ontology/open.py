"""Read and write ontologies in any known format."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, cast

from ontodex.config import suggest
from ontodex.errors import DataError
from ontodex.io.files import open_atomic
from ontodex.ontology import mesh, named_columns, obo, skos, table
from ontodex.ontology.detect import detect_format
from ontodex.types import Ontology


@dataclass(frozen=True)
class Format:
    """Reader, writer (None for formats that are only read) and file endings of a format."""

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
    "table": Format(named_columns.read),
    "edges": Format(table.read_edges, table.write_edges, (".edges",)),
    "labels": Format(table.read_labels),
}


def read_ontology(path: Path | str, format: str | None = None) -> Ontology:
    """Read an ontology file, plain or packed (.gz, .xz, .bz2); without a format, detect it.

    >>> ontology = ontodex.read_ontology("ontology.json")
    >>> len(ontology), ontology.name("fish"), ontology.parents_of("fish")
    (4, 'Fish', ['animals'])
    """
    path = Path(path)
    return _find_format(format or detect_format(path)).read(path)


def open_ontology(ontology: Ontology | str | Path) -> Ontology:
    """Return an ontology that is given as such or by its path."""
    return ontology if isinstance(ontology, Ontology) else read_ontology(ontology)


def write_ontology(ontology: Ontology, path: Path | str, format: str | None = None) -> None:
    """Write an ontology, all of the file or nothing; a name that ends in .gz is packed.

    What the format cannot store is left out; the docstring of each writer lists it.
    """
    path = Path(path)
    name = format or infer_format(path)
    write = _find_format(name).write
    if write is None:
        writable = ", ".join(name for name, known in FORMATS.items() if known.write)
        raise DataError(f"{name} can be read but not written; writable are {writable}", path=path)
    with open_atomic(path) as file:
        if path.suffix == ".gz":
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                write(ontology, cast(IO[bytes], packed))
        else:
            write(ontology, file)


def infer_format(path: Path) -> str:
    """Return the format to write, by the ending of the file name."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    suffix = next((s for s in reversed(suffixes) if s != ".gz"), "")
    for name, known in FORMATS.items():
        if suffix in known.suffixes:
            return name
    endings = ", ".join(suffix for known in FORMATS.values() for suffix in known.suffixes)
    raise DataError(
        f"its name does not say which ontology format to write; known endings are {endings}",
        path=path,
    )


def _find_format(name: str) -> Format:
    if name not in FORMATS:
        raise DataError(f"there is no ontology format {name!r}{suggest(name, list(FORMATS))}")
    return FORMATS[name]


__all__ = ["FORMATS", "Format", "infer_format", "open_ontology", "read_ontology", "write_ontology"]
