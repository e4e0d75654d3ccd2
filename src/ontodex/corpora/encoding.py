"""Decode a single text of unknown encoding: a file, an upload, or words of the command line.

    a byte order mark ─ UTF-8, UTF-16 or UTF-32     else UTF-8     else Windows-1252, with a warning

Only single texts are decoded so. Corpora are UTF-8: a guess that is wrong for one of a million
lines would not be noticed.
"""

from __future__ import annotations

import codecs
import logging
import re
from typing import IO

from ontodex.errors import DataError

logger = logging.getLogger(__name__)

# The mark of UTF-32-LE begins with that of UTF-16-LE, so it comes first.
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
MAX_CHARACTERS = 10_000_000  # characters of one text
MAX_BYTES = 4 * MAX_CHARACTERS + 4  # four a character, and a byte order mark
FALLBACK = "windows-1252"  # also reads Latin-1, except its control characters
HINT = "save the file as UTF-8, for example with iconv -f UTF-16 -t UTF-8"
# Controls that no text has: with one of them, bytes that are not UTF-8 are no Windows-1252 either.
_BINARY = re.compile(rb"[\x01-\x08\x0e-\x1a\x1c-\x1f]")


def read_bytes(file: IO[bytes], source: str = "") -> bytes:
    """Return all bytes of a text; raise a DataError, before all are read, if it is too long."""
    raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise _too_long_error(source)
    return raw


def check_length(text: str, source: str = "") -> str:
    """Return the text; raise a DataError if it is too long."""
    if len(text) > MAX_CHARACTERS:
        raise _too_long_error(source)
    return text


def _too_long_error(source: str) -> DataError:
    return DataError(
        _start(source) + f"has more than {MAX_CHARACTERS:,} characters",
        hint="divide the text into several",
    )


def decode_text(raw: bytes, source: str = "") -> str:
    """Return the text of some bytes; warn if the encoding had to be guessed."""
    text, encoding = detect_and_decode(raw, source)
    if encoding == FALLBACK:
        logger.warning("%s: %s", source or "text", describe_guess())
    return text


def describe_guess() -> str:
    return f"not UTF-8, so read as {FALLBACK}; save it as UTF-8 if letters look wrong"


def detect_and_decode(raw: bytes, source: str = "") -> tuple[str, str]:
    """Return the text of some bytes without its byte order mark, and the name of the encoding.

    Raise a DataError, which starts with `source` and the line, if the bytes are no text.
    """
    for mark, encoding in _MARKS.items():
        if raw.startswith(mark):
            return _check(_decode_marked(raw[len(mark) :], encoding, source), source), encoding
    try:
        return _check(raw.decode("utf-8"), source), "utf-8"
    except UnicodeDecodeError as error:
        place = f"byte 0x{raw[error.start]:02x} at byte {error.start + 1:,}"
        if _BINARY.search(raw) or b"\0" in raw:
            message = f"not UTF-8 ({place}), and not text in another known encoding"
            raise DataError(_start(source) + message, hint=HINT) from None
        try:
            return raw.decode(FALLBACK), FALLBACK
        except UnicodeDecodeError:
            message = f"neither UTF-8 ({place}) nor {FALLBACK}"
            raise DataError(_start(source) + message, hint=HINT) from None


def _decode_marked(raw: bytes, encoding: str, source: str) -> str:
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        message = (
            f"has the byte order mark of {encoding}, but byte {error.start + 1:,} is not valid"
        )
        raise DataError(_start(source) + message, hint=HINT) from error


def _check(text: str, source: str) -> str:
    """Return the text if it has no NUL; else raise an error with the line."""
    if (at := text.find("\0")) >= 0:
        where = f"{source}:{text.count(chr(10), 0, at) + 1}" if source else ""
        raise DataError(_start(where) + "a NUL character in text", hint=HINT)
    return text


def _start(source: str) -> str:
    return f"{source}: " if source else ""
