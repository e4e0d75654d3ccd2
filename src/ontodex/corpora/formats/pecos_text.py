"""PECOS text2text: lines of `0,2<TAB>text` or `0::0.8,2::0.1<TAB>text`.

The numbers are lines (from 0) of output-labels.txt beside the file; without it they are the ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from ontodex.corpora.parsing.capabilities import LINE_BREAK, FormatCapabilities
from ontodex.corpora.parsing.file_head import Head
from ontodex.corpora.parsing.label_numbers import LabelIds, LabelList, number_labels
from ontodex.corpora.parsing.records import read_text_records, write_lines
from ontodex.corpora.parsing.relevance import format_weight, get_weights, make_metadata
from ontodex.errors import DataError
from ontodex.types import Corpus, Doc

CAPABILITIES = FormatCapabilities(
    id=False, metadata="relevance", breaks=LINE_BREAK, label_forbids=LINE_BREAK
)
WRITES_FROM_CORPUS = True
LABELS = LabelList("output-labels.txt")
_LABELLED = re.compile(r"(?:[0-9]++(?:::[-+0-9.eE]++)?+(?:,|(?=\t)))*+\t")


def looks_like(head: Head) -> bool:
    """Recognise label numbers before the first tab of most lines and of the first.

    Lines with two tabs are LibMultiLabel. Turtle and XML may be indented by tabs, but not in the
    first line.
    """
    return (
        head.most_lines_match(_LABELLED.match)
        and _LABELLED.match(head.lines[0]) is not None
        and not head.most_lines_match(lambda line: line.count("\t") == 2)
        and not head.is_edge_list
    )


def sources(path: Path) -> list[Path]:
    """Return the file and the list of labels beside it."""
    return [path, *LabelIds(path, LABELS).sources()]


def read(path: Path) -> Iterator[Doc]:
    """Read the documents; they are numbered from 1."""
    ids = LabelIds(path, LABELS)

    def parse(number: int, line: str) -> Doc:
        numbers, tab, text = line.partition("\t")
        if not tab:
            raise DataError("no tab between labels and text")
        parts = [part.partition("::") for part in numbers.split(",") if part]
        labels = ids.of([digits for digits, _, _ in parts])
        weights = [_parse_weight(colons, weight) for _, colons, weight in parts]
        relevance = make_metadata(dict(zip(labels, weights, strict=True)))
        return Doc(str(number), {"text": text}, labels=labels, metadata=relevance)

    return read_text_records(path, parse)


def _parse_weight(colons: str, text: str) -> float:
    try:
        return float(text) if colons else 1.0
    except ValueError:
        raise DataError(f"weight {text[:40]!r} is not a number") from None


def write(corpus: Corpus, path: Path) -> int:
    """Write one document per line; labels that are not numbers go to output-labels.txt."""
    columns = number_labels(corpus, path, LABELS)
    return write_lines(path, (_format_line(doc, columns) for doc in corpus))


def _format_line(doc: Doc, columns: Mapping[str, int]) -> str:
    labels = [
        str(columns[label]) + ("" if weight == 1 else f"::{format_weight(weight)}")
        for label, weight in get_weights(doc).items()
    ]
    return f"{','.join(labels)}\t{doc.fields['text']}"
