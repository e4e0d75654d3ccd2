"""Extreme Classification Repository, bag of words: `N D L`, then `l1,l2 index:value ...` a line.

Labels and features count from 0. A file labels.txt beside it gives the labels' ids, one a line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from ontodex.files import decode, raw_lines
from ontodex.read.head import Head
from ontodex.read.holds import SPARSE
from ontodex.read.lines import Records, write_lines
from ontodex.read.numbers import LabelIds, ListFile, number_labels
from ontodex.read.sparse_rows import (
    counted,
    format_features,
    header,
    is_header,
    is_row,
    parse_features,
    split_row,
)
from ontodex.types import Corpus, Doc

HOLDS = SPARSE
WRITES_FROM_CORPUS = True
LABELS = ListFile("labels.txt")


def looks_like(head: Head) -> bool:
    """Three numbers, then rows."""
    return is_header(head.lines[0], 3) and head.mostly(is_row, skip=1)


def sources(path: Path) -> list[Path]:
    """The file and the list of labels beside it."""
    return [path, *LabelIds(path, LABELS).sources()]


def n_features(path: Path) -> int:
    """D of the header."""
    return header(path, "N D L")[1]


def read(path: Path) -> Iterator[Doc]:
    """The documents, numbered from 1."""
    n_docs, width, n_labels = header(path, "N D L")
    ids = LabelIds(path, LABELS)

    def parse(number: int, raw: bytes) -> Doc:
        labels, features = split_row(decode(raw))
        return Doc(
            str(number),
            labels=ids.of([text for text in labels.split(",") if text], n_labels),
            features=parse_features(features, width=width),
        )

    return Records(path, counted(islice(raw_lines(path), 1, None), n_docs, path), parse)


def write(corpus: Corpus, path: Path) -> int:
    """Write the header and a row a document; labels that are not numbers go to labels.txt."""
    columns = number_labels(corpus, path, LABELS)
    n_labels = max(columns.values(), default=-1) + 1
    write_lines(path, _lines(corpus, columns, n_labels))
    return len(corpus)


def _lines(corpus: Corpus, columns: Mapping[str, int], n_labels: int) -> Iterator[str]:
    yield f"{len(corpus)} {corpus.n_features} {n_labels}"
    for doc in corpus:
        yield row(doc, columns)


def row(doc: Doc, columns: Mapping[str, int], *, first: int = 0) -> str:
    """A document as a line: its labels, a space, its features."""
    assert isinstance(doc.features, Mapping)
    labels = ",".join(str(columns[label]) for label in doc.labels)
    return f"{labels} {format_features(doc.features, first=first)}"
