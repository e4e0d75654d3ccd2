"""Files of any known format -> documents, and back.

A format is a module with
    looks_like(head) -> bool            by content, from what `head.Head` saw
    read(path) -> Iterator[Doc]         a stream; formats with named fields also take `text_fields`
and, where it applies,
    HOLDS, write(docs, path) -> int     what can be written, how, and how many documents it was
    WRITES_FROM_CORPUS = True           `write` needs the documents twice and gets a `Corpus`
    TAKES_TEXT_FIELDS = True            `read` takes the names of further text fields
    sources(path) -> list[Path]         all files read, when it is not just `path`
    targets(path) -> list[Path]         all files that may be written, when it is not just `path`
    n_features(path) -> int             of formats that hold features
Adding a format is its module and its line in FORMATS; the tests find it there.
"""

from __future__ import annotations

import hashlib
import logging
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType

from ontodex.config import nearest
from ontodex.errors import ConfigError, DataError
from ontodex.files import cache_folder, digest
from ontodex.read.head import Head, missing
from ontodex.read.holds import Holds, fit
from ontodex.types import Corpus, Doc

logger = logging.getLogger(__name__)

# Increase when a reader gives other documents for the same bytes: cached corpora are made anew.
READER_VERSION = 1

# In the order in which `detect` asks: the first format that recognises the content is taken, so
# the ones with unmistakable marks come first and those that would accept most come last.
FORMATS = {
    "corpus": "ontodex.read.arrow_folder",
    "parquet": "ontodex.read.parquet",
    "pecos-npz": "ontodex.read.pecos_npz",
    "medline": "ontodex.read.medline",
    "bioasq": "ontodex.read.bioasq",
    "eurlex57k": "ontodex.read.eurlex57k",
    "xmc-raw": "ontodex.read.xmc_raw",
    "jsonl": "ontodex.read.jsonl",
    "annif-json": "ontodex.read.annif_json",
    "annif-csv": "ontodex.read.annif_csv",
    "csv": "ontodex.read.comma_table",
    "tsv": "ontodex.read.tab_table",
    "xmc": "ontodex.read.xmc_bow",
    "xmc-matrix": "ontodex.read.xmc_matrix",
    "libmultilabel-svm": "ontodex.read.libmultilabel_svm",
    "fasttext": "ontodex.read.fasttext",
    "annif-tsv": "ontodex.read.annif_tsv",
    "attentionxml": "ontodex.read.attentionxml",
    "pecos": "ontodex.read.pecos_text",
    "libmultilabel": "ontodex.read.libmultilabel_text",
    "annif-folder": "ontodex.read.annif_folder",
}

# The format meant by the name of a file that is still to be written.
_ENDINGS = {
    ".jsonl": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    "_texts.txt": "attentionxml",
    "_X_Xf.txt": "xmc-matrix",
    ".svm": "libmultilabel-svm",
    ".npz": "pecos-npz",
    ".xml": "medline",
}


def find(format: str) -> ModuleType:
    """The module of a format, or a message with the nearest name."""
    if format not in FORMATS:
        raise ConfigError(f"there is no corpus format {format!r}{nearest(format, list(FORMATS))}")
    return import_module(FORMATS[format])


def detect(path: Path) -> str:
    """The name of the format in which `path` is written, by its content."""
    head = Head.of(path)
    for name in FORMATS:
        if find(name).looks_like(head):
            return name
    if not path.exists():
        raise missing(path)
    raise DataError(
        f"not a corpus format that is known; it is {head.seen()}",
        path=path,
        hint=f"ontodex convert {path} OUT.jsonl --from FORMAT, and OUT.jsonl in its place, "
        f"if the format is one of {', '.join(FORMATS)}",
    )


def format_of_name(path: Path) -> str:
    """The format meant by the name of a file to be written; a name without ending is a corpus."""
    name = path.name
    for packed in (".gz", ".xz", ".bz2"):
        name = name.removesuffix(packed)
    for ending, format in _ENDINGS.items():
        if name.endswith(ending):
            return format
    if "." not in name:
        return "corpus"
    raise ConfigError(
        f"{path}: its name does not say which format to write",
        hint=f"name one of {', '.join(writable())}",
    )


def writable() -> list[str]:
    """The formats that can be written."""
    return [name for name in FORMATS if hasattr(find(name), "write")]


def targets(path: Path, format: str) -> list[Path]:
    """The files or the folder that `write_docs` puts at `path`, without lists of labels, which it
    adds to."""
    module = find(format)
    return list(module.targets(path)) if hasattr(module, "targets") else [path]


