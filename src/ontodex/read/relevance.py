"""Weights of labels, for formats that have them: metadata {"relevance": {label: weight}}.

A weight of 1 is the rule and is not written down.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ontodex.errors import DataError
from ontodex.types import Doc

RELEVANCE = "relevance"


def metadata_of(weights: Mapping[str, float]) -> dict[str, Any]:
    """The metadata of a document whose labels have these weights: nothing when all are 1."""
    other = {label: float(weight) for label, weight in weights.items() if weight != 1}
    if not all(map(math.isfinite, other.values())):
        raise DataError("a label has a weight that is not finite")
    return {RELEVANCE: other} if other else {}


def weights_of(doc: Doc) -> dict[str, float]:
    """The weight of each label of a document."""
    given = doc.metadata.get(RELEVANCE, {})
    if not isinstance(given, Mapping) or not all(
        isinstance(weight, int | float) for weight in given.values()
    ):
        raise DataError(f"document {doc.id!r}: metadata 'relevance' must give a number per label")
    return {label: given.get(label, 1.0) for label in doc.labels}


def weighing(doc: Doc) -> dict[str, Any]:
    """The metadata of a document reduced to the weights of its labels."""
    return metadata_of(weights_of(doc))


def number(weight: float) -> str:
    """A weight as text that is read back exactly."""
    return repr(float(weight)).removesuffix(".0")
