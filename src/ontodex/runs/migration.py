"""The file migration.json of a migrated run: which labels took the place of which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ontodex.io.json_schema import load_json
from ontodex.types import Corpus

MIGRATION = "migration.json"


@dataclass(frozen=True)
class _MigrationJson:
    """The fields of migration.json."""

    successors: dict[str, str]


def read_migration(folder: Path) -> dict[str, str]:
    """Return old label -> new label of a run; nothing if it was never migrated."""
    path = folder / MIGRATION
    return load_json(path, _MigrationJson).successors if path.exists() else {}


def map_labels(corpus: Corpus, successors: Mapping[str, str]) -> Corpus:
    """Return the documents with the new labels, each once."""
    lists = [
        list(dict.fromkeys(successors.get(label, label) for label in own))
        for own in corpus.labels()
    ]
    return corpus.with_labels(lists)
