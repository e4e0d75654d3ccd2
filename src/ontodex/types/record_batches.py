"""Convert documents to Arrow record batches and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.errors import DataError
from ontodex.types.doc import Doc, Kind

SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "fields": pa.map_(pa.string(), pa.string()),
        "keywords": pa.list_(pa.string()),
        "labels": pa.list_(pa.string()),
        "metadata": pa.string(),
        "indices": pa.list_(pa.int32()),
        "values": pa.list_(pa.float32()),
    }
)
BATCH_DOCS = 1_000
BATCH_BYTES = (
    32 * 2**20
)  # far below Arrow's limit of 2 GiB of text per batch, even with documents of 10 MB

MAX_FEATURES = 100_000_000  # a system needs up to 40 bytes for each


@dataclass
class ContentCheck:
    """Kind and number of features of a stream of documents, which must all agree."""

    n_features: int
    kind: Kind = "text"
    first: str | None = None

    def __post_init__(self) -> None:
        check_n_features(self.n_features)

    def check(self, doc: Doc) -> None:
        """Take the kind from the first document; raise a DataError for one of another kind."""
        if self.first is None:
            self.first, self.kind = doc.id, doc.kind
        if doc.kind != self.kind:
            raise DataError(
                f"document {doc.id!r} has {doc.kind} content but {self.first!r} has {self.kind}"
            )
        if doc.features is None:
            return
        if isinstance(doc.features, Mapping):
            self.n_features = max(self.n_features, max(doc.features, default=-1) + 1)
            check_n_features(self.n_features)
        else:
            self.n_features = self.n_features or len(doc.features)
            if len(doc.features) != self.n_features:
                raise DataError(
                    f"document {doc.id!r} has {len(doc.features)} features, not {self.n_features}"
                )


def check_n_features(n_features: int) -> None:
    """Raise a DataError for more features than a system could have in memory."""
    if n_features > MAX_FEATURES:
        raise DataError(
            f"{n_features:,} features; at most {MAX_FEATURES:,} are supported",
            hint="number the features that occur from 0, without gaps",
        )


def make_batches(docs: Iterable[Doc], content: ContentCheck) -> Iterator[pa.RecordBatch]:
    """Yield the documents in batches, in order; `content` checks each of them."""
    waiting: list[Doc] = []
    size = 0
    for doc in docs:
        content.check(doc)
        waiting.append(doc)
        size += sum(map(len, doc.fields.values()))
        if len(waiting) == BATCH_DOCS or size > BATCH_BYTES:
            yield _make_batch(waiting)
            waiting, size = [], 0
    if waiting:
        yield _make_batch(waiting)


def _make_batch(docs: Sequence[Doc]) -> pa.RecordBatch:
    any_features = any(doc.features is not None for doc in docs)
    columns = {
        "id": [doc.id for doc in docs],
        "fields": [list(doc.fields.items()) for doc in docs],
        "keywords": [doc.keywords for doc in docs],
        "labels": [doc.labels for doc in docs],
        "metadata": [
            json.dumps(dict(doc.metadata), ensure_ascii=False) if doc.metadata else "{}"
            for doc in docs
        ],
        "indices": [
            list(doc.features) if isinstance(doc.features, Mapping) else () for doc in docs
        ] if any_features else [()] * len(docs),
        "values": [
            () if doc.features is None
            else list(doc.features.values()) if isinstance(doc.features, Mapping)
            else doc.features
            for doc in docs
        ] if any_features else [()] * len(docs),
    }  # fmt: skip
    return pa.RecordBatch.from_pydict(columns, schema=SCHEMA)


def make_feature_batch(
    matrix: csr_array | NDArray[np.float32], labels: Sequence[Sequence[str]], first_id: int
) -> pa.RecordBatch:
    """Return the rows of a matrix as documents, with the numbers from `first_id` on as ids."""
    n, width = matrix.shape
    columns = {
        "id": [str(first_id + row) for row in range(n)],
        "fields": [[]] * n,
        "keywords": [[]] * n,
        "labels": labels,
        "metadata": ["{}"] * n,
    }
    if isinstance(matrix, csr_array):
        columns["indices"] = _make_lists(matrix.indptr, matrix.indices, np.int32)
        columns["values"] = _make_lists(matrix.indptr, matrix.data, np.float32)
    else:
        columns["indices"] = [[]] * n
        columns["values"] = _make_lists(np.arange(n + 1) * width, matrix.ravel(), np.float32)
    return pa.RecordBatch.from_pydict(columns, schema=SCHEMA)


def _make_lists(offsets: NDArray[Any], values: NDArray[Any], dtype: type) -> pa.ListArray:
    return pa.ListArray.from_arrays(offsets.astype(np.int32), values.astype(dtype, copy=False))


def unpack_batch(batch: pa.RecordBatch, kind: Kind) -> Iterator[Doc]:
    """Yield the documents of a batch; raise a DataError for values that no document has."""
    names = ["id", "fields", "keywords", "labels", "metadata", "indices", "values"]
    for id_, fields, keywords, labels, metadata, indices, values in zip(
        *(batch[name].to_pylist() for name in names), strict=True
    ):
        try:
            content = (
                None
                if kind == "text"
                else dict(zip(indices, values, strict=True))
                if kind == "sparse"
                else tuple(values)
            )
            more = _read_metadata(metadata)
        except (TypeError, ValueError, RecursionError) as error:
            raise DataError(
                f"the corpus folder is damaged: document {id_!r:.100}: {error}",
                hint="create it again with `ontodex convert`",
            ) from error
        yield Doc(id_, dict(fields), tuple(keywords), tuple(labels), more, content)


def _read_metadata(text: str) -> dict[str, Any]:
    """Return the metadata of a document, which every corpus format can hold."""
    if text == "{}":
        return {}
    found = json.loads(text)
    if not isinstance(found, dict):
        raise TypeError("its metadata is not an object")
    if "\\u" in text:  # perhaps half a surrogate pair: a UnicodeEncodeError is a ValueError
        json.dumps(found, ensure_ascii=False).encode()
    return found


def check_complete(table: pa.Table) -> None:
    """Raise a ValueError for a table in which a value is missing: documents have them all."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        for chunk in column.chunks:
            inner = [chunk.keys, chunk.items] if pa.types.is_map(chunk.type) else []
            inner += [chunk.flatten()] if pa.types.is_list(chunk.type) else []
            if any(array.null_count for array in (chunk, *inner)):
                raise ValueError(f"the column {name!r} has missing values")


def flatten_column(batches: list[pa.RecordBatch], name: str, dtype: type) -> NDArray[Any]:
    """Concatenate the values of a column of lists."""
    parts = [batch[name].flatten().to_numpy() for batch in batches]
    return np.concatenate([*parts, np.empty(0, dtype)]).astype(dtype, copy=False)
