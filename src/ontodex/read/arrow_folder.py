"""A corpus folder: docs.arrow and corpus.json, the form in which every stage reads documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from ontodex.read.head import Head, check_free
from ontodex.read.holds import Holds
from ontodex.types import Corpus, Doc

HOLDS = Holds(
    kinds=frozenset({"text", "sparse", "dense"}), fields="all", keywords=True, metadata="all"
)


def looks_like(head: Head) -> bool:
    """A folder with both files."""
    return head.is_folder and {"corpus.json", "docs.arrow"} <= set(head.names)


def sources(path: Path) -> list[Path]:
    """The two files."""
    return [path / "corpus.json", path / "docs.arrow"]


def n_features(path: Path) -> int:
    """As recorded when the corpus was written."""
    return Corpus.open(path).n_features


def read(path: Path) -> Iterator[Doc]:
    """The documents, a batch at a time."""
    return iter(Corpus.open(path))


def write(docs: Iterable[Doc], path: Path, *, n_features: int = 0) -> int:
    """Write the folder; one that is there is replaced if it is a corpus too."""
    check_free(path, looks_like)
    return len(Corpus.write(docs, path, n_features=n_features))
