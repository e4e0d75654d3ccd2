"""What is given on the command line to be indexed: words, a file, or standard input."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ontodex.errors import DataError
from ontodex.files import BOM, decode, read_lines
from ontodex.types import Doc

TABLE_ENDINGS = {".csv", ".jsonl", ".parquet", ".tsv"}  # packed or not
OFFICE_ENDINGS = (".html", ".htm", ".pdf", ".docx")
# One word that ends so is the name of a file, not a text.
FILE_ENDINGS = (
    *OFFICE_ENDINGS, ".txt", ".md", ".json", ".jsonl", ".csv", ".tsv", ".xml", ".parquet", ".gz",
    ".xz", ".bz2",
)  # fmt: skip


def document(given: str, keywords: Sequence[str] | None) -> Doc:
    """The text that was given, as a document."""
    text = text_of(given)
    if not text.strip():
        where = "standard input" if given == "-" else given if given.strip() else "TEXT"
        raise DataError(f"{where}: no text", hint="give some words, or a file that has some")
    words = tuple(_argument(word, "--keyword") for word in keywords or ())
    return Doc("", {"text": text}, words)


def text_of(given: str) -> str:
    """Standard input for '-', a file's text where one has this name, else the words themselves."""
    if given == "-":
        return "\n".join(_piped_lines())
    file = _file(given)
    if file is None:
        return _argument(given, "TEXT")
    if file.suffix.lower() in OFFICE_ENDINGS:
        return _extracted(file)
    if TABLE_ENDINGS & {suffix.lower() for suffix in file.suffixes}:
        raise DataError(
            f"{given}: holds many documents, and this takes one",
            hint=f"index them all with `ontodex index RUN {given} OUT`, or give one text",
        )
    return "\n".join(line for _, line in read_lines(file))


def _piped_lines() -> Iterator[str]:
    """The lines of standard input, as `read_lines` gives those of a file."""
    piped = sys.stdin.buffer if sys.stdin else ()  # there is none where it was closed
    for number, raw in enumerate(piped, start=1):
        line = raw.removeprefix(BOM) if number == 1 else raw
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        yield _decoded(line, f"standard input:{number}")


def _argument(words: str, where: str) -> str:
    """Words of the command line, in which Python hides bytes that are not UTF-8 as surrogates."""
    return _decoded(words.encode("utf-8", "surrogateescape"), where)


def _decoded(raw: bytes, where: str) -> str:
    """The text of bytes, refused as those of a file are."""
    try:
        return decode(raw)
    except DataError as error:
        raise DataError(f"{where}: {error}", hint=error.hint) from error


def _extracted(file: Path) -> str:
    """The text of a file that is more than text, read as the service reads uploads."""
    import asyncio

    from ontodex.serve.upload import read_file

    docs, problem = asyncio.run(read_file(file, file.name))
    if problem:
        raise DataError(problem, path=file)
    return docs[0].text


def _file(given: str) -> Path | None:
    """The file that was named, None for a text; what can only be a slip is refused."""
    path = Path(given)
    hint = "name a file that is there, give a text in quotes, or any text through standard input: -"
    try:
        is_there = bool(given) and path.exists()
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:  # words that no file could have as its name
            raise
        return None
    if is_there and not path.is_file():
        what = "is a folder" if path.is_dir() else "is not a plain file"
        raise DataError(f"{given}: {what}", hint=hint)
    if not is_there and _looks_like_a_file(given):
        raise DataError(f"{given}: there is no such file", hint=hint)
    return path if is_there else None


def _looks_like_a_file(given: str) -> bool:
    """Whether one word is rather the name of a file than a text."""
    is_word = given.split() == [given]
    return is_word and ("/" in given or os.sep in given or given.lower().endswith(FILE_ENDINGS))
