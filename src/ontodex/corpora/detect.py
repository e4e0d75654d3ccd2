"""Find the format of a corpus: of one to read by its content, of one to write by its name."""

from __future__ import annotations

from pathlib import Path

from ontodex.corpora.formats import FORMATS, list_writable, load_format
from ontodex.corpora.parsing.file_head import Head, missing_error
from ontodex.errors import ConfigError, DataError

# File names of corpora to be written.
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


def detect_format(path: Path | str) -> str:
    """Return the name of the format in which `path` is written, by its content."""
    path = Path(path)
    head = Head.of(path)
    for name in FORMATS:
        if load_format(name).looks_like(head):
            return name
    if not path.exists():
        raise missing_error(path)
    raise DataError(
        f"not a known corpus format; it is {head.describe()}",
        path=path,
        hint=f"if you know the format, convert the file: ontodex convert {path} OUT.jsonl "
        f"--from FORMAT, where FORMAT is one of {', '.join(FORMATS)}",
    )


def infer_format(path: Path) -> str:
    """Return the format to write, by the file name; a name without ending is a corpus folder."""
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
        hint=f"name one of {', '.join(list_writable())}",
    )
