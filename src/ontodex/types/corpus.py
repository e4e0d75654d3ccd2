"""Many documents."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from ontodex.errors import DataError
from ontodex.files import atomic_folder, write_text
from ontodex.types.batches import (
    BATCH_DOCS,
    SCHEMA,
    Kinds,
    batches_of,
    docs_of,
    feature_batch,
    flat,
)
from ontodex.types.doc import Doc, Kind


class Corpus:
    """Documents in one Arrow file, memory-mapped; iterating yields `Doc`s and holds one batch.

    A corpus on disk is a folder: `docs.arrow`, `corpus.json` (kind, count, content key) and, beside
    them, whatever `features/` prepared for it. `Corpus.of` makes one in memory for a few documents.
    """

    def __init__(
        self,
        table: pa.Table,
        *,
        kind: Kind,
        n_features: int = 0,
        key: str = "",
        folder: Path | None = None,
        rows: NDArray[np.int64] | None = None,
        carries_text: bool = True,
        labels: pa.ListArray | None = None,
    ) -> None:
        self._table, self._rows, self._key = table, rows, key
        self._carries_text = carries_text
        self._labels = labels  # of the chosen rows, instead of the table's
        self.kind: Kind = kind
        self.n_features = n_features
        self.folder = folder

    @classmethod
    def of(cls, docs: Iterable[Doc], *, n_features: int = 0) -> Self:
        """A corpus in memory."""
        kinds = Kinds(n_features)
        batches = list(batches_of(docs, kinds))
        table = pa.Table.from_batches(batches, schema=SCHEMA)
        return cls(table, kind=kinds.kind, n_features=kinds.n_features)

    @classmethod
    def of_features(
        cls, matrix: csr_array | NDArray[np.float32], labels: Sequence[Sequence[str]]
    ) -> Self:
        """A corpus in memory of the rows of a matrix, with their numbers as ids; the same as `of`
        without an object for every value. A sparse row must have each column once."""
        batches = [
            feature_batch(matrix[row : row + BATCH_DOCS], labels[row : row + BATCH_DOCS], row)
            for row in range(0, matrix.shape[0], BATCH_DOCS)
        ]
        kind: Kind = "sparse" if isinstance(matrix, csr_array) else "dense"
        table = pa.Table.from_batches(batches, schema=SCHEMA)
        return cls(table, kind=kind, n_features=matrix.shape[1])

    @classmethod
    def write(cls, docs: Iterable[Doc], folder: Path, *, n_features: int = 0) -> Self:
        """Stream `docs` into `folder` (whole or not at all) and open it."""
        with atomic_folder(folder) as temporary:
            kinds = Kinds(n_features)
            content, count = hashlib.sha256(), 0
            with (
                pa.OSFile(str(temporary / "docs.arrow"), "wb") as sink,
                pa.ipc.new_file(sink, SCHEMA) as writer,
            ):
                for batch in batches_of(docs, kinds):
                    count += batch.num_rows
                    content.update(batch.serialize())
                    writer.write_batch(batch)
            about = {
                "format": 1,
                "kind": kinds.kind,
                "documents": count,
                "n_features": kinds.n_features,
                "key": content.hexdigest(),
            }
            write_text(temporary / "corpus.json", json.dumps(about, indent=1) + "\n")
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Memory-map a corpus folder."""
        try:
            about = json.loads((folder / "corpus.json").read_text())
            with pa.memory_map(str(folder / "docs.arrow")) as source:
                table = pa.ipc.open_file(source).read_all()
        except (OSError, ValueError, pa.ArrowException) as error:
            raise DataError(
                f"not a readable corpus folder ({error})", path=folder, hint="make it again"
            ) from error
        if about.get("format") != 1 or table.num_rows != about["documents"]:
            raise DataError("corpus.json and docs.arrow do not belong together", path=folder)
        return cls(
            table,
            kind=about["kind"],
            n_features=about["n_features"],
            key=about["key"],
            folder=folder,
            carries_text=about.get("text", True),
        )

    def __len__(self) -> int:
        return self._table.num_rows if self._rows is None else len(self._rows)

    def __iter__(self) -> Iterator[Doc]:
        for batch in self._chunks():
            yield from docs_of(batch, self.kind)

    def __getitem__(self, row: int) -> Doc:
        return next(iter(self.select([range(len(self))[row]])))

    def select(self, rows: ArrayLike) -> Corpus:
        """The documents at these rows (numbers or a mask), in the corpus's own order."""
        chosen = np.asarray(rows)
        chosen = np.flatnonzero(chosen) if chosen.dtype == bool else np.unique(chosen)
        chosen = chosen.astype(np.int64)
        inner = chosen if self._rows is None else self._rows[chosen]
        labels = None if self._labels is None else self._labels.take(pa.array(chosen))
        return self._part(inner, labels)

    def with_labels(self, labels: Sequence[Sequence[str]]) -> Corpus:
        """The same documents with other labels, under a key of its own; what was prepared for
        these documents is still found, through `whole`."""
        if len(labels) != len(self):
            raise ValueError(f"{len(labels):,} label lists for {len(self):,} documents")
        rows = np.arange(len(self)) if self._rows is None else self._rows
        return self._part(rows, pa.array(labels, SCHEMA.field("labels").type))

    def joined(self, other: Corpus) -> Corpus:
        """The documents of both. Two parts of one corpus make a larger part of it, in its own order
        and with its folder; anything else is a corpus in memory, these documents first."""
        mine, theirs = self._rows, other._rows
        same = self.whole.key == other.whole.key and self._labels is None and other._labels is None
        if same and mine is not None and theirs is not None:
            rows = np.union1d(mine, theirs)
            return self.whole if len(rows) == len(self.whole) else self.whole.select(rows)
        if self.kind != other.kind:
            raise DataError(f"a corpus of {self.kind} cannot be joined by one of {other.kind}")
        batches = [*self._chunks(), *other._chunks()]
        return Corpus(
            pa.Table.from_batches(batches, schema=SCHEMA),
            kind=self.kind,
            n_features=max(self.n_features, other.n_features),
            carries_text=self._carries_text and other._carries_text,
        )

    def carry(self, folder: Path) -> Corpus:
        """Write ids, keywords, labels and features, but no text or metadata, to `folder`. It has
        the key of this corpus, so what was prepared for this one is found for that one."""
        with atomic_folder(folder) as temporary:
            with (
                pa.OSFile(str(temporary / "docs.arrow"), "wb") as sink,
                pa.ipc.new_file(sink, SCHEMA) as writer,
            ):
                for batch in self._chunks():
                    n = batch.num_rows
                    empty = {"fields": [[]] * n, "metadata": ["{}"] * n}
                    columns = [
                        pa.array(empty[name], SCHEMA.field(name).type)
                        if name in empty
                        else batch[name]
                        for name in SCHEMA.names
                    ]
                    writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))
            about = {
                "format": 1,
                "kind": self.kind,
                "documents": len(self),
                "n_features": self.n_features,
                "key": self.key,
                "text": False,
            }
            write_text(temporary / "corpus.json", json.dumps(about, indent=1) + "\n")
        return Corpus.open(folder)

    @property
    def rows(self) -> NDArray[np.int64] | None:
        """Which rows of the `whole` these documents are; None for a corpus that is whole."""
        return self._rows

    @property
    def whole(self) -> Corpus:
        """The corpus this one was selected from (itself when it was not)."""
        return self if self._rows is None else self._part(None, None)

    def _part(self, rows: NDArray[np.int64] | None, labels: pa.ListArray | None) -> Corpus:
        """These rows of the whole (None: all), with these labels (None: their own)."""
        return Corpus(
            self._table,
            kind=self.kind,
            n_features=self.n_features,
            key=self._key,
            folder=self.folder,
            rows=rows,
            carries_text=self._carries_text,
            labels=labels,
        )

    @cached_property
    def key(self) -> str:
        """A digest of the content: equal corpora have equal keys, and caches are found by it."""
        base = self._key
        if not base:
            content = hashlib.sha256()
            for batch in self._table.to_batches():
                content.update(batch.serialize())
            base = content.hexdigest()
        if self._rows is None:
            return base
        content = hashlib.sha256(base.encode() + self._rows.tobytes())
        if self._labels is not None:
            content.update(json.dumps(self._labels.to_pylist()).encode())
        return content.hexdigest()

    @property
    def has_text(self) -> bool:
        """Whether the words can be read: not so in a corpus of features, nor in a prepared folder,
        which carries a text corpus's token ids instead of its text."""
        return self.kind == "text" and self._carries_text

    @cached_property
    def ids(self) -> list[str]:
        return [text for batch in self._chunks() for text in batch["id"].to_pylist()]

    def texts(self, fields: Sequence[str] = ()) -> Iterator[str]:
        """`Doc.text` of each document, without building the rest of it; or of these fields only,
        in this order."""
        if not self.has_text:
            raise DataError(
                f"a corpus of {self.kind} features has no text"
                if self.kind != "text"
                else "this corpus was prepared without its text",
                path=self.folder,
                hint="use the original corpus, or prepare it again with what this step needs",
            )
        for batch in self._chunks():
            column = batch["fields"]
            texts = column.items.to_pylist()
            names = column.keys.to_pylist() if fields else []
            offsets = column.offsets.to_numpy() - column.offsets[0].as_py()
            for start, end in pairwise(offsets):
                if fields:
                    named = dict(zip(names[start:end], texts[start:end], strict=True))
                    yield "\n".join(named[name] for name in fields if name in named)
                else:
                    yield "\n".join(texts[start:end])

    def field_names(self) -> list[str]:
        """Every text field that some document has, in the order of appearance."""
        names: dict[str, None] = {}
        for batch in self._chunks():
            names |= dict.fromkeys(batch["fields"].keys.unique().to_pylist())
        return list(names)

    def keywords(self) -> Iterator[list[str]]:
        for batch in self._chunks():
            yield from batch["keywords"].to_pylist()

    def labels(self) -> Iterator[list[str]]:
        """The labels of each document, as given."""
        for batch in self._chunks():
            yield from batch["labels"].to_pylist()

    def features(self) -> csr_array | NDArray[np.float32]:
        """The feature matrix of a corpus without text: sparse rows, or a dense array."""
        if self.kind == "text":
            raise DataError("this corpus holds text, not features")
        batches = list(self._chunks())
        values = flat(batches, "values", np.float32)
        if self.kind == "dense":
            return values.reshape(len(self), self.n_features)
        lengths = [np.diff(batch["values"].offsets.to_numpy()) for batch in batches]
        indptr = np.concatenate([[0], np.cumsum(np.concatenate([*lengths, np.empty(0, np.int64)]))])
        indices = flat(batches, "indices", np.int32)
        return csr_array((values, indices, indptr), shape=(len(self), self.n_features))

    def _chunks(self) -> Iterator[pa.RecordBatch]:
        """Record batches of the chosen rows, one at a time."""
        start = 0
        for batch in self._table.to_batches():
            if self._rows is None:
                yield batch
            else:
                low, high = np.searchsorted(self._rows, [start, start + batch.num_rows])
                if high > low:
                    taken = batch.take(pa.array(self._rows[low:high] - start))
                    yield taken if self._labels is None else self._relabelled(taken, int(low))
            start += batch.num_rows

    def _relabelled(self, batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
        assert self._labels is not None
        labels = self._labels.slice(first, batch.num_rows)
        return batch.set_column(SCHEMA.get_field_index("labels"), "labels", labels)
