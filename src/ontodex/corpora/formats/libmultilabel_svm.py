"""LibMultiLabel / LIBSVM multi-label rows: lines of `1,3,5 1:0.1 9:0.2`, features counted from 1.

The number of features is the highest one in the file. A file labels.txt beside it has the ids of
the labels; its first line is label 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ontodex.corpora.formats.xmc_bow import format_row
from ontodex.corpora.parsing.capabilities import SPARSE
from ontodex.corpora.parsing.file_head import Head
from ontodex.corpora.parsing.label_numbers import LabelIds, LabelList, number_labels
from ontodex.corpora.parsing.records import read_text_records, write_lines
from ontodex.corpora.parsing.sparse_rows import is_row, parse_features, split_row
from ontodex.types import Corpus, Doc

CAPABILITIES = SPARSE
WRITES_FROM_CORPUS = True
LABELS = LabelList("labels.txt", first=1)


def looks_like(head: Head) -> bool:
    """Recognise rows from the first line on, with at least one feature among them."""
    return ":" in "".join(head.lines[:20]) and head.most_lines_match(is_row)


def sources(path: Path) -> list[Path]:
    """Return the file and the list of labels beside it."""
    return [path, *LabelIds(path, LABELS).sources()]


def read(path: Path) -> Iterator[Doc]:
    """Read the documents; they are numbered from 1."""
    ids = LabelIds(path, LABELS)

    def parse(number: int, line: str) -> Doc:
        labels, features = split_row(line)
        return Doc(
            str(number),
            labels=ids.of([text for text in labels.split(",") if text]),
            features=parse_features(features, first=1),
        )

    return read_text_records(path, parse)


def write(corpus: Corpus, path: Path) -> int:
    """Write one row per document; labels that are not numbers go to labels.txt."""
    columns = number_labels(corpus, path, LABELS)
    return write_lines(path, (format_row(doc, columns, first=1) for doc in corpus))
