"""AttentionXML: NAME_texts.txt with one document per line, NAME_labels.txt with its labels.

Labels are separated by spaces. ` /SEP/ ` in a text separates title and body.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from ontodex.corpora.parsing.capabilities import LINE_BREAK, SPACE, FormatCapabilities
from ontodex.corpora.parsing.file_head import Head
from ontodex.corpora.parsing.file_pairs import FilePair
from ontodex.corpora.parsing.records import read_paired_records, write_columns
from ontodex.types import Doc

SEPARATOR = " /SEP/ "
CAPABILITIES = FormatCapabilities(
    id=False,
    fields="title and body",
    lone_title=False,
    breaks=LINE_BREAK,
    mark="/SEP/",
    label_forbids=SPACE,
)
PAIR = FilePair("{}_texts.txt", "{}_labels.txt")


def looks_like(head: Head) -> bool:
    """Recognise two text files with the same number of lines at the start."""
    pair = PAIR.find(head.path)
    if pair is None:
        return False
    texts, labels = map(Head.of, pair)
    return (
        b"\0" not in texts.start
        and texts.object is None
        and not any("\t" in line for line in labels.lines)
        and len(labels.lines) >= len(texts.lines)
    )


def sources(path: Path) -> list[Path]:
    """Return both files."""
    return list(PAIR.require(path))


def targets(path: Path) -> list[Path]:
    """Return both files."""
    return list(PAIR.name_targets(path))


def read(path: Path) -> Iterator[Doc]:
    """Read the documents; they are numbered from 1."""
    return read_paired_records(*PAIR.require(path), _parse)


def _parse(number: int, lines: tuple[str, str]) -> Doc:
    title, separator, body = lines[0].partition(SEPARATOR)
    fields = {"title": title, "body": body} if separator else {"text": title}
    return Doc(str(number), fields, labels=tuple(lines[1].split()))


def write(docs: Iterable[Doc], path: Path) -> int:
    """Write both files."""
    rows = ((SEPARATOR.join(doc.fields.values()), " ".join(doc.labels)) for doc in docs)
    return write_columns(PAIR.name_targets(path), rows)
