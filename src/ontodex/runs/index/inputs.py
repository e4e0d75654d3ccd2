"""Find the inputs of `ontodex index`: files, folders, patterns, lists of them, and URLs of these.

The inputs are in the order of their names, wherever they are. In this order a later record replaces
an earlier one with the same id, so names should sort by time: PubMed's do, and dates do.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from ontodex.corpora.formats import load_format
from ontodex.corpora.parsing.file_head import Head
from ontodex.errors import ConfigError, DataError
from ontodex.io.files import read_lines
from ontodex.io.storage import StoredFile, find_files, get_name, is_remote, list_files

_PACKED = r"(?:\.(?:gz|xz|bz2))?$"
# Of a folder, these files are read; beside them there may be checksums and notes.
_READ = re.compile(rf"\.(?:xml|jsonl|ndjson|csv|tsv|parquet){_PACKED}")
_ENDING = re.compile(rf"(?:\.(?:xml|jsonl|ndjson|json|csv|tsv|parquet|txt|svm|npz))?{_PACKED}")
_MAX_LISTS = 16  # lists in lists
_FOLDER_FORMATS = ("corpus", "annif-folder")  # a folder that is one input, not many


class Input(NamedTuple):
    """One input: it is read by one worker and gives one part."""

    name: str  # of its part, without ending; unique
    location: str
    size: int
    version: str  # changes with the content


def find_inputs(sources: Sequence[str], since: datetime | None = None) -> list[Input]:
    """Return the inputs that `sources` name, by name; with `since`, those modified from then on."""
    read: set[str] = set()
    files = [file for source in sources for file in _find(source, read)]
    if since is not None:
        since = since if since.tzinfo else since.replace(tzinfo=UTC)
        files = [file for file in files if file.modified >= since]
    found: dict[str, Input] = {}
    for file in files:
        name = _name_part(file)
        given = Input(name, _locate(file.location), file.size, file.version)
        if (other := found.setdefault(name, given)) != given:
            raise ConfigError(
                f"{other.location} and {given.location} would write the same part {name!r}",
                hint="rename one of them, or index them into different folders",
            )
    return [found[name] for name in sorted(found)]


def _name_part(file: StoredFile) -> str:
    """Return the name of the part of a file: a path inside of the folder of parts."""
    name = _ENDING.sub("", file.name)
    if any(part.startswith(".") or not part for part in name.split("/")):
        raise DataError(
            f"{file.location}: no part can have the name {name!r}",
            hint="rename the file so that no part of its name is empty or begins with a dot",
        )
    return name


def _locate(location: str) -> str:
    return location if is_remote(location) else os.path.abspath(location)


def _find(source: str, read: set[str], lists: tuple[str, ...] = ()) -> list[StoredFile]:
    """Return the files of one argument; `lists` are the lists that it is in, `read` all lists."""
    if source.startswith("@"):
        return _read_list(source[1:], read, lists)
    if not is_remote(source) and os.path.isdir(source) and _is_corpus(Path(source)):
        return [_describe_folder(source)]
    files = list_files(source)
    if not files and any(mark in source for mark in "*?["):
        if ".." in re.split(r"[*?\[]", source, maxsplit=1)[1].split("/"):
            raise DataError(
                f"{source}: a pattern cannot go up (..) behind a wildcard",
                hint="write the way up before the wildcard, or name the folders one by one",
            )
        files = find_files(source)
        if not files:
            raise DataError(f"{source}: no file matches this pattern")
    elif [file.name for file in files] != [get_name(source)] or source.endswith("/"):
        kept = [file for file in files if _READ.search(file.name)]
        if files and not kept:
            raise DataError(
                f"{source}: a folder without .xml, .jsonl, .ndjson, .csv, .tsv or .parquet",
                hint="name the files themselves, or a pattern in quotes: 'FOLDER/*.txt'",
            )
        files = kept
    if not files:
        raise DataError(f"{source}: there is no such file or folder")
    return files


def _read_list(path: str, read: set[str], lists: tuple[str, ...]) -> list[StoredFile]:
    """Return the files that a list names; nothing for one that another argument named before."""
    place = os.path.realpath(path)
    if place in lists or len(lists) == _MAX_LISTS:
        wrong = "names itself" if place in lists else f"is a list in {_MAX_LISTS} others"
        raise DataError(
            f"this list {wrong}", path=Path(path), hint="remove the line with @ that leads to it"
        )
    if place in read:
        return []
    read.add(place)
    lines = (line.strip() for _, line in read_lines(Path(path)))
    return [file for line in lines if line for file in _find(line, read, (*lists, place))]


def _is_corpus(folder: Path) -> bool:
    head = Head.of(folder)
    return any(load_format(name).looks_like(head) for name in _FOLDER_FORMATS)


def _describe_folder(folder: str) -> StoredFile:
    """Return a folder that is one input; any change in it gives another version."""
    files = list_files(folder)
    modified = max(file.modified for file in files)
    version = f"{len(files)} files, {modified.isoformat()}"
    name = os.path.basename(os.path.abspath(folder))
    return StoredFile(name, folder, sum(file.size for file in files), version, modified)
