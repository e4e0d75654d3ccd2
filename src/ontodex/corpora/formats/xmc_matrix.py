"""Extreme Classification Repository, two sparse matrices: NAME_X_Xf.txt and NAME_X_Y.txt.

Each starts with `rows columns`, then has a line of `column:value` per document, counted from 0. A
file labels.txt beside them has the ids of the labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path

from ontodex.corpora.formats.xmc_bow import LABELS
from ontodex.corpora.parsing.capabilities import SPARSE
from ontodex.corpora.parsing.file_head import Head
from ontodex.corpora.parsing.file_pairs import FilePair
from ontodex.corpora.parsing.label_numbers import LabelIds, number_labels
from ontodex.corpora.parsing.records import Records, write_columns, zip_lines
from ontodex.corpora.parsing.relevance import format_weight, get_weights, make_metadata
from ontodex.corpora.parsing.sparse_rows import (
    check_row_count,
    format_features,
    is_header,
    parse_features,
    read_header,
)
from ontodex.errors import DataError
from ontodex.io.files import decode
from ontodex.types import Corpus, Doc

CAPABILITIES = replace(SPARSE, metadata="relevance")
WRITES_FROM_CORPUS = True
PAIR = FilePair("{}_X_Xf.txt", "{}_X_Y.txt")


def looks_like(head: Head) -> bool:
    """Recognise two files that both start with two numbers."""
    pair = PAIR.find(head.path)
    return pair is not None and all(is_header(Head.of(path).lines[0], 2) for path in pair)


def sources(path: Path) -> list[Path]:
    """Return both files and the list of labels beside them."""
    pair = PAIR.require(path)
    return [*pair, *LabelIds(pair[0], LABELS).sources()]


def n_features(path: Path) -> int:
    """Return the number of columns of the feature matrix."""
    return read_header(PAIR.require(path)[0], "rows columns")[1]


def read(path: Path) -> Iterator[Doc]:
    """Read the documents; they are numbered from 1."""
    features_path, labels_path = PAIR.require(path)
    n_docs, width = read_header(features_path, "rows columns")
    n_rows, n_labels = read_header(labels_path, "rows columns")
    if n_rows != n_docs:
        raise DataError(
            f"{n_rows:,} rows, but {features_path.name} has {n_docs:,}", path=labels_path, line=1
        )
    ids = LabelIds(features_path, LABELS)

    def parse(number: int, lines: tuple[bytes, bytes]) -> Doc:
        features = parse_features(decode(lines[0]), width=width)
        columns = parse_features(decode(lines[1]), width=n_labels, what="label")
        weights = {ids.look_up_number(column): weight for column, weight in columns.items()}
        return Doc(
            str(number),
            labels=tuple(weights),
            metadata=make_metadata(weights),
            features=features,
        )

    lines = islice(zip_lines(features_path, labels_path), 1, None)
    return Records(features_path, check_row_count(lines, n_docs, features_path), parse)


def targets(path: Path) -> list[Path]:
    """Return both matrices."""
    return list(PAIR.name_targets(path))


def write(corpus: Corpus, path: Path) -> int:
    """Write both matrices; labels that are not numbers go to labels.txt."""
    features_path, labels_path = PAIR.name_targets(path)
    columns = number_labels(corpus, features_path, LABELS)
    n_labels = max(columns.values(), default=-1) + 1
    heads = (f"{len(corpus)} {corpus.n_features}", f"{len(corpus)} {n_labels}")
    write_columns((features_path, labels_path), _format_rows(corpus, heads, columns))
    return len(corpus)


def _format_rows(
    corpus: Corpus, heads: tuple[str, str], columns: Mapping[str, int]
) -> Iterator[tuple[str, str]]:
    yield heads
    for doc in corpus:
        assert isinstance(doc.features, Mapping)
        weights = get_weights(doc).items()
        labels = " ".join(f"{columns[label]}:{format_weight(weight)}" for label, weight in weights)
        yield format_features(doc.features), labels
