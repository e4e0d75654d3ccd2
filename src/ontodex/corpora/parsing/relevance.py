"""Weights of labels, for formats that have them: metadata {"relevance": {label: weight}}.

A weight of 1 is the default and is left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ontodex.errors import DataError
from ontodex.types import Doc

RELEVANCE = "relevance"


def make_metadata(weights: Mapping[str, float]) -> dict[str, Any]:
    """Return the metadata for these weights of labels; it is empty if all are 1."""
    other = {label: float(weight) for label, weight in weights.items() if weight != 1}
    if not all(map(math.isfinite, other.values())):
        raise DataError("a label has a weight that is not finite")
    return {RELEVANCE: other} if other else {}


def get_weights(doc: Doc) -> dict[str, float]:
    """Return the weight of each label of a document."""
    weights = doc.metadata.get(RELEVANCE, {})
    if not isinstance(weights, Mapping) or not all(
        isinstance(weight, int | float) for weight in weights.values()
    ):
        raise DataError(f"document {doc.id!r}: metadata 'relevance' must give a number per label")
    return {label: weights.get(label, 1.0) for label in doc.labels}


def select_weights(doc: Doc) -> dict[str, Any]:
    """Return the metadata of a document with only the weights of its labels."""
    return make_metadata(get_weights(doc))


def format_weight(weight: float) -> str:
    """Return a weight as text that can be read back exactly."""
    return repr(float(weight)).removesuffix(".0")
