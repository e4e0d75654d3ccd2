"""Corpus formats: one module a format, and the table of them.

A format is a module with
    looks_like(head) -> bool            recognise the content, from a `parsing.file_head.Head`
    read(path) -> Iterator[Doc]         a stream
and, where it applies,
    CAPABILITIES                        what the format can store (`FormatCapabilities`)
    write(docs, path) -> int            write documents and return their number
    WRITES_FROM_CORPUS = True           `write` needs the documents twice and gets a `Corpus`
    TAKES_FIELDS = True                 `read` takes a `FieldMapping` with names of columns
    TAKES_TEXT_FIELDS = True            `read` takes the names of further `text_fields`
    sources(path) -> list[Path]         all files that are read, if not just `path`
    targets(path) -> list[Path]         all files that may be written, if not just `path`
    n_features(path) -> int             the number of features, in formats that store features
To add a format, add its module and its line in FORMATS; the tests find it there.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

from ontodex.config import suggest
from ontodex.errors import ConfigError

# In the order of detection: the first format that recognises the content is taken. So formats with
# unmistakable marks come first, and those that would accept almost any text come last.
FORMATS = {
    "corpus": "ontodex.corpora.formats.arrow_folder",
    "parquet": "ontodex.corpora.formats.parquet",
    "pecos-npz": "ontodex.corpora.formats.pecos_npz",
    "medline": "ontodex.corpora.formats.medline",
    "bioasq": "ontodex.corpora.formats.bioasq",
    "eurlex57k": "ontodex.corpora.formats.eurlex57k",
    "xmc-raw": "ontodex.corpora.formats.xmc_raw",
    "jsonl": "ontodex.corpora.formats.jsonl",
    "annif-json": "ontodex.corpora.formats.annif_json",
    "annif-csv": "ontodex.corpora.formats.annif_csv",
    "csv": "ontodex.corpora.formats.csv_table",
    "tsv": "ontodex.corpora.formats.tsv_table",
    "xmc": "ontodex.corpora.formats.xmc_bow",
    "xmc-matrix": "ontodex.corpora.formats.xmc_matrix",
    "libmultilabel-svm": "ontodex.corpora.formats.libmultilabel_svm",
    "fasttext": "ontodex.corpora.formats.fasttext",
    "annif-tsv": "ontodex.corpora.formats.annif_tsv",
    "attentionxml": "ontodex.corpora.formats.attentionxml",
    "pecos": "ontodex.corpora.formats.pecos_text",
    "libmultilabel": "ontodex.corpora.formats.libmultilabel_text",
    "annif-folder": "ontodex.corpora.formats.annif_folder",
}


def load_format(name: str) -> ModuleType:
    """Import the module of a format."""
    if name not in FORMATS:
        raise ConfigError(f"there is no corpus format {name!r}{suggest(name, list(FORMATS))}")
    return import_module(FORMATS[name])


def list_writable() -> list[str]:
    """Return the names of the formats that can be written."""
    return [name for name in FORMATS if hasattr(load_format(name), "write")]


def list_targets(path: Path, format: str) -> list[Path]:
    """Return the files or the folder that writing to `path` creates.

    Label lists beside a corpus are not among them, because writing appends to them.
    """
    module = load_format(format)
    return list(module.targets(path)) if hasattr(module, "targets") else [path]
