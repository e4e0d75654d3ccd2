"""Differences between two versions of an ontology, and the successors of concepts that are gone.

A successor is looked for in this order; the first kind that finds one decides:

    replaced by     dct:isReplacedBy, OBO replaced_by and alt_id, followed to a concept in use
    exact match     skos:exactMatch, in either version
    same name       the only concept with the same preferred name
    synonym         the only concept that has the preferred name as a synonym

The first two are statements of the vocabulary. The last two are guesses: vocabularies such as MeSH
keep the name of a merged concept as a synonym and state no successor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ontodex.ontology.open import open_ontology
from ontodex.types import Ontology

Evidence = Literal["replaced by", "exact match", "same name", "synonym"]


@dataclass(frozen=True)
class Successor:
    """The concepts that took the place of one that is gone, and how that is known."""

    concepts: tuple[str, ...]
    evidence: Evidence

    @property
    def is_guess(self) -> bool:
        return self.evidence in ("same name", "synonym")


@dataclass(frozen=True)
class OntologyDiff:
    """The changes from an old to a new version; deprecated concepts count as gone."""

    added: tuple[str, ...]
    removed: tuple[str, ...]  # without a successor
    renamed: Mapping[str, tuple[str, str]]  # old and new preferred name
    moved: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]  # old and new parents
    replaced: Mapping[str, str]  # by a concept that is new
    merged: Mapping[str, tuple[str, ...]]  # concept -> those that were merged into it
    split: Mapping[str, tuple[str, ...]]  # concept -> its parts
    successors: Mapping[str, Successor]  # of all concepts that are gone and have one

    def find_successor(self, label: str) -> str | None:
        """Return the one successor of a concept that is gone; None if it has none or several."""
        found = self.successors.get(label)
        return found.concepts[0] if found is not None and len(found.concepts) == 1 else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "added": list(self.added),
            "removed": list(self.removed),
            "renamed": {k: list(v) for k, v in self.renamed.items()},
            "moved": {k: [list(old), list(new)] for k, (old, new) in self.moved.items()},
            "replaced": dict(self.replaced),
            "merged": {k: list(v) for k, v in self.merged.items()},
            "split": {k: list(v) for k, v in self.split.items()},
            "evidence": {k: v.evidence for k, v in self.successors.items()},
        }


def compare_ontologies(old: Ontology | str | Path, new: Ontology | str | Path) -> OntologyDiff:
    """Return the changes from one version of an ontology to the next.

    >>> ontodex.compare_ontologies("ontology.json", "newer.json").added
    ('eel',)
    """
    old, new = open_ontology(old), open_ontology(new)
    before, now = _list_used(old), _list_used(new)
    finder = _SuccessorFinder(old, new, now)
    successors = {
        label: found
        for label in before
        if label not in now and (found := finder.find(label)) is not None
    }
    fresh = [label for label in now if label not in before]
    single = {old_: s.concepts[0] for old_, s in successors.items() if len(s.concepts) == 1}
    merged: dict[str, list[str]] = {}
    for label, target in single.items():
        merged.setdefault(target, []).append(label)
    replaced = {
        labels[0]: target
        for target, labels in merged.items()
        if len(labels) == 1 and target not in before
    }
    kept = [label for label in before if label in now]
    taken = set(replaced.values())
    added = tuple(label for label in fresh if label not in taken)
    split = {label: s.concepts for label, s in successors.items() if len(s.concepts) > 1}
    return OntologyDiff(
        added=added,
        removed=tuple(label for label in before if label not in now and label not in successors),
        renamed=dict(_find_renamed(old, new, kept)),
        moved=dict(_find_moved(old, new, kept, single)),
        replaced=replaced,
        merged={t: tuple(labels) for t, labels in merged.items() if t not in taken},
        split=split | _find_split_off(old, new, added, now),
        successors=successors,
    )


def _list_used(ontology: Ontology) -> dict[str, None]:
    """Return the concepts that are not deprecated, in file order."""
    return {label: None for label in ontology.ids if label not in ontology.deprecated}


def _collect_names(ontology: Ontology, labels: Iterable[str], *, preferred: bool) -> dict[str, Any]:
    """Return name -> the concepts that have it, as preferred names or as synonyms."""
    found: dict[str, set[str]] = {}
    for label in labels:
        names = ontology.names_of(label).values() if preferred else ontology.synonyms_of(label)
        for name in names:
            found.setdefault(name.casefold(), set()).add(label)
    return found


class _SuccessorFinder:
    """Looks for the successors of concepts that are gone from the new version."""

    def __init__(self, old: Ontology, new: Ontology, now: Mapping[str, None]) -> None:
        self._old, self._new, self._now = old, new, now
        self._names = _collect_names(new, now, preferred=True)
        self._synonyms = _collect_names(new, now, preferred=False)
        self._matched: dict[str, list[str]] = {}
        for label, others in new.exact_matches.items():
            for other in others:
                self._matched.setdefault(other, []).append(label)

    def find(self, label: str) -> Successor | None:
        """Return the successors of a concept by the first kind of evidence that has any."""
        matches = [*self._old.exact_matches.get(label, ()), *self._matched.get(label, ())]
        stated: list[tuple[Evidence, Iterable[str]]] = [
            ("replaced by", self._follow(label)),
            ("exact match", matches),
        ]
        for evidence, found in stated:
            used = tuple(dict.fromkeys(one for one in found if one in self._now))
            if used:
                return Successor(used, evidence)
        guesses: list[tuple[Evidence, dict[str, set[str]]]] = [
            ("same name", self._names),
            ("synonym", self._synonyms),
        ]
        names = {name.casefold() for name in self._old.names_of(label).values()}
        for evidence, index in guesses:
            candidates = set[str]().union(*(index.get(name, ()) for name in names))
            if len(candidates) == 1:
                return Successor(tuple(candidates), evidence)
        return None

    def _follow(self, label: str) -> Iterator[str]:
        """Yield the stated successors, those of deprecated successors in their place."""
        waiting, seen = [label], {label}
        while waiting:
            here = waiting.pop(0)
            for ontology in (self._new, self._old):
                first = ontology.replaced_by.get(here)
                for successor in ontology.splits.get(here, (first,) if first else ()):
                    if successor in seen:
                        continue
                    seen.add(successor)
                    if successor in self._now:
                        yield successor
                    else:
                        waiting.append(successor)


def _find_renamed(
    old: Ontology, new: Ontology, kept: Iterable[str]
) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the concepts with another preferred name in a language that both versions have."""
    for label in kept:
        names = new.names_of(label)
        for language, name in old.names_of(label).items():
            if language in names and names[language] != name:
                yield label, (name, names[language])
                break


