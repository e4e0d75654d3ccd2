"""Read untrusted XML as a stream, with bounded memory and without declarations.

The file is read as blocks of UTF-8. Its prolog (XML declaration, comments, DOCTYPE) is checked and
replaced by blank lines before a parser gets it. So a parser never processes a DTD: entities other
than the five of XML are errors, and nothing is fetched. A DOCTYPE that only names an external DTD,
as PubMed's does, is ignored.

Between two wanted elements a file may have a bounded amount of text and markup, so the tree in
memory stays small. A single text of tens of megabytes can still be read.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Collection, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any
from xml.parsers.expat import ErrorString, ExpatError, ParserCreate

from ontodex.errors import DataError, require
from ontodex.io.files import BOM, open_bytes

BLOCK = 32 * 2**10
PROLOG = 64 * 2**10  # the root element must begin within these first bytes
# Limits between the ends of two wanted elements. A tag, attribute or entity of three bytes
# costs libxml2 up to 240 bytes of memory, so markup is limited by number and text by size.
MAX_TEXT = 32 * 2**20
MAX_MARKUP = 500_000
# Limits of the elements for a parser without limits of its own.
MAX_DEPTH = MAX_ATTRIBUTES = MAX_NAMESPACES = 1_000
MAX_TAG = 2**20  # bytes
UNCOUNTED = 2**18  # bytes; markup of shorter records, which almost all are, is not counted

_BOMS = {BOM: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
# Encodings that write "<!DOCTYPE" as in ASCII; UTF-7 and EBCDIC could hide one.
_ENCODINGS = {
    *("utf-8", "ascii", "cp1250", "cp1251", "cp1252"),
    *(f"iso8859-{part}" for part in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 14, 15, 16)),
}
_DECLARED = re.compile(rb"""<\?xml\s[^>]*?\sencoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")
_NEUTRAL = re.compile(rb"[ \t\r\n]+|<!--.*?-->|<\?.*?\?>", re.DOTALL)
_QUOTED = rb"""(?:"[^"<>]*"|'[^'<>]*')"""
_DOCTYPE = re.compile(
    rb"<!DOCTYPE\s+[^\s\[\]<>\"']+"
    rb"(?:\s+(?:SYSTEM\s+%b|PUBLIC\s+%b(?:\s+%b)?))?\s*>" % (_QUOTED, _QUOTED, _QUOTED)
)
_ROOT = re.compile(rb"<[^\s<>!?/&\x00]")


def read_elements(path: Path, tags: Collection[str]) -> Iterator[Any]:
    """Yield each element with one of `tags`, complete, in file order.

    The element, and everything before it in the file, is freed when the next one is requested.
    Wanted elements should not contain each other: an inner one is emptied before the outer one is
    complete.
    """
    etree = require("lxml.etree", extra="all", purpose="reading XML")
    parser = etree.XMLPullParser(
        events=("end",),
        tag=tuple(tags),
        encoding="utf-8",
        huge_tree=True,  # no limit of 10 MB per text; the limits above replace it
        resolve_entities="internal",  # there are none; False would hide the error
        no_network=True,
        load_dtd=False,
        remove_comments=True,
        remove_pis=True,
        collect_ids=False,
    )
    budget = _Budget(path)
    try:
        for block in read_blocks(path):
            budget.spend(block)
            parser.feed(block)
            for _, element in parser.read_events():
                budget.renew(line=element.sourceline)
                yield element
                _free(element)
        parser.close()
    except etree.XMLSyntaxError as error:
        raise _syntax_error(error, path) from error


def read_blocks(path: Path) -> Iterator[bytes]:
    """Yield the file as UTF-8, unpacked, with its prolog checked and replaced by blank lines.

    Lines keep their numbers. The bytes are safe for any XML parser: they have no DOCTYPE.
    """
    parts = _utf8_blocks(path)
    yield _without_prolog(next(parts), path)
    yield from parts


