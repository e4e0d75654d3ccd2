"""PECOS text2text: `0,2<TAB>text` or `0::0.8,2::0.1<TAB>text` a line.

The numbers are lines (from 0) of output-labels.txt beside the file; without it they are the ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from ontodex.errors import DataError
from ontodex.read.head import Head
from ontodex.read.holds import LINE_BREAK, Holds
from ontodex.read.lines import text_records, write_lines
from ontodex.read.numbers import LabelIds, ListFile, number_labels
from ontodex.read.relevance import metadata_of, number, weights_of
from ontodex.types import Corpus, Doc

HOLDS = Holds(id=False, metadata="relevance", breaks=LINE_BREAK, label_forbids=LINE_BREAK)
WRITES_FROM_CORPUS = True
LABELS = ListFile("output-labels.txt")
_LABELLED = re.compile(r"(?:[0-9]+(?:::[-+0-9.eE]+)?(?:,|(?=\t)))*\t")


def looks_like(head: Head) -> bool:
    """Label numbers before the first tab of most lines; two tabs in each are LibMultiLabel's. The
    first line too: Turtle and XML may be indented by tabs, but do not begin with one."""
    return (
        head.mostly(_LABELLED.match)
        and _LABELLED.match(head.lines[0]) is not None
        and not head.mostly(lambda line: line.count("\t") == 2)
        and not head.is_edge_list
    )


def sources(path: Path) -> list[Path]:
    """The file and the list of labels beside it."""
    return [path, *LabelIds(path, LABELS).sources()]


def read(path: Path) -> Iterator[Doc]:
    """The documents, numbered from 1."""
    ids = LabelIds(path, LABELS)

    def parse(number: int, line: str) -> Doc:
        given, tab, text = line.partition("\t")
        if not tab:
            raise DataError("no tab between labels and text")
        parts = [part.partition("::") for part in given.split(",") if part]
        labels = ids.of([digits for digits, _, _ in parts])
        weights = [_weight(colons, weight) for _, colons, weight in parts]
        relevance = metadata_of(dict(zip(labels, weights, strict=True)))
        return Doc(str(number), {"text": text}, labels=labels, metadata=relevance)

    return text_records(path, parse)


def _weight(colons: str, text: str) -> float:
    try:
        return float(text) if colons else 1.0
    except ValueError:
        raise DataError(f"weight {text[:40]!r} is not a number") from None


def write(corpus: Corpus, path: Path) -> int:
    """Write a document a line; labels that are not numbers go to output-labels.txt."""
    columns = number_labels(corpus, path, LABELS)
    return write_lines(path, (_line(doc, columns) for doc in corpus))


def _line(doc: Doc, columns: Mapping[str, int]) -> str:
    labels = [
        str(columns[label]) + ("" if weight == 1 else f"::{number(weight)}")
        for label, weight in weights_of(doc).items()
    ]
    return f"{','.join(labels)}\t{doc.fields['text']}"
