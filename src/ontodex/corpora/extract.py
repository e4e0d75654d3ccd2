"""Extract text from a PDF, DOCX, HTML or other file, in a bounded child process.

The child process is `extract_process`. It may need too much memory or time, or crash, without harm
to the process that asked for the text.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from ontodex.corpora.extract_process import SECONDS
from ontodex.corpora.field_mapping import NO_MAPPING, FieldMapping
from ontodex.errors import DataError, UnmappedTableError
from ontodex.io.temporary import temporary_folder
from ontodex.types import Doc

EXTRACT_FOLDER = "ontodex-extract"  # in the system's folder for temporary files


class ExtractedFile(NamedTuple):
    """The documents of a file, and what the reader warned of."""

    docs: list[Doc]
    warnings: list[str]


async def extract_file(
    source: Path,
    name: str,
    mapping: FieldMapping = NO_MAPPING,
    recorded: FieldMapping = NO_MAPPING,
) -> ExtractedFile:
    """Return the documents of a file that the user knows as `name`.

    `mapping` names the columns of a table; `recorded` those to read if the table has them and
    nobody named any. Raise a DataError with the reason if the file cannot be read.
    """
    with temporary_folder(Path(tempfile.gettempdir()) / EXTRACT_FOLDER) as folder:
        out = folder / "documents"
        await _run_child(source, name, out, json.dumps([mapping.to_dict(), recorded.to_dict()]))
        return await asyncio.to_thread(_load_result, out)


async def _run_child(source: Path, name: str, out: Path, mappings: str) -> None:
    """Run the child process; raise a DataError if it fails."""
    # -P: a file in the working folder must not stand in for a library of this name.
    command = ["-P", "-m", "ontodex.corpora.extract_process", str(source), name, str(out)]
    command += [str(os.getpid()), mappings]
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
    with path.open(encoding="utf-8") as lines:
        *rows, last = map(json.loads, lines)
    docs = [
        Doc(id_, fields, tuple(words), tuple(labels), more)
        for id_, fields, words, labels, more in rows
    ]
    return ExtractedFile(docs, last["warnings"])


__all__ = ["EXTRACT_FOLDER", "ExtractedFile", "extract_file"]
