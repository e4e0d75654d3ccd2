"""LibMultiLabel: lines of `id<TAB>label label<TAB>text`, or `label label<TAB>text` without ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from ontodex.corpora.parsing.capabilities import LINE_OR_TAB, SPACE, FormatCapabilities
from ontodex.corpora.parsing.file_head import Head
from ontodex.corpora.parsing.records import read_text_records, write_lines
from ontodex.errors import DataError
from ontodex.io.files import read_lines
from ontodex.types import Doc

CAPABILITIES = FormatCapabilities(breaks=LINE_OR_TAB, id_forbids=LINE_OR_TAB, label_forbids=SPACE)


def looks_like(head: Head) -> bool:
    """Recognise two or three columns in most lines, as in the first, the last of several words.

    A first column of concepts in angle brackets belongs to a vocabulary.
    """
    first = head.lines[0]
    return (
        not first.startswith(("<", "{"))
        and first.count("\t") in (1, 2)  # Turtle may be indented by tabs, but not in the first line
        and head.most_lines_match(partial(_has_tabs, first.count("\t")))
        and head.most_lines_match(lambda line: " " in line.rpartition("\t")[2].strip())
        and not head.is_edge_list
    )


def _has_tabs(count: int, line: str) -> bool:
    return line.count("\t") == count


def read(path: Path) -> Iterator[Doc]:
    """Read the documents; if the first line has no id, they are numbered from 1."""
    n_tabs = next((line.count("\t") for _, line in read_lines(path)), 2)

    def parse(number: int, line: str) -> Doc:
        cells = line.split("\t")
        if len(cells) != n_tabs + 1 or n_tabs not in (1, 2):
            raise DataError(
                f"{len(cells)} columns; the format has id, labels and text, or labels and text, "
                "the same in every line"
            )
        *id_, labels, text = cells
        if id_ == [""]:
            raise DataError("no id before the first tab")
        return Doc(id_[0] if id_ else str(number), {"text": text}, labels=tuple(labels.split()))

    records = read_text_records(path, parse)
    records.has_ids = n_tabs == 2
    return records


def write(docs: Iterable[Doc], path: Path) -> int:
    """Write one document per line, with its id."""
    return write_lines(
        path, (f"{doc.id}\t{' '.join(doc.labels)}\t{doc.fields['text']}" for doc in docs)
    )
