"""Extreme Classification Repository, raw text: JSON lines with uid, title, content, target_ind.

`target_ind` are line numbers (from 0) of lbl.json beside the file, whose uids are the ids of
the labels. `target_rel` are their weights. Without lbl.json the number of a label is its id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ontodex.corpora.parsing.capabilities import FormatCapabilities
from ontodex.corpora.parsing.file_head import Head
from ontodex.corpora.parsing.json_objects import (
    dump_json,
    get_id,
    get_strings,
    get_text,
    parse_object,
)
from ontodex.corpora.parsing.label_numbers import LabelIds, LabelList, number_labels
from ontodex.corpora.parsing.records import read_text_records, write_lines
from ontodex.corpora.parsing.relevance import get_weights, make_metadata
from ontodex.errors import DataError
from ontodex.types import Corpus, Doc

CAPABILITIES = FormatCapabilities(fields="title and body", metadata="relevance")
WRITES_FROM_CORPUS = True


def _get_label_id(line: str) -> str:
    found = parse_object(line) or {}
    return get_id(found, "uid" if "uid" in found else "title")


LABELS = LabelList(
    "lbl.json", id_of=_get_label_id, line_of=lambda label: dump_json({"uid": label, "title": label})
)


def looks_like(head: Head) -> bool:
    """Recognise one object per line with a uid and the numbers of its labels."""
    return {"uid", "target_ind"} <= set(head.object or ())


def sources(path: Path) -> list[Path]:
    """Return the file and lbl.json beside it."""
    return [path, *LabelIds(path, LABELS).sources()]


def read(path: Path) -> Iterator[Doc]:
    """Read the documents of a file."""
    ids = LabelIds(path, LABELS)

    def parse(_: int, line: str) -> Doc | None:
        found = parse_object(line)
        if found is None:
            return None
        labels = ids.of(get_strings(found, "target_ind"))
        weights = found.get("target_rel", [1.0] * len(labels))
        if not isinstance(weights, list) or len(weights) != len(labels):
            raise DataError(f"target_rel must be a list of {len(labels)} weights, one per label")
        if not all(isinstance(weight, int | float) for weight in weights):
            raise DataError("target_rel has a value that is not a number")
        return Doc(
            get_id(found, "uid"),
            _make_fields(get_text(found, "title"), get_text(found, "content")),
            labels=labels,
            metadata=make_metadata(dict(zip(labels, weights, strict=True))),
        )

    return read_text_records(path, parse)


def _make_fields(title: str, content: str) -> dict[str, str]:
    if not title:
        return {"text": content}
    return {"title": title, "body": content} if content else {"title": title}


def write(corpus: Corpus, path: Path) -> int:
    """Write one document per line; labels that are not numbers go to lbl.json."""
    columns = number_labels(corpus, path, LABELS)
    return write_lines(path, (_format_line(doc, columns) for doc in corpus))


def _format_line(doc: Doc, columns: Mapping[str, int]) -> str:
    weights = get_weights(doc)
    return dump_json(
        {
            "uid": doc.id,
            "title": doc.fields.get("title", ""),
            "content": doc.fields.get("body", doc.fields.get("text", "")),
            "target_ind": [columns[label] for label in weights],
            "target_rel": list(weights.values()),
        }
    )
