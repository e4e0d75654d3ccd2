"""Recognise the files of office programs, which ontodex does not read as tables or vocabularies."""

from __future__ import annotations

_ZIP, _OLE = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"
_CSV = "save it as CSV (in Excel: Save As, CSV UTF-8) and give that file"


def advise_office(start: bytes) -> tuple[str, str] | None:
    """Return what a file is and what to do instead, by its first bytes; None for other files."""
    if start.startswith(_OLE):
        return "an old Excel or Word file", _CSV
    if not start.startswith(_ZIP):
        return None
    if b"xl/" in start or b"opendocument.spreadsheet" in start:
        return "a spreadsheet", _CSV
    if b"word/" in start or b"opendocument.text" in start:
        return "a text document", "it can be one text for `ontodex suggest`; put many into a table"
    return "a ZIP archive", "unpack it first"
