"""Extreme Classification Repository, two sparse matrices: NAME_X_Xf.txt and NAME_X_Y.txt.

Each starts with `rows columns`, then a line of `column:value` a document, counted from 0. A file
labels.txt beside them gives the labels' ids, one a line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path

from ontodex.errors import DataError
from ontodex.files import decode
from ontodex.read.head import Head
from ontodex.read.holds import SPARSE
from ontodex.read.lines import Records, write_columns, zip_lines
from ontodex.read.numbers import LabelIds, number_labels
from ontodex.read.pairs import Pair
from ontodex.read.relevance import metadata_of, number, weights_of
from ontodex.read.sparse_rows import counted, format_features, header, is_header, parse_features
from ontodex.read.xmc_bow import LABELS
from ontodex.types import Corpus, Doc

HOLDS = replace(SPARSE, metadata="relevance")
WRITES_FROM_CORPUS = True
PAIR = Pair("{}_X_Xf.txt", "{}_X_Y.txt")


def looks_like(head: Head) -> bool:
    """Two files that both start with two numbers."""
    pair = PAIR.find(head.path)
    return pair is not None and all(is_header(Head.of(path).lines[0], 2) for path in pair)


def sources(path: Path) -> list[Path]:
    """Both files and the list of labels beside them."""
    pair = PAIR.existing(path)
    return [*pair, *LabelIds(pair[0], LABELS).sources()]


def n_features(path: Path) -> int:
    """The columns of the feature matrix."""
    return header(PAIR.existing(path)[0], "rows columns")[1]


def read(path: Path) -> Iterator[Doc]:
    """The documents, numbered from 1."""
    features_path, labels_path = PAIR.existing(path)
    n_docs, width = header(features_path, "rows columns")
    n_rows, n_labels = header(labels_path, "rows columns")
    if n_rows != n_docs:
        raise DataError(
            f"{n_rows:,} rows, but {features_path.name} has {n_docs:,}", path=labels_path, line=1
        )
    ids = LabelIds(features_path, LABELS)

    def parse(number: int, lines: tuple[bytes, bytes]) -> Doc:
        features = parse_features(decode(lines[0]), width=width)
        columns = parse_features(decode(lines[1]), width=n_labels, what="label")
        weights = {ids.of_number(column): weight for column, weight in columns.items()}
        return Doc(
            str(number),
            labels=tuple(weights),
            metadata=metadata_of(weights),
            features=features,
        )

    lines = islice(zip_lines(features_path, labels_path), 1, None)
    return Records(features_path, counted(lines, n_docs, features_path), parse)


def targets(path: Path) -> list[Path]:
    """Both matrices."""
    return list(PAIR.named(path))


def write(corpus: Corpus, path: Path) -> int:
    """Write both matrices; labels that are not numbers go to labels.txt."""
    features_path, labels_path = PAIR.named(path)
    columns = number_labels(corpus, features_path, LABELS)
    n_labels = max(columns.values(), default=-1) + 1
    heads = (f"{len(corpus)} {corpus.n_features}", f"{len(corpus)} {n_labels}")
    write_columns((features_path, labels_path), _rows(corpus, heads, columns))
    return len(corpus)


def _rows(
    corpus: Corpus, heads: tuple[str, str], columns: Mapping[str, int]
) -> Iterator[tuple[str, str]]:
    yield heads
    for doc in corpus:
        assert isinstance(doc.features, Mapping)
        weights = weights_of(doc).items()
        labels = " ".join(f"{columns[label]}:{number(weight)}" for label, weight in weights)
        yield format_features(doc.features), labels
