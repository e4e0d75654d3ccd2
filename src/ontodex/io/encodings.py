"""Detect the encoding of text files, and read them as UTF-8.

    a byte order mark ─ UTF-8, UTF-16 or UTF-32     else NUL in every second byte ─ UTF-16
    else UTF-8     else Windows-1252

A file that is mostly UTF-8 with some damaged lines stays UTF-8, so that these lines are reported.
"""

from __future__ import annotations

import codecs
import io
import re
from pathlib import Path
from typing import IO

from ontodex.errors import DataError

# The mark of UTF-32-LE begins with that of UTF-16-LE, so it comes first.
MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
FALLBACK = "windows-1252"  # also reads Latin-1, except its control characters
HINT = "save the file as UTF-8, for example with iconv -f UTF-16 -t UTF-8"
# Controls that no text has: with one of them, bytes that are not UTF-8 are no Windows-1252 either.
BINARY = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_UNDEFINED = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")  # in Windows-1252
_ESCAPED = re.compile("[\udc80-\udcff]")  # a byte that is not UTF-8, after decoding
_IN_WORD = re.compile("[A-Za-z][\udc80-\udcff]|[\udc80-\udcff][A-Za-z]")
_UNMARKED = 4_096  # bytes that show UTF-16 without a mark
_LEAST_UNMARKED = 8  # bytes of such a text
_NUL_SHARE = 0.05  # of its characters, at least, are ASCII: spaces, digits, separators
_LATIN_SHARE = 0.4  # where the bytes are a text without the NULs, or one damaged by a NUL
_SCAN = 16 * 2**20  # bytes from which the encoding is detected
_BLOCK = 2**20


def describe_guess() -> str:
    return f"not UTF-8, so read as {FALLBACK}; save it as UTF-8 if letters look wrong"


def detect_encoding(file: IO[bytes]) -> str:
    """Return the encoding of a text file, by its first 16 MiB.

    Windows-1252 is taken where hardly any letter is UTF-8, and most bytes that are not stand beside
    an ASCII letter, as the letters with accents of a word do.
    """
    block = _read_block(file)
    for mark, encoding in MARKS.items():
        if block.startswith(mark):
            return encoding
    if unmarked := find_unmarked_utf16(block):
        return unmarked
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    n_letters = n_escaped = n_in_word = n_read = 0
    while block and n_read < _SCAN:
        n_read += len(block)
        text = decoder.decode(block)
        if not text.isascii():
            if BINARY.search(block) or (_ESCAPED.search(text) and _UNDEFINED.search(block)):
                return "utf-8"
            escaped = len(_ESCAPED.findall(text))
            n_letters += len(text) - len(text.encode("ascii", "ignore")) - escaped
            n_escaped += escaped
            n_in_word += len(_IN_WORD.findall(text)) if escaped else 0
        block = _read_block(file)
    is_fallback = n_escaped > 10 * n_letters and 2 * n_in_word >= n_escaped
    return FALLBACK if is_fallback else "utf-8"


def find_unmarked_utf16(raw: bytes) -> str:
    """Return the encoding of bytes that are UTF-16 without a byte order mark, "" for others.

    ASCII characters have a NUL in the second byte (little endian) or in the first one. Binary
    files have NULs in both, or control characters.
    """
    block = raw[: min(len(raw), _UNMARKED) // 2 * 2]
    even, odd = block[::2].count(0), block[1::2].count(0)
    if len(block) < _LEAST_UNMARKED or bool(even) == bool(odd):
        return ""
    encoding = "utf-16-le" if odd else "utf-16-be"
    text = block.decode(encoding, "replace")
    is_text = "\ufffd" not in text[:-1] and not BINARY.search(text.encode("ascii", "ignore"))
    share = _LATIN_SHARE if _is_plain(block.replace(b"\0", b"")) else _NUL_SHARE
    return encoding if is_text and max(even, odd) >= share * len(text) else ""


def _is_plain(block: bytes) -> bool:
    """Tell whether the bytes are text in UTF-8."""
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return not BINARY.search(block)


def _read_block(file: IO[bytes]) -> bytes:
    """Return the next bytes; none of a damaged file, whose reader reports where it ends."""
    try:
        return file.read(_BLOCK)
    except DataError:
        return b""


class Transcoder(io.RawIOBase):
    """A stream of UTF-8 bytes from a file in another encoding, without its byte order mark."""

    def __init__(self, path: Path, inner: IO[bytes], encoding: str) -> None:
        self._path, self._inner, self._encoding = path, inner, encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._waiting, self._is_start = b"", True

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._waiting:
            block = self._inner.read(_BLOCK)
            self._waiting = self._decode(block)
            if not block:
                break
        part, self._waiting = self._waiting[: len(buffer)], self._waiting[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)

    def _decode(self, block: bytes) -> bytes:
        try:
            text = self._decoder.decode(block, final=not block)
            if self._is_start and text:
                text, self._is_start = text.removeprefix("\ufeff"), False
            return text.encode()
        except UnicodeError as error:
            raise DataError(
                f"read as {self._encoding}, but some bytes are not valid in it",
                path=self._path,
                hint=HINT,
            ) from error

    def close(self) -> None:
        self._inner.close()
        super().close()
