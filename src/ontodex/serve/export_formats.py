"""File formats of the export: decided documents with their accepted and added labels.

jsonl       the corpus format of ontodex; rejected labels and notations are in the metadata
csv         a table for spreadsheets
annif-tsv   `text <tab> <uri> <uri>`
skos        Turtle: dcterms:subject of each document, and the names of the concepts
marc        subject fields of each document in MarcEdit's line format (`marc`)
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

from ontodex.corpora.formats.annif_tsv import format_uris
from ontodex.corpora.parsing.columns import format_strings
from ontodex.io.tables import escape_formula
from ontodex.serve.database.database import Database
from ontodex.serve.database.tables import QueueFilter, Row, build_doc
from ontodex.serve.marc import DEFAULT_OPTIONS, MarcOptions, Subject, format_record
from ontodex.serve.prediction.concept_view import ConceptView
from ontodex.types import Doc

ExportFormat = Literal["jsonl", "csv", "annif-tsv", "skos", "marc"]
PAGE_SIZE = 200  # documents read from the database at a time


@dataclass(frozen=True)
class ExportRecord:
    """A document with its accepted or added labels, its rejected labels, and their curators."""

    doc: Doc
    number: int
    labels: tuple[str, ...]
    rejected: tuple[str, ...]
    users: tuple[str, ...]

    @property
    def id(self) -> str:
        return self.doc.id or str(self.number)


def read_records(database: Database, where: QueueFilter) -> Iterator[ExportRecord]:
    """Yield the documents with a decision, by number."""
    after = 0
    while rows := database.queue.list_by_number(where, after=after, limit=PAGE_SIZE):
        verdicts = database.find_verdicts([row["number"] for row in rows])
        for row in rows:
            if verdicts[row["number"]]:
                yield _make_record(row, verdicts[row["number"]])
        after = rows[-1]["number"]


def _make_record(row: Row, verdicts: list[Row]) -> ExportRecord:
    labels = tuple(v["label"] for v in verdicts if v["verdict"] != "reject")
    rejected = tuple(v["label"] for v in verdicts if v["verdict"] == "reject")
    users = tuple(dict.fromkeys(v["user"] for v in verdicts))
    return ExportRecord(build_doc(row), row["number"], labels, rejected, users)


def write_jsonl(records: Iterator[ExportRecord], concepts: ConceptView) -> Iterator[str]:
    for record in records:
        doc, notations = record.doc, _list_notations(record, concepts)
        value = {
            "id": record.id,
            "fields": dict(doc.fields),
            "keywords": list(doc.keywords),
            "labels": list(record.labels),
            "metadata": {
                **doc.metadata,
                **({"notations": notations} if notations else {}),
                "rejected": list(record.rejected),
                "who": list(record.users),
            },
        }
        yield json.dumps(value, ensure_ascii=False) + "\n"


def _list_notations(record: ExportRecord, concepts: ConceptView) -> list[str]:
    """Return the notations of the labels in their order; none if no label has one."""
    notations = [concepts.get_notation(label) for label in record.labels]
    return notations if any(notations) else []


def write_csv(records: Iterator[ExportRecord], concepts: ConceptView) -> Iterator[str]:
    header = ["number", "id", "text", "labels", "names", "notations", "rejected", "who"]
    yield _make_csv_row(header)
    for record in records:
        names = [concepts.get_name(label) for label in record.labels]
        notations = _list_notations(record, concepts)
        lists = (record.labels, names, notations, record.rejected, record.users)
        cells = [str(record.number), record.doc.id, record.doc.text]
        yield _make_csv_row([*cells, *map(format_strings, lists)])


def _make_csv_row(cells: list[str]) -> str:
    line = io.StringIO()
    writer = csv.writer(line, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writerow(map(escape_formula, cells))
    return line.getvalue()


def write_annif(records: Iterator[ExportRecord], concepts: ConceptView) -> Iterator[str]:
    for record in records:
        labels = [re.sub(r"[\s<>]", "_", label) for label in record.labels]
        yield f"{' '.join(record.doc.text.split())}\t{format_uris(labels)}\n"


def write_skos(records: Iterator[ExportRecord], concepts: ConceptView) -> Iterator[str]:
    yield "@prefix dcterms: <http://purl.org/dc/terms/> .\n"
    yield "@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n\n"
    seen: set[str] = set()
    for record in records:
        document = f"<urn:ontodex:document:{record.number}>"
        yield f"{document} dcterms:identifier {_make_literal(record.id)} .\n"
        for label in record.labels:
            yield f"{document} dcterms:subject {_make_iri(label)} .\n"
            if label not in seen:
                seen.add(label)
                yield f"{_make_iri(label)} a skos:Concept .\n"
                name = _make_literal(concepts.get_name(label))
                yield f"{_make_iri(label)} skos:prefLabel {name} .\n"
                if notation := concepts.get_notation(label):
                    yield f"{_make_iri(label)} skos:notation {_make_literal(notation)} .\n"


def _make_iri(label: str) -> str:
    """Return a label that is an IRI unchanged, and another one as a URN."""
    if re.fullmatch(r"(?:https?://|urn:)[^\s<>\"{}|\\^`\x00-\x20]+", label):
        return f"<{label}>"
    return f"<urn:ontodex:concept:{quote(label, safe='')}>"


def _make_literal(text: str) -> str:
    """Return a Turtle string. Turtle knows every escape that JSON uses."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def write_marc(
    records: Iterator[ExportRecord],
    concepts: ConceptView,
    options: MarcOptions = DEFAULT_OPTIONS,
) -> Iterator[str]:
    language = concepts.ontology.language
    for record in records:
        subjects = [_make_subject(label, concepts) for label in record.labels]
        yield format_record(record.id, subjects, language, options)


def _make_subject(label: str, concepts: ConceptView) -> Subject:
    ontology = concepts.ontology
    groups = (*ontology.types.get(label, ()), *ontology.schemes.get(label, ()))
    return Subject(label, concepts.get_name(label), concepts.get_notation(label), groups)


Writer = Callable[[Iterator[ExportRecord], ConceptView], Iterator[str]]
# media type, file ending, writer
FORMATS: dict[ExportFormat, tuple[str, str, Writer]] = {
    "jsonl": ("application/x-ndjson", ".jsonl", write_jsonl),
    "csv": ("text/csv; charset=utf-8; header=present", ".csv", write_csv),
    "annif-tsv": ("text/tab-separated-values; charset=utf-8", ".tsv", write_annif),
    "skos": ("text/turtle; charset=utf-8", ".ttl", write_skos),
    "marc": ("text/plain; charset=utf-8", ".mrk", write_marc),
}
