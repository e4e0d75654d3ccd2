"""Temporary files and folders that are removed even if their process is killed.

A temporary file has the name `.TARGET.PID.RANDOM.part` beside its target. Its process holds a lock
on it, which the system releases however the process ends. So the next process that writes the
same target recognises what a killed one left, and removes it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

_FORM = re.compile(r"\.(?P<target>.+)\.\d+\.[0-9a-f]{8}\.part", re.DOTALL)


def is_disk_full(error: BaseException | None) -> bool:
    """Return whether a write failed because the disk is full, or a quota is used up."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


@contextlib.contextmanager
def create_temporary(path: Path, make: Callable[[Path], None]) -> Iterator[Path]:
    """Make a locked temporary file or folder beside `path`; remove what is left of it in the end.

    `make` creates it at the given name. What killed processes left for `path` is removed first.
    """
    _remove_abandoned(path.parent, _find_leftovers(path.parent).pop(path.name, []))
    while True:
        temporary = temporary_name(path)
        try:
            make(temporary)
        except OSError as error:  # names the target, not the temporary file
            raise OSError(error.errno, error.strerror, str(path)) from error
        descriptor = _lock(temporary, wait=True)
        # Between the two calls another process may have taken it for abandoned, and removed it.
        if descriptor is not None or temporary.exists():
            break
    try:
        yield temporary
    finally:
        _remove(temporary)
        if descriptor is not None:
            os.close(descriptor)


@contextlib.contextmanager
def temporary_folder(path: Path) -> Iterator[Path]:
    """Give a private temporary folder beside `path` that is removed when the block ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with create_temporary(path, lambda name: name.mkdir(mode=0o700)) as folder:
        yield folder


def temporary_name(path: Path) -> Path:
    """Return a new name beside `path`, in the form of temporary files."""
    return path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.part")


def find_target_name(path: Path) -> str:
    """Return the name that a file or folder will have; one that is not temporary has it already."""
    name = path.name
    while found := _FORM.fullmatch(name):
        name = found["target"]
    return name


def remove_leftovers(path: Path) -> None:
    """Remove the temporary files that killed processes left for one target."""
    _remove_abandoned(path.parent, _list_temporary(path.parent)[path.name])


def clear_leftovers(folder: Path) -> None:
    """Remove the temporary files of killed processes in a folder that only ontodex writes."""
    for names in _list_temporary(folder).values():
        _remove_abandoned(folder, names)


@cache
def _find_leftovers(folder: Path) -> dict[str, list[str]]:
    """Return the leftovers in a folder by their target.

    Once a process: a folder with thousands of files is not listed for each of them.
    """
    return _list_temporary(folder)


def _list_temporary(folder: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if match := _FORM.fullmatch(name):
                found[match["target"]].append(name)
    return found


def _remove_abandoned(folder: Path, names: list[str]) -> None:
    for name in names:
        descriptor = _lock(folder / name)
        if descriptor is not None:
            try:
                _remove(folder / name)
            finally:
                os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _lock(path: Path, *, wait: bool = False) -> int | None:
    """Lock a file or folder; return its descriptor, or None if it is gone or in use.

    `wait` until it is not in use. None also where the file system has no locks, or another user
    owns it: it is then left alone.
    """
    import fcntl

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.lstat(path)):
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None
