"""Concepts and their graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from scipy.sparse import csr_array


@dataclass(frozen=True, eq=False)
class Ontology:
    """Concepts and their graph. Concept `i` is `ids[i]`; all sequences are in that order.

    `ontology.build` makes one from loose records and cuts what would break the graph (cycles,
    parents that do not exist); each cut is a sentence in `problems`.
    """

    ids: tuple[str, ...]
    names: Mapping[str, Sequence[str]]  # language -> preferred name per concept, "" where none
    parents: csr_array  # (concepts, concepts), 1 where row has column as a parent; acyclic
    synonyms: Mapping[str, Sequence[tuple[str, ...]]] = field(default_factory=dict)
    definitions: Mapping[str, str] = field(default_factory=dict)  # by id
    notations: Mapping[str, str] = field(default_factory=dict)  # by id
    deprecated: frozenset[str] = frozenset()  # concepts, and retired ids that are none any more
    replaced_by: Mapping[str, str] = field(default_factory=dict)  # such an id -> the one to use
    positions: Sequence[tuple[str, ...]] | None = None  # tree numbers, where the ontology has them
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # group -> its heads
    problems: tuple[str, ...] = ()

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
        return csr_array(self.parents.T.tocsr())

    @cached_property
    def language(self) -> str:
        """The language to show when none is asked for: English, else the one with most names."""
        if "en" in self.names:
            return "en"
        return max(self.names, key=lambda tag: sum(map(bool, self.names[tag])), default="und")

    def name(self, label: str, language: str | None = None) -> str:
        """The preferred name, in this language, else in another, else the id itself."""
        i = self.index[label]
        for tag in (language or self.language, self.language, *self.names):
            if tag in self.names and self.names[tag][i]:
                return self.names[tag][i]
        return label

    def synonyms_of(self, label: str, language: str | None = None) -> tuple[str, ...]:
        """Other names of a concept, in one language or (None) in all."""
        i = self.index[label]
        tags = [language] if language is not None else list(self.synonyms)
        return tuple(s for tag in tags if tag in self.synonyms for s in self.synonyms[tag][i])

    def parents_of(self, label: str) -> list[str]:
        return self._row(self.parents, label)

    def children_of(self, label: str) -> list[str]:
        return self._row(self.children, label)

    def path(self, label: str) -> list[str]:
        """One shortest way from a root down to the concept, both included."""
        came_from: dict[str, str | None] = {label: None}
        frontier = [label]
        while frontier:
            for here in frontier:
                if not self.parents_of(here):
                    way: list[str] = []
                    step: str | None = here
                    while step is not None:
                        way.append(step)
                        step = came_from[step]
                    return way
            above: list[str] = []
            for here in frontier:
                for parent in self.parents_of(here):
                    if parent not in came_from:
                        came_from[parent] = here
                        above.append(parent)
            frontier = above
        raise AssertionError(f"the graph above {label} has a cycle; build() cuts them")

    def _row(self, matrix: csr_array, label: str) -> list[str]:
        i = self.index[label]
        return [self.ids[j] for j in matrix.indices[matrix.indptr[i] : matrix.indptr[i + 1]]]
