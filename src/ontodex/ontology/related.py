"""Concepts related to a concept: its ancestors, its other parents, more specific candidates.

A curator who accepts a concept wants to know whether a more specific one fits nearly as well, and
under which other parents the concept stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set

from ontodex.ontology.graph import find_reachable
from ontodex.types import Ontology

CLOSE = 0.8  # ratio to the predicted concept's probability from which on another one is close
MIN_PROBABILITY = 0.1  # less probable concepts are never close


def find_ancestors(ontology: Ontology, label: str) -> frozenset[str]:
    """Return all ancestors of a concept; none for a label that is not in the ontology."""
    if label not in ontology:
        return frozenset()
    found = find_reachable(ontology.parents, ontology.index[label])
    return frozenset(ontology.ids[i] for i in found)


def find_other_parents(ontology: Ontology, label: str) -> list[str]:
    """Return the parents of a concept that are not on `ontology.path(label)`."""
    if label not in ontology:
        return []
    path = ontology.path(label)
    return [parent for parent in ontology.parents_of(label) if parent not in path]


def find_more_specific(
    predicted: Mapping[str, float],
    candidates: Mapping[str, float],
    ancestors: Callable[[str], Set[str]],
) -> dict[str, list[str]]:
    """Return for each predicted label the close candidates below it, most probable first.

    Both mappings hold probabilities by label. A candidate is close when it is not predicted itself
    and has at least CLOSE times the probability of the predicted label. That probability is taken
    from `candidates`, because those of the predicted set may have another scale; a predicted label
    that is no candidate counts with its own.
    """
    close: dict[str, list[str]] = {label: [] for label in predicted}
    for label, probability in sorted(candidates.items(), key=lambda item: (-item[1], item[0])):
        if label in predicted or probability < MIN_PROBABILITY:
            continue
        for general in ancestors(label) & predicted.keys():
            if probability >= CLOSE * candidates.get(general, predicted[general]):
                close[general].append(label)
    return close


__all__ = ["CLOSE", "find_ancestors", "find_more_specific", "find_other_parents"]
