"""Read, write and list files by location: a path on this machine, or a URL that fsspec can open.

A location is a text such as `indexed/parts`, `s3://bucket/pubmed` or `memory://parts`. Paths need
no fsspec. Readers and writers get a path on this machine in both cases: a file from elsewhere is
fetched to a temporary folder, and a file for elsewhere is sent when it is complete.
"""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from ontodex.errors import DataError, require
from ontodex.io.temporary import temporary_folder

_FETCHED = "ontodex-fetched"  # in the name of temporary folders


class StoredFile(NamedTuple):
    """A file in a folder, or one that was named itself."""

    name: str  # relative to the folder
    location: str
    size: int
    version: str  # changes with the content: time of modification, or ETag of an object store
    modified: datetime


def is_remote(location: str) -> bool:
    return "://" in location


def join(location: str, *names: str) -> str:
    """Return the location of a file or folder inside of a folder."""
    return "/".join((location.rstrip("/") if is_remote(location) else location, *names))


def get_name(location: str) -> str:
    """Return the last part of a location."""
    return location.rstrip("/").rpartition("/")[2]


def list_files(location: str) -> list[StoredFile]:
    """Return the files of a folder and of the folders in it, by name; of a file, just itself.

    Nothing is there if the list is empty. Names that begin with a dot are left out.
    """
    if not is_remote(location):
        return sorted(_list_local(location))
    return sorted(file for file in _list_remote(location) if not _is_hidden(file.name))


def find_files(pattern: str) -> list[StoredFile]:
    """Return the files that match a pattern; names are relative to its part before any wildcard.

    Names with a part that begins with a dot are left out, `..` among them.
    """
    first = min(pattern.find(mark) for mark in "*?[" if mark in pattern)
    root = pattern[: pattern.rfind("/", 0, first) + 1]
    if not is_remote(pattern):
        paths = (path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path))
        files = [_describe_local(path, os.path.relpath(path, root or ".")) for path in paths]
        return sorted(file for file in files if not _is_hidden(file.name))
    system, path = _open_system(pattern)
    details = system.glob(path, detail=True)
    above = len(_open_system(root)[1].rstrip("/")) + 1
    return sorted(
        _describe_remote(system, path, info, path[above:])
        for path, info in details.items()
        if info["type"] == "file" and not _is_hidden(path[above:])
    )


def read_texts(location: str) -> dict[str, str]:
    """Return the content of all files in a folder by name; many are fetched at the same time."""
    files = list_files(location)
    if not files or not is_remote(location):
        return {file.name: Path(file.location).read_text(encoding="utf-8") for file in files}
    system, _ = _open_system(location)
    path_of = {system._strip_protocol(file.location): file.name for file in files}
    return {path_of[path]: raw.decode() for path, raw in system.cat(list(path_of)).items()}


@contextmanager
def fetch_file(location: str) -> Iterator[Path]:
    """Give a path on this machine under which the file can be read while the block runs."""
    if not is_remote(location):
        yield Path(location)
        return
    system, path = _open_system(location)
    with _temporary_file(location) as fetched:
        try:
            system.get_file(path, str(fetched))
        except OSError as error:
            raise DataError(f"{location}: cannot be read ({error})") from error
        yield fetched


@contextmanager
def store_file(location: str) -> Iterator[Path]:
    """Give a path on this machine to write a file to; it is at `location` when the block succeeds.

    On this machine it is that location itself: what is written there must be written atomically.
    """
    if not is_remote(location):
        yield Path(location)
        return
    system, path = _open_system(location)
    with _temporary_file(location) as written:
        yield written
        try:
            system.put_file(str(written), path)
        except OSError as error:
            raise DataError(f"{location}: cannot be written ({error})") from error


@contextmanager
def _temporary_file(location: str) -> Iterator[Path]:
    """Give a path on this machine for a file of the same name, removed with the block."""
    with temporary_folder(Path(tempfile.gettempdir()) / _FETCHED) as folder:
        yield folder / get_name(location)


def remove(location: str) -> None:
    """Remove a file, or a folder and everything in it, if it is there."""
    if os.path.isfile(location):
        os.remove(location)
        return
    if not is_remote(location):
        shutil.rmtree(location, ignore_errors=True)
        return
    system, path = _open_system(location)
    if system.exists(path):
        system.rm(path, recursive=True)


def _open_system(location: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it."""
    fsspec = require("fsspec", extra="remote", purpose=location)
    makes_folders = location.startswith(("file:", "local:"))
    try:
        system, path = fsspec.url_to_fs(location, **({"auto_mkdir": True} if makes_folders else {}))
    except (ImportError, ValueError) as error:  # a library that is missing; an unknown scheme
        raise DataError(f"{location}: cannot be opened ({error})") from error
    system.invalidate_cache()  # other processes write there too
    return system, path


def _list_local(location: str) -> Iterator[StoredFile]:
    if os.path.isfile(location):
        yield _describe_local(location, get_name(location))
    for folder, _, names in os.walk(location):
        for file in names:
            path = os.path.join(folder, file)
            name = Path(path).relative_to(location).as_posix()
            # Other processes write there too: a file may be gone, or renamed, by now.
            with suppress(FileNotFoundError):
                if not _is_hidden(name):
                    yield _describe_local(path, name)


def _describe_local(path: str, name: str) -> StoredFile:
    about = os.stat(path)
    modified = datetime.fromtimestamp(about.st_mtime, UTC)
    return StoredFile(name, path, about.st_size, modified.isoformat(), modified)


def _list_remote(location: str) -> Iterator[StoredFile]:
    system, root = _open_system(location)
    for path, info in system.find(root, detail=True).items():
        name = get_name(path) if path == root else path[len(root.rstrip("/")) + 1 :]
        yield _describe_remote(system, path, info, name)


def _describe_remote(system: Any, path: str, info: dict[str, Any], name: str) -> StoredFile:
    # The listing of an object store says it; asking for each file takes a request.
    modified = info.get("LastModified") or system.modified(path)
    modified = modified if modified.tzinfo else modified.replace(tzinfo=UTC)
    version = str(info.get("ETag") or modified.isoformat()).strip('"')
    return StoredFile(name, system.unstrip_protocol(path), info["size"], version, modified)


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in name.split("/"))
