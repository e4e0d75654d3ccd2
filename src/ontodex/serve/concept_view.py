"""Concepts of a run's ontology as JSON: names, paths, details and search."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from ontodex.corpora.label_names import LabelMatcher, NameIndex
from ontodex.features.languages import match_tag
from ontodex.ontology.graph import find_paths
from ontodex.serve.run_metadata import OntologyIndex
from ontodex.types import LabelSpace, Ontology

ConceptRef = dict[str, str]  # label, name and notation
Json = dict[str, Any]


class ConceptView:
    """The concepts of an ontology, with the columns and frequencies of one run's labels."""

    def __init__(self, index: OntologyIndex, labels: LabelSpace) -> None:
        self._index, self._labels = index, labels

    @property
    def ontology(self) -> Ontology:
        return self._index.ontology

    @cached_property
    def languages(self) -> list[str]:
        return sorted(self.ontology.names)

    @cached_property
    def roots(self) -> list[str]:
        """Concepts without parents, sorted by name."""
        roots = np.flatnonzero(np.diff(self.ontology.parents.indptr) == 0).tolist()
        return self.sort_by_name([self.ontology.ids[i] for i in roots], None)

    @cached_property
    def _name_index(self) -> NameIndex:
        return NameIndex(self.ontology)

    def make_matcher(self) -> LabelMatcher:
        """Return a matcher of labels that are ids, names or notations."""
        return LabelMatcher(self._name_index, self._labels.column.keys())

    def sort_by_name(self, labels: Iterable[str], language: str | None) -> list[str]:
        return sorted(labels, key=lambda label: (self.get_name(label, language).casefold(), label))

    def has(self, label: str) -> bool:
        """Return whether the run has a column for the label or its ontology has the concept."""
        return label in self._labels.column or label in self.ontology

    def get_name(self, label: str, language: str | None = None) -> str:
        """Return the name of a concept; the label itself if the ontology does not have it."""
        return (
            self.ontology.name(label, self.find_tag(language)) if label in self.ontology else label
        )

    def find_tag(self, language: str | None) -> str | None:
        """Return the tag of the ontology for a language given by code or name; None without it."""
        if language is None or language in self.ontology.names:
            return language
        return match_tag(language, self.languages)

    def get_notation(self, label: str) -> str:
        """Return the notation of a concept, such as 02.6; empty if it has none."""
        return self.ontology.notations.get(label, "")

    def get_ref(self, label: str, language: str | None = None) -> ConceptRef:
        """Return label, name and notation."""
        notation = self.get_notation(label)
        return {"label": label, "name": self.get_name(label, language), "notation": notation}

    def get_path(self, label: str, language: str | None = None) -> list[ConceptRef]:
        """Return one shortest path from a root to the concept; empty if it is not in the
        ontology."""
        if label not in self.ontology:
            return []
        return [self.get_ref(step, language) for step in self.ontology.path(label)]

    def get_paths(
        self, label: str, limit: int, language: str | None = None
    ) -> list[list[ConceptRef]]:
        """Return the first `limit` paths from a root to the concept."""
        if label not in self.ontology:
            return []
        return [
            [self.get_ref(step, language) for step in path]
            for path in islice(find_paths(self.ontology, label), limit)
        ]

    def get_children(self, label: str, language: str | None = None) -> list[str]:
        """Return the concepts directly below one, sorted by name."""
        children = self.ontology.children_of(label) if label in self.ontology else []
        return self.sort_by_name(children, language)

    def get_concept(self, label: str, language: str | None = None) -> Json:
        """Return a concept as it appears in lists."""
        column = self._labels.column.get(label)
        is_known = label in self.ontology
        return {
            **self.get_ref(label, language),
            "n_children": len(self.ontology.children_of(label)) if is_known else 0,
            "frequency": 0 if column is None else int(self._labels.frequency[column]),
            "suggestible": column is not None,
        }

    def get_details(self, label: str, language: str | None = None) -> Json:
        """Return a concept with everything that the ontology has about it."""
        ontology, is_known = self.ontology, label in self.ontology
        parents = ontology.parents_of(label) if is_known else []
        return {
            **self.get_concept(label, language),
            "synonyms": self._list_synonyms(label, language) if is_known else [],
            "definition": ontology.definitions.get(label, ""),
            "deprecated": label in ontology.deprecated,
            "parents": [self.get_concept(parent, language) for parent in parents],
            "path": self.get_path(label, language),
        }

    def _list_synonyms(self, label: str, language: str | None) -> list[str]:
        tag = None if language is None else self.find_tag(language) or language
        return list(self.ontology.synonyms_of(label, tag))

    def search(self, query: str, limit: int, language: str | None = None) -> list[Json]:
        """Return the concepts that match a query of a user, best first."""
        return [
            {
                **self.get_ref(hit.label, language),
                "text": hit.text,
                "kind": hit.kind,
                "path": self.get_path(hit.label, language),
            }
            for hit in self._index.get_search().find(query, limit)
        ]
