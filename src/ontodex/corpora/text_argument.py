"""Turn the TEXT argument of a command into a document: words, a file, or standard input."""

from __future__ import annotations

import errno
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ontodex.corpora.encoding import check_length, decode_text, read_bytes
from ontodex.errors import DataError
from ontodex.io.files import open_bytes
from ontodex.types import Doc

logger = logging.getLogger(__name__)

TABLE_ENDINGS = {".csv", ".jsonl", ".parquet", ".tsv"}  # packed or not
OFFICE_ENDINGS = (".html", ".htm", ".pdf", ".docx")
# A single word with one of these endings is the name of a file, not a text.
FILE_ENDINGS = (
    *OFFICE_ENDINGS, ".txt", ".md", ".json", ".jsonl", ".csv", ".tsv", ".xml", ".parquet", ".gz",
    ".xz", ".bz2",
)  # fmt: skip


def read_document(argument: str, keywords: Sequence[str] | None) -> Doc:
    """Return a document with the text of the argument and these keywords."""
    text = read_text(argument)
    if not text.strip():
        source = "standard input" if argument == "-" else argument if argument.strip() else "TEXT"
        raise DataError(f"{source}: no text", hint="give some words, or a file that has some")
    words = tuple(_decode_argument(word, "--keyword") for word in keywords or ())
    return Doc("", {"text": text}, words)


def read_text(argument: str) -> str:
    """Return standard input for "-", the text of a file of this name, else the argument itself."""
    if argument == "-":
        source = "standard input"
        stdin = read_bytes(sys.stdin.buffer, source) if sys.stdin else b""  # None where closed
        return check_length(_end_lines(decode_text(stdin, source)), source)
    file = _find_file(argument)
    if file is None:
        return _decode_argument(argument, "TEXT")
    if file.suffix.lower() in OFFICE_ENDINGS:
        return _extract_text(file)
    if TABLE_ENDINGS & {suffix.lower() for suffix in file.suffixes}:
        raise DataError(
            f"{argument}: has many documents, but this command takes one",
            hint=f"index them all with `ontodex index RUN {argument} OUT`, or give one text",
        )
    with open_bytes(file) as opened:
        raw = read_bytes(opened, str(file))
    return check_length(_end_lines(decode_text(raw, str(file))), str(file))


def _end_lines(text: str) -> str:
    """Return lines that end in LF, without the end of the last one."""
    return text.replace("\r\n", "\n").removesuffix("\n")


def _decode_argument(words: str, source: str) -> str:
    """Decode words of the command line: Python passes bytes that are not UTF-8 as surrogates."""
    return decode_text(words.encode("utf-8", "surrogateescape"), source)


def _extract_text(file: Path) -> str:
    """Return the text of a PDF, DOCX or HTML file."""
    import asyncio

    from ontodex.corpora.extract import extract_file

    try:
        found = asyncio.run(extract_file(file, file.name))
    except DataError as error:
        raise error.at(file) from error
    for warning in found.warnings:
        logger.warning("%s: %s", file, warning)
    return found.docs[0].text


def _find_file(argument: str) -> Path | None:
    """Return the file that the argument names, or None for a text.

    A folder, and a word that looks like the name of a missing file, are errors.
    """
    path = Path(argument)
    hint = "name an existing file, give a text in quotes, or pipe a text to standard input: -"
    try:
        exists = bool(argument) and path.exists()
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:  # a text too long for a file name
            raise
        return None
    if exists and not path.is_file():
        what = "is a folder" if path.is_dir() else "is not a plain file"
        raise DataError(f"{argument}: {what}", hint=hint)
    if not exists and _is_file_name(argument):
        raise DataError(f"{argument}: there is no such file", hint=hint)
    return path if exists else None


def _is_file_name(argument: str) -> bool:
    """Return whether the argument is one word that looks like the name of a file."""
    is_word = argument.split() == [argument]
    has_separator = "/" in argument or os.sep in argument
    return is_word and (has_separator or argument.lower().endswith(FILE_ENDINGS))