def _find_moved(
    old: Ontology, new: Ontology, kept: Iterable[str], successors: Mapping[str, str]
) -> Iterator[tuple[str, tuple[tuple[str, ...], tuple[str, ...]]]]:
    """Yield the concepts with other parents; a parent that was replaced is no other parent."""
    for label in kept:
        parents = new.parents_of(label)
        before = old.parents_of(label)
        if {successors.get(parent, parent) for parent in before} - {label} != set(parents):
            yield label, (tuple(before), tuple(parents))


def _find_split_off(
    old: Ontology, new: Ontology, added: Iterable[str], now: Mapping[str, None]
) -> dict[str, tuple[str, ...]]:
    """Return the kept concepts of which a synonym has become a concept of its own."""
    kept = [label for label in old.ids if label in now]
    owners = _collect_names(old, kept, preferred=False)
    parts: dict[str, list[str]] = {}
    for label in added:
        for name in {name.casefold() for name in new.names_of(label).values()}:
            for owner in sorted(owners.get(name, ())):
                still = {synonym.casefold() for synonym in new.synonyms_of(owner)}
                if name not in still and label not in parts.setdefault(owner, [owner]):
                    parts[owner].append(label)
    return {owner: tuple(found) for owner, found in parts.items() if len(found) > 1}
