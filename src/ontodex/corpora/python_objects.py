"""Make documents of a program's own objects: `Doc`s, or dicts with the keys of JSON lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ontodex.corpora.field_mapping import NO_MAPPING, FieldMapping
from ontodex.corpora.formats.jsonl import make_document
from ontodex.errors import DataError
from ontodex.types import Corpus, Doc

Documents = str | Path | Corpus | Iterable[Doc | Mapping[str, Any]]

_HINT = (
    'give each document as {"text": ..., "labels": [...]} or ontodex.Doc; '
    'of a pandas table, give table.to_dict("records")'
)


def make_corpus(
    documents: Iterable[Doc | Mapping[str, Any]], mapping: FieldMapping = NO_MAPPING
) -> Corpus:
    """Return a corpus in memory; documents are numbered from 1 if the first has no id."""
    found = list(documents)
    first = found[0] if found and isinstance(found[0], Mapping) else {}
    mapping.check(list(first))
    has_id = bool(mapping.id_field) or "id" in first
    return Corpus.of(
        convert_object(item, number, mapping=mapping, has_id=has_id)
        for number, item in enumerate(found, start=1)
    )


def convert_object(
    item: Any, number: int, *, mapping: FieldMapping = NO_MAPPING, has_id: bool = False
) -> Doc:
    """Return one object as a document; the number is its id where it has none."""
    if isinstance(item, Doc):
        return item
    if not isinstance(item, Mapping):
        raise DataError(
            f"document {number} is of the type {type(item).__name__}, not a dict or a Doc",
            hint=_HINT,
        )
    lists = {key: list(value) if isinstance(value, tuple) else value for key, value in item.items()}
    try:
        return make_document(number, lists, mapping=mapping, has_id=has_id)
    except DataError as error:
        raise DataError(f"document {number}: {error}", hint=error.hint) from error
