"""Parquet with named columns; labels and keywords are lists of text (or text, as in CSV)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ontodex.corpora.field_mapping import NO_MAPPING, FieldMapping
from ontodex.corpora.parsing.capabilities import FormatCapabilities
from ontodex.corpora.parsing.columns import Columns, name_columns
from ontodex.corpora.parsing.file_head import Head
from ontodex.corpora.parsing.json_objects import dump_json
from ontodex.corpora.parsing.records import Records
from ontodex.errors import DataError
from ontodex.io.files import detect_compression, open_atomic
from ontodex.types import Corpus, Doc

CAPABILITIES = FormatCapabilities(fields="all", keywords=True, metadata="all")
TAKES_FIELDS = True
WRITES_FROM_CORPUS = True
_BATCH = 1_000  # documents in memory at a time
_ROW_GROUP = 10_000


def looks_like(head: Head) -> bool:
    """Recognise the magic bytes of Parquet."""
    return head.start.startswith(b"PAR1")


def read(path: Path, *, mapping: FieldMapping = NO_MAPPING) -> Iterator[Doc]:
    """Read the documents of a table in batches of rows."""
    file = _open(path)
    try:
        columns = Columns(file.schema_arrow.names, mapping, keep_empty=True)
    except DataError as error:
        raise error.at(path) from error
    _check_types(file.schema_arrow, columns, path)
    records = Records(path, _read_rows(file, path, columns.others), columns.doc)
    records.has_ids = columns.has_id
    return records


def read_columns(path: Path) -> list[str]:
    """Return the names of the columns."""
    return list(_open(path).schema_arrow.names)


def _open(path: Path) -> pq.ParquetFile:
    if detect_compression(path) is not None:
        raise DataError("a compressed Parquet file; unpack it first", path=path)
    try:
        return pq.ParquetFile(path)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise DataError(f"not a complete Parquet file ({error})", path=path) from error


def _check_types(schema: pa.Schema, columns: Columns, path: Path) -> None:
    for name in columns.fields:
        kind = schema.field(name).type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise DataError(f"column {name!r} has the type {kind}, not text", path=path)


def _read_rows(
    file: pq.ParquetFile, path: Path, others: Sequence[str]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (row number from 1, row) with metadata that JSON can store."""
    number = 0
    try:
        for batch in file.iter_batches(batch_size=_BATCH):
            for row in batch.to_pylist():
                number += 1
                yield number, row | {name: _make_plain(row[name]) for name in others}
    except (OSError, ValueError, pa.ArrowException) as error:  # a ValueError: not UTF-8
        raise DataError(f"damaged after row {number:,} ({error})", path=path) from error


def _make_plain(value: Any) -> Any:
    """Convert dates, decimals and bytes to text, because JSON has no such types."""
    if value is None or isinstance(value, str):
        return value
    return json.loads(json.dumps(value, default=str))


def write(corpus: Corpus, path: Path) -> int:
    """Write the columns in row groups; a missing field is null."""
    fields = name_columns(corpus)
    texts = {column: pa.string() for column in fields.values()}
    lists = {"keywords": pa.list_(pa.string()), "labels": pa.list_(pa.string())}
    schema = pa.schema({"id": pa.string(), **texts, **lists, "metadata": pa.string()})
    with open_atomic(path) as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
        docs = iter(corpus)
        while rows := [_make_row(doc, fields) for doc in islice(docs, _ROW_GROUP)]:
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
    return len(corpus)


def _make_row(doc: Doc, fields: dict[str, str]) -> dict[str, Any]:
    return {
        "id": doc.id,
        **{column: doc.fields.get(name) for name, column in fields.items()},
        "keywords": doc.keywords,
        "labels": doc.labels,
        "metadata": dump_json(doc.metadata) if doc.metadata else None,
    }
