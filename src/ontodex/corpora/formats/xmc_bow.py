"""Extreme Classification Repository, bag of words: `N D L`, then lines of `l1,l2 index:value ...`.

Labels and features count from 0. A file labels.txt beside it has the ids of the labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from ontodex.corpora.parsing.capabilities import SPARSE
from ontodex.corpora.parsing.file_head import Head
from ontodex.corpora.parsing.label_numbers import LabelIds, LabelList, number_labels
from ontodex.corpora.parsing.records import Records, write_lines
from ontodex.corpora.parsing.sparse_rows import (
    check_row_count,
    format_features,
    is_header,
    is_row,
    parse_features,
    read_header,
    split_row,
)
from ontodex.io.files import decode, read_raw_lines
from ontodex.types import Corpus, Doc

CAPABILITIES = SPARSE
WRITES_FROM_CORPUS = True
LABELS = LabelList("labels.txt")


def looks_like(head: Head) -> bool:
    """Recognise three numbers, then rows."""
    return is_header(head.lines[0], 3) and head.most_lines_match(is_row, skip=1)


def sources(path: Path) -> list[Path]:
    """Return the file and the list of labels beside it."""
    return [path, *LabelIds(path, LABELS).sources()]


def n_features(path: Path) -> int:
    """Return D of the header."""
    return read_header(path, "N D L")[1]


def read(path: Path) -> Iterator[Doc]:
    """Read the documents; they are numbered from 1."""
    n_docs, width, n_labels = read_header(path, "N D L")
    ids = LabelIds(path, LABELS)

    def parse(number: int, raw: bytes) -> Doc:
        labels, features = split_row(decode(raw))
        return Doc(
            str(number),
            labels=ids.of([text for text in labels.split(",") if text], n_labels),
            features=parse_features(features, width=width),
        )

    return Records(
        path, check_row_count(islice(read_raw_lines(path), 1, None), n_docs, path), parse
    )


def write(corpus: Corpus, path: Path) -> int:
    """Write the header and one row per document; labels that are not numbers go to labels.txt."""
    columns = number_labels(corpus, path, LABELS)
    n_labels = max(columns.values(), default=-1) + 1
    write_lines(path, _format_lines(corpus, columns, n_labels))
    return len(corpus)


def _format_lines(corpus: Corpus, columns: Mapping[str, int], n_labels: int) -> Iterator[str]:
    yield f"{len(corpus)} {corpus.n_features} {n_labels}"
    for doc in corpus:
        yield format_row(doc, columns)


def format_row(doc: Doc, columns: Mapping[str, int], *, first: int = 0) -> str:
    """Return a document as a line: its labels, a space, its features."""
    assert isinstance(doc.features, Mapping)
    labels = ",".join(str(columns[label]) for label in doc.labels)
    return f"{labels} {format_features(doc.features, first=first)}"
