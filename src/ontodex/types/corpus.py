"""A corpus of documents."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Self, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from ontodex.errors import DataError
from ontodex.io.counts import format_count
from ontodex.io.files import check_regular, replace_folder, write_text
from ontodex.types.arrow_file import read_arrow_file
from ontodex.types.doc import Doc, Kind
from ontodex.types.record_batches import (
    BATCH_DOCS,
    SCHEMA,
    ContentCheck,
    check_complete,
    check_n_features,
    flatten_column,
    make_batches,
    make_feature_batch,
    unpack_batch,
)


class Corpus:
    """Documents in a memory-mapped Arrow file; iterating yields `Doc`s, one batch in memory.

    A corpus on disk is a folder with `docs.arrow` and `corpus.json` (kind, count, content key), and
    with the features that were prepared for it. `Corpus.of` makes a small corpus in memory.

    >>> corpus = ontodex.Corpus.of([ontodex.Doc("1", {"text": "an oak"}, labels=("oak",))])
    >>> corpus, [doc.text for doc in corpus], list(corpus.labels())
    (Corpus(1 document), ['an oak'], [['oak']])
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
        check_n_features(n_features)
        self._table, self._rows, self._key = table, rows, key
        self._carries_text = carries_text
        self._labels = labels  # of the selected rows, instead of those in the table
        self.kind: Kind = kind
        self.n_features = n_features
        self.folder = folder

    def __repr__(self) -> str:
        return f"Corpus({format_count(len(self), 'document')})"

    @classmethod
    def of(cls, docs: Iterable[Doc], *, n_features: int = 0) -> Self:
        """Make a corpus in memory."""
        content = ContentCheck(n_features)
        batches = list(make_batches(docs, content))
        table = pa.Table.from_batches(batches, schema=SCHEMA)
        return cls(table, kind=content.kind, n_features=content.n_features)

    @classmethod
    def of_features(
        cls, matrix: csr_array | NDArray[np.float32], labels: Sequence[Sequence[str]]
    ) -> Self:
        """Make a corpus in memory of the rows of a matrix, with their numbers as ids.

        It is faster than `of`. A sparse row must have each column once.
        """
        batches = [
            make_feature_batch(matrix[row : row + BATCH_DOCS], labels[row : row + BATCH_DOCS], row)
            for row in range(0, matrix.shape[0], BATCH_DOCS)
        ]
        kind: Kind = "sparse" if isinstance(matrix, csr_array) else "dense"
        table = pa.Table.from_batches(batches, schema=SCHEMA)
        return cls(table, kind=kind, n_features=matrix.shape[1])

    @classmethod
    def write(cls, docs: Iterable[Doc], folder: Path | str, *, n_features: int = 0) -> Self:
        """Stream documents into a folder, atomically, and open it."""
        with replace_folder(Path(folder)) as temporary:
            content = ContentCheck(n_features)
            hashed, count = hashlib.sha256(), 0
            with (
                pa.OSFile(str(temporary / "docs.arrow"), "wb") as sink,
                pa.ipc.new_file(sink, SCHEMA) as writer,
            ):
                for batch in make_batches(docs, content):
                    count += batch.num_rows
                    hashed.update(batch.serialize())
                    writer.write_batch(batch)
            about = {
                "format": 1,
                "kind": content.kind,
                "documents": count,
                "n_features": content.n_features,
                "key": hashed.hexdigest(),
            }
            write_text(temporary / "corpus.json", json.dumps(about, indent=1) + "\n")
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path | str, *, is_trusted: bool = True) -> Self:
        """Memory-map a corpus folder; check all values of one that is not trusted."""
        folder = Path(folder)
        try:
            for name in ("corpus.json", "docs.arrow"):
                check_regular(folder / name)
            about = json.loads((folder / "corpus.json").read_text())
            table = read_arrow_file(folder / "docs.arrow")
            if not is_trusted:  # offsets outside of the file would crash the process later
                table.validate(full=True)
                check_complete(table)
        except (OSError, ValueError, RecursionError, pa.ArrowException) as error:
            raise DataError(
                f"not a readable corpus folder ({error})", path=folder, hint="create it again"
            ) from error
        if not _is_description(about) or table.num_rows != about["documents"]:
            raise DataError("corpus.json and docs.arrow do not match", path=folder)
        if not table.schema.equals(SCHEMA):
            raise DataError(
                "docs.arrow has other columns than a corpus",  # their names may not be UTF-8
                path=folder,
                hint="create it again with `ontodex convert`",
            )
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
            yield from unpack_batch(batch, self.kind)

    def __getitem__(self, row: int) -> Doc:
        return next(iter(self.select([range(len(self))[row]])))

    def select(self, rows: ArrayLike) -> Corpus:
        """Return the documents at these rows (numbers or a mask), in the order of the corpus."""
        chosen = np.asarray(rows)
        chosen = np.flatnonzero(chosen) if chosen.dtype == bool else np.unique(chosen)
        chosen = chosen.astype(np.int64)
        inner = chosen if self._rows is None else self._rows[chosen]
        labels = None if self._labels is None else self._labels.take(pa.array(chosen))
        return self._part(inner, labels)

    def with_labels(self, labels: Sequence[Sequence[str]]) -> Corpus:
        """Return the same documents with other labels.

        The new corpus has its own key; features prepared for the documents are found by `whole`.
        """
        if len(labels) != len(self):
            raise ValueError(f"{len(labels):,} label lists for {len(self):,} documents")
        rows = np.arange(len(self)) if self._rows is None else self._rows
        return self._part(rows, pa.array(labels, SCHEMA.field("labels").type))

    def join(self, other: Corpus) -> Corpus:
        """Return the documents of both.

        Two parts of one corpus give a larger part of it, in its order and with its folder. Any
        other two give a corpus in memory, the documents of this one first.
        """
        mine, theirs = self._rows, other._rows
        same = self.whole.key == other.whole.key and self._labels is None and other._labels is None
        if same and mine is not None and theirs is not None:
            rows = np.union1d(mine, theirs)
            return self.whole if len(rows) == len(self.whole) else self.whole.select(rows)
        if self.kind != other.kind:
            raise DataError(
                f"a corpus of kind {self.kind} and one of kind {other.kind} cannot be joined"
            )
        batches = [*self._chunks(), *other._chunks()]
        return Corpus(
            pa.Table.from_batches(batches, schema=SCHEMA),
            kind=self.kind,
            n_features=max(self.n_features, other.n_features),
            carries_text=self._carries_text and other._carries_text,
        )

    def write_without_text(self, folder: Path | str) -> Corpus:
        """Write ids, keywords, labels and features, but no text or metadata, to `folder`.

        The copy has the key of this corpus, so features prepared for this one are found for it.
        """
        with replace_folder(Path(folder)) as temporary:
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
        """Rows of these documents in `whole`; None for a whole corpus."""
        return self._rows

    @property
    def whole(self) -> Corpus:
        """The corpus that this one was selected from, or itself."""
        return self if self._rows is None else self._part(None, None)

    def _part(self, rows: NDArray[np.int64] | None, labels: pa.ListArray | None) -> Corpus:
        """Return these rows of the whole (None: all) with these labels (None: their own)."""
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
        """A hash of the content, by which caches are found; equal corpora have equal keys."""
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
        """False in a corpus of features, and in a prepared one, which has token ids but no text."""
        return self.kind == "text" and self._carries_text

    @cached_property
    def ids(self) -> list[str]:
        return [text for batch in self._chunks() for text in batch["id"].to_pylist()]

    def texts(self, fields: Sequence[str] = (), *, title_weight: int = 1) -> Iterator[str]:
        """Yield `Doc.text` of each document, or the text of these fields in this order.

        The first of several fields is repeated `title_weight` times.
        """
        if not self.has_text:
            raise DataError(
                f"a corpus of {self.kind} features has no text"
                if self.kind != "text"
                else "this corpus was prepared without its text",
                path=self.folder,
                hint="use the original corpus, or prepare it again for this step",
            )
        for batch in self._chunks():
            column = batch["fields"]
            texts = column.items.to_pylist()
            names = column.keys.to_pylist() if fields else []
            offsets = column.offsets.to_numpy() - column.offsets[0].as_py()
            for start, end in pairwise(offsets):
                own = texts[start:end]
                if fields:
                    named = dict(zip(names[start:end], own, strict=True))
                    own = [named[name] for name in fields if name in named]
                if len(own) > 1:
                    own = own[:1] * (title_weight - 1) + own
                yield "\n".join(own)

    def field_names(self) -> list[str]:
        """Return the names of all text fields, in the order of appearance."""
        names: dict[str, None] = {}
        for batch in self._chunks():
            names |= dict.fromkeys(batch["fields"].keys.unique().to_pylist())
        return list(names)

    def keywords(self) -> Iterator[list[str]]:
        """Yield the keywords of each document."""
        for batch in self._chunks():
            yield from batch["keywords"].to_pylist()

    def labels(self) -> Iterator[list[str]]:
        """Yield the labels of each document."""
        for batch in self._chunks():
            yield from batch["labels"].to_pylist()

    def features(self) -> csr_array | NDArray[np.float32]:
        """Return the feature matrix of a corpus without text, sparse or dense."""
        if self.kind == "text":
            raise DataError("this corpus has text, not features")
        batches = list(self._chunks())
        values = flatten_column(batches, "values", np.float32)
        if self.kind == "dense":
            return values.reshape(len(self), self.n_features)
        lengths = [np.diff(batch["values"].offsets.to_numpy()) for batch in batches]
        indptr = np.concatenate([[0], np.cumsum(np.concatenate([*lengths, np.empty(0, np.int64)]))])
        indices = flatten_column(batches, "indices", np.int32)
        return csr_array((values, indices, indptr), shape=(len(self), self.n_features))

    def _chunks(self) -> Iterator[pa.RecordBatch]:
        """Yield record batches of the selected rows."""
        start = 0
        for batch in self._table.to_batches():
            if self._rows is None:
                yield batch
            else:
                low, high = np.searchsorted(self._rows, [start, start + batch.num_rows])
                if high > low:
                    taken = batch.take(pa.array(self._rows[low:high] - start))
                    yield taken if self._labels is None else self._replace_labels(taken, int(low))
            start += batch.num_rows

    def _replace_labels(self, batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
        assert self._labels is not None
        labels = self._labels.slice(first, batch.num_rows)
        return batch.set_column(SCHEMA.get_field_index("labels"), "labels", labels)


_KEY = re.compile(r"[0-9a-f]{1,64}")


def _is_description(about: Any) -> bool:
    """Return whether corpus.json has the values of a corpus, each of its type."""
    return (
        isinstance(about, dict)
        and about.get("format") == 1
        and about.get("kind") in get_args(Kind)
        and isinstance(about.get("documents"), int)
        and isinstance(about.get("n_features"), int)
        and about["n_features"] >= 0
        and isinstance(about.get("key"), str)
        and _KEY.fullmatch(about["key"]) is not None  # it becomes part of file names
        and isinstance(about.get("text", True), bool)
    )
