"""Agreement of curators: the labels that two people chose for the same documents.

The measure is Rolling's consistency of indexing, 2c / (a + b): a and b count the labels that each
of them accepted or added, c those that both did. It is the F1 score of one set against the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

Row = Mapping[str, Any]
Verdicts = Mapping[str, Mapping[str, Row]]  # user -> label -> decision


def list_labels(verdicts: Mapping[str, Row]) -> set[str]:
    """Return the labels that a person accepted or added."""
    return {label for label, row in verdicts.items() if row["verdict"] != "reject"}


def measure_consistency(one: set[str], other: set[str]) -> float:
    """Return Rolling's consistency of two label sets; two empty sets agree."""
    total = len(one) + len(other)
    return 2 * len(one & other) / total if total else 1.0


def compare_pairs(documents: Mapping[int, Verdicts]) -> list[dict[str, Any]]:
    """Return for each two people the documents that both decided, and their mean consistency."""
    scores: dict[tuple[str, str], list[float]] = {}
    for people in documents.values():
        for one, other in combinations(sorted(people), 2):
            pair = list_labels(people[one]), list_labels(people[other])
            scores.setdefault((one, other), []).append(measure_consistency(*pair))
    return [
        {"users": list(pair), "n_documents": len(own), "agreement": sum(own) / len(own)}
        for pair, own in sorted(scores.items())
    ]
