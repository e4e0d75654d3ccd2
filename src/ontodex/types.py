"""The five nouns that pass between stages. All of them are immutable.

    Doc          one document: id, text fields in order, keywords, labels, metadata (or features)
    Corpus       many documents, on disk and memory-mapped: text, sparse or dense features
    Ontology     concepts: names, synonyms, parents (a graph without cycles), categories
    LabelSpace   column <-> concept id, with training frequency and the Ontology if there is one
    Ranking      the answer of every system: (documents x k) columns and probabilities

Words used everywhere: a *label* is a concept id (a string), a *column* its number, *gold* the
sparse matrix of true labels.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from ontodex.errors import DataError
from ontodex.files import atomic_folder, write_text

Kind = Literal["text", "sparse", "dense"]
PADDING = -1


@dataclass(frozen=True, slots=True)
class Doc:
    """One document. Without text it has `features`: {index: value} (sparse) or a tuple (dense)."""

    id: str
    fields: Mapping[str, str] = field(default_factory=dict)
    keywords: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    features: Mapping[int, float] | tuple[float, ...] | None = None

    @property
    def text(self) -> str:
        """All text fields in order, one a line."""
        return "\n".join(self.fields.values())

    @property
    def kind(self) -> Kind:
        if self.features is None:
            return "text"
        return "sparse" if isinstance(self.features, Mapping) else "dense"


# ------------------------------------------------------------------------------------------ Corpus

_SCHEMA = pa.schema(
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
_BATCH_DOCS = 1_000
_BATCH_BYTES = (
    32 * 2**20
)  # a batch of 10 MB documents stays far under Arrow's 2 GiB of text a batch


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
        kinds = _Kinds(n_features)
        batches = list(_batches(docs, kinds))
        table = pa.Table.from_batches(batches, schema=_SCHEMA)
        return cls(table, kind=kinds.kind, n_features=kinds.n_features)

    @classmethod
    def of_features(
        cls, matrix: csr_array | NDArray[np.float32], labels: Sequence[Sequence[str]]
    ) -> Self:
        """A corpus in memory of the rows of a matrix, with their numbers as ids; the same as `of`
        without an object for every value. A sparse row must have each column once."""
        batches = [
            _feature_batch(matrix[row : row + _BATCH_DOCS], labels[row : row + _BATCH_DOCS], row)
            for row in range(0, matrix.shape[0], _BATCH_DOCS)
        ]
        kind: Kind = "sparse" if isinstance(matrix, csr_array) else "dense"
        table = pa.Table.from_batches(batches, schema=_SCHEMA)
        return cls(table, kind=kind, n_features=matrix.shape[1])

    @classmethod
    def write(cls, docs: Iterable[Doc], folder: Path, *, n_features: int = 0) -> Self:
        """Stream `docs` into `folder` (whole or not at all) and open it."""
        with atomic_folder(folder) as temporary:
            kinds = _Kinds(n_features)
            content, count = hashlib.sha256(), 0
            with (
                pa.OSFile(str(temporary / "docs.arrow"), "wb") as sink,
                pa.ipc.new_file(sink, _SCHEMA) as writer,
            ):
                for batch in _batches(docs, kinds):
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
            yield from _docs(batch, self.kind)

    def __getitem__(self, row: int) -> Doc:
        return next(iter(self.select([range(len(self))[row]])))

    def select(self, rows: ArrayLike) -> Corpus:
        """The documents at these rows (numbers or a mask), in the corpus's own order."""
        chosen = np.asarray(rows)
        chosen = np.flatnonzero(chosen) if chosen.dtype == bool else np.unique(chosen)
        chosen = chosen.astype(np.int64)
        inner = chosen if self._rows is None else self._rows[chosen]
        return Corpus(
            self._table,
            kind=self.kind,
            n_features=self.n_features,
            key=self._key,
            folder=self.folder,
            rows=inner,
            carries_text=self._carries_text,
            labels=None if self._labels is None else self._labels.take(pa.array(chosen)),
        )

    def with_labels(self, labels: Sequence[Sequence[str]]) -> Corpus:
        """The same documents with other labels, under a key of its own; what was prepared for
        these documents is still found, through `whole`."""
        if len(labels) != len(self):
            raise ValueError(f"{len(labels):,} label lists for {len(self):,} documents")
        return Corpus(
            self._table,
            kind=self.kind,
            n_features=self.n_features,
            key=self._key,
            folder=self.folder,
            rows=np.arange(len(self)) if self._rows is None else self._rows,
            carries_text=self._carries_text,
            labels=pa.array(labels, _SCHEMA.field("labels").type),
        )

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
            pa.Table.from_batches(batches, schema=_SCHEMA),
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
                pa.ipc.new_file(sink, _SCHEMA) as writer,
            ):
                for batch in self._chunks():
                    n = batch.num_rows
                    empty = {"fields": [[]] * n, "metadata": ["{}"] * n}
                    columns = [
                        pa.array(empty[name], _SCHEMA.field(name).type)
                        if name in empty
                        else batch[name]
                        for name in _SCHEMA.names
                    ]
                    writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=_SCHEMA))
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
        if self._rows is None:
            return self
        return Corpus(
            self._table,
            kind=self.kind,
            n_features=self.n_features,
            key=self._key,
            folder=self.folder,
            carries_text=self._carries_text,
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
        values = _flat(batches, "values", np.float32)
        if self.kind == "dense":
            return values.reshape(len(self), self.n_features)
        lengths = [np.diff(batch["values"].offsets.to_numpy()) for batch in batches]
        indptr = np.concatenate([[0], np.cumsum(np.concatenate([*lengths, np.empty(0, np.int64)]))])
        indices = _flat(batches, "indices", np.int32)
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
        return batch.set_column(_SCHEMA.get_field_index("labels"), "labels", labels)


@dataclass
class _Kinds:
    """What a stream of documents turned out to be; they must all be of one kind."""

    n_features: int
    kind: Kind = "text"
    first: str | None = None

    def see(self, doc: Doc) -> None:
        if self.first is None:
            self.first, self.kind = doc.id, doc.kind
        if doc.kind != self.kind:
            raise DataError(
                f"document {doc.id!r} has {doc.kind} content but {self.first!r} has {self.kind}"
            )
        if isinstance(doc.features, Mapping):
            self.n_features = max(self.n_features, max(doc.features, default=-1) + 1)
        elif doc.features is not None:
            self.n_features = self.n_features or len(doc.features)
            if len(doc.features) != self.n_features:
                raise DataError(
                    f"document {doc.id!r} has {len(doc.features)} features, not {self.n_features}"
                )


def _batches(docs: Iterable[Doc], kinds: _Kinds) -> Iterator[pa.RecordBatch]:
    waiting: list[Doc] = []
    size = 0
    for doc in docs:
        kinds.see(doc)
        waiting.append(doc)
        size += sum(map(len, doc.fields.values()))
        if len(waiting) == _BATCH_DOCS or size > _BATCH_BYTES:
            yield _batch(waiting)
            waiting, size = [], 0
    if waiting:
        yield _batch(waiting)


def _batch(docs: Sequence[Doc]) -> pa.RecordBatch:
    columns = {
        "id": [doc.id for doc in docs],
        "fields": [list(doc.fields.items()) for doc in docs],
        "keywords": [doc.keywords for doc in docs],
        "labels": [doc.labels for doc in docs],
        "metadata": [json.dumps(dict(doc.metadata), ensure_ascii=False) for doc in docs],
        "indices": [
            list(doc.features) if isinstance(doc.features, Mapping) else [] for doc in docs
        ],
        "values": [
            [] if doc.features is None
            else list(doc.features.values()) if isinstance(doc.features, Mapping)
            else doc.features
            for doc in docs
        ],
    }  # fmt: skip
    return pa.RecordBatch.from_pydict(columns, schema=_SCHEMA)


def _feature_batch(
    matrix: csr_array | NDArray[np.float32], labels: Sequence[Sequence[str]], first_id: int
) -> pa.RecordBatch:
    n, width = matrix.shape
    columns = {
        "id": [str(first_id + row) for row in range(n)],
        "fields": [[]] * n,
        "keywords": [[]] * n,
        "labels": labels,
        "metadata": ["{}"] * n,
    }
    if isinstance(matrix, csr_array):
        columns["indices"] = _lists(matrix.indptr, matrix.indices, np.int32)
        columns["values"] = _lists(matrix.indptr, matrix.data, np.float32)
    else:
        columns["indices"] = [[]] * n
        columns["values"] = _lists(np.arange(n + 1) * width, matrix.ravel(), np.float32)
    return pa.RecordBatch.from_pydict(columns, schema=_SCHEMA)


def _lists(offsets: NDArray[Any], values: NDArray[Any], dtype: type) -> pa.ListArray:
    return pa.ListArray.from_arrays(offsets.astype(np.int32), values.astype(dtype, copy=False))


def _docs(batch: pa.RecordBatch, kind: Kind) -> Iterator[Doc]:
    names = ["id", "fields", "keywords", "labels", "metadata", "indices", "values"]
    for id_, fields, keywords, labels, metadata, indices, values in zip(
        *(batch[name].to_pylist() for name in names), strict=True
    ):
        yield Doc(
            id_,
            dict(fields),
            tuple(keywords),
            tuple(labels),
            json.loads(metadata),
            None
            if kind == "text"
            else dict(zip(indices, values, strict=True))
            if kind == "sparse"
            else tuple(values),
        )


def _flat(batches: list[pa.RecordBatch], name: str, dtype: type) -> NDArray[Any]:
    parts = [batch[name].flatten().to_numpy() for batch in batches]
    return np.concatenate([*parts, np.empty(0, dtype)]).astype(dtype, copy=False)


# ---------------------------------------------------------------------------------------- Ontology


@dataclass(frozen=True, eq=False)
class Ontology:
    """Concepts and their graph. Concept `i` is `ids[i]`; all sequences are in that order.

    `ontology.build` makes one from loose records and cuts what would break the graph (cycles,
    parents that do not exist); each cut is a sentence in `problems`.
    """

    ids: tuple[str, ...]
    names: Mapping[str, Sequence[str]]  # language -> preferred name per concept, "" where none
    parents: csr_array  # (concepts, concepts), 1 where row has column as a parent; acyclic
    synonyms: Mapping[str, Sequence[tuple[str, ...]]] = field(default_factory=dict)
    definitions: Mapping[str, str] = field(default_factory=dict)  # by id
    notations: Mapping[str, str] = field(default_factory=dict)  # by id
    deprecated: frozenset[str] = frozenset()  # concepts, and retired ids that are none any more
    replaced_by: Mapping[str, str] = field(default_factory=dict)  # such an id -> the one to use
    positions: Sequence[tuple[str, ...]] | None = None  # tree numbers, where the ontology has them
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # group -> its heads
    problems: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, label: object) -> bool:
        return label in self.index

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Concept id -> its number."""
        return {label: i for i, label in enumerate(self.ids)}

    @cached_property
    def children(self) -> csr_array:
        return csr_array(self.parents.T.tocsr())

    @cached_property
    def language(self) -> str:
        """The language to show when none is asked for: English, else the one with most names."""
        if "en" in self.names:
            return "en"
        return max(self.names, key=lambda tag: sum(map(bool, self.names[tag])), default="und")

    def name(self, label: str, language: str | None = None) -> str:
        """The preferred name, in this language, else in another, else the id itself."""
        i = self.index[label]
        for tag in (language or self.language, self.language, *self.names):
            if tag in self.names and self.names[tag][i]:
                return self.names[tag][i]
        return label

    def synonyms_of(self, label: str, language: str | None = None) -> tuple[str, ...]:
        """Other names of a concept, in one language or (None) in all."""
        i = self.index[label]
        tags = [language] if language is not None else list(self.synonyms)
        return tuple(s for tag in tags if tag in self.synonyms for s in self.synonyms[tag][i])

    def parents_of(self, label: str) -> list[str]:
        return self._row(self.parents, label)

    def children_of(self, label: str) -> list[str]:
        return self._row(self.children, label)

    def path(self, label: str) -> list[str]:
        """One shortest way from a root down to the concept, both included."""
        came_from: dict[str, str | None] = {label: None}
        frontier = [label]
        while frontier:
            for here in frontier:
                if not self.parents_of(here):
                    way: list[str] = []
                    step: str | None = here
                    while step is not None:
                        way.append(step)
                        step = came_from[step]
                    return way
            above: list[str] = []
            for here in frontier:
                for parent in self.parents_of(here):
                    if parent not in came_from:
                        came_from[parent] = here
                        above.append(parent)
            frontier = above
        raise AssertionError(f"the graph above {label} has a cycle; build() cuts them")

    def _row(self, matrix: csr_array, label: str) -> list[str]:
        i = self.index[label]
        return [self.ids[j] for j in matrix.indices[matrix.indptr[i] : matrix.indptr[i + 1]]]


# -------------------------------------------------------------------------------------- LabelSpace


@dataclass(frozen=True, eq=False)
class LabelSpace:
    """Column <-> concept id.

    The first `n_seen` columns are the labels of the training documents, by id; after them come the
    ontology's concepts that no training document has (frequency 0), for systems that know names.
    In an updated run the labels that came later stand behind them all.
    """

    ids: tuple[str, ...]
    frequency: NDArray[np.int64]
    n_docs: int  # training documents the frequencies were counted in
    ontology: Ontology | None = None

    @classmethod
    def of(
        cls, train: Corpus, ontology: Ontology | None = None, *, min_count: int = 1
    ) -> LabelSpace:
        """The labels of at least `min_count` training documents, then the ontology's others."""
        counts = Counter(label for labels in train.labels() for label in set(labels))
        seen = sorted(label for label, count in counts.items() if count >= min_count)
        known = set(seen)
        unseen = [
            label
            for label in (ontology.ids if ontology else ())
            if label not in known and ontology is not None and label not in ontology.deprecated
        ]
        frequency = np.array([counts[label] for label in seen] + [0] * len(unseen), dtype=np.int64)
        return cls((*seen, *unseen), frequency, len(train), ontology)

    def updated(self, corpus: Corpus) -> LabelSpace:
        """The space after more documents: counts have grown, and labels that are new have got the
        columns behind the old ones."""
        counts = Counter(label for labels in corpus.labels() for label in set(labels))
        ids = (*self.ids, *sorted(counts.keys() - self.column.keys()))
        frequency = np.array([counts[label] for label in ids], dtype=np.int64)
        frequency[: len(self)] += self.frequency
        return LabelSpace(ids, frequency, self.n_docs + len(corpus), self.ontology)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def n_seen(self) -> int:
        """How many labels training documents have; a learned output layer has this many rows."""
        return int(np.count_nonzero(self.frequency))

    @cached_property
    def column(self) -> Mapping[str, int]:
        """Concept id -> column."""
        return {label: i for i, label in enumerate(self.ids)}

    def name(self, column: int, language: str | None = None) -> str:
        label = self.ids[column]
        if self.ontology is not None and label in self.ontology:
            return self.ontology.name(label, language)
        return label

    def gold(self, corpus: Corpus) -> csr_array:
        """True labels, (documents x columns). Labels outside this space get columns past the end:
        no ranking can hit them, so they count as misses in every metric."""
        columns = dict(self.column)
        rows = [
            np.unique([columns.setdefault(label, len(columns)) for label in labels]).astype(
                np.int32
            )
            for labels in corpus.labels()
        ]
        indptr = np.cumsum([0, *map(len, rows)])
        indices = np.concatenate([*rows, np.empty(0, np.int32)])
        data = np.ones(len(indices), dtype=np.int8)
        return csr_array((data, indices, indptr), shape=(len(rows), len(columns)))

    def propensity(self, a: float = 0.55, b: float = 1.5) -> NDArray[np.float64]:
        """Chance that a true label was recorded, by training frequency (Jain et al. 2016)."""
        c = max(np.log(max(self.n_docs, 1)) - 1, 0) * (b + 1) ** a
        return np.asarray(1 / (1 + c * np.exp(-a * np.log(self.frequency + b))), dtype=np.float64)


