"""Any corpus format to any other, and ontologies too."""

from __future__ import annotations

from pathlib import Path

from ontodex import ontology, read
from ontodex.errors import DataError
from ontodex.progress import track


def convert(
    source: Path, target: Path, *, from_format: str | None = None, to_format: str | None = None
) -> tuple[int, str]:
    """Write `source` as `target`; gives how many of what: documents or concepts. Nothing that is
    there already is written over, least of all the source."""
    if is_ontology(source, from_format):
        _check_free(target)
        graph = ontology.read_ontology(source, from_format)
        ontology.write_ontology(graph, target, to_format or ontology.format_of_name(target))
        return len(graph), "concepts"
    docs = read.read_docs(source, from_format)
    to_format = to_format or read.format_of_name(target)
    _check_free(*read.targets(target, to_format))
    tracked = track(docs, f"converting {source.name}")
    count = read.write_docs(tracked, target, to_format, n_features=docs.n_features)
    return count, "documents"


def _check_free(*places: Path) -> None:
    for place in places:
        is_empty_folder = place.is_dir() and not any(place.iterdir())
        if place.exists() and not is_empty_folder:
            raise DataError("is there already", path=place, hint="choose another OUT")


def is_ontology(source: Path, from_format: str | None) -> bool:
    """Whether the file holds concepts rather than documents, by the format named or by content."""
    concepts, documents = from_format in ontology.FORMATS, from_format in read.FORMATS
    if concepts != documents:  # Annif's CSV and TSV are the name of both
        return concepts
    try:
        read.detect(source)
    except DataError:
        ontology.detect(source)
        return True
    return False
