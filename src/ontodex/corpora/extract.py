"""Extract text from a PDF, DOCX, HTML or other file, in a bounded child process.

The child process is `extract_process`. It may need too much memory or time, or crash, without harm
to the process that asked for the text.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from ontodex.corpora.extract_process import FULL_DISK, MAX_OUTPUT, SECONDS
from ontodex.corpora.field_mapping import NO_MAPPING, FieldMapping
from ontodex.errors import DataError, UnmappedTableError
from ontodex.io.temporary import temporary_folder
from ontodex.types import Doc

EXTRACT_FOLDER = "ontodex-extract"  # in the system's folder for temporary files


class ExtractedFile(NamedTuple):
    """The documents of a file, what the reader warned of, and the size of the documents."""

    docs: list[Doc]
    warnings: list[str]
    size: int  # in characters, by `extract_process.measure_doc`


async def extract_file(
    source: Path,
    name: str,
    mapping: FieldMapping = NO_MAPPING,
    recorded: FieldMapping = NO_MAPPING,
    *,
    room: int = MAX_OUTPUT,
) -> ExtractedFile:
    """Return the documents of a file that the user knows as `name`.

    `mapping` names the columns of a table; `recorded` those to read if the table has them and
    nobody named any. Raise a DataError with the reason if the file cannot be read, or if its
    documents are larger than `room`. Raise an OSError if the disk for temporary files is full.
    """
    with temporary_folder(Path(tempfile.gettempdir()) / EXTRACT_FOLDER) as folder:
        out = folder / "documents"
        mappings = json.dumps([mapping.to_dict(), recorded.to_dict()])
        await _run_child(source, name, out, mappings, room)
        return await asyncio.to_thread(_load_result, out)


async def _run_child(source: Path, name: str, out: Path, mappings: str, room: int) -> None:
    """Run the child process; raise a DataError if it fails, an OSError if the disk is full."""
    # -P: a file in the working folder must not stand in for a library of this name.
    command = ["-P", "-m", "ontodex.corpora.extract_process", str(source), name, str(out)]
    command += [str(os.getpid()), mappings, str(room)]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "ONTODEX_CACHE": str(out.parent), "OMP_NUM_THREADS": "1"},
    )
    try:
        _, errors = await asyncio.wait_for(process.communicate(), SECONDS)
    except TimeoutError:
        raise DataError(f"took longer than {SECONDS} s to read") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode == FULL_DISK:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), tempfile.gettempdir())
    if process.returncode:
        raise _read_failure(errors)


def _read_failure(errors: bytes) -> DataError:
    """Return the error that the child process reported, or one for a process that was killed."""
    lines = errors.decode("utf-8", "replace").strip().splitlines()
    try:
        found: dict[str, Any] = json.loads(lines[-1])
        reason, columns = str(found["reason"]), tuple(found["columns"])
    except (LookupError, TypeError, ValueError):
        return DataError("could not be read: damaged, or too large")
    if not columns:
        return DataError(reason)
    error = UnmappedTableError(reason)
    error.columns = columns
    return error


def _load_result(path: Path) -> ExtractedFile:
    docs: list[Doc] = []
    with path.open(encoding="utf-8") as lines:
        for found in map(json.loads, lines):
            if isinstance(found, dict):  # the last line
                return ExtractedFile(docs, found["warnings"], found["size"])
            id_, fields, words, labels, more = found
            docs.append(Doc(id_, fields, tuple(words), tuple(labels), more))
    raise DataError("could not be read: its documents are not complete")


__all__ = ["EXTRACT_FOLDER", "ExtractedFile", "extract_file"]
