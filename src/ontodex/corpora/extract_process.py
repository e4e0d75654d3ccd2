"""Extract documents from a file, in a process with limited memory and time.

    python -m ontodex.corpora.extract_process FILE NAME OUT PARENT MAPPINGS ROOM

A malicious PDF or office file may unpack to any size or take hours to read. So only this process
opens such files. It can be killed at any moment, and ends with the process `PARENT`. It writes one
JSON line per document to `OUT`, and a last one with the warnings of the reader and the size of the
documents, which is at most `ROOM`. `MAPPINGS` is JSON: the columns of a table that the user named,
and those to read if nobody named any.
If the file cannot be read, it prints the reason as one JSON line on standard error and exits with
code 2, or with `FULL_DISK` if the documents cannot be written.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import re
import resource
import signal
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ontodex.corpora.encoding import FALLBACK, MAX_CHARACTERS, detect_and_decode, read_bytes
from ontodex.corpora.field_mapping import NO_MAPPING, FieldMapping
from ontodex.corpora.pdf_text import read_pdf
from ontodex.errors import DataError, OntodexError, UnmappedTableError, require
from ontodex.io.captured_warnings import capture_warnings
from ontodex.io.child_process import end_with_parent
from ontodex.io.files import open_bytes
from ontodex.io.office import advise_office
from ontodex.io.temporary import is_disk_full

MAX_MEMORY = 2 * 2**30  # bytes of address space
SECONDS = 60
FULL_DISK = 3  # exit code
MAX_OUTPUT = 256 * 2**20  # bytes
MAX_DOCUMENTS = 50_000  # documents of one batch
MAX_REASON = 600  # characters
DOC_SIZE, STRING_SIZE = 1000, 100  # characters that each document, and each string in it, counts

_TEXTS = (".txt", ".md", ".html", ".htm", ".pdf", ".docx")
_BATCHES = (".jsonl", ".csv", ".tsv", ".xml")
_BLOCKS = "address article aside blockquote br dd div dl dt figure footer form h1 h2 h3 h4 h5 h6 "
_BLOCKS += "header hr li main nav ol p pre section table td th tr ul title"


class ExtractedDoc(NamedTuple):
    """A document as a plain tuple: importing `ontodex.types` takes a second."""

    id: str
    fields: dict[str, str]
    keywords: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}  # noqa: RUF012  (never changed)


def read_documents(
    path: Path,
    name: str,
    mapping: FieldMapping = NO_MAPPING,
    recorded: FieldMapping = NO_MAPPING,
) -> Iterator[ExtractedDoc]:
    """Yield the documents of a file; the ending of its name tells how to read it.

    Tables are read with the columns of `mapping`, else with those of `recorded` if they have them.
    """
    ending = file_ending(name)
    if ending in _BATCHES:
        yield from read_batch(path, mapping, recorded)
        return
    title, metadata = "", dict[str, Any]()
    if ending in (".txt", ".md"):
        text, encoding = read_plain(path)
        # The metadata of the document tells that its encoding was guessed.
        metadata = {"encoding": encoding} if encoding == FALLBACK else {}
    elif ending == ".pdf":
        title, text = read_pdf(path, MAX_CHARACTERS)
    else:
        text = read_docx(path) if ending == ".docx" else read_html(path)
    parts = {key: part for key, part in (("title", title), ("text", text)) if part.strip()}
    if not parts:
        raise DataError("has no text")
    yield ExtractedDoc(name, parts, metadata=metadata)


def file_ending(name: str) -> str:
    """Return the ending of a file name without `.gz`; raise a DataError for an unknown one."""
    ending = Path(name.lower().removesuffix(".gz")).suffix
    if ending not in (*_TEXTS, *_BATCHES):
        known = " ".join((*_TEXTS, *_BATCHES))
        raise DataError(f"files that end in {ending!r} cannot be read; known endings are {known}")
    return ending


def read_batch(
    path: Path, mapping: FieldMapping = NO_MAPPING, recorded: FieldMapping = NO_MAPPING
) -> Iterator[ExtractedDoc]:
    """Yield the documents of a file in any corpus format."""
    from ontodex.corpora.detect import restrict_mapping
    from ontodex.corpora.open import read_docs

    for doc in read_docs(path, mapping=mapping or restrict_mapping(path, recorded)):
        if doc.kind != "text":
            raise DataError("has features, not text")
        yield ExtractedDoc(doc.id, dict(doc.fields), doc.keywords, doc.labels, dict(doc.metadata))


def read_plain(path: Path) -> tuple[str, str]:
    """Return the text of a plain file and its encoding."""
    with open_bytes(path) as file:
        return detect_and_decode(read_bytes(file))


def read_html(path: Path) -> str:
    """Return the text of an HTML page, one line per block, without scripts and styles."""
    html = require("lxml.html", extra="serve", purpose="reading HTML")
    with open_bytes(path) as file:
        raw = file.read()
    if (advice := advise_office(raw[:1000])) is not None:
        raise DataError(f"is {advice[0]}, not HTML", hint=advice[1])
    if raw.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raw = detect_and_decode(raw)[0].encode()
    with contextlib.suppress(UnicodeDecodeError):
        raw.decode()
        raw = b'<meta charset="utf-8">' + raw
    if not raw.strip():
        return ""
    # huge_tree: without it, libxml2 drops a text of 10 MB. This process has limits of its own.
    parser = html.HTMLParser(no_network=True, recover=True, huge_tree=True)
    root = html.document_fromstring(raw, parser=parser)
    lines: list[str] = []
    for event, element in _walk(root):
        if event == "text":
            lines.append(element)
        elif element in _BLOCKS.split():
            lines.append("\n")
    rows = (" ".join(row.split()) for row in "".join(lines).split("\n"))
    return "\n".join(row for row in rows if row)


def _walk(root: object) -> Iterator[tuple[str, str]]:
    """Yield ("tag", name) and ("text", text) in the order of the page, without recursion."""
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


def read_docx(path: Path) -> str:
    """Return the text of a DOCX file: its paragraphs, and those of its tables."""
    package = require("docx", extra="serve", purpose="reading DOCX")
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(item.file_size for item in archive.infolist())
        if unpacked > MAX_OUTPUT:
            raise DataError(f"unpacks to {unpacked:,} bytes")
        document = package.Document(str(path))
    except (zipfile.BadZipFile, ValueError, LookupError, OSError, SyntaxError) as error:
        raise DataError(f"not a readable DOCX file ({type(error).__name__})") from error
    word = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
    paragraphs = document.element.body.iter(word + "p")
    return "\n".join("".join(t.text or "" for t in p.iter(word + "t")) for p in paragraphs)


def clean_doc(doc: ExtractedDoc) -> ExtractedDoc:
    """Replace NUL and lone surrogates, which PDF files sometimes have, by spaces."""
    fields = {name: re.sub("[\0\ud800-\udfff]", " ", text) for name, text in doc.fields.items()}
    if sum(map(len, fields.values())) > MAX_CHARACTERS:
        raise DataError(f"document {doc.id[:100]!r} has more than {MAX_CHARACTERS:,} characters")
    return doc._replace(fields=fields)


def measure_doc(doc: ExtractedDoc) -> int:
    """Return the size of a document in characters, with what its strings take besides these."""
    strings = (*doc.fields.values(), *doc.keywords, *doc.labels, json.dumps(doc.metadata))
    return DOC_SIZE + sum(STRING_SIZE + len(text) for text in strings)


def main(
    path: Path,
    name: str,
    out: Path,
    mapping: FieldMapping,
    recorded: FieldMapping = NO_MAPPING,
    *,
    room: int = MAX_OUTPUT,
) -> None:
    """Write the documents of `path` to `out` under limits on memory, time and output.

    A file whose documents have a larger size than `room` is refused.
    """
    # SIGTERM goes to the whole group, but this file was accepted before it.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_OUTPUT, MAX_OUTPUT))
    with capture_warnings() as warnings, out.open("w", encoding="utf-8") as file:
        docs = map(clean_doc, read_documents(path, name, mapping, recorded))
        size = 0
        for count, doc in enumerate(docs):
            if count == MAX_DOCUMENTS:
                raise DataError(f"has more than {MAX_DOCUMENTS:,} documents", hint="ontodex index")
            size += measure_doc(doc)
            if size > room:
                raise DataError(
                    f"its text is larger than the {room:,} characters that are left for it; "
                    "send it alone, or divide it"
                )
            file.write(json.dumps(doc) + "\n")
        for_user = [message.replace(str(path), name) for message in warnings]
        file.write(json.dumps({"warnings": for_user, "size": size}) + "\n")


def report_failure(reason: str, columns: Sequence[str] = ()) -> None:
    """Print why the file cannot be read, as the parent process expects it."""
    reason = reason.replace(sys.argv[1], sys.argv[2])[:MAX_REASON]
    sys.stderr.write(json.dumps({"reason": reason, "columns": list(columns)}) + "\n")


if __name__ == "__main__":
    try:
        end_with_parent(int(sys.argv[4]))
        named = (FieldMapping.of(**one) for one in json.loads(sys.argv[5]))
        main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), *named, room=int(sys.argv[6]))
    except UnmappedTableError as error:
        report_failure(str(error), error.columns)
        raise SystemExit(2) from None
    except OntodexError as error:
        report_failure(str(error))
        raise SystemExit(2) from None
    except OSError as error:
        if not is_disk_full(error):
            raise
        raise SystemExit(FULL_DISK) from None
    except MemoryError:
        report_failure(f"needs more than {MAX_MEMORY // 2**20:,} MiB to be read")
        raise SystemExit(2) from None
