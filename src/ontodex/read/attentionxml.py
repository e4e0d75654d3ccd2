"""AttentionXML: NAME_texts.txt, a document a line, and NAME_labels.txt, its labels by spaces.

` /SEP/ ` in a text stands between title and body.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from ontodex.read.head import Head
from ontodex.read.holds import LINE_BREAK, SPACE, Holds
from ontodex.read.lines import paired_records, write_columns
from ontodex.read.pairs import Pair
from ontodex.types import Doc

SEPARATOR = " /SEP/ "
HOLDS = Holds(
    id=False,
    fields="title and body",
    lone_title=False,
    breaks=LINE_BREAK,
    mark="/SEP/",
    label_forbids=SPACE,
)
PAIR = Pair("{}_texts.txt", "{}_labels.txt")


def looks_like(head: Head) -> bool:
    """Two files of text with as many lines, as far as one sees."""
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
    """Both files."""
    return list(PAIR.existing(path))


def targets(path: Path) -> list[Path]:
    """Both files."""
    return list(PAIR.named(path))


def read(path: Path) -> Iterator[Doc]:
    """The documents, numbered from 1."""
    return paired_records(*PAIR.existing(path), _parse)


def _parse(number: int, lines: tuple[str, str]) -> Doc:
    title, separator, body = lines[0].partition(SEPARATOR)
    fields = {"title": title, "body": body} if separator else {"text": title}
    return Doc(str(number), fields, labels=tuple(lines[1].split()))


def write(docs: Iterable[Doc], path: Path) -> int:
    """Write both files."""
    rows = ((SEPARATOR.join(doc.fields.values()), " ".join(doc.labels)) for doc in docs)
    return write_columns(PAIR.named(path), rows)
