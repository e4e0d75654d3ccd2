"""Open, read and write corpora in any format.

`open_corpus` gives a memory-mapped `Corpus`, `read_docs` a stream of documents. `write_docs` writes
documents in a format, as far as the format can store them.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from types import ModuleType

from ontodex.corpora.cached import explain_cache_errors, find_cache, record_source
from ontodex.corpora.detect import detect_format, takes_mapping
from ontodex.corpora.field_mapping import NO_MAPPING, FieldMapping, list_columns
from ontodex.corpora.formats import FORMATS, list_writable, load_format
from ontodex.corpora.parsing.capabilities import FormatCapabilities, fit_doc
from ontodex.corpora.parsing.file_head import missing_error
from ontodex.corpora.python_objects import Documents, make_corpus
from ontodex.errors import ConfigError, DataError
from ontodex.io.counts import format_count
from ontodex.io.files import hash_file, try_rename
from ontodex.io.temporary import clear_leftovers, temporary_folder
from ontodex.types import Corpus, Doc

logger = logging.getLogger(__name__)

# Increase it when a reader gives other documents for the same bytes, to rebuild cached corpora.
READER_VERSION = 2
COLUMNS_FROM = 100  # documents whose metadata show the columns of a table


@dataclass
class ReadCounts:
    """The numbers of documents and labels that were read, and the columns of other names."""

    n_docs: int = 0
    n_labelled: int = 0
    n_labels: int = 0
    others: dict[str, None] = field(default_factory=dict)

    @classmethod
    def of(cls, corpus: Corpus) -> ReadCounts:
        """Count the documents and labels of a corpus."""
        n_labels = [len(labels) for labels in corpus.labels()]
        counts = cls(len(corpus), sum(map(bool, n_labels)), sum(n_labels))
        counts._note_columns(islice(corpus, COLUMNS_FROM))
        return counts

    def add(self, doc: Doc) -> None:
        self.n_docs += 1
        self.n_labelled += bool(doc.labels)
        self.n_labels += len(doc.labels)
        if self.n_docs <= COLUMNS_FROM:
            self._note_columns([doc])

    def _note_columns(self, docs: Iterable[Doc]) -> None:
        self.others.update(dict.fromkeys(key for doc in docs for key in doc.metadata))

    def log(self, source: Path | str) -> None:
        """Log the counts; warn where no label was read, with the columns that may have them."""
        docs, labels = format_count(self.n_docs, "document"), format_count(self.n_labels, "label")
        logger.info("%s: read %s with %s", source, docs, labels)
        if self.n_docs and not self.n_labels and self.others:
            logger.warning("%s: no labels were read; %s", source, self.suggest_label_field())

    def suggest_label_field(self) -> str:
        """Return the columns that were not read as text or labels, and the option to give."""
        return f"give --label-field if they are in one of {list_columns(list(self.others))}"


class DocReader(Iterator[Doc]):
    """Reads the documents of a file one after the other.

    After a DataError the next document can be requested, in formats with one document per record.
    A label that a document has twice is kept once; at the end the log counts such documents.
    """

    def __init__(self, path: Path, format: str, mapping: FieldMapping = NO_MAPPING) -> None:
        module = load_format(format)
        if not takes_mapping(format, mapping):
            raise ConfigError(f"columns cannot be chosen in the format {format}")
        self.path, self.format = path, format
        self.n_features: int = module.n_features(path) if hasattr(module, "n_features") else 0
        self._docs: Iterator[Doc] = iter(_read(module, path, mapping))
        self.repairs: Counter[str] = Counter()
        self.counts = ReadCounts()
        self._ended = False

    @property
    def line(self) -> int | None:
        """First line of the document read last, in formats that have lines."""
        return getattr(self._docs, "line", None)

    @property
    def has_ids(self) -> bool:
        """False where the documents have no ids of their own, and are numbered from 1."""
        capabilities = getattr(load_format(self.format), "CAPABILITIES", None)
        return getattr(self._docs, "has_ids", True) and (capabilities is None or capabilities.id)

    @property
    def deleted(self) -> Collection[str]:
        """Ids of records in earlier files that this one deletes, as MEDLINE's updates do."""
        return getattr(self._docs, "deleted", ())

    def __next__(self) -> Doc:
        try:
            doc = next(self._docs)
        except StopIteration:
            if not self._ended:
                log_changes(self.path, self.repairs)
            self._ended = True
            raise
        if len(doc.labels) > 1:
            labels = tuple(dict.fromkeys(doc.labels))
            if len(labels) < len(doc.labels):
                self.repairs["a label was given twice and taken once"] += 1
                doc = replace(doc, labels=labels)
        self.counts.add(doc)
        return doc


def _read(module: ModuleType, path: Path, mapping: FieldMapping) -> Iterable[Doc]:
    docs: Iterable[Doc]
    if hasattr(module, "TAKES_FIELDS"):
        docs = module.read(path, mapping=mapping)
    elif hasattr(module, "TAKES_TEXT_FIELDS"):
        docs = module.read(path, text_fields=mapping.text_fields)
    else:
        docs = module.read(path)
    return docs


def log_changes(path: Path, changes: Counter[str]) -> None:
    """Log how many documents were changed, by kind of change."""
    for change, count in changes.items():
        logger.warning("%s: %s: %s", path, change, format_count(count, "document"))


