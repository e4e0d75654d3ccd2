"""A corpus folder: docs.arrow and corpus.json, the form in which every stage reads documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from ontodex.corpora.parsing.capabilities import FormatCapabilities
from ontodex.corpora.parsing.file_head import Head, check_replaceable
from ontodex.types import Corpus, Doc

CAPABILITIES = FormatCapabilities(
    kinds=frozenset({"text", "sparse", "dense"}), fields="all", keywords=True, metadata="all"
)


def looks_like(head: Head) -> bool:
    """Recognise a folder with both files."""
    return head.is_folder and {"corpus.json", "docs.arrow"} <= set(head.names)


def sources(path: Path) -> list[Path]:
    """Return the two files."""
    return [path / "corpus.json", path / "docs.arrow"]


def n_features(path: Path) -> int:
    """Return the number recorded in the corpus."""
    return Corpus.open(path).n_features


def read(path: Path) -> Iterator[Doc]:
    """Read the documents, one batch in memory."""
    return iter(Corpus.open(path, is_trusted=False))


def write(docs: Iterable[Doc], path: Path, *, n_features: int = 0) -> int:
    """Write the folder; replace an existing corpus folder."""
    check_replaceable(path, looks_like)
    return len(Corpus.write(docs, path, n_features=n_features))
