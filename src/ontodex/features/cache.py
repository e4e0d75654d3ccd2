"""Computed features beside their corpus, found again by content.

    corpus.folder/features/<key>/   <name>.npy (memory-mapped on reading)   <name>.txt   about.json

The key is a digest of the corpus's content and of a recipe: every setting that shapes the result.
Prepared corpora come from other machines, perhaps from strangers. So who reads a result gives the
check that it must pass, and one that does not fit is computed again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ontodex.errors import DataError
from ontodex.io.files import check_regular, open_regular, replace_folder, write_text
from ontodex.io.temporary import clear_leftovers
from ontodex.types import Corpus

logger = logging.getLogger(__name__)

Recipe = Mapping[str, Any]  # JSON values only
_NAME = re.compile(r"\w{1,40}")  # of a part; no path


@dataclass(frozen=True)
class Parts:
    """A result as arrays and lists of words, which plain files can hold."""

    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # words without line ends


Check = Callable[[Parts], object]  # raises a DataError for parts that do not fit

# Features of fewer documents are computed faster than a folder is written and synced.
WORTH_WRITING = 1_000


def load_or_compute(
    corpus: Corpus, recipe: Recipe, compute: Callable[[], Parts], check: Check
) -> Parts:
    """Return the parts in the folder of the corpus that pass the check, or compute them."""
    found = find_parts(corpus, recipe, check)
    if found is not None:
        return found
    try:
        parts = compute()
    except DataError as error:
        if corpus.has_text or corpus.kind != "text":
            raise
        wanted = ", ".join(f"{name} = {json.dumps(value)}" for name, value in recipe.items())
        raise DataError(
            f"prepared without its text, and not with these settings: {wanted}",
            path=corpus.folder,
            hint="give the system the settings it was prepared with, or prepare the original "
            "corpus with these (--set prepare.NAME=VALUE)",
        ) from error
    folder = locate_parts(corpus, recipe)
    if folder is not None and len(corpus) >= WORTH_WRITING:
        try:
            write_parts(folder, recipe, parts)
        except OSError as error:  # a full or read-only disk costs time later, not the result now
            logger.warning("%s: cannot be written; computed again next time (%s)", folder, error)
    return parts


def find_parts(corpus: Corpus, recipe: Recipe, check: Check) -> Parts | None:
    """Return the parts computed before with this recipe, or None; report damaged ones."""
    folder = locate_parts(corpus, recipe)
    if folder is None or not folder.is_dir():
        return None
    try:
        parts = read_parts(folder)
        check(parts)
    except DataError as error:
        logger.warning("%s; computed again", error)
    except (KeyError, ValueError, TypeError, IndexError, OverflowError) as error:
        logger.warning("%s: prepared features do not fit (%s); computed again", folder, error)
    else:
        return parts
    return None


def check_array(parts: Parts, name: str, kinds: str, shape: tuple[int | None, ...]) -> None:
    """Raise a DataError for an array of another kind (a letter of numpy) or shape (None: any)."""
    array = parts.arrays[name]
    fits = len(array.shape) == len(shape) and all(
        size in (None, seen) for size, seen in zip(shape, array.shape, strict=True)
    )
    if array.dtype.kind not in kinds or not fits:
        raise DataError(f"prepared features: {name!r} has {array.dtype} in the shape {array.shape}")


def locate_parts(corpus: Corpus, recipe: Recipe) -> Path | None:
    """Return the folder of the parts; None for a corpus in memory."""
    if corpus.folder is None:
        return None
    plan = json.dumps(recipe, sort_keys=True, ensure_ascii=False)
    key = hashlib.sha256(f"{corpus.key}\n{plan}".encode()).hexdigest()[:32]
    return corpus.folder / "features" / key


def write_parts(folder: Path, recipe: Recipe, parts: Parts) -> None:
    """Write the parts atomically."""
    clear_leftovers(folder.parent)
    with replace_folder(folder) as temporary:
        for name, array in parts.arrays.items():
            np.save(temporary / f"{name}.npy", array, allow_pickle=False)
        for name, words in parts.lists.items():
            write_words(temporary / f"{name}.txt", words)
        about = {"recipe": recipe, "arrays": sorted(parts.arrays), "lists": sorted(parts.lists)}
        text = json.dumps(about, indent=1, ensure_ascii=False)
        write_text(temporary / "about.json", text + "\n")


def read_parts(folder: Path) -> Parts:
    """Read the parts that `write_parts` wrote; arrays are memory-mapped."""
    try:
        about = json.loads(_read_bytes(folder / "about.json"))
        arrays = {name: _load_array(folder, name) for name in about["arrays"]}
        lists = {name: read_words(_locate(folder, name, ".txt")) for name in about["lists"]}
        return Parts(arrays, lists)
    except (OSError, ValueError, KeyError, TypeError, EOFError, RecursionError) as error:
        raise DataError(f"prepared features cannot be read ({error})", path=folder) from error


def _locate(folder: Path, name: str, ending: str) -> Path:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name[:40]!r} is no name of a part")
    return folder / f"{name}{ending}"


def _load_array(folder: Path, name: str) -> NDArray[Any]:
    path = _locate(folder, name, ".npy")
    check_regular(path)
    array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def _read_bytes(path: Path) -> bytes:
    with open_regular(path) as file:
        return file.read()


def pick_settings(kind: type, config: Any) -> dict[str, Any]:
    """Return the settings that dataclass `kind` declares, from a config that may have more.

    So a system's other settings do not change the cache key of its tokens.
    """
    return {item.name: getattr(config, item.name) for item in fields(kind)}


def write_words(path: Path, words: tuple[str, ...]) -> None:
    """Write one word per line, in UTF-8."""
    broken = next((word for word in words if "\n" in word), None)
    if broken is not None:
        raise DataError(f"{broken!r} has a line end, so it cannot be a line of a file", path=path)
    write_text(path, "".join(f"{word}\n" for word in words))


def read_words(path: Path) -> tuple[str, ...]:
    """Return the lines of a file; only the line feed ends one, as a word may hold other ends."""
    try:
        text = _read_bytes(path).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"the list of words cannot be read ({error})", path=path) from error
    if text and not text.endswith("\n"):
        raise DataError("the last line is cut off", path=path)
    return tuple(text.split("\n")[:-1])
