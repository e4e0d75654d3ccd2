"""Earlier versions of a run, kept beside its folder.

    runs/parabel                           the version that is loaded and served
    runs/parabel.versions/0001-5f0c...     the versions that `learn` and `update` replaced

The name of a version is the beginning of the SHA-256 of its manifest, so equal runs have equal
names. Files of a run are never changed in place: a version holds hard links where the file system
has them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ontodex.errors import RunError
from ontodex.io.files import hash_file, replace_folder
from ontodex.runs.folder import is_finished, verify_folder
from ontodex.runs.run import Run, locate_run

KEPT = 3  # earlier versions
NAME_LENGTH = 12
_LAST_SECOND = 253_402_300_799  # of the year 9999, which a date can still name


@dataclass(frozen=True)
class Version:
    """A version of a run: its name, its folder and the time at which it was written."""

    name: str
    folder: Path
    time: str
    is_current: bool


def name_version(folder: Path) -> str:
    """Return the name of the version in a run folder."""
    return hash_file(folder / "manifest.json")[:NAME_LENGTH]


def list_versions(run: Run | str | Path) -> list[Version]:
    """Return the current version, then the earlier ones, the last replaced first.

    >>> [version.is_current for version in ontodex.list_versions("runs/knn")]
    [True, False]
    """
    folder = locate_run(run)
    if not is_finished(folder):
        verify_folder(folder)  # says what is wrong
    earlier = [
        _describe(path, path.name.partition("-")[2]) for path in reversed(_list_folders(folder))
    ]
    return [_describe(folder, name_version(folder), is_current=True), *earlier]


@contextmanager
def replace_run(folder: Path) -> Iterator[Path]:
    """Give a new folder that replaces the run when the block succeeds; keep the old version.

    At every moment the folder holds the old run or the new one. If another process changed the run
    meanwhile, its version stays and an error is raised.
    """
    if not is_finished(folder):
        verify_folder(folder)  # says what is wrong
    before = hash_file(folder / "manifest.json")
    with replace_folder(folder) as new:
        yield new
        if hash_file(folder / "manifest.json") != before:
            raise RunError(
                f"{folder}: another process changed the run in the meantime",
                hint="run the command again",
            )
        _keep_version(folder, successor=name_version(new))


def _keep_version(folder: Path, successor: str) -> None:
    """Keep a copy of the run as an earlier version; only the last KEPT versions stay.

    The version that comes in its place is no longer an earlier one.
    """
    name = name_version(folder)
    kept = _list_folders(folder)
    number = int(kept[-1].name.partition("-")[0]) + 1 if kept else 1
    target = _get_place(folder) / f"{number:04d}-{name}"
    with replace_folder(target) as copy:
        link_run(folder, copy)
    same = [path for path in kept if path.name.partition("-")[2] in (name, successor)]
    others = [path for path in kept if path not in same]
    for path in [*same, *others[: max(0, len(others) + 1 - KEPT)]]:
        shutil.rmtree(path)


def restore_version(run: Run | str | Path, name: str | None = None) -> Version:
    """Put an earlier version in the place of the run; by default the last replaced one.

    The version that it replaces is kept, so that this can be undone too.

    >>> ontodex.restore_version("runs/knn").is_current
    True
    >>> ontodex.load("runs/knn").n_updated
    0
    """
    folder = locate_run(run)
    current, *earlier = list_versions(folder)
    found = [one for one in earlier if name is None or one.name.startswith(name)]
    if not found:
        wanted = "no earlier version" if name is None else f"no earlier version {name[:40]!r}"
        known = f"; it has {', '.join(one.name for one in earlier)}" if earlier else ""
        raise RunError(
            f"{folder}: has {wanted}{known}",
            hint="ontodex versions RUN lists them; `learn` and `update` keep what they replace",
        )
    if found[0].name != current.name:
        verify_folder(found[0].folder)
        with replace_run(folder) as new:
            link_run(found[0].folder, new)
    return list_versions(folder)[0]


def link_run(folder: Path, target: Path, *, without: tuple[str, ...] = ()) -> None:
    """Copy a run folder by hard links, or by copies where the file system has none."""
    ignore = shutil.ignore_patterns(*without, ".*")
    shutil.copytree(folder, target, copy_function=_link, ignore=ignore, dirs_exist_ok=True)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copyfile(source, target)


def _get_place(folder: Path) -> Path:
    resolved = folder.resolve()
    return resolved.with_name(f"{resolved.name}.versions")


def _list_folders(folder: Path) -> list[Path]:
    """Return the folders of the earlier versions, the oldest first."""
    place = _get_place(folder)
    found = place.iterdir() if place.is_dir() else ()
    return sorted(path for path in found if path.name[:4].isdecimal() and is_finished(path))


def _describe(folder: Path, name: str, *, is_current: bool = False) -> Version:
    written = format_time((folder / "manifest.json").stat().st_mtime)
    return Version(name, folder, written, is_current)


def format_time(seconds: float) -> str:
    """Return the time of a file; one that no date can name becomes the nearest that it can."""
    bounded = min(max(seconds, 0), _LAST_SECOND)
    return datetime.fromtimestamp(bounded, UTC).isoformat(timespec="seconds")
