"""Extreme Classification Repository, raw text: JSON lines with uid, title, content, target_ind.

`target_ind` are line numbers (from 0) of lbl.json beside the file, whose uids are the labels' ids;
`target_rel` are their weights. Without lbl.json a label's id is its number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ontodex.errors import DataError
from ontodex.read.head import Head
from ontodex.read.holds import Holds
from ontodex.read.lines import text_records, write_lines
from ontodex.read.numbers import LabelIds, ListFile, number_labels
from ontodex.read.objects import dump, id_of, parse_object, strings_of, text_of
from ontodex.read.relevance import metadata_of, weights_of
from ontodex.types import Corpus, Doc

HOLDS = Holds(fields="title and body", metadata="relevance")
WRITES_FROM_CORPUS = True


def _label_id(line: str) -> str:
    found = parse_object(line) or {}
    return id_of(found, "uid" if "uid" in found else "title")


LABELS = ListFile(
    "lbl.json", id_of=_label_id, line_of=lambda label: dump({"uid": label, "title": label})
)


def looks_like(head: Head) -> bool:
    """An object a line with a uid and the numbers of its labels."""
    return {"uid", "target_ind"} <= set(head.object or ())


def sources(path: Path) -> list[Path]:
    """The file and lbl.json beside it."""
    return [path, *LabelIds(path, LABELS).sources()]


def read(path: Path) -> Iterator[Doc]:
    """The documents of a file."""
    ids = LabelIds(path, LABELS)

    def parse(_: int, line: str) -> Doc | None:
        found = parse_object(line)
        if found is None:
            return None
        labels = ids.of(strings_of(found, "target_ind"))
        weights = found.get("target_rel", [1.0] * len(labels))
        if not isinstance(weights, list) or len(weights) != len(labels):
            raise DataError(f"target_rel must be a list of {len(labels)} weights, one per label")
        if not all(isinstance(weight, int | float) for weight in weights):
            raise DataError("target_rel has something in it that is not a number")
        return Doc(
            id_of(found, "uid"),
            _fields(text_of(found, "title"), text_of(found, "content")),
            labels=labels,
            metadata=metadata_of(dict(zip(labels, weights, strict=True))),
        )

    return text_records(path, parse)


def _fields(title: str, content: str) -> dict[str, str]:
    if not title:
        return {"text": content}
    return {"title": title, "body": content} if content else {"title": title}


def write(corpus: Corpus, path: Path) -> int:
    """Write a document a line; labels that are not numbers go to lbl.json."""
    columns = number_labels(corpus, path, LABELS)
    return write_lines(path, (_line(doc, columns) for doc in corpus))


def _line(doc: Doc, columns: Mapping[str, int]) -> str:
    weights = weights_of(doc)
    return dump(
        {
            "uid": doc.id,
            "title": doc.fields.get("title", ""),
            "content": doc.fields.get("body", doc.fields.get("text", "")),
            "target_ind": [columns[label] for label in weights],
            "target_rel": list(weights.values()),
        }
    )
