"""The cache of corpora: every file that `open_corpus` has read, with the features made from it.

    CACHE/corpora/<key>/    docs.arrow   corpus.json   source.txt   features/

`list_cached` shows what is there; `clear_cache` removes it. A removed corpus is read again from its
file the next time.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ontodex.errors import ConfigError
from ontodex.io.files import get_cache_folder, write_text
from ontodex.io.temporary import clear_leftovers, is_disk_full

SOURCE = "source.txt"  # the path of the file that was read
DAY = 24 * 60 * 60  # seconds


@dataclass(frozen=True)
class CachedCorpus:
    """A corpus in the cache."""

    folder: Path
    source: str  # "" where an older version wrote it
    documents: int
    bytes: int
    days: float  # since its files last changed


def find_cache() -> Path:
    """Return the folder of all cached corpora; it may not exist yet."""
    return get_cache_folder() / "corpora"


@contextlib.contextmanager
def explain_cache_errors() -> Iterator[None]:
    """Turn the error of a cache that cannot be written into a sentence; let others pass."""
    try:
        yield
    except OSError as error:
        cache = find_cache()
        place = None if error.filename is None else Path(error.filename)
        is_of_cache = place is not None and (
            place in (cache, *cache.parents) or cache in place.parents
        )
        if not (is_of_cache or is_disk_full(error)):
            raise
        raise ConfigError(
            f"{cache}: the cache of corpora cannot be written ({error.strerror})",
            hint="name another folder in the environment variable ONTODEX_CACHE",
        ) from error


def record_source(folder: Path, source: Path) -> None:
    """Write into a cached corpus which file it was read from."""
    path = str(source.resolve()).encode("utf-8", "replace").decode()  # it is only shown
    write_text(folder / SOURCE, f"{path}\n")


def list_cached() -> list[CachedCorpus]:
    """List the corpora of the cache, the largest first."""
    found = [_describe(path) for path in find_cache().glob("[!.]*") if path.is_dir()]
    return sorted(found, key=lambda one: (-one.bytes, one.folder))


def clear_cache(*, older_than: float = 0.0) -> list[CachedCorpus]:
    """Remove the corpora that are older than so many days; return them.

    A corpus that another process has open stays readable for it.
    """
    removed = [one for one in list_cached() if one.days >= older_than]
    for one in removed:
        shutil.rmtree(one.folder)
    clear_leftovers(find_cache())
    return removed


def _describe(folder: Path) -> CachedCorpus:
    states = [path.stat() for path in (folder, *folder.rglob("*"))]
    source = folder / SOURCE
    return CachedCorpus(
        folder,
        source.read_text(encoding="utf-8").strip() if source.exists() else "",
        _count_documents(folder),
        sum(state.st_size for state in states if stat.S_ISREG(state.st_mode)),
        max(0.0, (time.time() - max(state.st_mtime for state in states)) / DAY),
    )


def _count_documents(folder: Path) -> int:
    """Return the number of documents; 0 for a damaged corpus, which can still be removed."""
    try:
        return int(json.loads((folder / "corpus.json").read_text(encoding="utf-8"))["documents"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0