def read_docs(
    path: Path | str, format: str | None = None, *, mapping: FieldMapping = NO_MAPPING
) -> DocReader:
    """Return a stream of the documents in `path`; without a format, detect it.

    `mapping` names the columns of a table, or the keys of JSON objects, that hold text and labels.
    """
    path = Path(path)
    return DocReader(path, format or detect_format(path, mapping), mapping)


def write_docs(docs: Iterable[Doc], path: Path | str, format: str, *, n_features: int = 0) -> int:
    """Write documents and return their number; log a count of what the format cannot store.

    `n_features` is the number of features if it is larger than the documents show.
    """
    path, module = Path(path), load_format(format)
    if not hasattr(module, "write"):
        raise ConfigError(
            f"the format {format} can be read but not written",
            hint=f"these can be written: {', '.join(list_writable())}",
        )
    capabilities: FormatCapabilities = module.CAPABILITIES
    changes: Counter[str] = Counter()
    fitted = (fit_doc(doc, capabilities, changes) for doc in docs)
    n_features = n_features or getattr(docs, "n_features", 0)
    try:
        count = _write(module, fitted, path, n_features)
    except OSError as error:
        raise DataError(f"cannot be written ({error.strerror or error})", path=path) from error
    log_changes(path, changes)
    return count


def _write(module: ModuleType, docs: Iterator[Doc], path: Path, n_features: int) -> int:
    count: int
    if module.__name__ == FORMATS["corpus"]:
        count = module.write(docs, path, n_features=n_features)
    elif hasattr(module, "WRITES_FROM_CORPUS"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder(path) as folder:
            corpus = Corpus.write(docs, folder / "docs", n_features=n_features)
            count = module.write(corpus, path)
    else:
        count = module.write(docs, path)
    return count


def open_corpus(
    path: Documents,
    format: str | None = None,
    *,
    text_fields: str | Iterable[str] | None = None,
    label_field: str | None = None,
    id_field: str | None = None,
    label_separator: str | None = None,
) -> Corpus:
    """Return the documents in `path` as a memory-mapped corpus.

    Instead of a path it takes documents: `Doc`s, or dicts with the keys of JSON lines.

    text_fields      columns or JSON keys with the text, in order; by default title, abstract, body
                     and text
    label_field      column with the labels; by default labels
    id_field         column with the id of the document; by default id, else documents are numbered
    label_separator  between labels in a cell; by default |, ; or a line end

    A corpus folder is opened in place. Any other file is read once into the cache, under a key of
    its bytes; the next call only maps the cached corpus.

    >>> corpus = ontodex.open_corpus(
    ...     "news.csv", text_fields=["headline", "content"], label_field="topics"
    ... )
    >>> list(corpus.labels())
    [['fish', 'rivers'], ['oaks']]
    """
    mapping = FieldMapping.of(text_fields, label_field, id_field, label_separator)
    return open_mapped(path, mapping, format)


def open_mapped(
    path: Documents, mapping: FieldMapping = NO_MAPPING, format: str | None = None
) -> Corpus:
    """Do what `open_corpus` does, with the names of the columns in one object."""
    if isinstance(path, Corpus):
        return path
    if not isinstance(path, str | Path):
        return make_corpus(path, mapping)
    path = Path(path)
    format = format or detect_format(path, mapping)
    if format == "corpus":
        return Corpus.open(path, is_trusted=False)
    folder = find_cache() / _cache_key(path, format, mapping)
    if folder.is_dir():
        try:
            return Corpus.open(folder)
        except DataError as error:
            logger.warning("%s; reading %s again", error, path)
            shutil.rmtree(folder)
    clear_leftovers(folder.parent)
    docs = read_docs(path, format, mapping=mapping)
    with explain_cache_errors(), temporary_folder(folder) as temporary:
        made = temporary / "corpus"
        Corpus.write(docs, made, n_features=docs.n_features)
        record_source(made, path)
        try_rename(made, folder)  # a folder that another process has made meanwhile stays
    return Corpus.open(folder)


def require_files(*paths: object) -> None:
    """Raise an error for the first path that does not exist, before any of them is read.

    What is no path, such as documents in memory, is left alone.
    """
    for path in paths:
        if isinstance(path, str | Path) and not Path(path).exists():
            raise missing_error(Path(path))


def _cache_key(path: Path, format: str, mapping: FieldMapping) -> str:
    """Return a digest of everything that determines the documents."""
    module = load_format(format)
    sources: list[Path] = module.sources(path) if hasattr(module, "sources") else [path]
    content = hashlib.sha256(f"{READER_VERSION}\n{format}\n{mapping.to_dict()}\n".encode())
    for source in sources:
        if not source.exists():
            raise missing_error(source)
        # In a folder of documents the file names are their ids.
        name = source.relative_to(path) if path.is_dir() else ""
        content.update(f"{name}\0{hash_file(source)}\n".encode("utf-8", "surrogateescape"))
    return content.hexdigest()


__all__ = [
    "DocReader",
    "Documents",
    "ReadCounts",
    "log_changes",
    "open_corpus",
    "open_mapped",
    "read_docs",
    "require_files",
    "write_docs",
]
