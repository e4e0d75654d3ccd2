"""Concepts of a run's ontology as JSON: names, paths, details and search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any

import numpy as np

from ontodex.corpora.label_names import LabelMatcher, NameIndex
from ontodex.errors import DataError
from ontodex.features.languages import match_tag
from ontodex.ontology.graph import find_paths
from ontodex.serve.prediction.run_metadata import MAX_LANGUAGE, OntologyIndex
from ontodex.types import LabelSpace, Ontology

ConceptRef = dict[str, str]  # label, name and notation
Json = dict[str, Any]


@dataclass(frozen=True)
class ConceptGroups:
    """Groups of concepts: everything below some concepts, schemes, and classes."""

    subtrees: tuple[str, ...] = ()
    schemes: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


NO_GROUPS = ConceptGroups()


class ConceptView:
    """The concepts of an ontology, with the columns and frequencies of one run's labels."""

    def __init__(self, index: OntologyIndex, labels: LabelSpace) -> None:
        self._index, self._labels = index, labels

    @property
    def ontology(self) -> Ontology:
        return self._index.ontology

    @cached_property
    def languages(self) -> list[str]:
        """The tags of the names' languages; without those that are too long to be requested."""
        return sorted(tag for tag in self.ontology.names if len(tag) <= MAX_LANGUAGE)

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

    @cached_property
    def schemes(self) -> list[Json]:
        """The concept schemes with their sizes, if there are several."""
        return self._count_groups(self.ontology.schemes)

    @cached_property
    def types(self) -> list[Json]:
        """The classes of concepts besides skos:Concept, with their sizes."""
        return self._count_groups(self.ontology.types)

    def _count_groups(self, groups_of: Mapping[str, tuple[str, ...]]) -> list[Json]:
        counts = Counter(group for own in groups_of.values() for group in own)
        names = self.ontology.group_names
        return [
            {"uri": uri, "name": _name_group(uri, names), "n_concepts": n}
            for uri, n in counts.most_common()
        ]

    def find_members(self, groups: ConceptGroups) -> frozenset[str]:
        """Return the concepts of groups; an error if the vocabulary lacks one of them."""
        return self._find_members(groups) if groups != NO_GROUPS else frozenset()

    @lru_cache(maxsize=64)  # noqa: B019 - a view lives as long as its run
    def _find_members(self, groups: ConceptGroups) -> frozenset[str]:
        found: set[str] = set()
        waiting = list(groups.subtrees)
        for label in waiting:
            if not self.has(label):
                raise DataError(f"the vocabulary has no concept {label[:200]!r}")
        while waiting:
            label = waiting.pop()
            if label not in found:
                found.add(label)
                waiting += self.ontology.children_of(label) if label in self.ontology else []
        for kind, wanted, groups_of in (
            ("concept scheme", groups.schemes, self.ontology.schemes),
            ("type", groups.types, self.ontology.types),
        ):
            for group in wanted:
                members = {label for label, own in groups_of.items() if group in own}
                if not members:
                    raise DataError(f"no concept of the vocabulary has the {kind} {group[:200]!r}")
                found |= members
        return frozenset(found)

    def describe(self, label: str) -> str:
        """Return a concept in words: its name, then its definition or some other names."""
        name = self.get_name(label)
        if label not in self.ontology:
            return name
        language = self.ontology.language
        synonyms = ", ".join(self.ontology.synonyms_of(label, language)[:5])
        return ": ".join(filter(None, [name, self.ontology.definition(label) or synonyms])) + "."

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
            "definition": ontology.definition(label, language),
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


def _name_group(uri: str, names: Mapping[str, str]) -> str:
    """Return the name of a scheme or class; without one, the end of its URI."""
    name = names.get(uri, uri)
    return name if name != uri else uri.rstrip("/#").rpartition("#")[2].rpartition("/")[2]
