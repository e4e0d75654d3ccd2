"""Annif CSV: columns `text`, `subject_uris` (separated by spaces) and optionally `document_id`.

Other columns are metadata, as text; `text_fields` names those to read as text fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ontodex.corpora.formats.annif_tsv import LABEL_FORBIDS, format_uris, parse_uris
from ontodex.corpora.parsing.capabilities import FormatCapabilities
from ontodex.corpora.parsing.file_head import Head
from ontodex.corpora.parsing.json_objects import get_id
from ontodex.corpora.parsing.text_table import Row, Rows, read_rows, write_rows
from ontodex.types import Corpus, Doc

_COLUMNS = ("document_id", "text", "subject_uris")
CAPABILITIES = FormatCapabilities(
    empty_fields=False, metadata="strings", metadata_forbids=_COLUMNS, label_forbids=LABEL_FORBIDS
)
TAKES_TEXT_FIELDS = True
WRITES_FROM_CORPUS = True


def looks_like(head: Head) -> bool:
    """Recognise a header with text and subject_uris."""
    return {"text", "subject_uris"} <= set(head.cells(","))


def read(path: Path, *, text_fields: Sequence[str] = ()) -> Iterator[Doc]:
    """Read the documents; those without document_id are numbered from 1."""
    rows = Rows(path, ",")
    fields = [name for name in rows.header if name == "text" or name in text_fields]
    others = [name for name in rows.header if name not in (*_COLUMNS, *fields)]

    def parse(number: int, row: Row) -> Doc:
        return Doc(
            get_id(row, "document_id") if row.get("document_id") else str(number),
            {name: row[name] for name in fields},
            labels=parse_uris(row.get("subject_uris", "")),
            metadata={name: row[name] for name in others if row[name]},
        )

    records = read_rows(path, rows, parse)
    records.has_ids = "document_id" in rows.header
    return records


def write(corpus: Corpus, path: Path) -> int:
    """Write one row per document, with a column for each key of the metadata."""
    keys = list(dict.fromkeys(key for doc in corpus for key in doc.metadata))
    rows = (
        [
            doc.id,
            doc.fields["text"],
            format_uris(doc.labels),
            *(doc.metadata.get(key, "") for key in keys),
        ]
        for doc in corpus
    )
    return write_rows(path, [*_COLUMNS, *keys], rows, delimiter=",")
