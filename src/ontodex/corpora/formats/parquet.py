"""Parquet with named columns; labels and keywords are lists of text (or text, as in CSV).

A few bytes of Parquet can stand for gigabytes: a page that unpacks to one long text, a value that
is repeated, a text that occurs once in a dictionary and in every row. So the pages are measured
before any is unpacked, columns with a dictionary stay in that form while they are measured, and
only then rows are made of them, a few at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ontodex.corpora.field_mapping import NO_MAPPING, FieldMapping
from ontodex.corpora.parsing.capabilities import FormatCapabilities
from ontodex.corpora.parsing.columns import Columns, name_columns
from ontodex.corpora.parsing.file_head import Head
from ontodex.corpora.parsing.json_objects import dump_json
from ontodex.corpora.parsing.parquet_pages import VALUE, ColumnSize, measure_columns
from ontodex.corpora.parsing.records import Records
from ontodex.errors import DataError
from ontodex.io.files import FREE_TABLE, MAX_LINE, MAX_RATIO, detect_compression, open_atomic
from ontodex.types import Corpus, Doc

CAPABILITIES = FormatCapabilities(fields="all", keywords=True, metadata="all")
TAKES_FIELDS = True
WRITES_FROM_CORPUS = True
_BATCH = 1_000  # documents in memory at a time, if they are not long
_BATCH_BYTES = 16 * 2**20
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
    sizes = measure_columns(file, path)
    allowed = max(FREE_TABLE, MAX_RATIO * path.stat().st_size)
    total = sum(size.n_bytes for size in sizes.values())
    _check_growth(total, allowed, path)
    leaves = map(file.schema.column, range(len(file.schema)))
    texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
    with_dictionary = [name for name in texts if name in sizes and sizes[name].has_dictionary]
    number, n_bytes = 0, 0
    try:
        packed = pq.ParquetFile(path, read_dictionary=with_dictionary)
        for batch in packed.iter_batches(batch_size=_choose_batch(file, sizes)):
            n_bytes += _measure(batch)
            _check_growth(n_bytes, allowed, path)
            for part in _split(batch, path, number):
                for row in part.cast(file.schema_arrow).to_pylist():
                    number += 1
                    yield number, row | {name: _make_plain(row[name]) for name in others}
    except (OSError, ValueError, pa.ArrowException) as error:  # a ValueError: not UTF-8
        raise DataError(f"damaged after row {number:,} ({error})", path=path) from error


def _check_growth(n_bytes: int, allowed: int, path: Path) -> None:
    if n_bytes > allowed:
        raise DataError(
            f"takes more than {allowed // 2**20:,} MiB of memory, over {MAX_RATIO} times its size; "
            "that looks like a decompression bomb",
            path=path,
            hint="convert it yourself if you trust it, for example to JSON lines",
        )


def _choose_batch(file: pq.ParquetFile, sizes: Mapping[str, ColumnSize]) -> int:
    """Return how many rows fit into a batch, by their mean size."""
    total = sum(size.n_bytes for size in sizes.values())
    return max(1, min(_BATCH, _BATCH_BYTES * file.metadata.num_rows // max(1, total)))


def _split(batch: pa.RecordBatch, path: Path, before: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows in parts that take little memory; `before` is the number of earlier rows."""
    if _measure(batch) <= MAX_LINE:
        yield batch
    elif batch.num_rows == 1:
        raise DataError(f"a row of more than {MAX_LINE // 2**20} MiB", path=path, line=before + 1)
    else:
        half = batch.num_rows // 2
        yield from _split(batch.slice(0, half), path, before)
        yield from _split(batch.slice(half), path, before + half)


def _measure(batch: pa.RecordBatch) -> int:
    """Return the bytes that the rows of a batch take without dictionaries."""
    return sum(map(_measure_array, batch.columns))


def _measure_array(array: pa.Array) -> int:
    kind = array.type
    if pa.types.is_dictionary(kind):
        lengths = pc.binary_length(array.dictionary).take(array.indices)
        return VALUE * len(array) + (pc.sum(lengths).as_py() or 0)
    if pa.types.is_struct(kind):
        return sum(map(_measure_array, array.flatten()))
    if pa.types.is_map(kind):
        array = array.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
    if pa.types.is_nested(array.type):
        return VALUE * len(array) + _measure_array(array.flatten())
    return VALUE * len(array) + int(array.nbytes)


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
