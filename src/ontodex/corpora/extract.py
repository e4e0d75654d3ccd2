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

from ontodex.corpora.extract_process import SECONDS
from ontodex.errors import DataError
from ontodex.io.temporary import temporary_folder
from ontodex.types import Doc

EXTRACT_FOLDER = "ontodex-extract"  # in the system's folder for temporary files


async def extract_file(source: Path, name: str) -> list[Doc]:
    """Return the documents of a file that the user knows as `name`.

    Raise a DataError with the reason if the file cannot be read.
    """
    with temporary_folder(Path(tempfile.gettempdir()) / EXTRACT_FOLDER) as folder:
        out = folder / "documents"
        problem = await _run_child(source, name, out)
        if problem:
            raise DataError(problem)
        return await asyncio.to_thread(_load_docs, out)


async def _run_child(source: Path, name: str, out: Path) -> str:
    """Run the child process and return why it failed, or "" if it did not."""
    # -P: a file in the working folder must not stand in for a library of this name.
    command = ["-P", "-m", "ontodex.corpora.extract_process", str(source), name, str(out)]
    command += [str(os.getpid())]
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
        return f"took longer than {SECONDS} s to read"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if not process.returncode:
        return ""
    lines = errors.decode("utf-8", "replace").strip().splitlines()
    if process.returncode == 2 and lines:  # an error that the child process reported itself
        return lines[-1][:300]
    return "could not be read: damaged, or too large"


def _load_docs(path: Path) -> list[Doc]:
    with path.open(encoding="utf-8") as lines:
        rows = map(json.loads, lines)
        return [Doc(id_, fields, tuple(words), (), more) for id_, fields, words, more in rows]


__all__ = ["EXTRACT_FOLDER", "extract_file"]
