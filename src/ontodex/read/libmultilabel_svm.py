"""LibMultiLabel / LIBSVM multi-label rows: `1,3,5 1:0.1 9:0.2` a line, features counted from 1.

The format says nothing of how many features there are: the highest one seen decides. A file
labels.txt beside it gives the labels' ids, the first line being label 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ontodex.read.head import Head
from ontodex.read.holds import SPARSE
from ontodex.read.lines import text_records, write_lines
from ontodex.read.numbers import LabelIds, ListFile, number_labels
from ontodex.read.sparse_rows import is_row, parse_features, split_row
from ontodex.read.xmc_bow import row
from ontodex.types import Corpus, Doc

HOLDS = SPARSE
WRITES_FROM_CORPUS = True
LABELS = ListFile("labels.txt", first=1)


def looks_like(head: Head) -> bool:
    """Rows from the first line on, with at least one feature among them."""
    return ":" in "".join(head.lines[:20]) and head.mostly(is_row)


def sources(path: Path) -> list[Path]:
    """The file and the list of labels beside it."""
    return [path, *LabelIds(path, LABELS).sources()]


def read(path: Path) -> Iterator[Doc]:
    """The documents, numbered from 1."""
    ids = LabelIds(path, LABELS)

    def parse(number: int, line: str) -> Doc:
        labels, features = split_row(line)
        return Doc(
            str(number),
            labels=ids.of([text for text in labels.split(",") if text]),
            features=parse_features(features, first=1),
        )

    return text_records(path, parse)


def write(corpus: Corpus, path: Path) -> int:
    """Write a row a document; labels that are not numbers go to labels.txt."""
    columns = number_labels(corpus, path, LABELS)
    return write_lines(path, (row(doc, columns, first=1) for doc in corpus))
