"""What was decided, as files: documents that have a verdict, with the labels that stand.

jsonl       our own corpus format; what was rejected is in the metadata
csv         a table for spreadsheets
annif-tsv   `text <tab> <uri> <uri>`
skos        Turtle: dcterms:subject of each document, and the names of the concepts
marc        field 650 of each document in MarcEdit's line form
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

from ontodex.read.annif_tsv import bracketed
from ontodex.read.columns import cell_of
from ontodex.serve.database import Database, Row, State, doc_of
from ontodex.serve.served import Served
from ontodex.tables import spreadsheet_safe
from ontodex.types import Doc

Format = Literal["jsonl", "csv", "annif-tsv", "skos", "marc"]
PAGE = 200  # documents read from the database at a time


@dataclass(frozen=True)
class Decided:
    """A document, the labels it should have, and those it should not."""

    doc: Doc
    number: int
    labels: tuple[str, ...]
    rejected: tuple[str, ...]
    who: tuple[str, ...]


def decided(database: Database, *, state: State | None, batch: str | None) -> Iterator[Decided]:
    """The documents with a verdict, by number."""
    after = 0
    while rows := database.documents(state=state, batch=batch, after=after, limit=PAGE):
        verdicts = database.verdicts([row["number"] for row in rows])
        for row in rows:
            if found := verdicts[row["number"]]:
                yield _decided(row, found)
        after = rows[-1]["number"]


def _decided(row: Row, verdicts: list[Row]) -> Decided:
    taken = tuple(v["label"] for v in verdicts if v["verdict"] != "reject")
    rejected = tuple(v["label"] for v in verdicts if v["verdict"] == "reject")
    who = tuple(dict.fromkeys(v["who"] for v in verdicts))
    return Decided(doc_of(row), row["number"], taken, rejected, who)


def write_jsonl(found: Iterator[Decided], served: Served) -> Iterator[str]:
    for one in found:
        doc = one.doc
        value = {
            "id": doc.id or str(one.number),
            "fields": dict(doc.fields),
            "keywords": list(doc.keywords),
            "labels": list(one.labels),
            "metadata": {**doc.metadata, "rejected": list(one.rejected), "who": list(one.who)},
        }
        yield json.dumps(value, ensure_ascii=False) + "\n"


def write_csv(found: Iterator[Decided], served: Served) -> Iterator[str]:
    yield _csv_row(["number", "id", "text", "labels", "names", "rejected", "who"])
    for one in found:
        names = cell_of([served.name_of(label) for label in one.labels])
        cells = [str(one.number), one.doc.id, one.doc.text, cell_of(one.labels), names]
        yield _csv_row([*cells, cell_of(one.rejected), cell_of(one.who)])


def _csv_row(cells: list[str]) -> str:
    line = io.StringIO()
    writer = csv.writer(line, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writerow(map(spreadsheet_safe, cells))
    return line.getvalue()


def write_annif(found: Iterator[Decided], served: Served) -> Iterator[str]:
    for one in found:
        labels = [re.sub(r"[\s<>]", "_", label) for label in one.labels]
        yield f"{' '.join(one.doc.text.split())}\t{bracketed(labels)}\n"


def write_skos(found: Iterator[Decided], served: Served) -> Iterator[str]:
    yield "@prefix dcterms: <http://purl.org/dc/terms/> .\n"
    yield "@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n\n"
    named: set[str] = set()
    for one in found:
        document = f"<urn:ontodex:document:{one.number}>"
        yield f"{document} dcterms:identifier {_literal(one.doc.id or str(one.number))} .\n"
        for label in one.labels:
            yield f"{document} dcterms:subject {_iri(label)} .\n"
            if label not in named:
                named.add(label)
                yield f"{_iri(label)} a skos:Concept .\n"
                yield f"{_iri(label)} skos:prefLabel {_literal(served.name_of(label))} .\n"


def _iri(label: str) -> str:
    """A label that is an IRI as it is, another one below a name of ours."""
    if re.fullmatch(r"(?:https?://|urn:)[^\s<>\"{}|\\^`\x00-\x20]+", label):
        return f"<{label}>"
    return f"<urn:ontodex:concept:{quote(label, safe='')}>"


def _literal(text: str) -> str:
    """Turtle has JSON's escapes, and these are all that JSON uses."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def write_marc(found: Iterator[Decided], served: Served) -> Iterator[str]:
    for one in found:
        yield f"=001  {_marc(one.doc.id or str(one.number))}\n"
        for label in one.labels:
            name = _marc(served.name_of(label))
            # $2 is a code of MARC's list of vocabularies; which of them this is, no ontology says.
            yield f"=650  \\7$a{name}$2local$0{_marc(label)}\n"
        yield "\n"


def _marc(text: str) -> str:
    """One line, with the signs that MarcEdit's form keeps for itself written by name."""
    named = {"{": "{lcub}", "}": "{rcub}", "$": "{dollar}", "\\": "{bsol}"}
    return "".join(named.get(letter, letter) for letter in " ".join(text.split()))


Writer = Callable[[Iterator[Decided], Served], Iterator[str]]
FORMATS: dict[Format, tuple[str, str, Writer]] = {
    "jsonl": ("application/x-ndjson", ".jsonl", write_jsonl),
    "csv": ("text/csv; charset=utf-8; header=present", ".csv", write_csv),
    "annif-tsv": ("text/tab-separated-values; charset=utf-8", ".tsv", write_annif),
    "skos": ("text/turtle; charset=utf-8", ".ttl", write_skos),
    "marc": ("text/plain; charset=utf-8", ".mrk", write_marc),
}
