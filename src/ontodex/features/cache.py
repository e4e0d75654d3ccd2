"""Results of this stage beside their corpus, found again by content.

    corpus.folder/features/<key>/   <name>.npy (memory-mapped on reading)   <name>.txt   about.json

The key is a digest of the corpus's content and of a recipe: every setting that shapes the result.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ontodex.errors import DataError
from ontodex.files import atomic_folder, write_text
from ontodex.types import Corpus

logger = logging.getLogger(__name__)

Recipe = Mapping[str, Any]  # JSON values only


@dataclass(frozen=True)
class Parts:
    """A result in pieces that plain files can hold."""

    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # words without line ends


# Fewer documents than this are computed faster than a folder is written and synced.
WORTH_WRITING = 1_000


def cached(corpus: Corpus, recipe: Recipe, make: Callable[[], Parts]) -> Parts:
    """What `make` gives, from the corpus's folder when it was made before."""
    found = find(corpus, recipe)
    if found is not None:
        return found
    try:
        parts = make()
    except DataError as error:
        if corpus.has_text or corpus.kind != "text":
            raise
        wanted = ", ".join(f"{name} = {json.dumps(value)}" for name, value in recipe.items())
        raise DataError(
            f"prepared without its text, and not for what is asked for now: {wanted}",
            path=corpus.folder,
            hint="give the system the settings it was prepared with, or prepare the original "
            "corpus with these (--set prepare.NAME=VALUE)",
        ) from error
    folder = place(corpus, recipe)
    if folder is not None and len(corpus) >= WORTH_WRITING:
        try:
            write(folder, recipe, parts)
        except OSError as error:  # a full or read-only disk costs time later, not the result now
            logger.warning("%s: not kept for the next time (%s)", folder, error)
    return parts


def find(corpus: Corpus, recipe: Recipe) -> Parts | None:
    """The parts made before by this recipe, or None; damaged ones are reported and not used."""
    folder = place(corpus, recipe)
    if folder is None or not folder.is_dir():
        return None
    try:
        return read(folder)
    except DataError as error:
        logger.warning("%s; made again", error)
        return None


def place(corpus: Corpus, recipe: Recipe) -> Path | None:
    """Where the parts belong; None for a corpus in memory."""
    if corpus.folder is None:
        return None
    plan = json.dumps(recipe, sort_keys=True, ensure_ascii=False)
    key = hashlib.sha256(f"{corpus.key}\n{plan}".encode()).hexdigest()[:32]
    return corpus.folder / "features" / key


def write(folder: Path, recipe: Recipe, parts: Parts) -> None:
    """Write the parts, whole or not at all."""
    with atomic_folder(folder) as temporary:
        for name, array in parts.arrays.items():
            np.save(temporary / f"{name}.npy", array, allow_pickle=False)
        for name, words in parts.lists.items():
            write_words(temporary / f"{name}.txt", words)
        about = {"recipe": recipe, "arrays": sorted(parts.arrays), "lists": sorted(parts.lists)}
        text = json.dumps(about, indent=1, ensure_ascii=False)
        write_text(temporary / "about.json", text + "\n")


def read(folder: Path) -> Parts:
    """The parts of a folder that `write` made; arrays are memory-mapped."""
    try:
        about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
        arrays = {
            name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
            for name in about["arrays"]
        }
        return Parts(arrays, {name: read_words(folder / f"{name}.txt") for name in about["lists"]})
    except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
        raise DataError(f"prepared features cannot be read ({error})", path=folder) from error


def settings_of(kind: type, config: Any) -> dict[str, Any]:
    """The settings that dataclass `kind` declares, from a config that may inherit more of them; so
    a system's own settings do not change what its tokens are found by."""
    return {item.name: getattr(config, item.name) for item in fields(kind)}


def write_words(path: Path, words: tuple[str, ...]) -> None:
    """One word a line, in UTF-8."""
    torn = next((word for word in words if "\n" in word), None)
    if torn is not None:
        raise DataError(f"{torn!r} has a line end, so it cannot be a line of a file", path=path)
    write_text(path, "".join(f"{word}\n" for word in words))


def read_words(path: Path) -> tuple[str, ...]:
    """The lines of a file; only the line feed ends one, whatever else a word may hold."""
    text = path.read_bytes().decode("utf-8")
    if text and not text.endswith("\n"):
        raise DataError("the last line is cut off", path=path)
    return tuple(text.split("\n")[:-1])
