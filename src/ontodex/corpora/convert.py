"""Convert a corpus or an ontology to another format."""

from __future__ import annotations

import logging
from pathlib import Path

from ontodex.corpora import detect, formats
from ontodex.corpora.field_mapping import NO_MAPPING, FieldMapping
from ontodex.corpora.label_names import resolve_names
from ontodex.corpora.open import read_docs, write_docs
from ontodex.errors import DataError, UnmappedTableError
from ontodex.io.progress import track
from ontodex.io.temporary import remove_leftovers
from ontodex.ontology import open as ontologies
from ontodex.ontology.detect import detect_format as detect_ontology_format
from ontodex.types import Ontology

logger = logging.getLogger(__name__)


def convert(
    source: Path | str,
    target: Path | str,
    *,
    from_format: str | None = None,
    to_format: str | None = None,
    mapping: FieldMapping = NO_MAPPING,
    ontology: Ontology | str | Path | None = None,
) -> tuple[int, str]:
    """Write `source` as `target`; return the number of items and their kind: documents or concepts.

    `mapping` names the columns of a table. Labels that are names or notations of the ontology
    become ids of its concepts. An existing target is never overwritten.

    >>> ontodex.convert("train.jsonl", "train.csv")
    (30, 'documents')
    >>> ontodex.convert("ontology.json", "ontology.ttl")
    (4, 'concepts')
    """
    source, target = Path(source), Path(target)
    if not mapping and ontology is None and is_ontology(source, from_format):
        _check_free(target)
        concepts = ontologies.read_ontology(source, from_format)
        ontologies.write_ontology(concepts, target, to_format or ontologies.infer_format(target))
        return len(concepts), "concepts"
    docs = read_docs(source, from_format, mapping=mapping)
    to_format = to_format or detect.infer_format(target)
    _check_free(*formats.list_targets(target, to_format))
    known = None if ontology is None else ontologies.open_ontology(ontology)
    matched = docs if known is None else resolve_names(docs, known, source)
    tracked = track(matched, f"converting {source.name}")
    count = write_docs(tracked, target, to_format, n_features=docs.n_features)
    docs.counts.log(source)
    return count, "documents"


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
    except UnmappedTableError:
        # A list of labels may have any lines, so a table of documents would be one too.
        if not _is_recognised_ontology(source):
            raise
        return True
    except DataError:
        return True
    return False


def _is_recognised_ontology(source: Path) -> bool:
    try:
        return detect_ontology_format(source) != "labels"
    except DataError:
        return False
