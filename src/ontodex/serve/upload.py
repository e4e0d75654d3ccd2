"""Files that people give into documents, each in a process of its own (`extract`)."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ontodex.errors import DataError
from ontodex.serve.extract import SECONDS, ending_of
from ontodex.types import Doc

if TYPE_CHECKING:
    from fastapi import UploadFile

MOST_FILES = 100


async def read_uploads(
    files: Sequence[UploadFile], room: asyncio.Semaphore
) -> tuple[list[Doc], list[dict[str, str]]]:
    """The documents of all files, and which files gave none and why; `room` bounds how many are
    read at the same time, whoever sent them."""
    docs: list[Doc] = []
    refused: list[dict[str, str]] = []
    for count, file in enumerate(files):
        name = file_name(file.filename or "")
        if count < MOST_FILES:
            async with room:
                found, problem = await _read(file, name)
        else:
            found, problem = [], f"only {MOST_FILES} files are taken at a time"
        docs += found
        if problem:
            refused.append({"file": name, "problem": problem})
    return docs, refused


def file_name(given: str) -> str:
    """The last part of a path, without control characters, at most 200 of them."""
    last = given.replace("\\", "/").rsplit("/", 1)[-1]
    clean = "".join(letter for letter in last if letter.isprintable())
    return clean[-200:] or "unnamed"


async def _read(file: UploadFile, name: str) -> tuple[list[Doc], str]:
    """The documents of a file, or why there are none."""
    try:
        ending_of(name)
    except DataError as error:  # known without a process
        return [], str(error)
    with tempfile.TemporaryDirectory(prefix="ontodex-upload-") as folder:
        source = Path(folder) / "file"
        await asyncio.to_thread(_copy, file, source)
        return await read_file(source, name)


async def read_file(source: Path, name: str) -> tuple[list[Doc], str]:
    """The documents of a file that people know by this name, or why there are none."""
    with tempfile.TemporaryDirectory(prefix="ontodex-extract-") as folder:
        out = Path(folder) / "documents"
        # -P: a file in the working folder must not stand in for a library of this name.
        command = [sys.executable, "-P", "-m", "ontodex.serve.extract", str(source), name, str(out)]
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "ONTODEX_CACHE": folder, "OMP_NUM_THREADS": "1"},
        )
        try:
            _, said = await asyncio.wait_for(process.communicate(), SECONDS)
        except TimeoutError:
            return [], f"took longer than {SECONDS} s to read"
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            sentence = said.decode("utf-8", "replace").strip().splitlines()[-1:]
            known = process.returncode == 2 and sentence
            return [], sentence[0][:300] if known else "could not be read: damaged, or too large"
        return await asyncio.to_thread(_documents, out), ""


def _copy(file: UploadFile, path: Path) -> None:
    with path.open("wb") as target:
        shutil.copyfileobj(file.file, target)


def _documents(path: Path) -> list[Doc]:
    with path.open(encoding="utf-8") as lines:
        rows = map(json.loads, lines)
        return [Doc(id_, fields, tuple(words), (), more) for id_, fields, words, more in rows]
