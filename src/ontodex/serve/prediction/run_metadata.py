"""A run without its model: settings, labels, decision rule and ontology.

The model itself is in another process (`model_process`).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ontodex.decide.decision import Decision, load_decision
from ontodex.errors import RunError
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.ontology.open import read_ontology
from ontodex.ontology.search import Search
from ontodex.runs.folder import load_config, load_labels, verify_folder
from ontodex.runs.languages import get_languages, prefer_languages
from ontodex.runs.settings import RunSettings, resolve
from ontodex.types import LabelSpace, Ontology

MAX_LABEL = 2_000  # characters of the id of a concept in a request
MAX_LANGUAGE = 35  # of a language tag


@dataclass(eq=False)
class OntologyIndex:
    """An ontology and its search index; runs with equal ontologies share one."""

    ontology: Ontology
    _search: Search | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get_search(self) -> Search:
        """Return the search index. The first call builds it: seconds for 100,000 names."""
        with self._lock:
            if self._search is None:
                self._search = Search(self.ontology)
            return self._search


@dataclass(frozen=True)
class RunMetadata:
    """Everything of a run folder except the model."""

    folder: Path
    about: dict[str, Any]
    settings: RunSettings
    labels: LabelSpace
    decision: Decision
    index: OntologyIndex  # of the run's ontology, or of its labels as a flat list

    @classmethod
    def open(cls, folder: Path, indexes: dict[str, OntologyIndex] | None = None) -> RunMetadata:
        """Read a run folder and check its files against the manifest.

        `indexes` holds the ontologies of other runs by `make_index_key`. A new one is added to it.
        """
        about = verify_folder(folder)
        settings = resolve(load_config(folder), names_old=False).read_languages(
            get_languages(about)
        )
        index = _open_index(folder, about, {} if indexes is None else indexes)
        labels = load_labels(folder / "labels.tsv", None if index is None else index.ontology)
        decision = load_decision(folder / "decision.json", labels)
        if index is None:
            index = OntologyIndex(build_ontology(Concept(label) for label in labels.ids))
        _check_ids(folder, [*labels.ids, *index.ontology.ids])
        return cls(folder, about, settings, labels, decision, index)


def _check_ids(folder: Path, ids: Sequence[str]) -> None:
    """Refuse a run with an id that no request can name: its concept could not be decided on."""
    longest = max(ids, key=len, default="")
    if len(longest) > MAX_LABEL:
        raise RunError(
            f"{folder}: the id {longest[:100]!r}... has {len(longest):,} characters, and the "
            f"service takes at most {MAX_LABEL:,}",
            hint="shorten the ids of the vocabulary, and train again",
        )


def _open_index(
    folder: Path, about: dict[str, Any], indexes: dict[str, OntologyIndex]
) -> OntologyIndex | None:
    key = make_index_key(about)
    if not key:
        return None
    if key not in indexes:
        ontology = read_ontology(folder / "ontology.json", "json")
        indexes[key] = OntologyIndex(prefer_languages(ontology, get_languages(about)))
    return indexes[key]


def make_index_key(about: Mapping[str, Any]) -> str:
    """Return what runs that share an index have in common; "" without an ontology.

    These are the ontology, and the languages, which decide in which one names are shown.
    """
    file_digest: str | None = about["files"].get("ontology.json")
    return "" if file_digest is None else " ".join([file_digest, *get_languages(about)])
