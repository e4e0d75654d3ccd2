"""Convert a corpus or an ontology to another format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ontodex.corpora import detect, formats
from ontodex.corpora.open import read_docs, write_docs
from ontodex.errors import DataError
from ontodex.io.progress import track
from ontodex.io.temporary import remove_leftovers
from ontodex.ontology import open as ontologies
from ontodex.ontology.detect import detect_format as detect_ontology_format
from ontodex.types import Doc


def convert(
    source: Path | str,
    target: Path | str,
    *,
    from_format: str | None = None,
    to_format: str | None = None,
    text_fields: Sequence[str] = (),
) -> tuple[int, str]:
    """Write `source` as `target`; return the number of items and their kind: documents or concepts.

    The fields of the source named in `text_fields` become the text of each document. An existing
    target is never overwritten.
    """
    source, target = Path(source), Path(target)
    if is_ontology(source, from_format):
        _check_free(target)
        ontology = ontologies.read_ontology(source, from_format)
        ontologies.write_ontology(ontology, target, to_format or ontologies.infer_format(target))
        return len(ontology), "concepts"
    docs = read_docs(source, from_format, text_fields=text_fields)
    to_format = to_format or detect.infer_format(target)
    _check_free(*formats.list_targets(target, to_format))
    merged = map(partial(_merge_into_text, text_fields), docs) if text_fields else docs
    tracked = track(merged, f"converting {source.name}")
    count = write_docs(tracked, target, to_format, n_features=docs.n_features)
    return count, "documents"


def _merge_into_text(names: Sequence[str], doc: Doc) -> Doc:
    """Return the document with these fields joined to the field "text".

    Other readers know the field "text", but not fields of any name.
    """
    rest = {name: text for name, text in doc.fields.items() if name not in names}
    text = "\n".join(doc.fields[name] for name in names if name in doc.fields)
    return replace(doc, fields={**rest, "text": text})


def _check_free(*targets: Path) -> None:
    for target in targets:
        remove_leftovers(target)
        is_empty_folder = target.is_dir() and not any(target.iterdir())
        if target.exists() and not is_empty_folder:
            raise DataError("already exists", path=target, hint="choose another OUT")


def is_ontology(source: Path, from_format: str | None) -> bool:
    """Return whether a file has concepts, not documents: by the named format, else by content."""
    concepts, documents = from_format in ontologies.FORMATS, from_format in formats.FORMATS
    if concepts != documents:  # Annif's CSV and TSV are names of formats of both kinds
        return concepts
    try:
        detect.detect_format(source)
    except DataError:
        detect_ontology_format(source)
        return True
    return False
