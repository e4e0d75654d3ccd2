"""Concepts and their graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from scipy.sparse import csr_array

from ontodex.types.sparse_column import SparseColumn


@dataclass(frozen=True, eq=False)
class Ontology:
    """Concepts and their graph. Concept `i` is `ids[i]`; all sequences are in this order.

    `ontology.graph.build_ontology` makes one from records. It removes cycles and missing parents,
    and describes each removal in `problems`.

    >>> ontology = ontodex.read_ontology("ontology.json")
    >>> ontology.ids, "newt" in ontology, ontology.parents_of("newt")
    (('animals', 'fish', 'oak', 'newt'), True, ['animals'])
    """

    ids: tuple[str, ...]
    names: Mapping[str, SparseColumn[str]]  # language -> preferred name per concept
    parents: csr_array  # (concepts, concepts), 1 where the column is a parent of the row; acyclic
    synonyms: Mapping[str, SparseColumn[tuple[str, ...]]] = field(default_factory=dict)
    definitions: Mapping[str, str] = field(default_factory=dict)  # by id
    notations: Mapping[str, str] = field(default_factory=dict)  # by id
    deprecated: frozenset[str] = (
        frozenset()
    )  # concepts, and retired ids that are no longer concepts
    replaced_by: Mapping[str, str] = field(default_factory=dict)  # deprecated id -> its successor
    splits: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # id -> all its successors, where there are several
    exact_matches: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # id -> ids of the same meaning in other vocabularies or versions
    positions: Sequence[tuple[str, ...]] | None = None  # tree numbers, if the ontology has them
    categories: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # top category -> the concepts at its top
    schemes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # id -> its schemes
    types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # id -> its classes
    group_names: Mapping[str, str] = field(default_factory=dict)  # scheme or class -> its name
    title: str = ""  # of the vocabulary, if its file has one
    problems: tuple[str, ...] = ()
    default_language: str = ""  # of names; "" = English, else the one with most names
    translated_definitions: Mapping[str, Mapping[str, str]] = field(
        default_factory=dict
    )  # language -> definitions by id, where a concept has them in more than one language

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, label: object) -> bool:
        return label in self.index

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Concept id -> its number."""
        return {label: i for i, label in enumerate(self.ids)}

    @cached_property
    def children(self) -> csr_array:
        """(concepts, concepts), 1 where the column is a child of the row."""
        return csr_array(self.parents.T.tocsr())

    @cached_property
    def language(self) -> str:
        """The language of names where none is asked for."""
        if self.default_language:
            return self.default_language
        if "en" in self.names:
            return "en"
        return max(self.names, key=lambda tag: self.names[tag].n_values, default="und")

    def name(self, label: str, language: str | None = None) -> str:
        """Return the preferred name in this language, else in another one, else the id."""
        i = self.index[label]
        for tag in (language or self.language, self.language):
            if tag in self.names and self.names[tag][i]:
                return str(self.names[tag][i])
        return next(iter(self.names_of(label).values()), label)

    def names_of(self, label: str) -> dict[str, str]:
        """Return the preferred names of a concept by language."""
        i = self.index[label]
        return {tag: self.names[tag][i] for tag in self._name_languages.get(i, ())}

    def definition(self, label: str, language: str | None = None) -> str:
        """Return the definition in this language, else the one there is; "" without any."""
        translated = self.translated_definitions.get(language or "", {})
        return translated.get(label) or self.definitions.get(label, "")

    def synonyms_of(self, label: str, language: str | None = None) -> tuple[str, ...]:
        """Return other names of a concept, in one language or (None) in all."""
        if language is None:
            return tuple(s for own in self.synonyms_by_language(label).values() for s in own)
        column = self.synonyms.get(language)
        return () if column is None else column[self.index[label]]

    def synonyms_by_language(self, label: str) -> dict[str, tuple[str, ...]]:
        """Return the other names of a concept by language."""
        i = self.index[label]
        return {tag: self.synonyms[tag][i] for tag in self._synonym_languages.get(i, ())}

    # Languages of each concept: to ask every language for every concept takes too long if an
    # ontology has thousands of languages.
    @cached_property
    def _name_languages(self) -> Mapping[int, list[str]]:
        return _list_languages(self.names)

    @cached_property
    def _synonym_languages(self) -> Mapping[int, list[str]]:
        return _list_languages(self.synonyms)

    def parents_of(self, label: str) -> list[str]:
        return self._row(self.parents, label)

    def children_of(self, label: str) -> list[str]:
        return self._row(self.children, label)

    def path(self, label: str) -> list[str]:
        """Return one shortest path from a root down to the concept, both included."""
        came_from: dict[str, str | None] = {label: None}
        frontier = [label]
        while frontier:
            for here in frontier:
                if not self.parents_of(here):
                    path: list[str] = []
                    step: str | None = here
                    while step is not None:
                        path.append(step)
                        step = came_from[step]
                    return path
            above: list[str] = []
            for here in frontier:
                for parent in self.parents_of(here):
                    if parent not in came_from:
                        came_from[parent] = here
                        above.append(parent)
            frontier = above
        raise AssertionError(f"the graph above {label} has a cycle; build_ontology() cuts them")

    def _row(self, matrix: csr_array, label: str) -> list[str]:
        i = self.index[label]
        return [self.ids[j] for j in matrix.indices[matrix.indptr[i] : matrix.indptr[i + 1]]]


def _list_languages(columns: Mapping[str, SparseColumn[Any]]) -> dict[int, list[str]]:
    """Return concept number -> the languages in which it has a value."""
    languages: dict[int, list[str]] = {}
    for tag, column in columns.items():
        for row, value in column.items():
            if value:
                languages.setdefault(row, []).append(tag)
    return languages