def read_simple_blocks(path: Path) -> Iterator[bytes]:
    """Yield the blocks of a file whose elements are simple, for a parser that has no limits.

    The time of such a parser grows with the square of the depth, of the attributes of a tag, and of
    the namespaces in scope, so each of them is limited.
    """
    parser = ParserCreate("utf-8")
    parser.buffer_text = True
    parser.ordered_attributes = True
    namespaces: list[int] = []  # in scope, for each open element
    given = 0

    def start(name: str, attributes: list[str]) -> None:
        n_own = sum(name.startswith("xmlns") for name in attributes[::2])
        namespaces.append(n_own + (namespaces[-1] if namespaces else 0))
        require_at_most(MAX_DEPTH, len(namespaces), "elements inside each other")
        require_at_most(MAX_ATTRIBUTES, len(attributes) // 2, "attributes of one tag")
        require_at_most(MAX_NAMESPACES, namespaces[-1], "namespaces at one place")

    def end(name: str) -> None:
        namespaces.pop()

    def require_at_most(limit: int, seen: int, what: str) -> None:
        if seen > limit:
            raise DataError(
                f"more than {limit:,} {what}; this looks like an attack or another format",
                path=path,
                line=parser.CurrentLineNumber,
            )

    parser.StartElementHandler, parser.EndElementHandler = start, end
    for block in read_blocks(path):
        given += len(block)
        try:
            parser.Parse(block)
        except ExpatError as error:
            raise DataError(
                f"not well-formed XML ({ErrorString(error.code)})", path=path, line=error.lineno
            ) from error
        require_at_most(MAX_TAG, given - parser.CurrentByteIndex, "bytes in one tag or comment")
        yield block


def _utf8_blocks(path: Path) -> Iterator[bytes]:
    """Yield the file as UTF-8 without a byte order mark; the first block is the longest."""
    with open_bytes(path) as file:
        head = file.read(PROLOG)
        rest = iter(partial(file.read, BLOCK), b"")
        encoding = _encoding(head, path)
        if encoding == "utf-8":
            yield head.removeprefix(BOM)
            yield from rest
            return
        decode = codecs.getincrementaldecoder(encoding)().decode
        line = 1
        for block in chain((head,), rest):
            yield (part := _transcode(decode, block, path, line))
            line += part.count(b"\n")
        _transcode(decode, b"", path, line, final=True)


class _Budget:
    """Counts the text and markup that may come before the end of the next wanted element."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.renew(line=1)

    def renew(self, *, line: int) -> None:
        self._text, self._markup, self._line = MAX_TEXT, MAX_MARKUP, line

    def spend(self, block: bytes) -> None:
        self._text -= len(block)
        if self._text > MAX_TEXT - UNCOUNTED:
            return
        self._markup -= block.count(b"<") + block.count(b"=") + block.count(b"&")
        if self._text < 0 or self._markup < 0:
            seen = (
                f"{MAX_TEXT // 2**20} MiB of text"
                if self._text < 0
                else f"{MAX_MARKUP:,} tags, attributes and references"
            )
            raise DataError(
                f"more than {seen} in or after the record that begins here; this looks like an "
                "attack or another format",
                path=self._path,
                line=self._line,
            )


def _free(element: Any) -> None:
    """Empty the element, and drop everything before it and before its ancestors."""
    element.clear()
    while (parent := element.getparent()) is not None:
        while parent[0] is not element:
            del parent[0]
        element = parent


def _encoding(head: bytes, path: Path) -> str:
    """Return the Python name of the encoding: by byte order mark, else as declared, else UTF-8."""
    for bom, name in _BOMS.items():
        if head.startswith(bom):
            return name
    if head[:2] in (b"<\0", b"\0<"):
        raise DataError("UTF-16 without a byte order mark", path=path, hint="convert it to UTF-8")
    declared = _DECLARED.match(head)
    if declared is None:
        return "utf-8"
    name = declared[1].decode()
    try:
        known = codecs.lookup(name).name
    except LookupError:
        known = ""
    if known not in _ENCODINGS:
        raise DataError(
            f"declares the encoding {name!r}, which is not supported",
            path=path,
            line=1,
            hint="convert the file to UTF-8 and change the declaration",
        )
    return known


def _transcode(decode: Any, block: bytes, path: Path, line: int, *, final: bool = False) -> bytes:
    try:
        text: str = decode(block, final)
        return text.encode()
    except UnicodeError as error:
        raise DataError(
            f"its bytes do not match its encoding ({error})", path=path, line=line
        ) from error


def _without_prolog(head: bytes, path: Path) -> bytes:
    """Return `head` with everything before the root element replaced by as many line ends."""
    at, has_doctype = 0, False
    while (neutral := _NEUTRAL.match(head, at)) or head.startswith(b"<!DOCTYPE", at):
        if neutral is None:
            neutral = _DOCTYPE.match(head, at)
            if neutral is None or has_doctype:
                raise _doctype_error(head, at, path)
            has_doctype = True
        at = neutral.end()
    line = head.count(b"\n", 0, at) + 1
    if not _ROOT.match(head, at):
        seen = head[at : at + 20].decode(errors="replace")
        what = f"found {seen!r}" if seen else "the file ends"
        raise DataError(f"an XML element should begin here, but {what}", path=path, line=line)
    return b"\n" * (line - 1) + head[at:]


def _doctype_error(head: bytes, at: int, path: Path) -> DataError:
    return DataError(
        "its DOCTYPE declares entities or attributes, or is malformed; "
        "such declarations can make a small file expand to any size, so they are refused",
        path=path,
        line=head.count(b"\n", 0, at) + 1,
        hint="if you trust the file, expand them first: xmllint --noent --dropdtd FILE",
    )


def _syntax_error(error: Any, path: Path) -> DataError:
    reason = " ".join(str(error.msg).rsplit(", line ", 1)[0].split())
    reason = reason.removesuffix(
        ", use XML_PARSE_HUGE option"
    )  # the option is set; this is its own limit
    return DataError(
        f"not well-formed XML ({reason})",
        path=path,
        line=error.lineno or None,
        hint="download or create the file again",
    )


__all__ = ["read_blocks", "read_elements", "read_simple_blocks"]
