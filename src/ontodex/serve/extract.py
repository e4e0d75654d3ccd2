"""Files into documents, in a process of its own with little memory and time.

    python -m ontodex.serve.extract FILE NAME OUT

A PDF or an office file is a program for its reader: it may unpack without end or take hours. So the
service never opens one itself; this process does, and may be ended at any moment. `OUT` gets a JSON
line a document; what is wrong with the file is one line on standard error, exit code 2.
"""

from __future__ import annotations

import contextlib
import json
import re
import resource
import signal
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ontodex.errors import DataError, OntodexError, require
from ontodex.files import decode, open_bytes

MEMORY = 2 * 2**30  # bytes of address space
SECONDS = 60
LARGEST_OUT = 256 * 2**20  # bytes
LONGEST = 10_000_000  # characters of one document
MOST = 50_000  # documents of one batch

_TEXTS = (".txt", ".md", ".html", ".htm", ".pdf", ".docx")
_BATCHES = (".jsonl", ".csv", ".tsv", ".xml")
_BLOCKS = "address article aside blockquote br dd div dl dt figure footer form h1 h2 h3 h4 h5 h6 "
_BLOCKS += "header hr li main nav ol p pre section table td th tr ul title"


class Extracted(NamedTuple):
    """A document, without the types that take a second to import."""

    id: str
    fields: dict[str, str]
    keywords: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}  # noqa: RUF012  (never changed)


def documents(path: Path, name: str) -> Iterator[Extracted]:
    """The documents of a file, by the ending of its name."""
    ending = ending_of(name)
    if ending in _BATCHES:
        yield from batch(path)
        return
    readers = {
        ".txt": plain, ".md": plain, ".html": page, ".htm": page, ".pdf": pdf, ".docx": docx,
    }  # fmt: skip
    text = readers[ending](path)
    if not text.strip():
        raise DataError("has no text", hint="a scanned PDF needs text recognition first")
    yield Extracted(name, {"text": text})


def ending_of(name: str) -> str:
    """How the file's name ends, `.gz` aside; a DataError where that tells of nothing to read."""
    ending = Path(name.lower().removesuffix(".gz")).suffix
    if ending not in (*_TEXTS, *_BATCHES):
        known = " ".join((*_TEXTS, *_BATCHES))
        raise DataError(f"files that end in {ending!r} are not known; these are: {known}")
    return ending


def batch(path: Path) -> Iterator[Extracted]:
    """Many documents of a file in a format that `ontodex.read` knows; their labels are left."""
    from ontodex.read import read_docs

    for doc in read_docs(path):
        if doc.kind != "text":
            raise DataError("holds features, not text")
        yield Extracted(doc.id, dict(doc.fields), doc.keywords, dict(doc.metadata))


def plain(path: Path) -> str:
    with open_bytes(path) as file:
        return decode(file.read(4 * LONGEST)).removeprefix("\ufeff")


def page(path: Path) -> str:
    """The text of an HTML page, a line for each block; scripts and styles are no text."""
    html = require("lxml.html", extra="serve", purpose="reading HTML")
    raw = path.read_bytes()
    with contextlib.suppress(UnicodeDecodeError):
        raw.decode()
        raw = b'<meta charset="utf-8">' + raw
    if not raw.strip():
        return ""
    root = html.document_fromstring(raw, parser=html.HTMLParser(no_network=True, recover=True))
    lines: list[str] = []
    for event, element in _walk(root):
        if event == "text":
            lines.append(element)
        elif element in _BLOCKS.split():
            lines.append("\n")
    rows = (" ".join(row.split()) for row in "".join(lines).split("\n"))
    return "\n".join(row for row in rows if row)


def _walk(root: object) -> Iterator[tuple[str, str]]:
    """("tag", its name) and ("text", the text) in the order of the page, without recursion."""
    from lxml import etree

    hidden = 0
    for event, element in etree.iterwalk(root, events=("start", "end", "comment", "pi")):
        if event in ("comment", "pi"):
            if not hidden and element.tail:
                yield "text", element.tail
            continue
        is_hidden = element.tag in ("script", "style", "template", "noscript", "svg")
        hidden += is_hidden if event == "start" else -is_hidden
        yield "tag", str(element.tag)
        text = element.text if event == "start" else element.tail
        if text and not hidden:
            yield "text", text


def pdf(path: Path) -> str:
    """The text of a PDF, its pages one after the other."""
    pypdf = require("pypdf", extra="serve", purpose="reading PDF")
    errors = require("pypdf.errors", extra="serve", purpose="reading PDF")
    try:
        reader = pypdf.PdfReader(path)
        if reader.is_encrypted and not reader.decrypt(""):
            raise DataError("is encrypted", hint="save a copy without a password")
        pages: list[str] = []
        for sheet in reader.pages:
            pages.append(sheet.extract_text())
            if sum(map(len, pages)) > LONGEST:
                raise DataError(f"has more than {LONGEST:,} characters")
    except (errors.PyPdfError, ValueError, TypeError, LookupError, AttributeError) as error:
        # A damaged PDF makes its reader stumble in many ways.
        raise DataError(f"not a readable PDF ({type(error).__name__})") from error
    return "\n".join(pages)


def docx(path: Path) -> str:
    """The text of a DOCX file: its paragraphs, and those of its tables."""
    package = require("docx", extra="serve", purpose="reading DOCX")
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(item.file_size for item in archive.infolist())
        if unpacked > LARGEST_OUT:
            raise DataError(f"unpacks to {unpacked:,} bytes")
        document = package.Document(str(path))
    except (zipfile.BadZipFile, ValueError, LookupError, OSError, SyntaxError) as error:
        raise DataError(f"not a readable DOCX file ({type(error).__name__})") from error
    word = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
    paragraphs = document.element.body.iter(word + "p")
    return "\n".join("".join(t.text or "" for t in p.iter(word + "t")) for p in paragraphs)


def cleaned(doc: Extracted) -> Extracted:
    """The document without what no text should hold; PDF gives both now and then."""
    fields = {name: re.sub("[\0\ud800-\udfff]", " ", text) for name, text in doc.fields.items()}
    if sum(map(len, fields.values())) > LONGEST:
        raise DataError(f"document {doc.id[:100]!r} has more than {LONGEST:,} characters")
    return doc._replace(fields=fields)


def main(path: Path, name: str, out: Path) -> None:
    """Write the documents of `path` to `out`, with little memory and time."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # of the whole group: this was accepted before
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_OUT, LARGEST_OUT))
    with out.open("w", encoding="utf-8") as file:
        for count, doc in enumerate(map(cleaned, documents(path, name))):
            if count == MOST:
                raise DataError(f"has more than {MOST:,} documents", hint="ontodex index")
            file.write(json.dumps(doc) + "\n")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
    except OntodexError as error:
        sys.stderr.write(str(error).replace(sys.argv[1], sys.argv[2]) + "\n")
        raise SystemExit(2) from None
    except MemoryError:
        sys.stderr.write(f"needs more than {MEMORY // 2**20:,} MiB to be read\n")
        raise SystemExit(2) from None
