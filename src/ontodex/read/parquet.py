"""Parquet with named columns; labels and keywords are lists of text (or text, as in CSV)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ontodex.errors import DataError
from ontodex.files import atomic, compression
from ontodex.read.columns import Columns, columns_of
from ontodex.read.head import Head
from ontodex.read.holds import Holds
from ontodex.read.lines import Records
from ontodex.read.objects import dump
from ontodex.types import Corpus, Doc

HOLDS = Holds(fields="all", keywords=True, metadata="all")
TAKES_TEXT_FIELDS = True
WRITES_FROM_CORPUS = True
_BATCH = 1_000  # documents in memory at a time
_ROW_GROUP = 10_000


def looks_like(head: Head) -> bool:
    """The mark of Parquet at the start of the file."""
    return head.start.startswith(b"PAR1")


def read(path: Path, *, text_fields: Sequence[str] = ()) -> Iterator[Doc]:
    """The documents of a table, a batch of rows at a time."""
    if compression(path) is not None:
        raise DataError("Parquet packs its columns itself; unpack this file first", path=path)
    try:
        file = pq.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"not a whole Parquet file ({error})", path=path) from error
    columns = Columns(file.schema_arrow.names, text_fields, keep_empty=True)
    _check_types(file.schema_arrow, columns, path)
    return Records(path, _rows(file, path, columns.others), columns.doc)


def _check_types(schema: pa.Schema, columns: Columns, path: Path) -> None:
    for name in columns.fields:
        kind = schema.field(name).type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise DataError(f"column {name!r} holds {kind}, not text", path=path)


def _rows(
    file: pq.ParquetFile, path: Path, others: Sequence[str]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """(row number from 1, row); columns that are metadata hold what JSON can hold."""
    number = 0
    try:
        for batch in file.iter_batches(batch_size=_BATCH):
            for row in batch.to_pylist():
                number += 1
                yield number, row | {name: _plain(row[name]) for name in others}
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"damaged after row {number:,} ({error})", path=path) from error


def _plain(value: Any) -> Any:
    """Dates, decimals and bytes in the metadata become text: JSON knows them not."""
    if value is None or isinstance(value, str):
        return value
    return json.loads(json.dumps(value, default=str))


def write(corpus: Corpus, path: Path) -> int:
    """Write the columns in row groups; a field that a document has not is null in its row."""
    fields = columns_of(corpus)
    texts = {column: pa.string() for column in fields.values()}
    lists = {"keywords": pa.list_(pa.string()), "labels": pa.list_(pa.string())}
    schema = pa.schema({"id": pa.string(), **texts, **lists, "metadata": pa.string()})
    with atomic(path) as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
        docs = iter(corpus)
        while rows := [_row(doc, fields) for doc in islice(docs, _ROW_GROUP)]:
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
    return len(corpus)


def _row(doc: Doc, fields: dict[str, str]) -> dict[str, Any]:
    return {
        "id": doc.id,
        **{column: doc.fields.get(name) for name, column in fields.items()},
        "keywords": doc.keywords,
        "labels": doc.labels,
        "metadata": dump(doc.metadata) if doc.metadata else None,
    }