class Reading(Iterator[Doc]):
    """The documents of a file, one after the other.

    After a DataError the next document can be asked for where the format has one a record. Labels
    given twice are taken once; at the end the log says how often that was.
    """

    def __init__(self, path: Path, format: str, text_fields: Sequence[str] = ()) -> None:
        module = find(format)
        if text_fields and not hasattr(module, "TAKES_TEXT_FIELDS"):
            raise ConfigError(f"text fields cannot be chosen in the format {format}")
        self.path, self.format = path, format
        self.n_features: int = module.n_features(path) if hasattr(module, "n_features") else 0
        self._docs: Iterator[Doc] = iter(
            module.read(path, text_fields=text_fields) if text_fields else module.read(path)
        )
        self.repairs: Counter[str] = Counter()
        self._ended = False

    @property
    def line(self) -> int | None:
        """The line where the document given last begins, in formats that have lines."""
        return getattr(self._docs, "line", None)

    def __next__(self) -> Doc:
        try:
            doc = next(self._docs)
        except StopIteration:
            if not self._ended:
                announce(self.path, self.repairs)
            self._ended = True
            raise
        labels = tuple(dict.fromkeys(doc.labels))
        if len(labels) == len(doc.labels):
            return doc
        self.repairs["a label was given twice and taken once"] += 1
        return replace(doc, labels=labels)


def announce(path: Path, changes: Counter[str]) -> None:
    """Say in the log how many documents were changed, and how."""
    for change, count in changes.items():
        logger.warning("%s: %s: %s documents", path, change, f"{count:,}")


def read_docs(path: Path, format: str | None = None, *, text_fields: Sequence[str] = ()) -> Reading:
    """A stream of the documents in `path`; the format is recognised when it is not named.

    `text_fields` are further fields or columns to be read as text, in formats that name theirs.
    """
    return Reading(path, format or detect(path), text_fields)


def write_docs(docs: Iterable[Doc], path: Path, format: str, *, n_features: int = 0) -> int:
    """Write documents and count them; what the format cannot hold is counted in the log.

    `n_features` is the width of feature documents when it is more than they show.
    """
    module = find(format)
    if not hasattr(module, "write"):
        raise ConfigError(
            f"the format {format} can be read but not written",
            hint=f"these can be written: {', '.join(writable())}",
        )
    holds: Holds = module.HOLDS
    changes: Counter[str] = Counter()
    fitted = (fit(doc, holds, changes) for doc in docs)
    n_features = n_features or getattr(docs, "n_features", 0)
    try:
        count = _write(module, fitted, path, n_features)
    except OSError as error:
        raise DataError(f"cannot be written ({error.strerror or error})", path=path) from error
    announce(path, changes)
    return count


def _write(module: ModuleType, docs: Iterator[Doc], path: Path, n_features: int) -> int:
    count: int
    if module.__name__ == FORMATS["corpus"]:
        count = module.write(docs, path, n_features=n_features)
    elif hasattr(module, "WRITES_FROM_CORPUS"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".") as folder:
            corpus = Corpus.write(docs, Path(folder) / "docs", n_features=n_features)
            count = module.write(corpus, path)
    else:
        count = module.write(docs, path)
    return count


def open_corpus(
    path: Path, format: str | None = None, *, text_fields: Sequence[str] = ()
) -> Corpus:
    """The documents in `path`, memory-mapped.

    A corpus folder is opened as it is. Anything else is read once into the cache, under a key of
    its bytes, so that the second call only maps what is there.
    """
    format = format or detect(path)
    if format == "corpus":
        return Corpus.open(path)
    folder = cache_folder() / "corpora" / _key(path, format, text_fields)
    if folder.is_dir():
        try:
            return Corpus.open(folder)
        except DataError as error:
            logger.warning("%s; reading %s again", error, path)
    docs = read_docs(path, format, text_fields=text_fields)
    return Corpus.write(docs, folder, n_features=docs.n_features)


def _key(path: Path, format: str, text_fields: Sequence[str]) -> str:
    """A digest of all that decides which documents come out."""
    module = find(format)
    sources: list[Path] = module.sources(path) if hasattr(module, "sources") else [path]
    content = hashlib.sha256(f"{READER_VERSION}\n{format}\n{list(text_fields)}\n".encode())
    for source in sources:
        if not source.is_file():
            raise missing(source)
        # In a folder of documents the file names are their ids.
        name = source.relative_to(path) if path.is_dir() else ""
        content.update(f"{name}\0{digest(source)}\n".encode("utf-8", "surrogateescape"))
    return content.hexdigest()


__all__ = [
    "FORMATS",
    "Head",
    "Reading",
    "announce",
    "detect",
    "find",
    "format_of_name",
    "open_corpus",
    "read_docs",
    "targets",
    "writable",
    "write_docs",
]
