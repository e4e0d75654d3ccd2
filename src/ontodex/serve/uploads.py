"""Turn uploaded files into documents."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from fastapi import UploadFile

from ontodex.corpora.encoding import FALLBACK, describe_guess
from ontodex.corpora.extract import EXTRACT_FOLDER, extract_file
from ontodex.corpora.extract_process import file_ending
from ontodex.errors import DataError
from ontodex.io.temporary import remove_leftovers, temporary_folder
from ontodex.serve.json_limits import check_document
from ontodex.types import Doc

MAX_FILES = 100
UPLOAD_FOLDER = "ontodex-upload"  # in the system's folder for temporary files


def remove_abandoned_uploads() -> None:
    """Remove the uploaded files that a killed service left."""
    for name in (UPLOAD_FOLDER, EXTRACT_FOLDER):
        remove_leftovers(Path(tempfile.gettempdir()) / name)


async def read_uploads(
    files: Sequence[UploadFile], slots: asyncio.Semaphore
) -> tuple[list[Doc], list[dict[str, str]]]:
    """Return the documents of all files, and the rejected files, each with the reason.

    `slots` limits how many files are read at the same time over all requests.
    """
    docs: list[Doc] = []
    rejected: list[dict[str, str]] = []
    for count, file in enumerate(files):
        name = clean_file_name(file.filename or "")
        try:
            if count >= MAX_FILES:
                raise DataError(f"only {MAX_FILES} files are taken at a time")
            async with slots:
                docs += await _read_upload(file, name)
        except DataError as error:
            rejected.append({"file": name, "reason": str(error)})
    return docs, rejected


def list_warnings(docs: Sequence[Doc]) -> list[dict[str, str]]:
    """Return a warning for each file whose encoding was guessed."""
    is_guessed = [doc for doc in docs if doc.metadata.get("encoding") == FALLBACK]
    return [{"file": doc.id, "warning": describe_guess()} for doc in is_guessed]


def clean_file_name(name: str) -> str:
    """Return the last part of a path without control characters, at most 200 characters."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    clean = "".join(letter for letter in last if letter.isprintable())
    return clean[-200:] or "unnamed"


async def _read_upload(file: UploadFile, name: str) -> list[Doc]:
    file_ending(name)  # refuses an unknown ending without starting a process
    with temporary_folder(Path(tempfile.gettempdir()) / UPLOAD_FOLDER) as folder:
        source = folder / "file"
        await asyncio.to_thread(_copy, file, source)
        docs = await extract_file(source, name)
    for doc in docs:
        check_document(doc)
    return docs


def _copy(file: UploadFile, path: Path) -> None:
    with path.open("wb") as target:
        shutil.copyfileobj(file.file, target)
