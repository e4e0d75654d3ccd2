"""Any corpus format to any other, and ontologies too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ontodex import ontology, read
from ontodex.errors import DataError
from ontodex.progress import track
from ontodex.types import Doc


def convert(
    source: Path,
    target: Path,
    *,
    from_format: str | None = None,
    to_format: str | None = None,
    text_fields: Sequence[str] = (),
) -> tuple[int, str]:
    """Write `source` as `target`; gives how many of what: documents or concepts. What the source
    has under `text_fields` becomes its text. Nothing that is there already is written over, least
    of all the source."""
    if is_ontology(source, from_format):
        _check_free(target)
        graph = ontology.read_ontology(source, from_format)
        ontology.write_ontology(graph, target, to_format or ontology.format_of_name(target))
        return len(graph), "concepts"
    docs = read.read_docs(source, from_format, text_fields=text_fields)
    to_format = to_format or read.format_of_name(target)
    _check_free(*read.targets(target, to_format))
    named = map(partial(_with_text, text_fields), docs) if text_fields else docs
    tracked = track(named, f"converting {source.name}")
    count = read.write_docs(tracked, target, to_format, n_features=docs.n_features)
    return count, "documents"


def _with_text(names: Sequence[str], doc: Doc) -> Doc:
    """The document with these fields, in this order, as its text: other readers would not know
    their names."""
    rest = {name: text for name, text in doc.fields.items() if name not in names}
    text = "\n".join(doc.fields[name] for name in names if name in doc.fields)
    return replace(doc, fields={**rest, "text": text})


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