# ----------------------------------------------------------------------------------------- Ranking


@dataclass(frozen=True, eq=False)
class Ranking:
    """The k best columns of each document with their probabilities, best first.

    Rows with fewer than k answers end in column -1, probability 0. Equal probabilities are ordered
    by column, so an answer never depends on the batch it was computed in.
    """

    columns: NDArray[np.int32]
    probabilities: NDArray[np.float32]

    def __post_init__(self) -> None:
        columns, scores = self.columns, self.probabilities
        if columns.ndim != 2 or columns.shape != scores.shape:
            raise ValueError(f"columns {columns.shape} and probabilities {scores.shape} must agree")
        if not bool(np.all((scores >= 0) & (scores <= 1))):  # also refuses NaN
            raise ValueError("probabilities must be in [0, 1]")
        if bool(np.any(scores[:, 1:] > scores[:, :-1])):
            raise ValueError("probabilities must fall along a row")
        if bool(np.any((columns[:, 1:] >= 0) & (columns[:, :-1] < 0))):
            raise ValueError("padding must be at the end of a row")

    @classmethod
    def top(cls, probabilities: NDArray[Any], k: int) -> Ranking:
        """The k best of a dense (documents x labels) array; zeros are answers too."""
        n, width = probabilities.shape
        kept = min(k, width)
        if kept < width:
            columns = np.argpartition(-probabilities, kept - 1, axis=1)[:, :kept] if kept else None
        else:
            columns = np.broadcast_to(np.arange(width), (n, width))
        if columns is None:
            return cls(np.empty((n, 0), np.int32), np.empty((n, 0), np.float32))
        return cls.sort(columns, np.take_along_axis(probabilities, columns, axis=1), k)

    @classmethod
    def of_sparse(cls, scores: csr_array, k: int) -> Ranking:
        """The k best stored entries of each row of a sparse matrix."""
        lengths = np.diff(scores.indptr)
        width = int(lengths.max(initial=0))
        columns = np.full((len(lengths), width), PADDING, dtype=np.int32)
        values = np.zeros((len(lengths), width), dtype=np.float32)
        filled = np.arange(width) < lengths[:, None]
        columns[filled], values[filled] = scores.indices, scores.data
        return cls.sort(columns, values, k)

    @classmethod
    def sort(cls, columns: NDArray[Any], probabilities: NDArray[Any], k: int) -> Ranking:
        """Order unsorted candidates (-1 = none) and pad or cut them to k."""
        last = np.iinfo(np.int32).max
        ties = np.where(columns < 0, last, columns)
        values = np.where(columns < 0, -1.0, probabilities)
        order = np.lexsort((ties, -values), axis=1)[:, :k]
        sorted_columns = np.take_along_axis(columns, order, axis=1).astype(np.int32)
        sorted_values = np.take_along_axis(values, order, axis=1).astype(np.float32)
        pad = ((0, 0), (0, k - sorted_columns.shape[1]))
        return cls(
            np.pad(sorted_columns, pad, constant_values=PADDING),
            np.pad(np.maximum(sorted_values, 0), pad),
        )

    @classmethod
    def join(cls, parts: Sequence[Ranking], k: int) -> Ranking:
        """Rankings of consecutive documents as one."""
        parts = [part.cut(k) for part in parts]
        return cls(
            np.concatenate([np.empty((0, k), np.int32), *(part.columns for part in parts)]),
            np.concatenate([np.empty((0, k), np.float32), *(part.probabilities for part in parts)]),
        )

    def __len__(self) -> int:
        return int(self.columns.shape[0])

    @property
    def k(self) -> int:
        return int(self.columns.shape[1])

    def cut(self, k: int) -> Ranking:
        """The first k ranks, padded when there are fewer."""
        pad = ((0, 0), (0, max(0, k - self.k)))
        return Ranking(
            np.pad(self.columns[:, :k], pad, constant_values=PADDING),
            np.pad(self.probabilities[:, :k], pad),
        )

    def take(self, rows: NDArray[Any] | slice) -> Ranking:
        """The rankings of these documents."""
        return Ranking(self.columns[rows], self.probabilities[rows])

    def keep(self, mask: NDArray[np.bool_]) -> Ranking:
        """The answers where `mask` (documents x k) is true, closed up."""
        return self.sort(np.where(mask, self.columns, PADDING), self.probabilities, self.k)

    def scores(self, n_columns: int) -> csr_array:
        """The same as a sparse (documents x columns) matrix."""
        filled = self.columns >= 0
        indptr = np.concatenate([[0], np.cumsum(filled.sum(axis=1))])
        data, indices = self.probabilities[filled], self.columns[filled]
        return csr_array((data, indices, indptr), shape=(len(self), n_columns))


__all__ = ["PADDING", "Corpus", "Doc", "Kind", "LabelSpace", "Ontology", "Ranking"]
