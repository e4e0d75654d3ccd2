"""Decode a single text of unknown encoding: a file, an upload, or words of the command line.

    a byte order mark ─ UTF-8, UTF-16 or UTF-32     else NUL in every second byte ─ UTF-16
    else UTF-8     else Windows-1252, with a warning

`io.encodings` reads the files of corpora in the same encodings.
"""

from __future__ import annotations

import logging
from typing import IO

from ontodex.errors import DataError
from ontodex.io.encodings import (
    BINARY,
    FALLBACK,
    HINT,
    MARKS,
    describe_guess,
    find_unmarked_utf16,
)

logger = logging.getLogger(__name__)

MAX_CHARACTERS = 10_000_000  # characters of one text
MAX_BYTES = 4 * MAX_CHARACTERS + 4  # four a character, and a byte order mark


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


def detect_and_decode(raw: bytes, source: str = "") -> tuple[str, str]:
    """Return the text of some bytes without its byte order mark, and the name of the encoding.

    Raise a DataError, which starts with `source` and the line, if the bytes are no text.
    """
    for mark, encoding in MARKS.items():
        if raw.startswith(mark):
            return _check(_decode_marked(raw[len(mark) :], encoding, source), source), encoding
    if (unmarked := find_unmarked_utf16(raw)) and len(raw) % 2 == 0:
        return _check(raw.decode(unmarked, "replace"), source), unmarked
    try:
        return _check(raw.decode("utf-8"), source), "utf-8"
    except UnicodeDecodeError as error:
        place = f"byte 0x{raw[error.start]:02x} at byte {error.start + 1:,}"
        if BINARY.search(raw):
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


__all__ = [
    "FALLBACK",
    "MAX_BYTES",
    "MAX_CHARACTERS",
    "check_length",
    "decode_text",
    "describe_guess",
    "detect_and_decode",
    "read_bytes",
]
