"""Documents with the decisions of curators: read from the database, and compared with a run.

A document that is done is complete: labels that its curator did not accept are wrong for it. Of a
document that is still open only the labels with a decision count.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, diags_array

from ontodex.io.counts import format_count
from ontodex.runs.run import Run
from ontodex.runs.vocabulary import get_vocabulary_key
from ontodex.serve.database.database import Database
from ontodex.serve.database.stored_rows import DamagedRowError
from ontodex.serve.database.tables import Row, build_doc
from ontodex.types import Corpus, Doc, LabelSpace

logger = logging.getLogger(__name__)

HELD_OUT = 5  # one document in five is held out
PAGE_SIZE = 1000  # decisions read from the database at a time


@dataclass(frozen=True)
class DocumentDecisions:
    """A document with its accepted (or added) labels and its rejected labels."""

    number: int
    doc: Doc
    accepted: tuple[str, ...]
    rejected: tuple[str, ...]
    is_done: bool


@dataclass(frozen=True)
class Quality:
    """Agreement of label sets with decisions, over all documents together (micro)."""

    precision: float
    recall: float
    f: float


def find_project(run: Run, database: Database) -> int | None:
    """Return the project of a run's vocabulary; None if nothing was decided with it."""
    if n := database.projects.count_without_project():
        logger.warning(
            "%s of an older database %s no vocabulary yet: `ontodex serve RUN` gives them one",
            format_count(n, "document"),
            "has" if n == 1 else "have",
        )
    return database.projects.find(get_vocabulary_key(run.about, run.labels))


def read_new_decisions(
    database: Database, project: int | None, since: int
) -> tuple[list[DocumentDecisions], int]:
    """Return the documents of a project with a decision after decision `since`, and the id of the
    last one. Decisions of other projects are about the concepts of other vocabularies.

    Documents are in the order of their first new decision. Each comes with all its valid decisions:
    the new ones alone would make an older label of a document that is done look wrong.
    """
    numbers: dict[int, None] = {}
    last = since
    if project is None:
        return [], last
    for row in _read_log(database, project, since):
        numbers[row["document"]] = None
        last = row["id"]
    found = []
    for number in numbers:
        verdicts = database.find_verdicts([number])[number]
        if any(verdict["id"] > since for verdict in verdicts):
            try:
                row = database.get_document(number)
            except DamagedRowError as error:
                logger.warning("%s; its decisions are not learned", error)
                continue
            accepted = tuple(v["label"] for v in verdicts if v["verdict"] != "reject")
            rejected = tuple(v["label"] for v in verdicts if v["verdict"] == "reject")
            is_done = row["state"] == "done" and bool(accepted)
            found.append(DocumentDecisions(number, build_doc(row), accepted, rejected, is_done))
    return found, last


def _read_log(database: Database, project: int, since: int) -> Iterator[Row]:
    while rows := database.list_decisions(project=project, after=since, limit=PAGE_SIZE):
        yield from rows
        since = rows[-1]["id"]


def is_held_out(database: str, number: int) -> bool:
    """Return whether a document is held out: always the same ones, in any order of decisions."""
    value = hashlib.sha256(f"{database}/{number}".encode()).digest()
    return int.from_bytes(value) % HELD_OUT == 0


def split_held_out(
    database: Database, decided: Sequence[DocumentDecisions]
) -> tuple[list[DocumentDecisions], list[DocumentDecisions]]:
    """Return the documents to learn from, and those that are held out to measure the effect."""
    is_out = [is_held_out(database.id, one.number) for one in decided]
    return (
        [one for one, out in zip(decided, is_out, strict=True) if not out],
        [one for one, out in zip(decided, is_out, strict=True) if out],
    )


def make_corpus(decided: Sequence[DocumentDecisions]) -> Corpus:
    """Return the documents without labels, for ranking."""
    return Corpus.of(one.doc for one in decided)


def make_done_corpus(decided: Sequence[DocumentDecisions]) -> Corpus:
    """Return the documents that are done, with their accepted labels."""
    return Corpus.of(
        dataclasses.replace(one.doc, labels=one.accepted) for one in decided if one.is_done
    )


def make_matrices(
    decided: Sequence[DocumentDecisions], labels: LabelSpace, ranked: csr_array
) -> tuple[csr_array, csr_array]:
    """Return (documents x columns) accepted and rejected; labels without a column are omitted.

    For a document that is done, the labels in `ranked` that were not accepted count as rejected.
    """
    accepted = _make_matrix([one.accepted for one in decided], labels)
    rejected = _make_matrix([one.rejected for one in decided], labels)
    is_done = diags_array(np.array([float(one.is_done) for one in decided]))
    shown = csr_array(is_done @ (ranked > 0).astype(np.float64))
    wrong = csr_array(shown - shown.multiply(accepted) + rejected) > 0
    return accepted, csr_array(wrong.astype(np.int8))


def _make_matrix(rows: Sequence[Sequence[str]], labels: LabelSpace) -> csr_array:
    columns = [[labels.column[label] for label in row if label in labels.column] for row in rows]
    indptr = np.cumsum([0, *map(len, columns)])
    indices = np.array([column for row in columns for column in row], dtype=np.int32)
    ones = np.ones(len(indices), dtype=np.int8)
    return csr_array((ones, indices, indptr), shape=(len(rows), len(labels)))


def measure(run: Run, decided: Sequence[DocumentDecisions]) -> Quality:
    """Compare the run's label sets with the decisions."""
    predicted = run.decide(make_corpus(decided)).scores(len(run.labels))
    accepted, rejected = make_matrices(decided, run.labels, predicted)
    predicted = predicted > 0
    n_accepted = sum(len(one.accepted) for one in decided)  # includes labels without a column
    hits = int((predicted.multiply(accepted)).sum())
    wrong = int((predicted.multiply(rejected)).sum())
    precision = hits / (hits + wrong) if hits + wrong else 0.0
    recall = hits / n_accepted if n_accepted else 0.0
    total = hits + wrong + n_accepted
    return Quality(precision, recall, 2 * hits / total if total else 0.0)
