"""Find the format of a corpus: of one to read by its content, of one to write by its name."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from ontodex.corpora.field_mapping import NO_MAPPING, FieldMapping
from ontodex.corpora.formats import FORMATS, list_writable, load_format
from ontodex.corpora.parsing.columns import unmapped_error
from ontodex.corpora.parsing.file_head import Head, missing_error
from ontodex.corpora.parsing.text_table import DELIMITERS
from ontodex.errors import ConfigError, DataError
from ontodex.io.office import advise_office

# Marks of RDF, OBO and MeSH files, none of which is a corpus.
_ONTOLOGY = re.compile(
    rb"^[ \t]*@prefix\s|<rdf:RDF|^\[Term\]|^\*NEWRECORD|<DescriptorRecordSet"
    rb"|\"@(?:context|graph)\"\s*:|2004/02/skos/core#|http://purl\.obolibrary\.org/",
    re.MULTILINE,
)
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


def detect_format(path: Path | str, mapping: FieldMapping = NO_MAPPING) -> str:
    """Return the name of the format in which `path` is written, by its content.

    A table whose columns `mapping` names may have columns of any name.
    """
    path = Path(path)
    head = Head.of(path)
    found = next((name for name in FORMATS if load_format(name).looks_like(head)), None)
    if found is not None and (not mapping or takes_mapping(found, mapping)):
        return found
    if not path.exists():
        raise missing_error(path)
    table, columns = _find_table(head)
    if mapping and table:
        return table
    if mapping and found:
        raise _fixed_fields_error(found, path)
    if columns and not _ONTOLOGY.search(head.start):
        raise unmapped_error(columns).at(path)
    raise _unknown_error(head)


def takes_mapping(format: str, mapping: FieldMapping) -> bool:
    """Return whether a format can be read with these names of columns."""
    module = load_format(format)
    takes_text = hasattr(module, "TAKES_TEXT_FIELDS") and mapping.names_only_text
    return not mapping or hasattr(module, "TAKES_FIELDS") or takes_text


def restrict_mapping(path: Path | str, mapping: FieldMapping) -> FieldMapping:
    """Return the part of a mapping that fits a table; an empty one for any other file.

    A run that was trained on a table reads further tables with the same columns in the same way.
    """
    path = Path(path)
    if not mapping or not path.is_file():
        return NO_MAPPING
    _, columns = _find_table(Head.of(path))
    return mapping.restrict(columns) or NO_MAPPING


def _find_table(head: Head) -> tuple[str, list[str]]:
    """Return the format and the columns of a table, or empty ones for a file that is none."""
    if load_format("parquet").looks_like(head):
        return "parquet", load_format("parquet").read_columns(head.path)
    if head.keys:
        return "jsonl", list(head.keys)
    by_mark = {mark: head.table_columns(mark) for mark in DELIMITERS}
    mark = max(by_mark, key=lambda mark: len(by_mark[mark]))
    return ("tsv" if mark == "\t" else "csv", by_mark[mark]) if by_mark[mark] else ("", [])


def _fixed_fields_error(format: str, path: Path) -> DataError:
    return DataError(
        f"columns cannot be named in the format {format}, which has none of its own",
        path=path,
        hint="leave --text-field, --label-field, --id-field and --label-separator out",
    )


def _unknown_error(head: Head) -> DataError:
    path = head.path
    if not head.start and not head.is_folder:
        return DataError("is an empty file", path=path, hint="give a file with documents")
    if _ONTOLOGY.search(head.start):
        return DataError(
            "has the concepts of an ontology, but a corpus of documents is needed here",
            path=path,
            hint="give the ontology with --ontology, and the documents as the corpus",
        )
    if (office := advise_office(head.start)) is not None:
        return DataError(f"is {office[0]}, not a corpus", path=path, hint=office[1])
    if repeated := _find_repeated_columns(head):
        return DataError(
            f"the table has several columns of the name {', '.join(repeated)}",
            path=path,
            hint="give every column a name of its own in the first line",
        )
    return DataError(
        f"not a known corpus format; it is {head.describe()}",
        path=path,
        hint="give a table with a line of column names (CSV, TSV, Parquet), JSON lines, or another "
        f"format of docs/reference/formats.md; to name one: ontodex convert {path} OUT.jsonl "
        "--from FORMAT",
    )


def _find_repeated_columns(head: Head) -> list[str]:
    """Return the names that the first line of a table has more than once."""
    mark = max(DELIMITERS, key=lambda mark: len(head.cells(mark)))
    names = head.cells(mark) if len({line.count(mark) for line in head.lines[:2]}) == 1 else []
    return [name for name, count in Counter(filter(None, names)).items() if count > 1]


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
